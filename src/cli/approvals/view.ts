import { isDeepStrictEqual } from "node:util";
import { isExactMember, listedMembers, saidMembers, viewLabel } from "../../core/approval-view.ts";
import { askingReasons } from "../../core/decision-words.ts";
import { isTable } from "../../core/json.ts";
import {
  inAscii,
  isAscii,
  isMisreadable,
  printable,
  printableAscii,
  printableName,
  wrap,
} from "../../core/printable.ts";
import type { Json } from "../../core/types.ts";
import { print, table } from "../output.ts";
import type { ShownApproval } from "./answers.ts";

interface ViewOptions {
  /** Width of the terminal; Infinity means that lines are not wrapped. */
  readonly columns: number;
  /** The service's clock, in milliseconds since the Unix epoch. */
  readonly now: number | undefined;
  /** True when a prompt follows that shows the remaining time. */
  readonly isAsked?: boolean;
}

/** The lines of an approval request: the details first, the subject of the decision last. */
export interface ApprovalParts {
  readonly details: readonly string[];
  readonly subject: readonly string[];
}

const LABEL_COLUMNS = 15;
const DEPTH_MAX = 16;

type JsonObject = Readonly<Record<string, Json>>;

/** Marks a value that is already shown in the target. Compared by identity, so that no text can pose as the mark. */
const AS_IN_TARGET: JsonObject = {};

/** Returns the complete approval as lines that fit the terminal. */
export function approvalLines(approval: ShownApproval, options: ViewOptions): readonly string[] {
  const { details, subject } = approvalParts(approval, options);
  return [...details, ...subject];
}

/** Returns the complete approval in two parts, so that the subject is not split across pages. */
export function approvalParts(approval: ShownApproval, options: ViewOptions): ApprovalParts {
  const view = isTable(approval.view) ? approval.view : {};
  const { members, isInTarget } = subjectOf(view);
  const details = isInTarget ? withoutChange(view) : withoutMembers(view, members);
  const lines = [
    ...headerLines(approval, view, options),
    ...listedMembers(details, "terminal").flatMap((key) => memberLines(key, details[key] ?? null)),
    ...field("view digest", printable(approval.viewDigest ?? "(none)")),
    ...agentReason(view["reason"]),
    ...whyLines(approval),
    ...earlierLines(approval),
    ...saidMembers(view, "terminal").flatMap(({ label, value, sentences }) =>
      section(label, [...(sentences ?? [value ?? null])]),
    ),
  ];
  const subjectLines = [
    ...Object.entries(members).flatMap(([key, value]) =>
      isInTarget ? section(key, value, true) : memberLines(key, value),
    ),
    ...field("risk", riskOf(approval)),
  ];
  const wrapped = (unbroken: readonly string[]) => unbroken.flatMap((line) => wrap(line, options.columns));
  return { details: wrapped(lines), subject: wrapped(subjectLines) };
}

interface Subject {
  readonly members: JsonObject;
  readonly isInTarget: boolean;
}

/** Returns the subject: the command and its directory; otherwise the change of a file, the message or the arguments. */
function subjectOf(view: JsonObject): Subject {
  const { target = null } = view;
  const isCommand = Object.hasOwn(view, "command") || Object.hasOwn(view, "workingDir");
  if (isCommand) return { members: membersOf(view, ["command", "workingDir"]), isInTarget: false };
  if (isTable(target) && Object.hasOwn(target, "diff"))
    return { members: membersOf(target, ["path", "diff"]), isInTarget: true };
  return { members: membersOf(view, [Object.hasOwn(view, "message") ? "message" : "arguments"]), isInTarget: false };
}

function membersOf(table: JsonObject, keys: readonly string[]): JsonObject {
  return Object.fromEntries(keys.flatMap((key) => (Object.hasOwn(table, key) ? [[key, table[key] ?? null]] : [])));
}

function withoutMembers(view: JsonObject, members: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(view).filter(([key]) => !Object.hasOwn(members, key)));
}

/**
 * Removes the diff, which is the subject. A value in both arguments and target, such as the content, is shown only in the target.
 */
function withoutChange(view: JsonObject): JsonObject {
  const { target = null, arguments: given = null } = view;
  if (!isTable(target)) return view;
  const shown = withoutMembers(target, { diff: null });
  if (!isTable(given)) return { ...view, target: shown };
  const isShown = (key: string, value: Json): boolean =>
    Object.hasOwn(shown, key) && isDeepStrictEqual(shown[key], value);
  const others = Object.entries(given).map(([key, value]) => [key, isShown(key, value) ? AS_IN_TARGET : value]);
  return { ...view, target: shown, arguments: Object.fromEntries(others) };
}

