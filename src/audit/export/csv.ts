import { escapeJson } from "../escape.ts";
import type { Found } from "../query/scan.ts";
import { type EntryView, type Members, membersOf, parseLine, textOf } from "../query/view.ts";

/** What a spreadsheet takes for the beginning of a formula, full-width forms too; after blanks it may do so still. */
const FORMULA = /^[\s\u00a0\ufeff]*[=+\-@\uff1d\uff0b\uff0d\uff20|%]/;
const LEADING_CONTROL = /^[\t\r\n]/;

const COLUMNS: readonly (readonly [
  name: string,
  read: (entry: EntryView, line: Members) => string | number | undefined,
])[] = [
  ["timestamp", ({ timestamp }) => timestamp],
  ["traceId", ({ traceId }) => traceId],
  ["sub", ({ sub }) => sub],
  ["iss", ({ iss }) => iss],
  ["tool", ({ tool }) => tool],
  ["classification", ({ classification }) => classification],
  ["system", ({ system }) => system],
  ["decision", ({ decision }) => decision],
  ["stage", ({ stage }) => stage],
  ["code", ({ code }) => code],
  ["reason", ({ reason }) => reason],
  ["durationMs", ({ duration }) => duration],
  ["count", ({ count }) => count],
  ["args", (_entry, line) => jsonOf(membersOf(line["request"])?.["args"])],
  ["argsHash", (_entry, line) => textOf(membersOf(line["request"])?.["argsHash"])],
  ["filteredFields", (_entry, line) => listOf(membersOf(line["response"])?.["filteredFields"])],
  ["approvedBy", ({ approvedBy }) => approvedBy],
  ["approvalId", ({ approvalId }) => approvalId],
  ["w3cTraceId", ({ wireTraceId }) => wireTraceId],
  ["instance", (_entry, line) => textOf(line["instance"])],
];

export const CSV_HEADER = COLUMNS.map(([name]) => name).join(",");

export function toCsv({ entry, line }: Found): string {
  const members = parseLine(line) ?? {};
  return COLUMNS.map(([, read]) => cell(read(entry, members))).join(",");
}

/** Every text in quotes; what could be taken for a formula gets an apostrophe before it; nothing that steers anything stays in it. */
function cell(value: string | number | undefined): string {
  if (value === undefined) return "";
  if (typeof value === "number") return String(value);
  const isFormula = FORMULA.test(value) || LEADING_CONTROL.test(value);
  const visible = escapeJson(value.replace(/[\x00-\x1f]/g, escapeControl));
  return `"${isFormula ? "'" : ""}${visible.replaceAll('"', '""')}"`;
}

function escapeControl(control: string): string {
  return `\\u${control.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

function jsonOf(value: unknown): string | undefined {
  return value === undefined ? undefined : JSON.stringify(value);
}

function listOf(value: unknown): string | undefined {
  return Array.isArray(value) ? value.filter((one) => typeof one === "string").join(" ") : undefined;
}
