import { asString, isTable } from "../../core/json.ts";
import { REFUSALS } from "../../core/refusals.ts";
import { CLASSIFICATIONS, type Json, type UsedKey } from "../../core/types.ts";
import { AuditLogError } from "../audit-log-error.ts";
import { type Announced, type EntryDraft, toLine } from "../entry.ts";
import { escapeJson } from "../escape.ts";

/** Limits for the members that a journal line keeps when it exceeds the maximum line length. */
const REDUCED_MEMBERS_MAX = 32;
const REDUCED_MEMBER_CHARACTERS_MAX = 512;
/** Removes members that the chain itself writes, so that they do not appear twice. */
const NO_LINK = { seq: undefined, prev: undefined, hash: undefined } as const;

/**
 * One line of `audit-logs/journal/YYYY-MM-DD.jsonl` (an intent, a start, a listing …). The log adds `timestamp` and
 * `instance`.
 */
export interface JournalLine {
  readonly type: string;
  readonly [member: string]: Json | undefined;
}

export interface Stamp {
  readonly timestamp: string;
  readonly instance: string;
}

/**
 * Serializes a journal line as one line of JSON, without the line end. A line that exceeds the maximum length loses its
 * large members and gets `truncated: true`.
 */
export function serializeJournalLine(line: JournalLine, stamp: Stamp): string {
  const { timestamp, instance } = stamp;
  const whole = toLine(Object.assign({ timestamp, type: line.type }, line, stamp, NO_LINK));
  if (whole !== undefined) return whole;
  const type = line.type.slice(0, REDUCED_MEMBER_CHARACTERS_MAX);
  return escapeJson(JSON.stringify({ timestamp, type, ...smallMembers(line), truncated: true, instance }));
}

function smallMembers(line: JournalLine): Record<string, Json | undefined> {
  const members = Object.entries(line).filter(([key]) => key !== "type" && key !== "timestamp" && !(key in NO_LINK));
  return Object.fromEntries(members.filter(isSmall).slice(0, REDUCED_MEMBERS_MAX));
}

function isSmall(member: readonly [string, Json | undefined]): boolean {
  const json = JSON.stringify(member);
  const max = REDUCED_MEMBER_CHARACTERS_MAX;
  return json.length <= max && escapeJson(json).length <= max;
}

/** Maximum number of intents whose calls have no entry yet (calls in progress). */
const INTENTS_MAX = 100_000;
const LIST_MAX = 256;

export interface Intent {
  readonly seq: number;
  readonly traceId: string;
  /** The other members of the journal line, as written. */
  readonly facts: Readonly<Record<string, unknown>>;
}

export class OpenIntents {
  readonly #bySeq = new Map<number, Intent>();
  readonly #seqs = new Map<string, number>();

  /** @throws AuditLogError when the maximum number of open intents is reached */
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

  seqOf(traceId: string): number | undefined {
    return this.#seqs.get(traceId);
  }

