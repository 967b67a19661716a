import { writeSync } from "node:fs";
import { escapeLine } from "../audit/escape.ts";

const RETRY_MS = 5;

/**
 * Exit codes. 64 to 78 are those of sysexits.h; 1 means refused, failed or nothing found; 141 is the code of a command that
 * SIGPIPE ended. A command declares its further codes itself.
 */
export const EXIT = {
  failed: 1,
  unreachable: 2,
  usage: 64,
  dataDamaged: 65,
  noInput: 66,
  cannotWrite: 73,
  configuration: 78,
  readerGone: 141,
} as const;

export class StdoutError extends Error {
  /** True when the reader closed the pipe: not an error, so nothing is reported. */
  readonly isReaderGone: boolean;

  constructor(code: string) {
    super(`standard output cannot be written (${code})`);
    this.isReaderGone = code === "EPIPE";
  }

  get exitCode(): number {
    return this.isReaderGone ? EXIT.readerGone : EXIT.cannotWrite;
  }
}

/** Ends a command: `runStc` prints the problems, if the output does not show them already, and sets the exit code. */
export class CommandError extends Error {
  readonly exitCode: number;

  constructor(exitCode: number, ...problems: readonly string[]) {
    super(problems.join("\n"));
    this.exitCode = exitCode;
  }
}

/** @throws {CommandError} always */
export function wrongUsage(...problems: readonly string[]): never {
  throw new CommandError(EXIT.usage, ...problems);
}

/** Writes the whole text to a terminal or a pipe. Waits for a slow reader instead of losing lines. */
function write(descriptor: number, text: string): void {
  let rest: Uint8Array = Buffer.from(text);
  while (rest.length > 0) {
    try {
      rest = rest.subarray(writeSync(descriptor, rest));
    } catch (error) {
      const code = error instanceof Error && "code" in error ? String(error.code) : "unknown error";
      if (code !== "EAGAIN") throw new StdoutError(code);
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, RETRY_MS);
    }
  }
}

/** Writes to standard error. Ignores a closed standard error: the exit code still reports the result. */
function writeError(text: string): void {
  try {
    write(2, text);
  } catch (error) {
    if (!(error instanceof StdoutError)) throw error;
  }
}

/** Prints the report of a completed change. A report that cannot be written does not undo the change. */
export function reportChange(printReport: () => void): void {
  try {
    printReport();
  } catch (error) {
    if (!(error instanceof StdoutError)) throw error;
    if (error.isReaderGone) return;
    print.error(`the change was made, but ${error.message}`);
    process.exitCode = error.exitCode;
  }
}

/** Escapes everything that could control a terminal, except line ends. All printed text passes through this function. */
function escapeForTerminal(text: string): string {
  return text.split("\n").map(escapeLine).join("\n");
}

const COLOURS = { red: 31, green: 32, yellow: 33, cyan: 36 } as const;

/** Returns whether standard output is a terminal that shows colours. */
export function isColoured({ NO_COLOR, TERM }: Readonly<Record<string, string | undefined>>): boolean {
  return process.stdout.isTTY === true && !NO_COLOR && TERM !== "dumb";
}

export interface StyledText {
  readonly text: string;
  readonly colour?: keyof typeof COLOURS | undefined;
}

function paint({ text, colour }: StyledText): string {
  return colour === undefined
    ? escapeForTerminal(text)
    : `\u001b[${COLOURS[colour]}m${escapeForTerminal(text)}\u001b[0m`;
}

export const print = {
  line: (text: string): void => write(1, `${escapeForTerminal(text)}\n`),
  error: (text: string): void => writeError(`${escapeForTerminal(text)}\n`),
  /** Prints a part of a line, or text that contains its own line ends. */
  part: (text: string): void => write(1, escapeForTerminal(text)),
  errorPart: (text: string): void => writeError(escapeForTerminal(text)),
  json: (value: unknown, indent?: number): void =>
    write(1, `${escapeForTerminal(JSON.stringify(value, null, indent))}\n`),
  pieces: (pieces: readonly StyledText[]): void => write(1, `${pieces.map(paint).join("")}\n`),
  /** Overwrites the current line on standard error; the empty text clears it. */
  progress: (text: string): void => writeError(`\r${escapeForTerminal(text)}\u001b[K`),
  erase: (characters: number): void => write(1, "\b \b".repeat(characters)),
};

/** Formats rows as columns; each column is as wide as its widest cell. */
export function table(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) =>
    rows.reduce((width, row) => Math.max(width, row[column]?.length ?? 0), 0),
  );
  const lineOf = (row: readonly string[]): string =>
    row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join("  ");
  return rows.map((row) => lineOf(row).trimEnd()).join("\n");
}
