import type { LineDecision } from "../core/audit-fields.ts";
import { mapStrings } from "../core/json.ts";
import type { RefusalCode, Stage } from "../core/refusals.ts";
import type { DataLabel, Mode, ToolClassification } from "../core/types.ts";
import { CHAIN_BYTES_MAX } from "./chain/chain.ts";
import { escapeJson } from "./escape.ts";

/** Maximum bytes of one line, without its line end. Readers may rely on this limit. */
export const LINE_BYTES_MAX = 65_535;
/** Maximum bytes of the line's own members: the rest of the line is reserved for the chain. */
const BODY_BYTES_MAX = LINE_BYTES_MAX - CHAIN_BYTES_MAX;

/** Maximum length of a string in the arguments when an entry exceeds the limit with whole arguments (UTF-16 units). */
const ARGUMENT_CHARACTERS_MAX = 4_096;

/** Maximum length of a list and of a string when an entry exceeds the limit even without its arguments. */
const REDUCED_ITEMS_MAX = 8;
const REDUCED_CHARACTERS_MAX = 128;

/** One call: one line of `audit-logs/YYYY-MM-DD.jsonl`. Members that are `undefined` are left out of the line. */
export interface AuditEntry {
  /** ISO 8601, UTC, with milliseconds; never earlier than the timestamp of the previous line in the file. */
  readonly timestamp: string;
  /** UUIDv7, unique to this line. */
  readonly id?: string | undefined;
  readonly traceId: string;
  readonly caller: {
    /** The subject of a verified token; otherwise `"anonymous"`. */
    readonly sub: string;
    readonly permissions: readonly string[];
    /** Names of the roles that were bound to the caller, sorted. */
    readonly roles?: readonly string[] | undefined;
    readonly iss?: string;
    /** The `sub` values of the `act` chain, outermost first. */
    readonly act?: readonly string[] | undefined;
  };
  readonly tool: {
    readonly name: string;
    readonly classification: ToolClassification | "unknown";
    readonly targetSystem: string;
    /** Digest of the input schema and of `inputPolicy`, so that a replay knows whether they are the same. */
    readonly argsDigest?: string | undefined;
  };
  readonly request: {
    /** Only the arguments that the tool's `inputPolicy` allows in the log. */
    readonly args: Readonly<Record<string, unknown>>;
    /** Hex hash of all arguments. */
    readonly argsHash: string;
    readonly hashAlg: string;
    readonly session?: string | undefined;
    readonly callId?: string | undefined;
    /** The agent's own statement: untrusted. */
    readonly reason?: string | undefined;
    /** Paths of the arguments in which the agent sent a secret. */
    readonly secrets?: readonly string[] | undefined;
    /** The entry exceeded `LINE_BYTES_MAX`: `args`, and if necessary lists and strings, are incomplete. */
    readonly truncated?: true;
  };
  /** How the call was made, when not by `POST /call` or the library. The client's words about itself are untrusted. */
  readonly protocol?:
    | {
        readonly name: "mcp";
        readonly version: string;
        readonly client?: { readonly name: string; readonly version: string } | undefined;
      }
    | undefined;
  /** Digest (hex SHA-256) of the configuration by which the call was judged, as `GET /configuration` shows it. */
  readonly policyVersion?: string | undefined;
  /** `DRY_RUN`: the call was judged up to its approval, and nothing else was done. `error` says how it would have ended. */
  readonly decision: LineDecision;
  readonly dryRun?: true | undefined;
  readonly denial?: { readonly reason: string; readonly stage: Stage; readonly details?: unknown } | undefined;
  /** Decisions of policy points other than allow, at most 16; `requireApproval` also when a person has approved the call. */
  readonly decisionReasons?:
    | readonly { readonly point: string; readonly verdict: "deny" | "requireApproval"; readonly reason: string }[]
    | undefined;
  /**
   * What the caller had read before and after the call, and where values of the arguments had appeared before: at most 24 sources.
   */
  readonly dataFlow?:
    | {
        readonly before?: readonly DataLabel[] | undefined;
        readonly after?: readonly DataLabel[] | undefined;
        /** Texts that a caller had stored, and that earned a label when the answer held them: the tool that wrote each, and that call. */
        readonly stored?:
          | readonly { readonly label: DataLabel; readonly tool: string; readonly traceId: string }[]
          | undefined;
        readonly sources?: readonly FlowSource[] | undefined;
      }
    | undefined;
  readonly error?: { readonly code: RefusalCode } | undefined;
  readonly response?:
    | {
        readonly filteredFields: readonly string[];
        /** Only part of the target's response was released. */
        readonly truncated?: true | undefined;
        readonly outputHash: string;
        /** Number of redactions per redaction rule. */
        readonly redactions?: Readonly<Record<string, number>> | undefined;
      }
    | undefined;
  /** Milliseconds. */
  readonly duration: number;
  /**
   * The rule or the people that let the call run; missing when nobody did. `id` links the call that requested approval to the call
   * that ran.
   */
  readonly approval?: { readonly by?: string | undefined; readonly id?: string | undefined } | undefined;
  /** The mode that an operator had set for the call's session, if the approval rules read it. */
  readonly sessionMode?: Mode | undefined;
  /** `confinement` of a command: `confined` or `none`. */
  readonly plan?: { readonly digest: string; readonly confinement?: string | undefined } | undefined;
  /** Milliseconds per pipeline stage. */
  readonly stages?: Readonly<Record<string, number>> | undefined;
  /** W3C trace context ids, in hex. `parentSpanId` is the span that called this service. */
  readonly trace?: { readonly traceId: string; readonly spanId?: string; readonly parentSpanId?: string } | undefined;
  /** The replica that wrote the line. */
  readonly instance: string;
  /** The tenant whose log it is: the same in all lines of a log, and missing in the service's own. */
  readonly tenant?: string | undefined;
  /** Number of calls that this line summarizes; 1 when missing. */
  readonly count?: number | undefined;
  /** `seq` of the journal line that holds the call's intent. */
  readonly intentSeq?: number | undefined;
  /**
   * The line's position in the chain of its stream; see `chain.ts`. Lines written before the chain existed have none.
   */
  readonly seq?: number;
  readonly prev?: string;
  readonly hash?: string;
}

