import { printable } from "../printable.ts";
import type { ShownApproval } from "./answers.ts";
import { isGrave, timeLeft } from "./view.ts";

/** What an operator answers, as it is sent. */
export type Choice = (
  | { readonly decision: "deny" }
  | { readonly decision: "approve"; readonly scope: "once" | "session" }
) & {
  readonly answer?: string;
  readonly reason?: string;
};

const ONCE: ReadonlySet<string> = new Set(["y", "yes"]);
const SESSION: ReadonlySet<string> = new Set(["s", "session"]);
/** A denial, and the reason that may follow it. */
const DENIAL = /^no?(?:[\s,;:.-]+(.*))?$/is;

/** Shown once, before the first prompt. */
export const HOW_TO_ANSWER = 'A denial may carry a reason, which the agent reads: "n use the staging cluster".';

/** The line that asks. */
export function question(approval: ShownApproval, now: number | undefined): string {
  const left = `${printable(approval.tool)}, ${timeLeft(approval.decideBy, now)}`;
  if (isGrave(approval)) return `[${left}] Approve? type "yes" / [n]o:`;
  return `[${left}] Approve? [y]es / ${offersSession(approval) ? "[s]ession / " : ""}[n]o:`;
}

/** Undefined: neither clearly an approval nor clearly a denial. */
export function choiceOf(approval: ShownApproval, text: string): Choice | undefined {
  const word = text.trim();
  const denial = DENIAL.exec(word);
  if (denial !== null) {
    const reason = denial[1]?.trim() ?? "";
    return { decision: "deny", ...(reason !== "" && { reason }) };
  }
  if (isGrave(approval)) return word === "yes" ? { decision: "approve", scope: "once" } : undefined;
  if (ONCE.has(word.toLowerCase())) return { decision: "approve", scope: "once" };
  if (SESSION.has(word.toLowerCase()) && offersSession(approval)) return { decision: "approve", scope: "session" };
  return undefined;
}

/** What to type, after an answer that was not clear. */
export function unclear(approval: ShownApproval, text: string): string {
  const typed = text.trim() === "" ? "an empty line" : `"${printable(text.trim())}"`;
  const isWhole = isGrave(approval);
  const session = offersSession(approval) && !isWhole ? ", s to approve for the session" : "";
  return `${typed} is not an answer; nothing is decided. Type ${isWhole ? "yes" : "y"} to approve${session}, n to deny.`;
}

function offersSession({ options }: ShownApproval): boolean {
  return options.includes("session");
}

/** What else an answer needs. */
export interface Further {
  readonly prompt: string;
  /** Undefined: not an answer to the prompt, which is shown again. */
  add(choice: Choice, text: string): Choice | undefined;
}

const WHY: Further = {
  prompt: "A policy wants to know why:",
  add: (choice, text) => (text.trim() === "" ? undefined : { ...choice, reason: text.trim() }),
};

/** Asked one after the other, once the choice is made. */
export function furtherOf(approval: ShownApproval, { decision, reason }: Choice): readonly Further[] {
  const { quorum, answer } = approval;
  const wantsReason = quorum?.reasonRequired === "always" || (quorum?.reasonRequired === "deny" && decision === "deny");
  const wantsAnswer = decision === "approve" && answer !== undefined && answer.text === undefined;
  return [...(wantsAnswer ? [answering(answer.choices)] : []), ...(wantsReason && reason === undefined ? [WHY] : [])];
}

/** A choice may be named by its number, unless one of them is a number itself: then none has one. */
function answering(choices: readonly string[] | undefined): Further {
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

/** What stands between the quotes is the choice, and not a further one. */
function quoted(choice: string): string {
  return `"${printable(choice).replaceAll('"', "\\u{22}")}"`;
}

function numberIn(text: string): number {
  return /^\s*\d{1,2}\s*$/.test(text) ? Number(text) : 0;
}
