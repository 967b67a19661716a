import { isTable } from "./json.ts";
import { REFUSALS, STAGE_NAMES } from "./refusals.ts";
import { CLASSIFICATIONS } from "./types.ts";

/**
 * The members of an audit line that people select by, export or see in lists: one row each. Filters of `stc audit query`, `GET /audit`
 * and the console, their help, the columns of the index and of CSV, and the `unmapped` members of OCSF are derived from the rows.
 */

/** A parsed line. Whoever can write the directory can write a line: no member is certain. */
export type LineMembers = Readonly<Record<string, unknown>>;

/** How a query selects by a field. */
export interface FieldFilter {
  /** Name of the HTTP parameter; the option of `stc` is spelled `--like-this`. */
  readonly param: string;
  /** Help text of the option. Default: its values. */
  readonly help?: string;
  /** Label of the console's input. */
  readonly label: string;
  /** Example in the console's empty input. */
  readonly hint?: string;
  /** Values that the console suggests. */
  readonly suggested?: readonly string[];
  /** The only values; any text when missing. */
  readonly values?: readonly string[];
  /** True when the console offers `values` as a choice. */
  readonly isChoice?: true;
  /** True when the value is accepted in either case and stored in lowercase. */
  readonly isHex?: true;
  /** In how many lines a value occurs. A search looks for the bytes of the rarest value first. */
  readonly occurs: "once" | "sometimes" | "often";
  /** A field whose value matches, too. */
  readonly or?: string;
  /** For a filter that may name a part of the value: its parts. Equality when missing. */
  readonly parts?: ValueParts;
}

/** The parts of a value that a filter may name. Declared as texts, not as code, so that files and databases decide alike. */
export interface ValueParts {
  /** Where a part begins in the line. */
  readonly begins: "a text" | "anywhere";
  /** Only a value that begins with this text has parts. */
  readonly prefix: string;
  /** Texts that are put before and after the value before it is searched. */
  readonly bounds: readonly [before: string, after: string];
  /** A value has a part when it contains the part between one of these pairs. */
  readonly around: readonly (readonly [before: string, after: string])[];
  /** Texts that separate parts: no part contains one of them. */
  readonly separators: readonly string[];
}

/** Returns the value of a field; undefined when it is missing or has an unexpected type. */
interface FieldReader {
  (line: LineMembers): unknown;
  /** Names of the members that lead to the value, when it is a text as it is in the line. */
  readonly path?: readonly string[];
}

interface AuditField {
  readonly read: FieldReader;
  readonly filter?: FieldFilter;
  /** Column in the tables of calls, the console's and the terminal's. */
  readonly column?: {
    readonly title: string;
    /** A column without a position comes after all others. */
    readonly position?: number;
    /** Characters in the terminal. A longer cell moves the rest of its line; nothing is cut off. */
    readonly width?: number;
    readonly isTerminalOnly?: true;
  };
  /** Column in CSV. The columns have the order of the rows: a new one is last. */
  readonly csv?: string;
  /** Returns the text of the value for tables. The value itself when missing. */
  readonly show?: (value: string) => string;
  /** Member of `unmapped` in OCSF. */
  readonly ocsf?: string;
  /** True for a column of audit stores, which also have the fields with a filter. */
  readonly isStored?: true;
}

/** Stored in place of an argument that the audit must not contain. */
export const NOT_LOGGED = "[not logged]";

/** How a call ended, or what became of it so far. */
export const LINE_DECISIONS = ["ALLOWED", "DENIED", "ERROR", "PENDING", "DRY_RUN"] as const;

export type LineDecision = (typeof LINE_DECISIONS)[number];

const refusals = Object.entries(REFUSALS);

const HUMAN = "human:";
const NEXT_HUMAN = `, ${HUMAN}`;

/** The people who approved: `human:` and the person, as subject or as `issuer|subject`, separated by `, `. */
const APPROVERS: ValueParts = {
  begins: "anywhere",
  prefix: HUMAN,
  bounds: [", ", NEXT_HUMAN],
  around: [
    [NEXT_HUMAN, NEXT_HUMAN],
    ["|", NEXT_HUMAN],
  ],
  separators: [NEXT_HUMAN],
};

