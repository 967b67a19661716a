import type { Approvals } from "../../approvals/types.ts";
import type { AuditLog } from "../../audit/audit-log.ts";
import type { Config } from "../config/config.ts";
import type { Modules } from "../module-types.ts";
import { openState, openStore } from "./approvals.ts";
import type { Parts } from "./assembly.ts";
import { openAudit } from "./audit.ts";
import type { Capabilities, Hooks } from "./hooks.ts";
import type { MemberOfHub } from "./hub-member.ts";
import { openMember } from "./hub-start.ts";
import { formerLogsOf } from "./instance.ts";

/** Opens the audit and the databases of a service. */

interface StoreParts extends Pick<Parts, "checkpointKey" | "receiptOf" | "webhooks" | "hub"> {
  readonly stores: Modules["approvalStores"];
  /** Returns the version of the configuration in use; undefined before there is one. */
  readonly policyVersion: () => string | undefined;
}

/** Opens the audit and the approval store: both or none. */
export async function openStores(
  config: Config,
  hooks: Capabilities & Hooks,
  { checkpointKey, hub, policyVersion, ...parts }: StoreParts,
) {
  const audit = await openAudit(config, { ...hooks, checkpointKey });
  try {
    const journal: AuditLog["journal"] = (line) => audit.journal(line);
    const { clock, monotonic, logError: log = () => {} } = hooks;
    const claimant = (): string | undefined => audit.id();
    const member = await openMember(config, {
      ...hooks,
      hub,
      log,
      instance: claimant,
      policyVersion,
    });
    const stored = await openStore(config, { ...parts, clock, journal, log, claimant });
    return { audit, stored, member, state: openState(config, { stores: parts.stores, clock, monotonic, log }) };
  } catch (error) {
    await audit.close();
    throw error;
  }
}

interface FormerParts extends Pick<Parts, "checkpointKey"> {
  readonly approvals: Approvals | undefined;
  readonly member: MemberOfHub | undefined;
  readonly modules: Modules;
}

/** Returns undefined when no worker has left a log. Its code is loaded only then. */
export async function continueFormerLogs(
  config: Config,
  hooks: Capabilities & Hooks,
  { modules, ...parts }: FormerParts,
) {
  const logs = formerLogsOf(config);
  if (logs.length === 0) return undefined;
  const { openFormerLogs } = await import("./former-logs.ts");
  const exporters = modules.auditExporters;
  return openFormerLogs(logs, config, { ...hooks, ...parts, exporters });
}
