import { isTable } from "../../core/json.ts";
/** What queries, tables and statistics read of one line. Nothing is taken for granted: members that are missing or of another type are `undefined`. */
export interface EntryView {
  readonly timestamp: string;
  /** Milliseconds since 1970. */
  readonly timeMs: number;
  readonly traceId: string | undefined;
  /** W3C, hex. */
  readonly wireTraceId: string | undefined;
  readonly wireSpanId: string | undefined;
  readonly sub: string | undefined;
  readonly iss: string | undefined;
  readonly tool: string | undefined;
  readonly classification: string | undefined;
  readonly system: string | undefined;
  readonly decision: string | undefined;
  readonly stage: string | undefined;
  readonly reason: string | undefined;
  readonly code: string | undefined;
  /** Milliseconds; of a sum nothing that was measured. */
  readonly duration: number | undefined;
  readonly isSum: boolean;
  /** Calls that the line sums up. */
  readonly count: number;
  readonly approvalId: string | undefined;
  readonly approvedBy: string | undefined;
}

export type LineMembers = Readonly<Record<string, unknown>>;

/** What `JSON.parse` throws for costs ten times as much as what it reads: a line of none of ours mostly shows in its beginning. */
const BEGINS_OBJECT = /^[\t\r ]*\{/;

/** A line of JSON that is an object, else `undefined`. */
export function parseLine(line: string): LineMembers | undefined {
  if (!BEGINS_OBJECT.test(line)) return undefined;
  try {
    return membersOf(JSON.parse(line));
  } catch {
    return undefined;
  }
}

/** `undefined` when the line has no time: it is none of this log. */
export function viewOf(line: LineMembers): EntryView | undefined {
  const timestamp = textOf(line["timestamp"]);
  const timeMs = Date.parse(timestamp ?? "");
  if (timestamp === undefined || Number.isNaN(timeMs)) return undefined;
  const caller = membersOf(line["caller"]);
  const tool = membersOf(line["tool"]);
  const denial = membersOf(line["denial"]);
  const trace = membersOf(line["trace"]);
  const approval = membersOf(line["approval"]);
  return {
    timestamp,
    timeMs,
    traceId: textOf(line["traceId"]),
    wireTraceId: textOf(trace?.["traceId"]),
    wireSpanId: textOf(trace?.["spanId"]),
    sub: textOf(caller?.["sub"]),
    iss: textOf(caller?.["iss"]),
    tool: textOf(tool?.["name"]),
    classification: textOf(tool?.["classification"]),
    system: textOf(tool?.["targetSystem"]),
    decision: textOf(line["decision"]),
    stage: textOf(denial?.["stage"]),
    reason: textOf(denial?.["reason"]),
    code: textOf(membersOf(line["error"])?.["code"]),
    duration: numberOf(line["duration"]),
    isSum: line["count"] !== undefined,
    count: countOf(line["count"]),
    approvalId: textOf(approval?.["id"]),
    approvedBy: textOf(approval?.["by"]),
  };
}

export function membersOf(value: unknown): LineMembers | undefined {
  return isTable(value) ? value : undefined;
}

export function textOf(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

function numberOf(value: unknown): number | undefined {
  return typeof value === "number" && value >= 0 ? value : undefined;
}

function countOf(value: unknown): number {
  return Number.isSafeInteger(value) && (value as number) > 0 ? (value as number) : 1;
}
