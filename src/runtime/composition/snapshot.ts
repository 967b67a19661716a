import type { ApprovalCallback } from "../../approvals/callback.ts";
import type { Approvals } from "../../approvals/types.ts";
import { createApprovalGate } from "../../pipeline/approval-gate.ts";
import type { Config } from "../config/config.ts";
import type { Reloadable } from "../reload/reload.ts";
import type { Parts } from "./assembly.ts";

/** A configuration snapshot: everything that a reload replaces as a whole. */
export interface Joined extends Reloadable {
  readonly parts: Parts;
}

export interface JoinOptions {
  /** Shared by all configuration snapshots. */
  readonly approvals: Approvals | undefined;
  /** The library's own callback for approvals. */
  readonly onToolApprove?: ApprovalCallback | undefined;
  /** Returns unguessable ids. */
  readonly newId: () => string;
  /** Writes to the operators' log. */
  readonly logFault?: ((message: string, cause: unknown) => void) | undefined;
}

/** Joins the parts of one reading of the configuration with the parts that outlive a reload. */
export function joinGeneration(config: Config, parts: Parts, options: JoinOptions): Joined {
  const { approvals, onToolApprove, newId, logFault } = options;
  const { registry, callers, policy, detector, loaded } = parts;
  const gate = createApprovalGate({
    approvals,
    mode: config.approvals.mode,
    onToolApprove,
    callbackTimeoutMs: config.approvals.callbackTimeoutMs,
    filterSecrets: (text) => detector.filterSecrets(text).text,
    findSecrets: (text) => detector.filterSecrets(text).findings,
    newId,
  });
  const close = (): Promise<void> =>
    parts.close().catch((cause: unknown) => logFault?.("a former configuration could not be closed", cause));
  return { config, parts, registry, callers, policy, gate, detector, modules: loaded.modules, close };
}