function headerLines(approval: ShownApproval, view: JsonObject, { now, isAsked }: ViewOptions): readonly string[] {
  const { requester, decidedBy, scope, decisionReason, executeBy, state, members } = approval;
  const kind = [view["classification"], view["category"]].filter((word) => typeof word === "string").join(", ");
  return [
    ...field("approval", `${printable(approval.id)} (${printable(state)})`),
    ...field("tool", `${printableName(approval.tool)}${kind === "" ? "" : ` (${printable(kind)})`}`),
    ...(Object.hasOwn(view, "description") ? section("description", view["description"] ?? null) : []),
    ...(Object.hasOwn(view, "tool") && view["tool"] !== approval.tool ? section("tool", view["tool"] ?? null) : []),
    ...(view === approval.view ? [] : field("summary", quoted(approval.summary))),
    ...(Object.hasOwn(view, "requester") ? section("requester", view["requester"] ?? null) : requesterLines(requester)),
    ...(members.length === 0 ? [] : field("from member", members.map(quoted).join(", "))),
    ...(isAsked === true ? [] : field("time left", state === "pending" ? timeLeft(approval.decideBy, now) : "-")),
    ...quorumLines(approval),
    ...escalationLines(approval, now),
    ...answerLines(approval, view),
    ...(executeBy == null ? [] : field("run until", new Date(executeBy).toISOString())),
    ...(scope == null ? [] : field("scope", printable(scope))),
    ...(decidedBy == null ? [] : field("decided by", `${quoted(decidedBy.sub)} of ${quoted(decidedBy.iss)}`)),
    ...(decisionReason == null ? [] : field("decision reason", quoted(decisionReason))),
  ];
}

function quorumLines({ quorum, canDecide, state }: ShownApproval): readonly string[] {
  const stages = (quorum?.policies ?? []).flatMap(({ name: policy, stages }) =>
    stages.map(({ name, state: progress, have, needed, voters }) => {
      const who = voters.length === 0 ? "" : ` (${voters.map(({ sub }) => quoted(sub)).join(", ")})`;
      return `${printableName(policy)}, ${printableName(name)}: ${have} of ${needed}, ${printable(progress)}${who}`;
    }),
  );
  const reasonRequired = quorum === undefined || quorum.reasonRequired === "never" ? [] : [quorum.reasonRequired];
  const because = state === "pending" ? canDecide?.because : undefined;
  return [
    ...stages.flatMap((line) => field("policy", line)),
    ...reasonRequired.flatMap((when) => field("reason required", printable(when))),
    ...(because === undefined ? [] : field("cannot decide", printableName(because))),
  ];
}

/** Returns the steps that were taken and, while the request is pending, those to come. */
function escalationLines({ escalations, state }: ShownApproval, now: number | undefined): readonly string[] {
  return escalations.flatMap(({ policy, stage, afterSeconds, dueAt, takenAt, webhooks }) => {
    if (takenAt === undefined && state !== "pending") return [];
    const asks = stage === undefined ? "notifies" : `${printableName(stage)}: asks further approvers`;
    const notified = webhooks.length === 0 ? "" : ` (${webhooks.map(printableName).join(", ")})`;
    const when = takenAt === undefined ? `in ${timeLeft(dueAt, now)}` : `taken ${new Date(takenAt).toISOString()}`;
    return field("escalation", `${printableName(policy)}, ${asks}${notified} after ${afterSeconds} s, ${when}`);
  });
}

function earlierLines({ earlierDecisions }: ShownApproval): readonly string[] {
  return earlierDecisions.flatMap(({ decision, at, by, reason }) => {
    const because = reason === undefined ? "" : `: ${quoted(reason)}`;
    return field("earlier", `${printable(decision)} by ${quoted(by.sub)}, ${printable(at)}${because}`);
  });
}

/** Returns the lines about the answer, without choices that the arguments already show. */
function answerLines({ answer }: ShownApproval, { arguments: given }: JsonObject): readonly string[] {
  if (answer === undefined) return [];
  if (answer.text !== undefined) return section("answer", answer.text);
  if (answer.choices === undefined) return field("answer", "required");
  return isTable(given) && isDeepStrictEqual(given["choices"], answer.choices)
    ? []
    : section("answer with", answer.choices);
}

export function missingText({ quorum }: ShownApproval): string {
  return (quorum?.missing ?? [])
    .map(({ policy, stage, have, needed }) => `${printableName(policy)}, ${printableName(stage)}: ${have} of ${needed}`)
    .join("; ");
}

function requesterLines(requester: ShownApproval["requester"]): readonly string[] {
  if (requester === undefined) return [];
  const { iss, sub, act, session } = requester;
  const shown: JsonObject = { subject: sub, issuer: iss, actors: act, ...(session != null && { session }) };
  return section("requester", shown);
}

/** Returns whether the higher of the two reported risks is above medium. An unknown risk counts as the highest. */
export function isHighRisk({ risk, view }: ShownApproval): boolean {
  const risks = isTable(view) ? [risk, view["risk"]] : [risk];
  return risks.some((word) => word !== "low" && word !== "medium");
}

