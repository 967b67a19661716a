import type { Approvals } from "../../approvals/types.ts";
import type { AuditLog } from "../../audit/audit-log.ts";
import { searchPages } from "../../audit/query/query.ts";
import { fieldValue } from "../../core/audit-fields.ts";
import { pause } from "../../core/time-limits.ts";
import type { Config } from "../config/config.ts";
import type { Capabilities, Hooks } from "./hooks.ts";
import type { MemberOfHub } from "./hub-member.ts";
import { logDirOf } from "./instance.ts";

/** Claims that are older stay in doubt. No lease is longer. */
const AGE_MS_MAX = 86_400_000;
const PAGE_BYTES_MAX = 1_048_576;
/** More claims are found in one pass: parsing every line takes as long as this many searches for one id. */
const SINGLY_MAX = 16;

/** Interval at which a process that did not reach the hub at its start checks whether the hub is back, in milliseconds. */
const AWAY_MS = 200;

interface LeftClaimsParts extends Pick<Capabilities, "clock">, Pick<Hooks, "logError"> {
  readonly audit: Pick<AuditLog, "id" | "interrupted">;
  readonly approvals: Pick<Approvals, "claimsOf" | "settle" | "resolveDoubt" | "doubtClaimsOf" | "doubtKey">;
  /** The connection to the hub that keeps the approvals; undefined with a database. */
  readonly member?: Pick<MemberOfHub, "isConnected" | "isUnavailable"> | undefined;
}

/** Ends the claims that a crash has left; in the background, if the hub was away at the start. */
export interface LeftClaims extends Pick<Approvals, "resolveDoubt"> {
  /** Settles when the claims have ended or cannot be ended; undefined when this was so at the start. */
  readonly open: Promise<void> | undefined;
  close(): Promise<void>;
}

/**
 * Ends the claims and the `Idempotency-Key` uses that a crash has left: of calls that it interrupted, and of calls that were answered
 * before the store knew their outcomes. Without it, the same calls would count as running until their leases end. The process that
 * ran them is gone: this one has the lock of its audit directory. The intents are for claims of a release that did not name its log
 * in them.
 */
export async function endLeftClaims(config: Config, parts: LeftClaimsParts): Promise<LeftClaims> {
  const { audit, approvals, logError } = parts;
  const id = audit.id();
  const ending = new AbortController();
  const steps: Steps = [];
  if (id !== undefined) {
    // In this order: otherwise, a call that was answered would be in doubt.
    steps.push(
      () => settleAnswered(id, config, parts),
      () => approvals.doubtClaimsOf(id),
    );
  }
  await take(steps, parts);
  const open = steps.length === 0 ? undefined : takeWhenBack(steps, parts, ending.signal);
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
  return {
    open,
    async resolveDoubt(doubt) {
      if (open === undefined) return approvals.resolveDoubt(doubt);
      // A claim must be in doubt before its doubt is resolved. The caller goes on with other calls and does not wait for the hub.
      void open
        .then(() => approvals.resolveDoubt(doubt))
        .catch((error: unknown) => logError?.("an interrupted call's approval could not be settled", error));
    },
    async close() {
      ending.abort();
      await open;
    },
  };
}

/** The steps that are left, in order. A step that is done is not repeated: this process makes no claims meanwhile. */
type Steps = (() => Promise<void>)[];

/** Takes the steps, until one fails because the hub does not answer: that one and the others are left. */
async function take(steps: Steps, { member, logError }: LeftClaimsParts): Promise<void> {
  try {
    for (let [step] = steps; step !== undefined; [step] = steps) {
      await step();
      steps.shift();
    }
  } catch (error) {
    if (member?.isUnavailable(error) === true) return;
    logError?.("the claims that a crash has left could not be settled", error);
    steps.length = 0;
  }
}

async function takeWhenBack(steps: Steps, parts: LeftClaimsParts, signal: AbortSignal): Promise<void> {
  while (steps.length > 0) {
    await pause(AWAY_MS, signal);
    if (signal.aborted) return;
    if (parts.member?.isConnected() === true) await take(steps, parts);
  }
}

/** Settles the claims whose calls the log has as answered with a result: only one call ever runs with an approval. */
async function settleAnswered(id: string, config: Config, { audit, approvals, clock }: LeftClaimsParts): Promise<void> {
  const interrupted = new Set(audit.interrupted.map(({ approvalId }) => approvalId));
  const claims = (await approvals.claimsOf(id)).filter((claim) => !interrupted.has(claim.id));
  const left = new Map(claims.map((claim) => [claim.id, claim.state]));
  for await (const approvalId of answeredOf([...left.keys()], logDirOf(config), clock() - AGE_MS_MAX)) {
    const state = left.get(approvalId);
    left.delete(approvalId);
    if (state === "claimed") await approvals.settle(approvalId, "executed");
    if (state === "in_doubt")
      await approvals.resolveDoubt({ claimant: id, approvalId, key: undefined, startedAt: 0, isDone: true });
    if (left.size === 0) return;
  }
}

/** Yields the approvals of calls that were answered with a result, by the log: those among `approvals`, and others if these are many. */
async function* answeredOf(approvals: readonly string[], dir: string, fromMs: number): AsyncGenerator<string, void> {
  const decision = "ALLOWED";
  const isSingly = approvals.length <= SINGLY_MAX;
  const searched = isSingly ? approvals.map((approval) => ({ decision, approval })) : [{ decision }];
  for (const exact of searched) {
    const limit = isSingly ? 1 : Number.POSITIVE_INFINITY;
    const query = { filter: { exact, fromMs }, order: "newest", limit, cursor: undefined, digest: "" } as const;
    for await (const { found } of searchPages({ dir, query, pageBytesMax: PAGE_BYTES_MAX })) {
      for (const { entry } of found) yield fieldValue(entry, "approvalId") ?? "";
    }
  }
}