  close(seq: number): void {
    const intent = this.#bySeq.get(seq);
    this.#bySeq.delete(seq);
    if (intent !== undefined && this.#seqs.get(intent.traceId) === seq) this.#seqs.delete(intent.traceId);
  }

  list(journalLines: number): readonly Intent[] {
    return [...this.#bySeq.values()].filter(({ seq }) => seq < journalLines);
  }
}

/**
 * Returns the journal line of a call that is about to change something. It holds everything that the call's entry would
 * hold, in case the process ends before the entry is written. Members are flat, because a line that exceeds its maximum
 * length loses its large members (`serializeJournalLine`).
 */
export function intentLine({
  traceId,
  caller,
  tool,
  request,
  protocol,
  policyVersion,
  approval,
  plan,
  trace,
  keyHash,
}: Announced): JournalLine {
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
    policyVersion,
    planDigest: plan?.digest,
    confinement: plan?.confinement,
    approvalId: approval?.id,
    approvedBy: approval?.by,
    keyHash,
    argsHash,
    hashAlg,
    session,
    callId,
    reason,
    secrets,
    args: args as Json,
    protocol: protocol as Json | undefined,
    trace,
  };
}

export function intentOf(seq: number, line: Readonly<Record<string, unknown>>): Intent | undefined {
  const { type, traceId, ...facts } = line;
  return type === "intent" && typeof traceId === "string" ? { seq, traceId, facts } : undefined;
}

/** A call that started and whose outcome was not observed, because its process ended. */
export interface InterruptedCall {
  readonly approvalId: string | undefined;
  /** The call's `Idempotency-Key`; undefined when it had none. */
  readonly key: UsedKey | undefined;
}

export function interruptedCall({ facts }: Intent): InterruptedCall {
  const [issuer, subject, tool, keyHash] = ["iss", "sub", "tool", "keyHash"].map((name) => asString(facts[name]));
  const isKnown = issuer !== undefined && subject !== undefined && tool !== undefined && keyHash !== undefined;
  return { approvalId: asString(facts["approvalId"]), key: isKnown ? { issuer, subject, tool, keyHash } : undefined };
}

/**
 * Returns the entry of a call that started and whose outcome was not observed. An intent written by version 0.1.0 has
 * fewer members, and so does its entry.
 */
export function unknownOutcome({ traceId, facts }: Intent): EntryDraft {
  const { stage, decision } = REFUSALS.OUTCOME_UNKNOWN;
  const { classification } = facts;
  const text = (name: string): string | undefined => asString(facts[name]);
  const [iss, planDigest] = [text("iss"), text("planDigest")];
  return {
    traceId,
    caller: {
      sub: text("sub") ?? "unknown",
      permissions: boundedStrings(facts["permissions"]) ?? [],
      ...(iss !== undefined && { iss }),
      act: boundedStrings(facts["act"]),
    },
    tool: {
      name: text("tool") ?? "unknown",
      classification: CLASSIFICATIONS.find((known) => known === classification) ?? "unknown",
      targetSystem: text("targetSystem") ?? "unknown",
    },
    request: {
      args: isTable(facts["args"]) ? facts["args"] : {},
      argsHash: text("argsHash") ?? "",
      hashAlg: text("hashAlg") ?? "none",
      session: text("session"),
      callId: text("callId"),
      reason: text("reason"),
      secrets: boundedStrings(facts["secrets"]),
      ...(facts["truncated"] === true && { truncated: true }),
    },
    protocol: protocolOf(facts["protocol"]),
    decision,
    denial: {
      reason: "The service ended before the call's outcome was known; it may or may not have happened.",
      stage,
    },
    error: { code: "OUTCOME_UNKNOWN" },
    approval: approvalOf(text("approvedBy"), text("approvalId")),
    plan: planDigest === undefined ? undefined : { digest: planDigest, confinement: text("confinement") },
    trace: traceOf(facts["trace"]),
    duration: 0,
  };
}

/** Returns the approval. A long list of approvers may be missing from the journal line. */
function approvalOf(by: string | undefined, id: string | undefined): EntryDraft["approval"] {
  return by === undefined && id === undefined ? undefined : { by: by ?? "unknown", id };
}

function protocolOf(value: unknown): EntryDraft["protocol"] {
  const { name, version, client } = isTable(value) ? value : {};
  if (name !== "mcp" || typeof version !== "string") return undefined;
  const { name: clientName, version: clientVersion } = isTable(client) ? client : {};
  const isNamed = typeof clientName === "string" && typeof clientVersion === "string";
  return { name, version, ...(isNamed && { client: { name: clientName, version: clientVersion } }) };
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

function boundedStrings(value: unknown): readonly string[] | undefined {
  return Array.isArray(value) ? value.filter((item) => typeof item === "string").slice(0, LIST_MAX) : undefined;
}
