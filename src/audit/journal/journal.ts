import { asString, isTable } from "../../core/json.ts";
import { REFUSALS } from "../../core/refusals.ts";
import { CLASSIFICATIONS, type Json, type UsedKey } from "../../core/types.ts";
import { AuditLogError } from "../audit-log-error.ts";
import { type Announced, type EntryDraft, toLine, UNSTAMPED } from "../entry.ts";
import { escapeJson } from "../escape.ts";

/** Limits for the members that a journal line keeps when it exceeds the maximum line length. */
const REDUCED_MEMBERS_MAX = 32;
const REDUCED_MEMBER_CHARACTERS_MAX = 512;
/** Removes members that the chain itself writes, so that they do not appear twice. */
const NO_LINK = { seq: undefined, prev: undefined, hash: undefined } as const;

/**
 * One line of `audit-logs/journal/YYYY-MM-DD.jsonl` (an intent, a start, a listing …). The log adds `timestamp`,
 * `instance` and `tenant`; a line cannot say them itself.
 */
export interface JournalLine {
  readonly type: string;
  readonly [member: string]: Json | undefined;
}

export interface Stamp {
  readonly timestamp: string;
  readonly instance: string;
  readonly tenant: string | undefined;
}

/**
 * Serializes a journal line as one line of JSON, without the line end. A line that exceeds the maximum length loses its
 * large members and gets `truncated: true`.
 */
export function serializeJournalLine(line: JournalLine, stamp: Stamp): string {
  const { timestamp, instance, tenant } = stamp;
  const whole = toLine(Object.assign({ timestamp, type: line.type }, line, stamp, NO_LINK));
  if (whole !== undefined) return whole;
  const type = line.type.slice(0, REDUCED_MEMBER_CHARACTERS_MAX);
  return escapeJson(JSON.stringify({ timestamp, type, ...smallMembers(line), truncated: true, instance, tenant }));
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

/** The parts of an announced call whose members are side by side on the line. */
type Part = "caller" | "tool" | "request" | "approval" | "plan";

/** How a member is written on the line and read back. A line may be of another version, and may have lost large members. */
interface Member<T> {
  readonly name: string;
  readonly read: (value: unknown) => T;
}

/** One row for each member: one that is missing here does not compile. */
type Members<T> = { readonly [Name in keyof T]-?: Member<T[Name]> };

const text = (name: string) => ({ name, read: asString });
const textOr = (name: string, missing: string) => ({ name, read: (value: unknown) => asString(value) ?? missing });
const list = (name: string) => ({ name, read: boundedStrings });

const PARTS: { readonly [Name in Part]: Members<NonNullable<Announced[Name]>> } = {
  tool: {
    name: textOr("tool", "unknown"),
    classification: {
      name: "classification",
      read: (value) => CLASSIFICATIONS.find((known) => known === value) ?? "unknown",
    },
    targetSystem: textOr("targetSystem", "unknown"),
    argsDigest: text("argsDigest"),
  },
  caller: {
    sub: textOr("sub", "unknown"),
    iss: text("iss"),
    permissions: { name: "permissions", read: (value) => boundedStrings(value) ?? [] },
    roles: list("roles"),
    act: list("act"),
  },
  plan: { digest: textOr("planDigest", "unknown"), confinement: text("confinement") },
  approval: { id: text("approvalId"), by: textOr("approvedBy", "unknown") },
  request: {
    argsHash: textOr("argsHash", ""),
    hashAlg: textOr("hashAlg", "none"),
    session: text("session"),
    callId: text("callId"),
    reason: text("reason"),
    secrets: list("secrets"),
    args: { name: "args", read: (value) => (isTable(value) ? value : {}) },
    truncated: { name: "truncated", read: (value) => (value === true ? true : undefined) },
  },
};

const OTHERS: Members<Omit<Announced, Part>> = {
  traceId: textOr("traceId", ""),
  policyVersion: text("policyVersion"),
  keyHash: text("keyHash"),
  protocol: { name: "protocol", read: protocolOf },
  trace: { name: "trace", read: traceOf },
};

/**
 * Returns the journal line of a call that is about to change something. It holds everything that is announced, in case the process
 * ends before the call's entry is written. Members are flat, because a line that exceeds its maximum length loses its large
 * members (`serializeJournalLine`).
 */
export function intentLine({ caller, tool, request, approval, plan, ...others }: Announced): JournalLine {
  const parts = { tool, caller, plan, approval, request };
  const written = Object.entries(PARTS).map(([part, members]) => write(members, parts[part as Part]));
  return Object.assign({ type: "intent" }, write(OTHERS, others), ...written);
}

/** Reads what `intentLine` wrote. */
function announcedBy({ traceId, facts }: Intent): Announced {
  const { caller, tool, request, approval, plan } = PARTS;
  return {
    ...read(OTHERS, { ...facts, traceId }),
    caller: read(caller, facts),
    tool: read(tool, facts),
    request: read(request, facts),
    approval: readPresent(approval, facts),
    plan: readPresent(plan, facts),
  };
}

function write(members: Readonly<Record<string, Member<unknown>>>, values: object = {}): object {
  const known: Readonly<Record<string, unknown>> = { ...values };
  return Object.fromEntries(Object.entries(members).map(([key, { name }]) => [name, known[key]]));
}

function read<T>(members: Members<T>, facts: Intent["facts"]): T {
  const rows = Object.entries<Member<unknown>>(members);
  return Object.fromEntries(rows.map(([key, member]) => [key, member.read(facts[member.name])])) as T;
}

/** Reads a part that some calls do not have. */
function readPresent<T>(members: Members<T>, facts: Intent["facts"]): T | undefined {
  const isPresent = Object.values<Member<unknown>>(members).some(({ name }) => facts[name] !== undefined);
  return isPresent ? read(members, facts) : undefined;
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

export function interruptedCall({ facts }: Pick<Intent, "facts">): InterruptedCall {
  const { caller, tool, approval } = PARTS;
  const rows = [caller.iss, caller.sub, tool.name, OTHERS.keyHash];
  const [issuer, subject, toolName, keyHash] = rows.map(({ name }) => asString(facts[name]));
  const isKnown = issuer !== undefined && subject !== undefined && toolName !== undefined && keyHash !== undefined;
  return {
    approvalId: asString(facts[approval.id.name]),
    key: isKnown ? { issuer, subject, tool: toolName, keyHash } : undefined,
  };
}

/**
 * Returns the entry of a call that started and whose outcome was not observed. An intent written by an earlier version has
 * fewer members, and so does its entry.
 */
export function unknownOutcome(intent: Intent): EntryDraft {
  const { stage, decision } = REFUSALS.OUTCOME_UNKNOWN;
  const { keyHash: _, ...announced } = announcedBy(intent);
  return {
    ...UNSTAMPED,
    ...announced,
    decision,
    denial: {
      reason: "The service ended before the call's outcome was known; it may or may not have happened.",
      stage,
    },
    error: { code: "OUTCOME_UNKNOWN" },
    duration: 0,
  };
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
