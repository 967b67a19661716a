import { setTimeout as pause } from "node:timers/promises";
import type { Approvals } from "../../approvals/types.ts";
import type { AuditLog } from "../../audit/audit-log.ts";
import { interruptedCall } from "../../audit/journal/journal.ts";
import { historyIn } from "../../audit/query/call-history.ts";
import { search } from "../../audit/query/query.ts";
import { parseLine } from "../../audit/query/view.ts";
import type { LineMembers } from "../../core/audit-fields.ts";
import { asString } from "../../core/json.ts";
import type { ChangeFinding } from "../../core/target-kind.ts";
import type { Config } from "../config/config.ts";
import type { Capabilities, Hooks } from "./hooks.ts";
import { logDirOf } from "./instance.ts";
import type { Targets } from "./targets.ts";

/** Age of the calls that are still resolved. */
const AGE_MS_MAX = 172_800_000;
const CALLS_MAX = 200;
const PAGE_BYTES_MAX = 8 * 1_048_576;
/** Time limit for one question to a system, in milliseconds. */
const ASK_MS_MAX = 5_000;
const PAUSE_MS_MIN = 500;
const PAUSE_MS_MAX = 30_000;

interface ResolvingParts extends Pick<Capabilities, "clock">, Pick<Hooks, "logError"> {
  readonly audit: Pick<AuditLog, "journal" | "id" | "interruptedWritten">;
  readonly approvals: Pick<Approvals, "resolveDoubt"> | undefined;
  readonly targets: () => Pick<Targets, "mayResolve" | "resolve">;
}

/** A call whose outcome is unknown, although it recorded what its system can be asked with. */
interface Interrupted {
  readonly traceId: string;
  readonly intent: LineMembers;
  /** Its records, one for each attempt. */
  readonly evidence: readonly LineMembers[];
}

interface Resolving {
  /** Ends when there is nothing more to ask. */
  readonly done: Promise<void>;
  close(): Promise<void>;
}

/**
 * Asks the systems for the outcomes of the calls in this process's log that ended as OUTCOME_UNKNOWN, in the background, and again
 * while a system does not answer. An outcome is in the journal before it settles the approval and the `Idempotency-Key`: a crash in
 * between leaves them in doubt, and no later start settles them for another call.
 */
export function resolveInterrupted(config: Config, parts: ResolvingParts): Resolving {
  const ending = new AbortController();
  const ended = parts.targets().mayResolve ? resolveAll(config, parts, ending.signal) : Promise.resolve();
  const done = ended.catch((error: unknown) => {
    if (!ending.signal.aborted) parts.logError?.("the outcomes of interrupted changes could not be resolved", error);
  });
  return {
    done,
    async close() {
      ending.abort();
      await done;
    },
  };
}

async function resolveAll(config: Config, parts: ResolvingParts, signal: AbortSignal): Promise<void> {
  await parts.audit.interruptedWritten;
  let open = await interruptedIn(logDirOf(config), parts.clock() - AGE_MS_MAX, signal);
  for (let pauseMs = PAUSE_MS_MIN; ; pauseMs = Math.min(2 * pauseMs, PAUSE_MS_MAX)) {
    const left: Interrupted[] = [];
    for (const call of open) {
      signal.throwIfAborted();
      if (!(await resolve(call, parts, signal))) left.push(call);
    }
    if (left.length === 0) return;
    open = left;
    await pause(pauseMs, undefined, { signal, ref: false });
  }
}

async function interruptedIn(dir: string, fromMs: number, signal: AbortSignal): Promise<readonly Interrupted[]> {
  const mayGoOn = (): boolean => !signal.aborted;
  const filter = { exact: { code: "OUTCOME_UNKNOWN" }, fromMs };
  const query = { filter, order: "newest", limit: CALLS_MAX, cursor: undefined, digest: "" } as const;
  const { found } = await search({ dir, query, pageBytesMax: PAGE_BYTES_MAX, mayGoOn });
  const history = historyIn({ logs: [{ dir }], mayGoOn });
  const calls: Interrupted[] = [];
  for (const { line } of found) {
    const { traceId, intentSeq } = parseLine(line) ?? {};
    // A call without an intent has changed nothing, such as a repeated one.
    if (typeof traceId !== "string" || intentSeq === undefined) continue;
    const { found: named, isPartial } = await history.find("journal", traceId, { fromMs });
    const lines = named
      .map((one): LineMembers => parseLine(one.line) ?? {})
      .filter((one) => one["traceId"] === traceId);
    const ofType = (type: string): readonly LineMembers[] => lines.filter((one) => one["type"] === type);
    const [[intent], evidence] = [ofType("intent"), ofType("change.prepared")];
    if (isPartial || intent === undefined || evidence.length === 0 || ofType("change.resolved").length > 0) continue;
    calls.push({ traceId, intent, evidence });
  }
  return calls;
}

/** Returns false when the call is to be asked about again. */
async function resolve(call: Interrupted, parts: ResolvingParts, signal: AbortSignal): Promise<boolean> {
  const { audit, approvals, targets, logError } = parts;
  const { traceId, intent, evidence } = call;
  const asked = evidence.map((one) => ask(targets(), one, signal));
  const findings = await Promise.all(asked).catch(() => "later" as const);
  if (findings === "later" || findings.some((finding) => finding?.outcome === "in progress")) return false;
  const at = decisive(findings);
  const finding = findings[at];
  if (finding === undefined) return true;
  const { system, transaction } = evidence[at] ?? {};
  const named = { system: asString(system), transaction: asString(transaction) };
  const written = await audit.journal({ type: "change.resolved", traceId, ...named, ...finding }).then(
    () => true,
    () => false,
  );
  if (!written) return false;
  const claimant = audit.id();
  if (finding.outcome === "unknown" || claimant === undefined) return true;
  const consumed = interruptedCall({ facts: intent });
  const startedAt = Date.parse(asString(intent["timestamp"]) ?? "");
  await approvals
    ?.resolveDoubt({ ...consumed, claimant, startedAt, isDone: finding.outcome === "committed" })
    .catch((error: unknown) => {
      logError?.("an interrupted call's approval and Idempotency-Key could not be settled", error);
    });
  return true;
}

function ask(targets: Pick<Targets, "resolve">, evidence: LineMembers, signal: AbortSignal) {
  const limited = AbortSignal.any([signal, AbortSignal.timeout(ASK_MS_MAX)]);
  return targets.resolve(asString(evidence["system"]) ?? "", evidence, limited);
}

/** Returns the position of the attempt that decides: the change is made when one was committed, and not made when all were aborted. */
function decisive(findings: readonly (ChangeFinding | undefined)[]): number {
  const position = (outcome: ChangeFinding["outcome"] | undefined) =>
    findings.findIndex((finding) => finding?.outcome === outcome);
  return [position("committed"), position(undefined), position("unknown"), 0].find((at) => at !== -1) ?? 0;
}
