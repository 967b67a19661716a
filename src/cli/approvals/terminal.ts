import { isAscii, printable, printableName } from "../../core/printable.ts";
import { print, StdoutError } from "../output.ts";
import type { ShownApproval } from "./answers.ts";
import { readTerms, type TypedTerms } from "./grant-terms.ts";
import { isHighRisk, timeLeft } from "./view.ts";

type Reply =
  | { readonly kind: "line"; readonly text: string }
  | { readonly kind: "withdrawn" }
  | { readonly kind: "left" };

interface ActivePrompt {
  readonly prompt: () => string;
  readonly resolve: (reply: Reply) => void;
  line: string;
  isArmed: boolean;
  quietChecks: number;
  hadEarlyKeys: boolean;
}

const CHECK_EVERY_MS = 100;
/** Checks without a key press before answers count: half a second, because nobody reads and answers a request faster. */
const QUIET_CHECKS_MIN = 5;
const LINE_CHARACTERS_MAX = 240;

const EXIT_KEYS = { interrupt: 3, end: 4 } as const;
const KEY = { backspace: "\b", erase: "\u0015", delete: "\u007f" } as const;

/** Exit code as if SIGHUP had ended the program. */
export const TERMINAL_CLOSED = 129;

/** Signals that end the program. Ctrl-C sends no signal, because raw mode delivers every key. */
const SIGNALS = { SIGINT: 130, SIGTERM: 143, SIGHUP: TERMINAL_CLOSED } as const;

/**
 * A terminal that shows one prompt at a time. Keys are always read, but they count only once the prompt is on the screen and no
 * key was pressed for half a second: text that was typed ahead, pasted or meant for another program must not answer a request.
 */
export class Terminal {
  /** Exit code that matches the reason why the operator left. */
  exitCode = 0;
  #prompt: ActivePrompt | undefined;
  #checks: ReturnType<typeof setInterval> | undefined;
  readonly #decoder = new TextDecoder();
  readonly #leaving = new AbortController();
  readonly #onKeys = (keys: Uint8Array): void => this.#onInput(keys);
  /** The input ends only when the terminal is closed: Ctrl-D arrives as a key. */
  readonly #onEnd = (): void => this.#leave(TERMINAL_CLOSED);
  readonly #onSignals = Object.entries(SIGNALS).map(([name, code]) => [name, () => this.#leave(code)] as const);