/** An answer in which the value of an argument had appeared. */
export interface FlowSource {
  readonly argument: string;
  readonly tool: string;
  readonly traceId: string;
  /** Path of the field in that answer; empty: the answer itself. */
  readonly field: string;
  /** Where the tool's system stores the values of the field, if the system reports it: `shop: public.customers.email`. */
  readonly place?: string | undefined;
  readonly labels: readonly DataLabel[];
  /** The tool's manifest vouches for the field. */
  readonly trusted?: true | undefined;
  /** Only a part of the value appeared there. */
  readonly part?: true | undefined;
}

/** The members that the log adds to an entry. */
export interface EntryStamp {
  readonly timestamp: string;
  readonly instance: string;
  readonly tenant: string | undefined;
  readonly id?: string | undefined;
  readonly intentSeq?: number | undefined;
}

type LinkMember = "seq" | "prev" | "hash";

/** Begins every draft: the members that come first on the line, where the log fills them in. */
export const UNSTAMPED = { timestamp: undefined, id: undefined } as const;

/** The part of an entry that the call provides; the log adds the rest. */
export type EntryDraft = typeof UNSTAMPED & Omit<AuditEntry, keyof EntryStamp | LinkMember>;

/** The part of a draft that is known before the call runs. */
export interface Announced
  extends Pick<
    EntryDraft,
    "traceId" | "caller" | "tool" | "request" | "protocol" | "policyVersion" | "approval" | "plan" | "trace"
  > {
  /** Hex SHA-256 of the call's `Idempotency-Key`. */
  readonly keyHash?: string | undefined;
}

/**
 * Combines a draft and its stamp. The runtime copies a whole object at once, but one member after the other behind members that are
 * already there: that would take half as long again as writing the entry.
 */
export function stampEntry(draft: EntryDraft, stamp: EntryStamp): AuditEntry {
  return { ...draft, ...stamp };
}

/**
 * Serializes the entry as one line of JSON, without the line end, of at most `LINE_BYTES_MAX` bytes. JSON is never cut
 * in the middle. An entry that exceeds the limit keeps the beginning and the end of long texts in its arguments. If it still
 * exceeds the limit, or its arguments cannot be serialized, it loses its arguments; then its denial details and the ends of its
 * lists and strings.
 */
export function serializeEntry(entry: AuditEntry): string {
  return (
    serializeWithin(entry) ??
    serializeWithin(withShortArguments(entry)) ??
    serializeWithin(withoutArguments(entry)) ??
    escapeJson(reduce(entry))
  );
}

function serializeWithin(entry: AuditEntry): string | undefined {
  try {
    return toLine(entry);
  } catch {
    return undefined;
  }
}

/**
 * Returns escaped JSON, or `undefined` when it exceeds the limit. Escaping only adds bytes, so JSON that is already too
 * long is not escaped.
 */
export function toLine(value: object): string | undefined {
  const json = JSON.stringify(value);
  const line = json.length <= BODY_BYTES_MAX ? escapeJson(json) : json;
  // A string of n UTF-16 units has n to 3n bytes, so most lines need no measuring.
  const fits = line.length * 3 <= BODY_BYTES_MAX || Buffer.byteLength(line) <= BODY_BYTES_MAX;
  return fits ? line : undefined;
}

/** Keeps both ends of long texts, so that a command cannot be padded out of the audit. */
function withShortArguments({ request, ...entry }: AuditEntry): AuditEntry {
  const args = mapStrings(request.args, shortText) as typeof request.args;
  return { ...entry, request: { ...request, args, truncated: true } };
}

function shortText(text: string): string {
  if (text.length <= ARGUMENT_CHARACTERS_MAX) return text;
  const end = ARGUMENT_CHARACTERS_MAX / 2;
  // A cut may split a surrogate pair. Strict readers of JSON refuse a line with half a surrogate pair.
  return `${text.slice(0, end).toWellFormed()}…${text.slice(-end).toWellFormed()}`;
}

function withoutArguments(entry: AuditEntry): AuditEntry {
  return { ...entry, request: { ...entry.request, args: {}, truncated: true } };
}

/**
 * Bounds every member, and so the line: about 25 strings, 3 lists, 8 decision reasons and the stages, at six bytes per character at worst.
 */
function reduce(entry: AuditEntry): string {
  const { denial, stages, ...rest } = withoutArguments(entry);
  const kept = {
    ...rest,
    ...(denial === undefined ? {} : { denial: { reason: denial.reason, stage: denial.stage } }),
    ...(stages === undefined ? {} : { stages: Object.fromEntries(Object.entries(stages).slice(0, REDUCED_ITEMS_MAX)) }),
  };
  return JSON.stringify(kept, (key, value: unknown) => {
    // The service chooses the member names, except in tables that others filled.
    if (key.length > REDUCED_CHARACTERS_MAX) {
      return undefined;
    }
    if (typeof value === "string") {
      return value.slice(0, REDUCED_CHARACTERS_MAX).toWellFormed();
    }
    return Array.isArray(value) ? value.slice(0, REDUCED_ITEMS_MAX) : value;
  });
}
