import { writeSync } from "node:fs";
import { escapeJson } from "../audit/escape.ts";

const RETRY_MS = 5;

/** Writes to a terminal or a pipe, whole: a slow reader makes us wait, not lose lines. */
function write(descriptor: number, text: string): void {
  let rest: Uint8Array = Buffer.from(`${text}\n`);
  while (rest.length > 0) {
    try {
      rest = rest.subarray(writeSync(descriptor, rest));
    } catch (error) {
      const code = error instanceof Error && "code" in error ? error.code : undefined;
      if (code === "EPIPE") return;
      if (code !== "EAGAIN") throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, RETRY_MS);
    }
  }
}

/** Everything that is printed goes through here: what could steer a terminal is escaped, line ends apart. */
function printable(text: string): string {
  const visible = text.replace(/[\x00-\x09\x0b-\x1f]/g, escapeControl);
  return visible.split("\n").map(escapeJson).join("\n");
}

function escapeControl(control: string): string {
  return `\\u${control.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

export const print = {
  line: (text: string): void => write(1, printable(text)),
  error: (text: string): void => write(2, printable(text)),
  json: (value: unknown, indent?: number): void => write(1, printable(JSON.stringify(value, null, indent))),
};

/** Columns as wide as their widest cell. */
export function table(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}