/** Between a policy point and its reason. The service writes reasons as single lines without tabs. */
const REASON_SEPARATOR = "\t";
const REASON_END = "\n";

/** The policy points, and the beginnings of their reasons. */
const REASONS: ValueParts = {
  begins: "a text",
  prefix: "",
  bounds: [REASON_END, ""],
  around: [
    [REASON_END, REASON_SEPARATOR],
    [REASON_SEPARATOR, ""],
  ],
  separators: [REASON_SEPARATOR, REASON_END],
};

export const AUDIT_FIELDS = {
  timestamp: { read: textAt("timestamp"), csv: "timestamp", column: { title: "Time", position: 1, width: 24 } },
  traceId: {
    read: textAt("traceId"),
    csv: "traceId",
    column: { title: "Trace", position: 6, width: 36, isTerminalOnly: true },
    filter: {
      param: "traceId",
      help: "trace id, ours or W3C",
      label: "Trace id",
      isHex: true,
      occurs: "once",
      or: "wireTraceId",
    },
  },
  sub: {
    read: textAt("caller", "sub"),
    csv: "sub",
    column: { title: "Caller", position: 4, width: 20 },
    filter: { param: "sub", help: "subject of the caller", label: "Caller", occurs: "sometimes" },
  },
  iss: {
    read: textAt("caller", "iss"),
    csv: "iss",
    filter: { param: "iss", help: "issuer of the caller's token", label: "Issuer of the caller", occurs: "often" },
  },
  tool: {
    read: textAt("tool", "name"),
    csv: "tool",
    column: { title: "Tool", position: 3, width: 24 },
    filter: { param: "tool", help: "name of the tool", label: "Tool", occurs: "sometimes" },
  },
  classification: {
    read: textAt("tool", "classification"),
    csv: "classification",
    ocsf: "classification",
    filter: {
      param: "classification",
      label: "Classification",
      values: [...CLASSIFICATIONS, "unknown"],
      isChoice: true,
      occurs: "often",
    },
  },
  system: {
    read: textAt("tool", "targetSystem"),
    csv: "system",
    filter: { param: "system", help: "system that the tool uses", label: "System", occurs: "sometimes" },
  },
  decision: {
    read: textAt("decision"),
    csv: "decision",
    column: { title: "Decision", position: 2, width: 26 },
    ocsf: "decision",
    filter: {
      param: "decision",
      label: "Decision",
      values: LINE_DECISIONS,
      isChoice: true,
      occurs: "often",
    },
  },
  stage: {
    read: textAt("denial", "stage"),
    csv: "stage",
    ocsf: "stage",
    filter: {
      param: "stage",
      help: "stage where the call ended, such as VALIDATION",
      label: "Stage",
      hint: "VALIDATION",
      values: STAGE_NAMES,
      suggested: STAGE_NAMES,
      occurs: "often",
    },
  },
  code: {
    read: textAt("error", "code"),
    csv: "code",
    filter: {
      param: "code",
      help: "refusal code, such as PERMISSION_DENIED",
      label: "Refusal code",
      hint: "PERMISSION_DENIED",
      values: refusals.map(([code]) => code),
      occurs: "sometimes",
    },
  },
  reason: { read: textAt("denial", "reason"), csv: "reason" },
  /** Milliseconds. Not a measured value in a line that sums up calls. */
  duration: { read: durationIn, csv: "durationMs", column: { title: "Duration", position: 5, width: 12 } },
  count: { read: countIn, csv: "count" },
  args: { read: jsonAt("request", "args"), csv: "args" },
  argsHash: { read: textAt("request", "argsHash"), csv: "argsHash", ocsf: "args_hash" },
  filteredFields: { read: listAt("response", "filteredFields"), csv: "filteredFields" },
  approvedBy: {
    read: approverIn,
    csv: "approvedBy",
    ocsf: "approved_by",
    filter: {
      param: "approver",
      help: "who approved: subject, issuer|subject, or a rule such as callback",
      label: "Approver",
      occurs: "sometimes",
      parts: APPROVERS,
    },
  },
  approvalId: {
    read: textAt("approval", "id"),
    csv: "approvalId",
    ocsf: "approval_id",
    filter: {
      param: "approval",
      help: "id of an approval request",
      label: "Approval request",
      isHex: true,
      occurs: "once",
    },
  },
  /** W3C trace id, in hex. */
  wireTraceId: { read: textAt("trace", "traceId"), csv: "w3cTraceId", isStored: true },
  instance: { read: textAt("instance"), csv: "instance", isStored: true },
  /** The decisions of policy points other than allow, one line each: `point`, a tab, `reason`. */
  decisionReasons: {
    read: reasonsIn,
    csv: "decisionReasons",
    column: { title: "Policy", position: 7, isTerminalOnly: true },
    show: reasonsShown,
    filter: {
      param: "reason",
      help: "policy point, such as permissions, or the beginning of its reason",
      label: "Policy point or reason",
      hint: "permissions, risk, floor:destructive",
      occurs: "sometimes",
      parts: REASONS,
    },
  },
  policyVersion: { read: textAt("policyVersion"), csv: "policyVersion", ocsf: "policy_version" },
  wireSpanId: { read: textAt("trace", "spanId") },
  /** Name that an MCP client reports about itself: untrusted. */
  client: {
    read: textAt("protocol", "client", "name"),
    filter: {
      param: "client",
      help: "name that the MCP client gives itself: a hint, not proven",
      label: "MCP client (not proven)",
      occurs: "sometimes",
    },
  },
  /** The log stamps it on every line of a tenant. */
  tenant: {
    read: textAt("tenant"),
    csv: "tenant",
    ocsf: "tenant",
    filter: {
      param: "tenant",
      help: "name of the tenant; lines of the service itself have none",
      label: "Tenant",
      occurs: "often",
    },
  },
} as const satisfies Readonly<Record<string, AuditField>>;

