import { type EntryView, FIELD_ROWS, type LineMembers } from "../../core/audit-fields.ts";
import { asString } from "../../core/json.ts";
import { escapeJson, escapeLine } from "../escape.ts";
import type { FoundLine } from "../query/filter.ts";
import { membersOf, parseLine } from "../query/view.ts";

/** Matches text that a spreadsheet may treat as a formula, including full-width characters and leading whitespace. */
const FORMULA = /^[\s\u00a0\ufeff]*[=+\-@\uff1d\uff0b\uff0d\uff20|%]/;
const LEADING_CONTROL = /^[\t\r\n]/;

const COLUMNS = FIELD_ROWS.filter(({ csv }) => csv !== undefined);

const CSV_HEADER = [...COLUMNS.map(({ csv }) => csv), "log", "seq"].join(",");

export function toCsv({ line, log }: Omit<ExportedLine, "entry">): string {
  const members = parseLine(line) ?? {};
  const cells = COLUMNS.map(({ read, show }) => csvCell(read(members), show));
  return [...cells, csvCell(log), csvCell(members["seq"])].join(",");
}

/**
 * Returns one cell of a CSV file. Strings are quoted, possible formulas are prefixed with an apostrophe, and control characters are
 * escaped.
 */
export function csvCell(value: unknown, show = (text: string): string => text): string {
  if (typeof value === "number") return String(value);
  if (typeof value !== "string") return "";
  const isFormula = FORMULA.test(value) || LEADING_CONTROL.test(value);
  return `"${isFormula ? "'" : ""}${escapeLine(show(value)).replaceAll('"', '""')}"`;
}

const VERSION = "1.8.0";
const CATEGORY = { category_uid: 6, category_name: "Application Activity" } as const;
const CLASS = { class_uid: 6003, class_name: "API Activity" } as const;

const ACTIVITIES: Readonly<Record<string, readonly [id: number, name: string]>> = {
  read: [2, "Read"],
  write: [3, "Update"],
  destructive: [4, "Delete"],
};
const UNKNOWN_ACTIVITY = [0, "Unknown"] as const;

const STATUSES: Readonly<Record<string, readonly [id: number, name: string]>> = {
  ALLOWED: [1, "Success"],
  DENIED: [2, "Failure"],
  ERROR: [2, "Failure"],
};
const OTHER_STATUS = [99, "Other"] as const;

const SEVERITIES: Readonly<Record<string, readonly [id: number, name: string]>> = {
  DENIED: [2, "Low"],
  ERROR: [3, "Medium"],
};
const INFORMATIONAL = [1, "Informational"] as const;

/**
 * Returns one call as an OCSF event. Members without an OCSF attribute are in `unmapped`; unknown values are left out.
 */
function toOcsf({ entry, line, log }: ExportedLine): object {
  const members = parseLine(line) ?? {};
  const [activityId, activity] = ACTIVITIES[entry.classification ?? ""] ?? UNKNOWN_ACTIVITY;
  const [statusId, status] = STATUSES[entry.decision ?? ""] ?? OTHER_STATUS;
  const [severityId, severity] = SEVERITIES[entry.decision ?? ""] ?? INFORMATIONAL;
  return {
    activity_id: activityId,
    activity_name: activity,
    ...CATEGORY,
    ...CLASS,
    type_uid: CLASS.class_uid * 100 + activityId,
    type_name: `${CLASS.class_name}: ${activity}`,
    time: entry.timeMs,
    severity_id: severityId,
    severity,
    status_id: statusId,
    status,
    status_code: entry.code,
    status_detail: entry.reason,
    duration: entry.duration === undefined ? undefined : Math.round(entry.duration),
    count: entry.count,
    actor: actorOf(entry),
    api: apiOf(entry),
    // The log stores no addresses: the caller is identified by its token.
    src_endpoint: { svc_name: entry.sub ?? "unknown" },
    metadata: metadataOf(entry, members),
    unmapped: { ...unmappedOf(members), log_id: log },
  };
}

function actorOf({ sub, iss }: EntryView): object {
  return { user: { uid: sub ?? "unknown", name: sub }, idp: iss === undefined ? undefined : { name: iss } };
}

function apiOf({ tool, system, traceId, code, reason }: EntryView): object {
  return {
    operation: tool ?? "unknown",
    service: { name: system ?? "unknown" },
    request: { uid: traceId ?? "unknown" },
    response: code === undefined ? undefined : { error: code, error_message: reason },
  };
}

function metadataOf({ traceId, timestamp, wireTraceId }: EntryView, members: LineMembers): object {
  const seq = members["seq"];
  return {
    version: VERSION,
    product: { name: "Safe Tool Call", vendor_name: "Safe Tool Call" },
    uid: traceId,
    correlation_uid: wireTraceId,
    original_time: timestamp,
    log_name: "audit",
    sequence: Number.isSafeInteger(seq) ? seq : undefined,
    reporter: { name: asString(members["instance"]) },
  };
}

function unmappedOf(members: LineMembers): object {
  const request = membersOf(members["request"]);
  const caller = membersOf(members["caller"]);
  return {
    ...Object.fromEntries(FIELD_ROWS.flatMap(({ ocsf, read }) => (ocsf === undefined ? [] : [[ocsf, read(members)]]))),
    decision_reasons: members["decisionReasons"],
    permissions: caller?.["permissions"],
    roles: caller?.["roles"],
    act: caller?.["act"],
    args: request?.["args"],
    args_hash_alg: request?.["hashAlg"],
    filtered_fields: membersOf(members["response"])?.["filteredFields"],
    output_hash: membersOf(members["response"])?.["outputHash"],
    plan_digest: membersOf(members["plan"])?.["digest"],
    chain_hash: members["hash"],
  };
}

/** The parts of a line that formats read. */
export type ExportedLine = Pick<FoundLine, "line" | "entry" | "log">;

/** An output format of `stc audit export`: an optional header, and one line per call, both without line ends. */
export interface ExportFormat {
  readonly header?: string;
  line(found: ExportedLine): string;
}

export const FORMATS = {
  /** The lines unchanged. */
  jsonl: { line: ({ line }) => line },
  /** For spreadsheets: separated by commas, every string quoted. */
  csv: { header: CSV_HEADER, line: toCsv },
  /** OCSF 1.8.0, class API Activity (6003). */
  ocsf: { line: (found) => escapeJson(JSON.stringify(toOcsf(found))) },
} as const satisfies Record<string, ExportFormat>;

export type FormatName = keyof typeof FORMATS;
