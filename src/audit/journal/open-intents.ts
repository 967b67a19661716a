import { REFUSALS } from "../../core/errors.ts";
import { isTable } from "../../core/json.ts";
import type { Classification, Json } from "../../core/types.ts";
import { AuditLogError } from "../audit-log-error.ts";
import type { Announced, EntryDraft } from "../entry.ts";
import type { JournalLine } from "./journal.ts";

/** Intents whose calls have no entry yet: calls under way. */
const INTENTS_MAX = 100_000;
const LIST_MAX = 256;

/** One intent of the journal. */
export interface Intent {
  /** Of its journal line. */
  readonly seq: number;
  readonly traceId: string;
  /** The journal line's other members, as they were written. */
  readonly facts: Readonly<Record<string, unknown>>;
}

/** Which intents still wait for their call's entry. */
export class OpenIntents {
  readonly #bySeq = new Map<number, Intent>();
  readonly #seqs = new Map<string, number>();

  /** Throws when no further intent may be opened. */
  checkRoom(): void {
    if (this.#bySeq.size >= INTENTS_MAX) {
      throw new AuditLogError(
        `${INTENTS_MAX} intents wait for their entries: something announces calls and never ends them`,
      );
    }
  }

  open(intent: Intent): void {
    this.#bySeq.set(intent.seq, intent);
    this.#seqs.set(intent.traceId, intent.seq);
  }

  /** The journal line of a call's intent. */
  seqOf(traceId: string): number | undefined {
    return this.#seqs.get(traceId);
  }

  /** The call's entry is durable. */
  close(seq: number): void {
    const intent = this.#bySeq.get(seq);
    this.#bySeq.delete(seq);
    if (intent !== undefined && this.#seqs.get(intent.traceId) === seq) {
      this.#seqs.delete(intent.traceId);
    }
  }

  /** Those among the first `journalLines` lines of the journal. */
  list(journalLines: number): readonly Intent[] {
    return [...this.#bySeq.values()].filter(({ seq }) => seq < journalLines);
  }
}

/**
 * The journal line of a call that is about to change something: all that its entry would say, should nobody live to write it.
 * Members are flat, because a line over its bound loses the large ones (`serializeJournalLine`).
 */
export function intentLine({ traceId, caller, tool, request, approval, plan, trace }: Announced): JournalLine {
  const { args, argsHash, hashAlg, session, callId, reason, secrets } = request;
  return {
    type: "intent",
    traceId,
    tool: tool.name,
    classification: tool.classification,
    targetSystem: tool.targetSystem,
    sub: caller.sub,
    iss: caller.iss,
    permissions: caller.permissions,
    act: caller.act,
    planDigest: plan?.digest,
    confinement: plan?.confinement,
    approvalId: approval?.id,
    approvedBy: approval?.by,
    ...{ argsHash, hashAlg, session, callId, reason, secrets },
    args: args as Json,
    trace,
  };
}

/** The intent that a journal line holds, if it holds one. */
export function intentOf(seq: number, line: Readonly<Record<string, unknown>>): Intent | undefined {
  const { type, traceId, ...facts } = line;
  return type === "intent" && typeof traceId === "string" ? { seq, traceId, facts } : undefined;
}

const CLASSIFICATIONS: readonly string[] = ["read", "write", "destructive"] satisfies readonly Classification[];

/** The entry of a call that was begun and whose end nobody saw. An intent of version 0.1.0 says less, and so does its entry. */
export function unknownOutcome({ traceId, facts }: Intent): EntryDraft {
  const { stage, decision } = REFUSALS.OUTCOME_UNKNOWN;
  const { classification } = facts;
  const isKnown = typeof classification === "string" && CLASSIFICATIONS.includes(classification);
  const said = (name: string): string | undefined => textOf(facts[name]);
  const [iss, planDigest] = [said("iss"), said("planDigest")];
  return {
    traceId,
    caller: {
      sub: said("sub") ?? "unknown",
      permissions: textsOf(facts["permissions"]) ?? [],
      ...(iss !== undefined && { iss }),
      act: textsOf(facts["act"]),
    },
    tool: {
      name: said("tool") ?? "unknown",
      classification: isKnown ? (classification as Classification) : "unknown",
      targetSystem: said("targetSystem") ?? "unknown",
    },
    request: {
      args: isTable(facts["args"]) ? facts["args"] : {},
      argsHash: said("argsHash") ?? "",
      hashAlg: said("hashAlg") ?? "none",
      session: said("session"),
      callId: said("callId"),
      reason: said("reason"),
      secrets: textsOf(facts["secrets"]),
      ...(facts["truncated"] === true && { truncated: true }),
    },
    decision,
    denial: {
      reason: "The service ended before the call's outcome was known; it may or may not have happened.",
      stage,
    },
    error: { code: "OUTCOME_UNKNOWN" },
    approval: approvalOf(said("approvedBy"), said("approvalId")),
    plan: planDigest === undefined ? undefined : { digest: planDigest, confinement: said("confinement") },
    trace: traceOf(facts["trace"]),
    duration: 0,
  };
}

/** A long list of approvers may have been left out of the journal's line. */
function approvalOf(by: string | undefined, id: string | undefined): EntryDraft["approval"] {
  return by === undefined && id === undefined ? undefined : { by: by ?? "unknown", id };
}

function traceOf(value: unknown): EntryDraft["trace"] {
  const { traceId, spanId, parentSpanId } = isTable(value) ? value : {};
  if (typeof traceId !== "string") return undefined;
  return {
    traceId,
    ...(typeof spanId === "string" && { spanId }),
    ...(typeof parentSpanId === "string" && { parentSpanId }),
  };
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

function textsOf(value: unknown): readonly string[] | undefined {
  return Array.isArray(value) ? value.filter((item) => typeof item === "string").slice(0, LIST_MAX) : undefined;
}