type Fields = typeof AUDIT_FIELDS;
type Name = keyof Fields;

/** The names of the filters. */
export type FilterParam = {
  readonly [F in Name]: Fields[F] extends { readonly filter: { readonly param: infer Param } } ? Param : never;
}[Name];

/** The members of one line that queries, tables and statistics use. */
export type EntryView = { readonly [F in Name]: ReturnType<Fields[F]["read"]> } & {
  readonly timestamp: string;
  /** Milliseconds since 1970. */
  readonly timeMs: number;
  /** True when the line sums up calls. */
  readonly isSum: boolean;
  readonly line: LineMembers;
};

interface NamedField extends AuditField {
  readonly name: string;
}

/** All fields, in the order of the CSV columns. */
export const FIELD_ROWS: readonly NamedField[] = Object.entries(AUDIT_FIELDS).map(([name, field]) => ({
  name,
  ...field,
}));

/** A column of a table of calls. */
export interface CallColumn extends NonNullable<AuditField["column"]> {
  readonly name: string;
  /** Returns the text of the value; undefined when it is missing. */
  readonly textIn: (line: LineMembers) => string | undefined;
}

/** The columns of the terminal's table of calls, from left to right. */
export const CALL_COLUMNS: readonly CallColumn[] = FIELD_ROWS.flatMap(({ name, read, show = String, column }) => {
  if (column === undefined) return [];
  const textIn = (line: LineMembers): string | undefined => {
    const value = read(line);
    return value === undefined ? undefined : show(String(value));
  };
  return [{ ...column, name, textIn, position: column.position ?? Number.MAX_VALUE }];
}).sort((one, other) => one.position - other.position);

/** The columns of the console's table of calls. */
export const CONSOLE_COLUMNS = CALL_COLUMNS.filter(({ isTerminalOnly }) => isTerminalOnly !== true);

/** A filter with its field. */
export interface FilterRow extends FieldFilter {
  readonly help: string;
  readonly param: FilterParam;
  /** Name of the field. */
  readonly field: string;
  /** Returns the field's value. */
  readonly valueIn: (entry: EntryView) => string | undefined;
}

const BY_OCCURRENCE = ["once", "sometimes", "often"];

/** All filters, those with the rarest values first. */
export const FILTER_ROWS: readonly FilterRow[] = FIELD_ROWS.flatMap(({ name, filter }) =>
  filter === undefined
    ? []
    : [
        {
          ...filter,
          help: filter.help ?? (filter.values ?? []).join(", "),
          param: filter.param as FilterParam,
          field: name,
          valueIn: (entry: EntryView) => fieldValue(entry, name),
        },
      ],
).sort((one, other) => BY_OCCURRENCE.indexOf(one.occurs) - BY_OCCURRENCE.indexOf(other.occurs));

