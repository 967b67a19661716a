import { inAscii, printable, printableName, wrap } from "../../core/printable.ts";
import { type VouchableValue, vouchableIn } from "../../core/vouching.ts";
import type { ShownApproval } from "./answers.ts";
import { readTerms, type TypedTerms } from "./grant-terms.ts";
import { columnsOf, isHighRisk, timeLeft } from "./view.ts";

/** The decisions that an operator can type about a request in a terminal. */

export type Choice = (
  | { readonly decision: "deny" }
  | { readonly decision: "approve"; readonly scope: "once" | "session" }
  | { readonly decision: "approve"; readonly scope: "bounded"; readonly grant: TypedTerms }
) & {
  readonly answer?: string;
  readonly reason?: string;
  /** Values for which the approver vouches in later calls as well; empty until they are chosen. */
  readonly vouch?: readonly string[];
};

const ONCE: ReadonlySet<string> = new Set(["y", "yes"]);
const SESSION: ReadonlySet<string> = new Set(["s", "session"]);
/** Approval of several calls: the word `g` or `grant`, followed by the terms. */
const GRANT = /^g(?:rant)?\s+(\S.*)$/i;
/** An approval that also vouches for values. */
const VOUCHING = /^(.*\S)\s+v(?:ouch)?$/is;
const DENIAL = /^no?(?:[\s,;:.-]+(.*))?$/is;

export const HOW_TO_ANSWER = 'A denial may include a reason, which the agent reads: "n use the staging cluster".';

export function decisionPrompt(approval: ShownApproval, now: number | undefined): string {
  const left = `${printableName(approval.tool)}, ${timeLeft(approval.decideBy, now)}`;
  const isVouching = vouchableBy(approval).length > 0;
  if (isHighRisk(approval))
    return `[${left}] Approve? type "yes"${isVouching ? ', or "yes v" to vouch too' : ""} / [n]o:`;
  const wider = `${isVouching ? "[y v] and vouch / " : ""}${offersSession(approval) ? "[s]ession / " : ""}${offersGrant(approval) ? "[g]rant runs=…,minutes=… / " : ""}`;
  return `[${left}] Approve? [y]es / ${wider}[n]o:`;
}

/** Returns undefined when the text is neither clearly an approval nor clearly a denial. */
export function readChoice(approval: ShownApproval, text: string): Choice | undefined {
  const word = text.trim();
  const denial = DENIAL.exec(word);
  if (denial !== null) {
    const reason = denial[1]?.trim() ?? "";
    return { decision: "deny", ...(reason !== "" && { reason }) };
  }
  const [, approving = ""] = vouchableBy(approval).length > 0 ? (VOUCHING.exec(word) ?? []) : [];
  const choice = readApproval(approval, approving === "" ? word : approving);
  if (choice === undefined || approving === "") return choice;
  // A bounded grant cannot be combined with vouching: the grant has its own limits.
  return choice.scope === "bounded" ? undefined : { ...choice, vouch: [] };
}

function readApproval(approval: ShownApproval, word: string): (Choice & { readonly decision: "approve" }) | undefined {
  if (isHighRisk(approval)) return word === "yes" ? { decision: "approve", scope: "once" } : undefined;
  if (ONCE.has(word.toLowerCase())) return { decision: "approve", scope: "once" };
  if (SESSION.has(word.toLowerCase()) && offersSession(approval)) return { decision: "approve", scope: "session" };
  const [, terms = ""] = offersGrant(approval) ? (GRANT.exec(word) ?? []) : [];
  const grant = terms === "" ? undefined : readTerms(terms);
  return grant && { decision: "approve", scope: "bounded", grant };
}

export function unclearText(approval: ShownApproval, text: string): string {
  const typed = text.trim() === "" ? "an empty line" : `"${printable(text.trim())}"`;
  const isWhole = isHighRisk(approval);
  const session = offersSession(approval) && !isWhole ? ", s to approve for the session" : "";
  const vouching = vouchableBy(approval).length > 0 ? `, ${isWhole ? "yes v" : "y v"} to vouch as well` : "";
  const grant = offersGrant(approval) && !isWhole ? ", g runs=5,minutes=30 to approve several calls" : "";
  return `${typed} is not an answer; nothing is decided. Type ${isWhole ? "yes" : "y"} to approve${session}${grant}${vouching}, n to deny.`;
}

function offersGrant({ options }: ShownApproval): boolean {
  return options.includes("bounded");
}