/** Returns what each rule means that asks, and the notes that say something else. */
function whyLines(approval: ShownApproval): readonly string[] {
  const { meanings, notes } = askingReasons(approval);
  const rules = Object.fromEntries(meanings.map(({ rule, text }) => [rule, text]));
  const hasNotes = notes !== undefined && !(Array.isArray(notes) && notes.length === 0);
  return [
    ...(meanings.length === 0 ? [] : section("why it asks", rules)),
    ...(hasNotes ? section("notes", notes as Json) : []),
  ];
}

function riskOf(approval: ShownApproval): string {
  const named = printable(approval.risk ?? "unknown");
  return isHighRisk(approval) ? named.toUpperCase() : named;
}

/** Returns the time left in whole minutes and seconds, or the deadline when the service's clock is unknown. */
export function timeLeft(until: string, now: number | undefined): string {
  if (now === undefined) return `until ${new Date(until).toISOString()}`;
  const seconds = Math.floor((Date.parse(until) - now) / 1_000);
  if (seconds <= 0) return "none";
  return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

function agentReason(reason: Json | undefined): readonly string[] {
  if (reason === undefined) return [];
  const text = isTable(reason) && typeof reason["text"] === "string" ? reason["text"] : JSON.stringify(reason);
  return ["+-- UNTRUSTED: what the agent says. Nobody has checked it.", ...stringLines("| ", text, false), "+--"];
}

function memberLines(key: string, value: Json): readonly string[] {
  return section(viewLabel(key), value, isExactMember(key));
}

function section(key: string, value: Json, isExact = false): readonly string[] {
  const [first = "", ...rest] = tree(value, { indent: "  ", depth: 0, isExact });
  const isScalar = typeof value !== "object" || value === null;
  return isScalar || first.startsWith("(")
    ? [...field(key, first.trimStart()), ...rest]
    : [`${name(key)}:`, first, ...rest];
}

function field(label: string, text: string): readonly string[] {
  return [`${name(label).padEnd(LABEL_COLUMNS)} ${text}`];
}

interface TreeOptions {
  readonly indent: string;
  readonly depth: number;
  readonly isExact: boolean;
}

function tree(value: Json, { indent, depth, isExact }: TreeOptions): readonly string[] {
  if (typeof value === "string") return stringLines(indent, value, isExact);
  if (value === AS_IN_TARGET) return [`${indent}(as in target)`];
  if (typeof value !== "object" || value === null) return [`${indent}${String(value)}`];
  const isList = Array.isArray(value);
  const entries = isList ? value.map((item, index) => [`[${index}]`, item] as const) : Object.entries(value);
  if (entries.length === 0) return [isList ? "(empty list)" : "(empty)"];
  if (depth >= DEPTH_MAX) return stringLines(indent, JSON.stringify(value), isExact);
  return entries.flatMap(([key, inner]) => {
    const label = isList ? `${key} ` : `${name(key)}: `;
    const lines = tree(inner, { indent: `${indent}  `, depth: depth + 1, isExact });
    const isNested =
      typeof inner === "object" && inner !== null && Object.keys(inner).length > 0 && depth + 1 < DEPTH_MAX;
    if (isNested) return [`${indent}${label.trimEnd()}`, ...lines];
    return lines.map((line, index) => (index === 0 ? `${indent}${label}${line.trimStart()}` : line));
  });
}

/** Returns a text in quotes, on one line; a text that can be misread is repeated in ASCII. */
function stringLines(indent: string, text: string, isExact: boolean): readonly string[] {
  const isClear = isExact ? isAscii(text) : !isMisreadable(text);
  return [`${indent}"${printable(text)}"`, ...(isClear ? [] : [`${indent}  in ASCII: "${printableAscii(text)}"`])];
}

function quoted(text: string): string {
  return `"${printable(text)}"${inAscii(text)}`;
}

/**
 * Returns the key, in quotes unless it is a simple name. Keys are untrusted: another key could look like a field with a value.
 */
function name(key: string): string {
  return /^[\w. -]{1,64}$/.test(key) ? key : `"${printable(key).replaceAll('"', "\\u{22}")}"`;
}

/** Returns the maximum line width: the width of a terminal, unlimited for any other output. */
export function columnsOf({ isTTY, columns }: Pick<NodeJS.WriteStream, "isTTY" | "columns">): number {
  return isTTY ? columns || 80 : Number.POSITIVE_INFINITY;
}

/**
 * Prints a table of data from services. On a terminal, a long row continues after a gutter so that its end cannot pose as a row.
 */
export function printListing(rows: readonly (readonly string[])[]): void {
  const columns = columnsOf(process.stdout);
  const lines = table(rows).split("\n");
  print.line(lines.flatMap((line) => wrap(line, columns)).join("\n"));
}
