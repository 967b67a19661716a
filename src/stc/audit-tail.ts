import { closeSync, constants, fstatSync, openSync, readdirSync, readSync, statSync } from "node:fs";
import { join } from "node:path";
import type { AuditEntry } from "../audit/entry.ts";
import { escapeName } from "../audit/escape.ts";
import { processEnvironment } from "../config-file.ts";
import { print } from "./output.ts";

export interface AuditTailOptions {
  readonly dir?: string;
  readonly lines: number;
  readonly follow?: boolean;
  readonly json?: boolean;
}

const DAY_FILE = /^\d{4}-\d{2}-\d{2}\.jsonl$/;
const CHUNK_BYTES = 65_536;
const FOLLOW_EVERY_MS = 250;
/** A named pipe in place of a day's file would be waited for without it. */
const READ = constants.O_RDONLY | constants.O_NONBLOCK;

/** `stc audit tail`: the latest calls, across days; with `-f` also those to come. Reads the files, asks no service. */
export async function auditTail(options: AuditTailOptions): Promise<void> {
  const dir = options.dir ?? processEnvironment()["STC_AUDIT_DIR"] ?? "audit-logs";
  if (!(statSync(dir, { throwIfNoEntry: false })?.isDirectory() ?? false)) {
    print.error(`there is no audit directory ${dir}`);
    process.exitCode = 66;
    return;
  }
  const show = (line: string): void => print.line(options.json === true ? line : readable(line));
  // One look at where the files end, for both: a line written in between must not be lost, nor shown twice.
  const ends = new Map(dayFiles(dir).map((name) => [name, endOf(join(dir, name))]));
  for (const line of lastLines(dir, ends, options.lines)) show(line);
  if (options.follow === true) await follow(dir, ends, show);
}

function dayFiles(dir: string): readonly string[] {
  return readdirSync(dir)
    .filter((name) => DAY_FILE.test(name))
    .sort();
}

function lastLines(dir: string, ends: ReadonlyMap<string, number>, count: number): readonly string[] {
  let lines: readonly string[] = [];
  for (const [name, end] of [...ends].reverse()) {
    if (lines.length >= count) break;
    lines = [...tailOf(join(dir, name), end, count - lines.length), ...lines];
  }
  return lines;
}

/** Where the last whole line ends. What stands behind it is still being written. */
function endOf(path: string): number {
  const descriptor = openSync(path, READ);
  try {
    let end = fstatSync(descriptor).size;
    while (end > 0) {
      const chunk = Buffer.alloc(Math.min(CHUNK_BYTES, end));
      readSync(descriptor, chunk, 0, chunk.length, end - chunk.length);
      const newline = chunk.lastIndexOf(10);
      if (newline !== -1) return end - chunk.length + newline + 1;
      end -= chunk.length;
    }
    return 0;
  } finally {
    closeSync(descriptor);
  }
}

/** Reads backwards from `end`, only as far as needed. */
function tailOf(path: string, end: number, count: number): readonly string[] {
  const descriptor = openSync(path, READ);
  try {
    let from = end;
    let bytes = Buffer.alloc(0);
    while (from > 0 && newlines(bytes) <= count) {
      const length = Math.min(CHUNK_BYTES, from);
      from -= length;
      const chunk = Buffer.alloc(length);
      readSync(descriptor, chunk, 0, length, from);
      bytes = Buffer.concat([chunk, bytes]);
    }
    return count === 0 ? [] : bytes.toString("utf8").split("\n").slice(0, -1).slice(-count);
  } finally {
    closeSync(descriptor);
  }
}

function newlines(bytes: Uint8Array): number {
  let count = 0;
  for (let at = bytes.indexOf(10); at !== -1; at = bytes.indexOf(10, at + 1)) count += 1;
  return count;
}

async function follow(dir: string, ends: ReadonlyMap<string, number>, show: (line: string) => void): Promise<never> {
  const read = new Map(ends);
  for (;;) {
    for (const name of dayFiles(dir)) read.set(name, showFrom(join(dir, name), read.get(name) ?? 0, show));
    await new Promise((resolve) => setTimeout(resolve, FOLLOW_EVERY_MS));
  }
}

/** Shows the whole lines after `from`; answers where the next one begins. */
function showFrom(path: string, from: number, show: (line: string) => void): number {
  const descriptor = openSync(path, READ);
  try {
    const length = fstatSync(descriptor).size - from;
    if (length <= 0) return from;
    const bytes = Buffer.alloc(length);
    readSync(descriptor, bytes, 0, length, from);
    const end = bytes.lastIndexOf(10) + 1;
    const lines = bytes.subarray(0, end).toString("utf8").split("\n").slice(0, -1);
    for (const line of lines) show(line);
    return from + end;
  } finally {
    closeSync(descriptor);
  }
}

/** Escaped whole: who wrote into that directory is not known here, and it may be one that came with somebody's repository. */
function readable(line: string): string {
  try {
    const { timestamp, caller, tool, decision, error, duration, traceId } = JSON.parse(line) as AuditEntry;
    const what = error === undefined ? decision : `${decision} ${error.code}`;
    const cells = [
      escapeName(timestamp),
      escapeName(what).padEnd(26),
      escapeName(tool.name).padEnd(24),
      escapeName(caller.sub),
      `${duration.toFixed(1)} ms`,
      escapeName(traceId),
    ];
    return cells.join("  ");
  } catch {
    return `(not a line of the audit) ${escapeName(line)}`;
  }
}
