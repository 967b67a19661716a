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

/** The line that asks. */
export function question(approval: ShownApproval, now: number | undefined): string {
  const left = `${printable(approval.tool)}, ${timeLeft(approval.decideBy, now)}`;
  if (isGrave(approval)) return `[${left}] Approve? type "yes" / [n]o:`;
  return `[${left}] Approve? [y]es / ${offersSession(approval) ? "[s]ession / " : ""}[n]o:`;
}

/** What is not clearly a yes is a no. */
export function choiceOf(approval: ShownApproval, text: string): Choice {
  const word = text.trim();
  if (isGrave(approval)) return word === "yes" ? { decision: "approve", scope: "once" } : { decision: "deny" };
  if (ONCE.has(word.toLowerCase())) return { decision: "approve", scope: "once" };
  if (SESSION.has(word.toLowerCase()) && offersSession(approval)) return { decision: "approve", scope: "session" };
  return { decision: "deny" };
}

function offersSession({ options }: ShownApproval): boolean {
  return options.includes("session");
}

/** What else must be said, and how it stands in the choice. */
export interface Further {
  readonly prompt: string;
  add(choice: Choice, text: string): Choice;
}

/** Asked one after the other, once the choice is made. */
export function furtherOf(approval: ShownApproval, { decision }: Choice): readonly Further[] {
  const { quorum, answer } = approval;
  const wantsReason = quorum?.reasonRequired === "always" || (quorum?.reasonRequired === "deny" && decision === "deny");
  const wantsAnswer = decision === "approve" && answer !== undefined && answer.text === undefined;
  return [
    ...(wantsAnswer ? [answering(answer.choices)] : []),
    ...(wantsReason
      ? [{ prompt: "A policy wants to know why:", add: (choice: Choice, reason: string) => ({ ...choice, reason }) }]
      : []),
  ];
}

/** A choice may be named by its number, unless one of them is a number itself: then none has one. */
function answering(choices: readonly string[] | undefined): Further {
  const isNumbered = choices?.every((choice) => Number.isNaN(Number(choice.normalize("NFKC").trim()))) ?? false;
  const offered = choices?.map((choice, at) => `${isNumbered ? `${at + 1}) ` : ""}${quoted(choice)}`).join(" ") ?? "";
  return {
    prompt: `Your answer${offered === "" ? "" : `, one of ${offered}`}:`,
    add: (choice, text) => ({ ...choice, answer: isNumbered ? (choices?.[numberIn(text) - 1] ?? text) : text }),
  };
}

/** What stands between the quotes is the choice, and not a further one. */
function quoted(choice: string): string {
  return `"${printable(choice).replaceAll('"', "\\u{22}")}"`;
}

function numberIn(text: string): number {
  return /^\s*\d{1,2}\s*$/.test(text) ? Number(text) : 0;
}
