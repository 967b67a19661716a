import { isAscii, printable } from "../../core/printable.ts";
import { print, StdoutError } from "../output.ts";

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