/** Returns the value of a field that a filter reads: a text. */
export function fieldValue(entry: EntryView, name: string): string | undefined {
  return (entry as unknown as Readonly<Record<string, string | undefined>>)[name];
}

/** A line whose fields are read when somebody asks for them: a query asks for two of twenty. */
class LineView {
  readonly line: LineMembers;
  readonly timeMs: number;

  constructor(line: LineMembers, timeMs: number) {
    this.line = line;
    this.timeMs = timeMs;
  }

  get isSum(): boolean {
    return this.line["count"] !== undefined;
  }
}
for (const { name, read } of FIELD_ROWS) {
  Object.defineProperty(LineView.prototype, name, {
    get(this: LineView) {
      return read(this.line);
    },
  });
}

/** Returns undefined when the line has no valid timestamp: it does not belong to this log. */
export function viewOf(line: LineMembers): EntryView | undefined {
  const { timestamp } = line;
  const timeMs = typeof timestamp === "string" ? Date.parse(timestamp) : Number.NaN;
  return Number.isNaN(timeMs) ? undefined : (new LineView(line, timeMs) as unknown as EntryView);
}

/** Returns a reader of the text at a path of at most three members. */
function textAt(...path: readonly [string, string?, string?]) {
  const read = memberAt(...path);
  const textIn = (line: LineMembers): string | undefined => {
    const value = read(line);
    return typeof value === "string" ? value : undefined;
  };
  return Object.assign(textIn, { path: path.filter((name) => name !== undefined) });
}

function memberAt(first: string, second?: string, third?: string): (line: LineMembers) => unknown {
  return (line) => {
    let value = line[first];
    if (second !== undefined) value = isTable(value) ? value[second] : undefined;
    if (third !== undefined) value = isTable(value) ? value[third] : undefined;
    return value;
  };
}

function jsonAt(first: string, second: string): (line: LineMembers) => string | undefined {
  const read = memberAt(first, second);
  return (line) => {
    const value = read(line);
    return value === undefined ? undefined : JSON.stringify(value);
  };
}

function listAt(first: string, second: string): (line: LineMembers) => string | undefined {
  const read = memberAt(first, second);
  return (line) => {
    const value = read(line);
    return Array.isArray(value) ? value.filter((one) => typeof one === "string").join(" ") : undefined;
  };
}

function durationIn({ duration }: LineMembers): number | undefined {
  return typeof duration === "number" && duration >= 0 ? duration : undefined;
}

/** Returns how many calls the line sums up: 1 when it does not say. */
function countIn({ count }: LineMembers): number {
  return Number.isSafeInteger(count) && (count as number) > 0 ? (count as number) : 1;
}

/** Returns who approved. Lines of earlier versions name the refusal's code when nobody did. */
export function approverOf(by: unknown): string | undefined {
  return typeof by === "string" && !Object.hasOwn(REFUSALS, by) ? by : undefined;
}

function approverIn({ approval }: LineMembers): string | undefined {
  return isTable(approval) ? approverOf(approval["by"]) : undefined;
}

/** Returns whether the value has this part. */
export function hasPart({ prefix, bounds: [start, end], around, separators }: ValueParts, value: string, part: string) {
  if (!value.startsWith(prefix) || separators.some((separator) => part.includes(separator))) return false;
  const searched = `${start}${value}${end}`;
  return around.some(([before, after]) => searched.includes(`${before}${part}${after}`));
}

function reasonsIn({ decisionReasons }: LineMembers): string | undefined {
  if (!Array.isArray(decisionReasons) || decisionReasons.length === 0) return undefined;
  const lines = decisionReasons.map((one: unknown) => {
    const { point, reason } = isTable(one) ? one : {};
    return [point, reason].map(lineText).join(REASON_SEPARATOR);
  });
  return lines.join(REASON_END);
}

function lineText(value: unknown): string {
  return typeof value === "string" ? value.replace(/[\t\n]/g, " ") : "";
}

function reasonsShown(decisionReasons: string): string {
  return decisionReasons.replaceAll(REASON_SEPARATOR, ": ").replaceAll(REASON_END, "; ");
}
