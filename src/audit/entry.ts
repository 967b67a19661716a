import type { RefusalCode, Stage } from "../core/errors.ts";
import type { Classification } from "../core/types.ts";
import { CHAIN_BYTES_MAX } from "./chain/chain.ts";
import { escapeJson } from "./escape.ts";

/** Bytes of one line without its line end. Readers may count on it. */
export const LINE_BYTES_MAX = 65_535;
/** Of them, those that the chain leaves to the line's own members. */
const BODY_BYTES_MAX = LINE_BYTES_MAX - CHAIN_BYTES_MAX;

/** What is kept of a list and of a text when an entry is over the bound even without its arguments. */
const REDUCED_ITEMS_MAX = 8;
const REDUCED_CHARACTERS_MAX = 128;

/** One line of `audit-logs/YYYY-MM-DD.jsonl`: one call. What is `undefined` is not in the line. */
export interface AuditEntry {
  /** ISO 8601, UTC, milliseconds; never earlier than the line before it in the file. */
  readonly timestamp: string;
  /** Of this line alone: UUIDv7. */
  readonly id?: string | undefined;
  readonly traceId: string;
  readonly caller: {
    /** From a verified token, else `"anonymous"`. */
    readonly sub: string;
    readonly permissions: readonly string[];
    readonly iss?: string;
    /** `sub`s of the `act` chain, outermost first. */
    readonly act?: readonly string[] | undefined;
  };
  readonly tool: {
    readonly name: string;
    readonly classification: Classification | "unknown";
    readonly targetSystem: string;
  };
  readonly request: {
    /** Only what the tool's `inputPolicy` lets into the log. */
    readonly args: Readonly<Record<string, unknown>>;
    /** Hex, over all arguments. */
    readonly argsHash: string;
    readonly hashAlg: string;
    readonly session?: string | undefined;
    readonly callId?: string | undefined;
    /** What the agent says about itself: untrusted. */
    readonly reason?: string | undefined;
    /** Argument paths in which the agent sent a secret. */
    readonly secrets?: readonly string[] | undefined;
    /** The entry was over `LINE_BYTES_MAX`: `args`, and if need be lists and texts, are not all here. */
    readonly truncated?: true;
  };
  readonly decision: "ALLOWED" | "DENIED" | "ERROR" | "PENDING";
  readonly denial?: { readonly reason: string; readonly stage: Stage; readonly details?: unknown } | undefined;
  readonly error?: { readonly code: RefusalCode } | undefined;
  readonly response?:
    | {
        readonly filteredFields: readonly string[];
        /** Only a part of what the target answered was released. */
        readonly truncated?: true | undefined;
        readonly outputHash: string;
        /** How often each rule of redaction hid something. */
        readonly redactions?: Readonly<Record<string, number>> | undefined;
      }
    | undefined;
  /** Milliseconds. */
  readonly duration: number;
  /** The rule or the person that decided; `id` joins the asking call and the one that ran. */
  readonly approval?: { readonly by: string; readonly id?: string | undefined } | undefined;
  /** `confinement` of a command: `confined` or `none`. */
  readonly plan?: { readonly digest: string; readonly confinement?: string | undefined } | undefined;
  /** Milliseconds per step of the road. */
  readonly stages?: Readonly<Record<string, number>> | undefined;
  /** W3C ids: hex. `parentSpanId` is the span that called us. */
  readonly trace?: { readonly traceId: string; readonly spanId?: string; readonly parentSpanId?: string } | undefined;
  /** Which replica wrote the line. */
  readonly instance: string;
  /** Calls that this line sums up; one when left out. */
  readonly count?: number | undefined;
  /** `seq` of the journal line that announced the call. */
  readonly intentSeq?: number | undefined;
  /** The line's place in the chain of its stream; see `chain.ts`. Lines from before the chain have none. */
  readonly seq?: number;
  readonly prev?: string;
  readonly hash?: string;
}

/** What the log knows of a line. */
export interface EntryStamp {
  readonly timestamp: string;
  readonly instance: string;
  readonly id?: string | undefined;
  readonly intentSeq?: number | undefined;
}

type LinkMember = "seq" | "prev" | "hash";

/** What a call brings to its entry; the log adds the rest. */
export type EntryDraft = Omit<AuditEntry, keyof EntryStamp | LinkMember>;

/** What of a draft is known before the call runs. */
export type Announced = Pick<EntryDraft, "traceId" | "caller" | "tool" | "request" | "approval" | "plan" | "trace">;

type Members = { readonly [Member in keyof Omit<Required<AuditEntry>, LinkMember>]: AuditEntry[Member] };

/** The draft with its stamp. Every member is named, for a spread after `timestamp` costs five times as much; the type misses none. */
export function stampEntry(draft: EntryDraft, { timestamp, instance, id, intentSeq }: EntryStamp): AuditEntry {
  const entry: Members = {
    timestamp,
    id,
    traceId: draft.traceId,
    caller: draft.caller,
    tool: draft.tool,
    request: draft.request,
    decision: draft.decision,
    denial: draft.denial,
    error: draft.error,
    response: draft.response,
    approval: draft.approval,
    plan: draft.plan,
    stages: draft.stages,
    trace: draft.trace,
    duration: draft.duration,
    count: draft.count,
    instance,
    intentSeq,
  };
  return entry;
}

/**
 * The entry as one line of JSON, without the line end, of at most `LINE_BYTES_MAX` bytes. JSON is never cut: an entry
 * over the bound, or with arguments that are no JSON, loses its arguments; one still over it loses details and the ends of lists and texts.
 */
export function serializeEntry(entry: AuditEntry): string {
  return serializeWithin(entry) ?? serializeWithin(withoutArguments(entry)) ?? escapeJson(reduce(entry));
}

function serializeWithin(entry: AuditEntry): string | undefined {
  try {
    return toLine(entry);
  } catch {
    return undefined;
  }
}

/** Escaped JSON, or `undefined` when it is over the bound. Escaping only adds, so what is too long before is not escaped at all. */
export function toLine(value: object): string | undefined {
  const json = JSON.stringify(value);
  const line = json.length <= BODY_BYTES_MAX ? escapeJson(json) : json;
  // A text of n UTF-16 units has n to 3n bytes: most lines need not be measured.
  const fits = line.length * 3 <= BODY_BYTES_MAX || Buffer.byteLength(line) <= BODY_BYTES_MAX;
  return fits ? line : undefined;
}

function withoutArguments(entry: AuditEntry): AuditEntry {
  return { ...entry, request: { ...entry.request, args: {}, truncated: true } };
}

/** Every member is bounded here, so the line is too: about 25 texts, 3 lists and the stages, six bytes a character at worst. */
function reduce(entry: AuditEntry): string {
  const { denial, stages, ...rest } = withoutArguments(entry);
  const kept = {
    ...rest,
    ...(denial === undefined ? {} : { denial: { reason: denial.reason, stage: denial.stage } }),
    ...(stages === undefined ? {} : { stages: Object.fromEntries(Object.entries(stages).slice(0, REDUCED_ITEMS_MAX)) }),
  };
  return JSON.stringify(kept, (key, value: unknown) => {
    // Names of members are ours, but for those of a table that somebody else filled.
    if (key.length > REDUCED_CHARACTERS_MAX) {
      return undefined;
    }
    if (typeof value === "string") {
      return value.slice(0, REDUCED_CHARACTERS_MAX);
    }
    return Array.isArray(value) ? value.slice(0, REDUCED_ITEMS_MAX) : value;
  });
}
