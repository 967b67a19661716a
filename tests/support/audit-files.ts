import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { AuditEntry } from "../../src/audit/entry.ts";

export interface JournalEntry {
  readonly timestamp: string;
  readonly type: string;
  readonly traceId?: string;
  readonly [member: string]: unknown;
}

/** The text of all day files of a directory, oldest first. */
export function dayFilesText(dir: string): string {
  return readdirSync(dir)
    .filter((name) => name.endsWith(".jsonl"))
    .sort()
    .map((name) => readFileSync(join(dir, name), "utf8"))
    .join("");
}

/** The evidence in a directory, byte for byte: day files of both streams, checkpoints and the record of deleted days. */
export function logFiles(dir: string): Readonly<Record<string, string>> {
  const names = readdirSync(dir, { recursive: true, encoding: "utf8" });
  const evidence = names.filter((name) =>
    /^(?:(?:journal\/)?[\d-]+\.jsonl|checkpoints\/[\d-]+\.txt|pruned\.jsonl)$/.test(name),
  );
  return Object.fromEntries(evidence.sort().map((name) => [name, readFileSync(join(dir, name), "latin1")]));
}

export function auditEntries(dir: string): readonly AuditEntry[] {
  return parseLines(dayFilesText(dir)) as readonly AuditEntry[];
}

export function journalEntries(dir: string): readonly JournalEntry[] {
  return parseLines(dayFilesText(join(dir, "journal"))) as readonly JournalEntry[];
}

/** Whole lines only: the last one may still be being written. */
export function parseLines(text: string): readonly unknown[] {
  return text
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line) as unknown);
}
