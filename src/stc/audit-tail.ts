import { closeSync, existsSync, fstatSync, openSync, readdirSync, readSync } from "node:fs";
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

/** `stc audit tail`: the latest calls, across days; with `-f` also those to come. Reads the files, asks no service. */
export async function auditTail(options: AuditTailOptions): Promise<void> {
  const dir = options.dir ?? processEnvironment()["STC_AUDIT_DIR"] ?? "audit-logs";
  if (!existsSync(dir)) {
    print.error(`there is no audit directory ${dir}`);
    process.exitCode = 66;
    return;
  }
  const show = (line: string): void => print.line(options.json === true ? line : readable(line));
  for (const line of lastLines(dir, options.lines)) show(line);
  if (options.follow === true) await follow(dir, show);
}

function dayFiles(dir: string): readonly string[] {
  return readdirSync(dir)
    .filter((name) => DAY_FILE.test(name))
    .sort();
}

function lastLines(dir: string, count: number): readonly string[] {
  let lines: readonly string[] = [];
  for (const name of [...dayFiles(dir)].reverse()) {
    if (lines.length >= count) break;
    lines = [...tailOf(join(dir, name), count - lines.length), ...lines];
  }
  return lines;
}

/** Reads backwards from the end, only as far as needed. A last line without its end is still being written. */
function tailOf(path: string, count: number): readonly string[] {
  const descriptor = openSync(path, "r");
  try {
    let from = fstatSync(descriptor).size;
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

async function follow(dir: string, show: (line: string) => void): Promise<never> {
  const read = new Map<string, number>();
  for (const name of dayFiles(dir)) read.set(name, sizeOf(join(dir, name)));
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, FOLLOW_EVERY_MS));
    for (const name of dayFiles(dir)) read.set(name, showFrom(join(dir, name), read.get(name) ?? 0, show));
  }
}

function sizeOf(path: string): number {
  const descriptor = openSync(path, "r");
  try {
    return fstatSync(descriptor).size;
  } finally {
    closeSync(descriptor);
  }
}

/** Shows the whole lines after `from`; answers where the next one begins. */
function showFrom(path: string, from: number, show: (line: string) => void): number {
  const descriptor = openSync(path, "r");
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

function readable(line: string): string {
  try {
    const { timestamp, caller, tool, decision, error, duration, traceId } = JSON.parse(line) as AuditEntry;
    const what = error === undefined ? decision : `${decision} ${error.code}`;
    return `${timestamp}  ${what.padEnd(26)}  ${escapeName(tool.name).padEnd(24)}  ${escapeName(caller.sub)}  ${duration.toFixed(1)} ms  ${traceId}`;
  } catch {
    return `(not a line of the audit) ${escapeName(line)}`;
  }
}
