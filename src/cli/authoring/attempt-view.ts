import { escapeLine } from "../../audit/escape.ts";
import { printableCell } from "../../core/printable.ts";
import type { Tool } from "../../core/types.ts";
import { processEnvironment } from "../../runtime/config/environment.ts";
import type { ShownAnswer } from "../filter.ts";
import { isColoured, print, type StyledText, table } from "../output.ts";
import type { Attempt, Observation } from "./attempt.ts";
import type { Cause } from "./causes.ts";

/** Prints a run of `stc try` for the author of the tool. Texts of targets are hostile: none of them can move the cursor. */

const TEXT_CHARACTERS_MAX = 16_384;
const LINES_MAX = 200;
const CELL_CHARACTERS_MAX = 48;
const JSON_INDENT = 2;

export function showAttempt(attempt: Attempt, tool: Tool): void {
  const { input, issues, plan, notApplied, observed, denials = [], raw, released, withheld, refusal, causes } = attempt;
  const result = {
    text: attempt.ok ? "answered" : "no answer",
    colour: isColoured(processEnvironment()) ? colourOf(attempt) : undefined,
  };
  print.pieces([{ text: `${tool.name}, ${tool.classification}: ` }, result]);
  if (issues !== undefined) showIssues(issues);
  if (input !== undefined) section("Input, as the schema returns it", jsonLines(input));
  if (plan !== undefined) section("Plan", jsonLines(plan));
  if (notApplied !== undefined) {
    const { verdict, reasons, permissions } = notApplied;
    section("Policies, which were not applied", [
      `a caller with ${permissions.map(printableCell).join(", ")} would get: ${printableCell(verdict)}`,
      ...reasons.map(printableCell),
      "approvals, quotas, rate limits and halts were not asked or counted; no audit was written",
    ]);
  }
  for (const observation of observed) showObservation(observation);
  if (denials.length > 0) {
    section(
      "Refused by the kernel: the lines are the command's, the explanation is inferred from the profile",
      denials.flatMap(({ observed: line, path, call, inferred }) => [
        `observed: ${shownLine(line)}`,
        `inferred: ${[call, path]
          .filter((part) => part !== undefined)
          .map(printableCell)
          .join(" ")}${path === undefined && call === undefined ? "" : ": "}${printableCell(inferred)}`,
      ]),
      "yellow",
    );
  }
  if (raw !== undefined) section("Raw answer, before the output schema", jsonLines(raw));
  if (released !== undefined) showReleased(raw, released);
  if (withheld !== undefined) {
    const lines = withheld.issues.map(({ path, message }) => `${printableCell(path)}: ${printableCell(message)}`);
    section(`Withheld: the agent gets ${withheld.code} and none of this`, lines, "red");
  }
  if (refusal !== undefined && issues === undefined) {
    const details = refusal.details === undefined ? [] : [`details: ${shownLine(JSON.stringify(refusal.details))}`];
    section("The agent gets", [`${refusal.code}: ${printableCell(refusal.message)}`, ...details], "red");
  }
  if (causes !== undefined) section("Causes", causes.flatMap(causeLines));
  section("Times", [attempt.timings.map(({ stage, ms }) => `${stage} ${ms} ms`).join("  ")]);
}

function colourOf({ ok }: Attempt): StyledText["colour"] {
  return ok ? "green" : "red";
}

function section(heading: string, lines: readonly string[], colour: StyledText["colour"] = "cyan"): void {
  print.line("");
  print.pieces([{ text: heading, colour: isColoured(processEnvironment()) ? colour : undefined }]);
  const shown = lines.slice(0, LINES_MAX);
  for (const line of shown) print.line(`  ${line}`);
  if (lines.length > LINES_MAX) print.line(`  … and ${lines.length - LINES_MAX} more lines`);
}

