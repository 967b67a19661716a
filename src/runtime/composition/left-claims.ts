import type { Approvals } from "../../approvals/types.ts";
import type { AuditLog } from "../../audit/audit-log.ts";
import { search } from "../../audit/query/query.ts";
import type { Config } from "../config/config.ts";
import type { Capabilities, Hooks } from "./hooks.ts";
import { logDirOf } from "./instance.ts";

/** No claim is older: the longest lease. */
const AGE_MS_MAX = 86_400_000;
const PAGE_BYTES_MAX = 1_048_576;

interface LeftClaimsParts extends Pick<Capabilities, "clock">, Pick<Hooks, "logError"> {
  readonly audit: Pick<AuditLog, "id" | "interrupted">;
  readonly approvals: Pick<Approvals, "claimsOf" | "settle" | "doubtClaimsOf" | "doubtKey">;
}

/**
 * Ends the claims and the `Idempotency-Key` uses that a crash has left: of calls that it interrupted, and of calls that were answered
 * before the store knew their outcomes. Without it, the same calls would count as running until their leases end. The process that
 * ran them is gone: this one has the lock of its audit directory. The intents are for claims of a release that did not name its log
 * in them.
 */
export async function endLeftClaims(config: Config, parts: LeftClaimsParts): Promise<void> {
  const { audit, approvals, logError } = parts;
  const id = audit.id();
  if (id !== undefined) {
    await settleAnswered(id, config, parts)
      // Not after a failure: a call that was answered would be in doubt.
      .then(() => approvals.doubtClaimsOf(id))
      .catch((error: unknown) => {
        logError?.("the claims that a crash has left could not be settled", error);
      });
  }
  for (const { approvalId, key } of audit.interrupted) {
    if (approvalId !== undefined) {
      await approvals.settle(approvalId, "in_doubt").catch((error: unknown) => {
        logError?.("an interrupted call's approval could not be settled", error);
      });
    }
    if (key !== undefined) {
      await approvals.doubtKey(key).catch((error: unknown) => {
        logError?.("an interrupted call's Idempotency-Key could not be settled", error);
      });
    }
  }
}

/** Settles the claims whose calls the log has as answered with a result: only one call ever runs with an approval. */
async function settleAnswered(id: string, config: Config, parts: LeftClaimsParts): Promise<void> {
  const { audit, approvals, clock } = parts;
  const open = new Set(audit.interrupted.map(({ approvalId }) => approvalId));
  const dir = logDirOf(config);
  for (const approval of await approvals.claimsOf(id)) {
    if (open.has(approval)) continue;
    const filter = { exact: { approval, decision: "ALLOWED" }, fromMs: clock() - AGE_MS_MAX };
    const query = { filter, order: "newest", limit: 1, cursor: undefined, digest: "" } as const;
    const { found } = await search({ dir, query, pageBytesMax: PAGE_BYTES_MAX });
    if (found.length > 0) await approvals.settle(approval, "executed");
  }
}
