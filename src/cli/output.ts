import { writeSync } from "node:fs";
import { escapeJson } from "../audit/escape.ts";

const RETRY_MS = 5;

/** How a command ends that cannot say what it has to: as if a signal had told it that its reader is gone; or by sysexits.h. */
const EXIT = { readerGone: 141, cannotWrite: 73 } as const;

/** Standard output takes nothing more. */
export class StdoutError extends Error {
  /** Nobody reads any more: no fault, and nothing to be said. */
  readonly isReaderGone: boolean;

  constructor(code: string) {
    super(`standard output cannot be written (${code})`);
    this.isReaderGone = code === "EPIPE";
  }

  get exitCode(): number {
    return this.isReaderGone ? EXIT.readerGone : EXIT.cannotWrite;
  }
}

/** Writes to a terminal or a pipe, whole: a slow reader makes us wait, not lose lines. */
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

/** Whoever closes the errors' way wants none of them: the exit code still says what was. */
function writeError(text: string): void {
  try {
    write(2, text);
  } catch (error) {
    if (!(error instanceof StdoutError)) throw error;
  }
}

/** For what is said after a change: that it cannot be said takes nothing of it back. */
export function tell(say: () => void): void {
  try {
    say();
  } catch (error) {
    if (!(error instanceof StdoutError)) throw error;
    if (error.isReaderGone) return;
    print.error(`it is done, but ${error.message}`);
    process.exitCode = error.exitCode;
  }
}

/** Everything that is printed goes through here: what could steer a terminal is escaped, line ends apart. */
function steerless(text: string): string {
  const visible = text.replace(/[\x00-\x09\x0b-\x1f]/g, escapeControl);
  return visible.split("\n").map(escapeJson).join("\n");
}

function escapeControl(control: string): string {
  return `\\u${control.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

const COLOURS = { red: 31, green: 32, yellow: 33, cyan: 36 } as const;

export interface StyledText {
  readonly text: string;
  readonly colour?: keyof typeof COLOURS | undefined;
}

function paint({ text, colour }: StyledText): string {
  return colour === undefined ? steerless(text) : `\u001b[${COLOURS[colour]}m${steerless(text)}\u001b[0m`;
}

export const print = {
  line: (text: string): void => write(1, `${steerless(text)}\n`),
  error: (text: string): void => writeError(`${steerless(text)}\n`),
  /** A piece of a line, or text that brings its own line ends. */
  part: (text: string): void => write(1, steerless(text)),
  errorPart: (text: string): void => writeError(steerless(text)),
  json: (value: unknown, indent?: number): void => write(1, `${steerless(JSON.stringify(value, null, indent))}\n`),
  /** A line of pieces, some in colour; whoever gives a colour has looked whether it is wanted. */
  pieces: (pieces: readonly StyledText[]): void => write(1, `${pieces.map(paint).join("")}\n`),
  /** Over the line that stands there, on the terminal of the errors; the empty text takes it away. */
  progress: (text: string): void => writeError(`\r${steerless(text)}\u001b[K`),
  /** Takes back what was typed last. */
  erase: (characters: number): void => write(1, "\b \b".repeat(characters)),
};

/** Columns as wide as their widest cell. */
export function table(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) =>
    rows.reduce((width, row) => Math.max(width, row[column]?.length ?? 0), 0),
  );
  return rows
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}
