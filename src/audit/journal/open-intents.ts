import { REFUSALS } from "../../core/errors.ts";
import type { Classification } from "../../core/types.ts";
import { AuditLogError } from "../audit-log-error.ts";
import type { EntryDraft } from "../entry.ts";

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

/** The intent that a journal line holds, if it holds one. */
export function intentOf(seq: number, line: Readonly<Record<string, unknown>>): Intent | undefined {
  const { type, traceId, ...facts } = line;
  return type === "intent" && typeof traceId === "string" ? { seq, traceId, facts } : undefined;
}

const CLASSIFICATIONS: readonly string[] = ["read", "write", "destructive"] satisfies readonly Classification[];

/** The entry of a call that was begun and whose end nobody saw. */
export function unknownOutcome({ traceId, facts }: Intent): EntryDraft {
  const { stage, decision } = REFUSALS.OUTCOME_UNKNOWN;
  const { classification, planDigest, iss } = facts;
  const isKnown = typeof classification === "string" && CLASSIFICATIONS.includes(classification);
  return {
    traceId,
    caller: {
      sub: text(facts["sub"], "unknown"),
      permissions: texts(facts["permissions"]),
      ...(typeof iss === "string" && { iss }),
    },
    tool: {
      name: text(facts["tool"], "unknown"),
      classification: isKnown ? (classification as Classification) : "unknown",
      targetSystem: text(facts["targetSystem"], "unknown"),
    },
    request: { args: {}, argsHash: "", hashAlg: "none" },
    decision,
    denial: {
      reason: "The service ended before the call's outcome was known; it may or may not have happened.",
      stage,
    },
    error: { code: "OUTCOME_UNKNOWN" },
    plan: typeof planDigest === "string" ? { digest: planDigest } : undefined,
    duration: 0,
  };
}

function text(value: unknown, fallback: string): string {
  return typeof value === "string" ? value : fallback;
}

function texts(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === "string").slice(0, LIST_MAX) : [];
}
