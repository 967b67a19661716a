import { REFUSALS } from "../../core/errors.ts";
import { isTable } from "../../core/json.ts";
/**
 * The members of one line that queries, tables and statistics use. Members that are missing or of an unexpected type
 * are `undefined`.
 */
export interface EntryView {
  readonly timestamp: string;
  /** Milliseconds since 1970. */
  readonly timeMs: number;
  readonly traceId: string | undefined;
  /** W3C trace id, in hex. */
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
  /** The decisions of policy points other than allow, one line each: `point`, a tab, `reason`. */
  readonly decisionReasons: string | undefined;
  readonly policyVersion: string | undefined;
  /** Milliseconds. Not a measured value in a line that sums up calls. */
  readonly duration: number | undefined;
  readonly isSum: boolean;
  readonly count: number;
  /** Name that an MCP client reports about itself: untrusted. */
  readonly client: string | undefined;
  readonly approvalId: string | undefined;
  readonly approvedBy: string | undefined;
}

export type LineMembers = Readonly<Record<string, unknown>>;

/**
 * Quick check for an object: an exception of `JSON.parse` costs ten times as much as parsing, and most foreign lines
 * are recognizable by their first characters.
 */
const BEGINS_OBJECT = /^[\t\r ]*\{/;

/** Parses a line of JSON; returns `undefined` when it is not an object. */
export function parseLine(line: string): LineMembers | undefined {
  if (!BEGINS_OBJECT.test(line)) return undefined;
  try {
    return membersOf(JSON.parse(line));
  } catch {
    return undefined;
  }
}

/** Returns `undefined` when the line has no valid timestamp: it does not belong to this log. */
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
    decisionReasons: reasonsOf(line["decisionReasons"]),
    policyVersion: textOf(line["policyVersion"]),
    duration: numberOf(line["duration"]),
    isSum: line["count"] !== undefined,
    count: countOf(line["count"]),
    client: textOf(membersOf(membersOf(line["protocol"])?.["client"])?.["name"]),
    approvalId: textOf(approval?.["id"]),
    approvedBy: approverOf(approval?.["by"]),
  };
}

/** Returns who approved. Lines of earlier versions name the refusal's code when nobody did. */
export function approverOf(by: unknown): string | undefined {
  return typeof by === "string" && !Object.hasOwn(REFUSALS, by) ? by : undefined;
}

/** Between a policy point and its reason. The service writes reasons as single lines without tabs. */
export const REASON_SEPARATOR = "\t";

function reasonsOf(value: unknown): string | undefined {
  if (!Array.isArray(value) || value.length === 0) return undefined;
  const lines = value.map((one) => {
    const { point, reason } = membersOf(one) ?? {};
    return [point, reason].map((text) => (textOf(text) ?? "").replace(/[\t\n]/g, " ")).join(REASON_SEPARATOR);
  });
  return lines.join("\n");
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
