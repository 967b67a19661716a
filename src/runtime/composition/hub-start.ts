import type { AuditLog } from "../../audit/audit-log.ts";
import type { StateOperations } from "../../database/operations.ts";
import type { Config } from "../config/config.ts";
import type { StoredApprovals } from "./approvals.ts";
import type { Parts } from "./assembly.ts";
import type { Capabilities, Hooks } from "./hooks.ts";

/** Loads the code of a hub, or of a member, only for one. */

interface HubOpening extends Capabilities, Hooks, Pick<AuditLog, "journal">, Pick<Parts, "hub"> {
  readonly approvals: StoredApprovals | undefined;
  readonly operations: StateOperations;
}

/** Opens the hub's end for members; undefined when the service is no hub. */
export async function openHub(config: Config, { hub, approvals, ...parts }: HubOpening) {
  // One process answers for all workers.
  if (hub?.listen === undefined || approvals === undefined || config.worker !== undefined) return undefined;
  const { openHub: open } = await import("./hub.ts");
  return open(config, { ...parts, approvals, settings: hub.listen });
}

interface MemberOpening extends Capabilities, Pick<Hooks, "onCertificates" | "bundle">, Pick<Parts, "hub"> {
  readonly log: (message: string, cause: unknown) => void;
  /** Returns the id of this process's log. */
  readonly instance: () => string | undefined;
  /** Returns the version of the configuration in use; undefined before there is one. */
  readonly policyVersion: () => string | undefined;
}

/** Connects to the hub; undefined when the service is no member of one. */
export async function openMember(config: Config, { hub, ...parts }: MemberOpening) {
  if (hub?.member === undefined) return undefined;
  const { openMember: open } = await import("./hub-member.ts");
  return open(config, { ...parts, settings: hub.member });
}