  constructor() {
    process.stdin.setRawMode(true);
    process.stdin.on("data", this.#onKeys).on("end", this.#onEnd).on("error", this.#onEnd);
    for (const [name, leave] of this.#onSignals) process.on(name, leave);
  }

  /** Aborts when the operator leaves: by Ctrl-C, Ctrl-D or a signal, or by closing the terminal. */
  get leaving(): AbortSignal {
    return this.#leaving.signal;
  }

  get columns(): number {
    return process.stdout.columns || 80;
  }

  get rows(): number {
    return process.stdout.rows || 24;
  }

  /** Prints the prompt and waits for a whole line, or until the signal withdraws the request. */
  async ask(prompt: () => string, withdrawal: AbortSignal): Promise<Reply> {
    if (this.leaving.aborted) return { kind: "left" };
    if (withdrawal.aborted) return { kind: "withdrawn" };
    const { promise, resolve } = Promise.withResolvers<Reply>();
    const active = { prompt, resolve, line: "", isArmed: false, quietChecks: 0, hadEarlyKeys: false };
    const onLeaving = (): void => resolve({ kind: "left" });
    const onWithdrawal = (): void => resolve({ kind: "withdrawn" });
    this.leaving.addEventListener("abort", onLeaving, { once: true });
    withdrawal.addEventListener("abort", onWithdrawal, { once: true });
    this.#print(() => print.part(prompt()));
    this.#prompt = active;
    this.#checks = setInterval(() => this.#checkQuiet(active), CHECK_EVERY_MS);
    const reply = await promise;
    clearInterval(this.#checks);
    this.#prompt = undefined;
    this.leaving.removeEventListener("abort", onLeaving);
    withdrawal.removeEventListener("abort", onWithdrawal);
    this.#print(() => print.part("\n"));
    return reply;
  }

  close(): void {
    clearInterval(this.#checks);
    process.stdin.off("data", this.#onKeys).off("end", this.#onEnd).off("error", this.#onEnd);
    for (const [name, leave] of this.#onSignals) process.off(name, leave);
    try {
      process.stdin.setRawMode(false);
    } catch {
      // A closed terminal has no mode to reset.
    }
    process.stdin.pause();
    process.stdin.unref();
  }

  /**
   * Runs every 100 ms. After the process was stopped, a single timer would fire before the keys that were typed meanwhile are
   * read.
   */
  #checkQuiet(active: ActivePrompt): void {
    if (active.isArmed) return;
    active.quietChecks += 1;
    if (active.quietChecks < QUIET_CHECKS_MIN) return;
    active.isArmed = true;
    const note = "(keys typed before the prompt was shown do not count)";
    this.#print(() => print.part(active.hadEarlyKeys ? `\n${note}\n${active.prompt()} ` : " "));
  }

  #onInput(keys: Uint8Array): void {
    if (keys.includes(EXIT_KEYS.interrupt)) this.#leave(SIGNALS.SIGINT);
    if (keys.includes(EXIT_KEYS.end)) this.#leave(0);
    // Decoded even without a prompt: the decoder needs every byte of a character.
    const characters = this.#decoder.decode(keys, { stream: true });
    const active = this.#prompt;
    if (active === undefined) return;
    if (!active.isArmed) {
      active.quietChecks = 0;
      active.hadEarlyKeys = true;
      return;
    }
    for (const character of characters) {
      if (character === "\r" || character === "\n") {
        // Ignores the keys after the line end: they were typed before the next prompt was shown.
        this.#prompt = undefined;
        active.resolve({ kind: "line", text: active.line });
        return;
      }
      this.#print(() => edit(active, character));
    }
  }

  #print(say: () => void): void {
    try {
      say();
    } catch (error) {
      if (!(error instanceof StdoutError)) throw error;
      this.#leave(TERMINAL_CLOSED);
    }
  }

  #leave(exitCode: number): void {
    if (this.leaving.aborted) return;
    this.exitCode = exitCode;
    this.#prompt = undefined;
    this.#leaving.abort();
  }
}

function edit(active: ActivePrompt, key: string): void {
  const erased = erasedBy(active, key);
  if (erased !== undefined) {
    active.line = active.line.slice(0, active.line.length - erased.length);
    print.erase(Bun.stringWidth(erased));
    return;
  }
  if (active.line.length >= LINE_CHARACTERS_MAX) return;
  // An invisible character becomes a question mark, so that the line cannot count as an approval.
  const character = isAscii(key) || printable(key) === key ? key : "?";
  active.line += character;
  print.part(character);
}

function erasedBy({ line }: ActivePrompt, key: string): string | undefined {
  if (key === KEY.erase) return line;
  return key === KEY.backspace || key === KEY.delete ? ([...line].at(-1) ?? "") : undefined;
}

export type Choice = (
  | { readonly decision: "deny" }
  | { readonly decision: "approve"; readonly scope: "once" | "session" }
  | { readonly decision: "approve"; readonly scope: "bounded"; readonly grant: TypedTerms }
) & {
  readonly answer?: string;
  readonly reason?: string;
};

const ONCE: ReadonlySet<string> = new Set(["y", "yes"]);
const SESSION: ReadonlySet<string> = new Set(["s", "session"]);
/** Several calls: the word and the terms, which must be typed. */
const GRANT = /^g(?:rant)?\s+(\S.*)$/i;
const DENIAL = /^no?(?:[\s,;:.-]+(.*))?$/is;

export const HOW_TO_ANSWER = 'A denial may include a reason, which the agent reads: "n use the staging cluster".';

export function decisionPrompt(approval: ShownApproval, now: number | undefined): string {
  const left = `${printableName(approval.tool)}, ${timeLeft(approval.decideBy, now)}`;
  if (isHighRisk(approval)) return `[${left}] Approve? type "yes" / [n]o:`;
  const wider = `${offersSession(approval) ? "[s]ession / " : ""}${offersGrant(approval) ? "[g]rant runs=…,minutes=… / " : ""}`;
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
  const grant = offersGrant(approval) && !isWhole ? ", g runs=5,minutes=30 to approve several calls" : "";
  return `${typed} is not an answer; nothing is decided. Type ${isWhole ? "yes" : "y"} to approve${session}${grant}, n to deny.`;
}

function offersGrant({ options }: ShownApproval): boolean {
  return options.includes("bounded");
}

function offersSession({ options }: ShownApproval): boolean {
  return options.includes("session");
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
export function followUpsOf(approval: ShownApproval, { decision, reason }: Choice): readonly FollowUp[] {
  const { quorum, answer } = approval;
  const wantsReason = quorum?.reasonRequired === "always" || (quorum?.reasonRequired === "deny" && decision === "deny");
  const wantsAnswer = decision === "approve" && answer !== undefined && answer.text === undefined;
  return [
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

/** Quotes a choice. Quotes inside are escaped, so that one choice cannot look like two. */
function quoted(choice: string): string {
  return `"${printable(choice).replaceAll('"', "\\u{22}")}"`;
}

function numberIn(text: string): number {
  return /^\s*\d{1,2}\s*$/.test(text) ? Number(text) : 0;
}