function showIssues(issues: NonNullable<Attempt["issues"]>): void {
  const lines = issues.map(
    ({ path, message, received }) => `${printableCell(path)}: ${printableCell(message)}; got ${received}`,
  );
  section("Refused input: the agent gets INVALID_INPUT", lines, "red");
}

function showObservation({ what, facts }: Observation): void {
  const lines = Object.entries(facts).flatMap(([name, value]) => {
    if (typeof value === "string" && (value.includes("\n") || value.length > CELL_CHARACTERS_MAX)) {
      return [`${name}:`, ...textLines(value).map((line) => `  ${line}`)];
    }
    if (name === "error" && Array.isArray(value)) return (value as readonly Cause[]).flatMap(causeLines);
    const text = typeof value === "string" ? value : JSON.stringify(value);
    return [`${name}: ${shownLine(text ?? "")}`];
  });
  section(`Target: ${what}`, lines);
}

/** Returns a text as lines in which every hidden character is written as an escape, cut to a bound. */
function textLines(text: string): readonly string[] {
  const isCut = text.length > TEXT_CHARACTERS_MAX;
  const lines = text.slice(0, TEXT_CHARACTERS_MAX).replace(/\n$/, "").split("\n").map(escapeLine);
  return isCut ? [...lines, `… ${text.length - TEXT_CHARACTERS_MAX} more characters`] : lines;
}

function shownLine(text: string): string {
  const isCut = text.length > TEXT_CHARACTERS_MAX;
  return `${escapeLine(text.slice(0, TEXT_CHARACTERS_MAX))}${isCut ? " …" : ""}`;
}

function jsonLines(value: unknown): readonly string[] {
  const known = (_: string, inner: unknown): unknown => (typeof inner === "bigint" ? String(inner) : inner);
  return textLines(JSON.stringify(value, known, JSON_INDENT) ?? String(value));
}

function causeLines({ name, message, at, details }: Cause): readonly string[] {
  const [first = "", ...more] = textLines(message);
  return [
    `${printableCell(name)}: ${first}`,
    ...more.map((line) => `  ${line}`),
    ...at.map((position) => `  at ${shownLine(position)}`),
    ...(details === undefined ? [] : [`  ${shownLine(JSON.stringify(details))}`]),
  ];
}

/** Prints the released answer next to the raw one, field by field. */
function showReleased(raw: unknown, { fields, omitted, truncated, redactions, result }: ShownAnswer): void {
  const rows = fields.map(({ path, fate, pattern, reason, rules, value }) => [
    printableCell(path || "(answer)"),
    cell(valueAt(raw, path)),
    rules.length === 0 ? fate : `${fate}: ${rules.join(", ")}`,
    pattern === undefined ? "no pattern" : printableCell(`"${pattern}"${reason === undefined ? "" : ` (${reason})`}`),
    cell(value),
  ]);
  const shown = table([["FIELD", "THE TARGET ANSWERED", "WHAT HAPPENS", "BY", "THE AGENT SEES"], ...rows]).split("\n");
  const notes = [
    ...(omitted > 0 ? [`… and ${omitted} more fields`] : []),
    ...(truncated === true ? ["the answer is over the tool's limit; lists and texts were cut"] : []),
    ...Object.entries(redactions).map(([rule, count]) => `hidden by the rule ${rule}: ${count}`),
  ];
  section("Raw answer and released answer", [...shown, ...notes]);
  section("Released answer", jsonLines(result), "green");
}

function cell(value: unknown): string {
  if (value === undefined) return "";
  const text = printableCell(JSON.stringify(value) ?? "");
  return text.length > CELL_CHARACTERS_MAX ? `${text.slice(0, CELL_CHARACTERS_MAX)}…` : text;
}

function valueAt(raw: unknown, path: string): unknown {
  let at: unknown = raw;
  for (const [, key, index] of path.matchAll(/([^.[\]]+)|\[(\d+)\]/g)) {
    at = typeof at === "object" && at !== null ? Reflect.get(at, key ?? Number(index)) : undefined;
  }
  return at;
}