function offersSession({ options }: ShownApproval): boolean {
  return options.includes("session");
}

/** Returns the values that this approver can vouch for, each once. */
function vouchableBy(approval: ShownApproval): readonly VouchableValue[] {
  if (approval.canDecide?.vouch !== true) return [];
  return [...new Map(vouchableIn(approval).map((one) => [one.value, one])).values()];
}

interface FollowUp {
  readonly prompt: string;
  /** Returns undefined when the text does not answer the prompt, which is then shown again. */
  add(choice: Choice, text: string): Choice | undefined;
}

const REASON_PROMPT: FollowUp = {
  prompt: "A policy requires a reason:",
  add: (choice, text) => (text.trim() === "" ? undefined : { ...choice, reason: text.trim() }),
};

/** Returns the prompts that follow a decision, in order. */
export function followUpsOf(approval: ShownApproval, { decision, reason, vouch }: Choice): readonly FollowUp[] {
  const { quorum, answer } = approval;
  const wantsReason = quorum?.reasonRequired === "always" || (quorum?.reasonRequired === "deny" && decision === "deny");
  const wantsAnswer = decision === "approve" && answer !== undefined && answer.text === undefined;
  return [
    ...(vouch === undefined ? [] : [vouchPrompt(approval)]),
    ...(wantsAnswer ? [answerPrompt(answer.choices)] : []),
    ...(wantsReason && reason === undefined ? [REASON_PROMPT] : []),
  ];
}

/** Returns the prompt for an answer. Choices are numbered unless one of them is itself a number. */
function answerPrompt(choices: readonly string[] | undefined): FollowUp {
  const isNumbered = choices?.every((choice) => Number.isNaN(Number(choice.normalize("NFKC").trim()))) ?? false;
  const offered = choices?.map((choice, at) => `${isNumbered ? `${at + 1}) ` : ""}${quoted(choice)}`).join(" ") ?? "";
  return {
    prompt: `Your answer${offered === "" ? "" : `, one of ${offered}`}:`,
    add: (choice, text) => {
      const answer = isNumbered ? (choices?.[numberIn(text) - 1] ?? text) : text;
      const isAnswer = choices === undefined ? answer.trim() !== "" : choices.includes(answer);
      return isAnswer ? { ...choice, answer } : undefined;
    },
  };
}

const NUMBERS = /^\d{1,2}(?:[\s,]+\d{1,2})*$/;

/** Returns the prompt for the values to vouch for, with the answers that contained them. Even a single value is chosen by number. */
function vouchPrompt(approval: ShownApproval): FollowUp {
  const offered = vouchableBy(approval);
  const names = vouchableIn(approval).map(({ argument }) => argument);
  const until = approval.requester?.session == null ? "For one hour" : "In this session";
  const lines = offered.flatMap(({ argument, value, sources }, at) => {
    const [first] = sources;
    // The sources apply to all values of an argument together.
    const isShared = names.indexOf(argument) !== names.lastIndexOf(argument);
    const which = isShared ? "this or another of its values" : "this value";
    const where = first === undefined ? "" : `: ${which} was in the answer of ${printable(first.where)}`;
    const more = sources.length > 1 ? ` and ${sources.length - 1} more` : "";
    const line = `  ${at + 1}) ${quoted(value)}${inAscii(value)} (${printable(argument)}${where}${more})`;
    return wrap(line, columnsOf(process.stdout));
  });
  return {
    prompt: `${until}, do not ask this caller again about where this comes from:\n${lines.join("\n")}\nNumbers, such as ${offered.length > 1 ? "1 2" : "1"}, or none:`,
    add: ({ vouch: _, ...choice }, text) => {
      const typed = text.trim();
      if (typed.toLowerCase() === "none") return choice;
      if (!NUMBERS.test(typed)) return undefined;
      const chosen = typed.split(/[\s,]+/).map((number) => offered[Number(number) - 1]?.value);
      const vouch = [...new Set(chosen)].filter((value) => value !== undefined);
      return chosen.includes(undefined) ? undefined : { ...choice, vouch };
    },
  };
}

/** Quotes a choice. Quotes inside are escaped, so that one choice cannot look like two. */
function quoted(choice: string): string {
  return `"${printable(choice).replaceAll('"', "\\u{22}")}"`;
}

function numberIn(text: string): number {
  return /^\s*\d{1,2}\s*$/.test(text) ? Number(text) : 0;
}
