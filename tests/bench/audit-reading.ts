import { hash } from "node:crypto";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { genesisOf } from "../../src/audit/chain/chain.ts";
import { generatedTraceId, writeGeneratedDay } from "../support/audit-lines.ts";
import { environmentOf, STC } from "../support/stc.ts";

const ENTRIES = 1_000_000;
const DAY = "2026-02-16";
const ROUNDS = 5;

export interface AuditReadingFindings {
  /** `stc audit stats` without an index, which it builds, against DuckDB on the same file. */
  readonly firstStatsRatio: number;
  /** `stc audit stats` with the index against DuckDB on the same file. */
  readonly statsRatio: number;
  /** `stc audit query --trace-id` with the index. */
  readonly traceMs: number;
  /** The same without an index. */
  readonly plainTraceMs: number;
}

/** Reads a day of a million calls, one gigabyte. Every figure is that of a whole process; pairs alternate. */
export function auditReadingFindings(folder: string): AuditReadingFindings {
  const dir = join(folder, "day");
  mkdirSync(dir);
  writeGeneratedDay(dir, DAY, ENTRIES, chained());
  const file = join(dir, `${DAY}.jsonl`);
  const duckdb = (): Run => run([process.execPath, join(import.meta.dir, "duckdb-stats.ts"), file]);
  const stc = (...words: readonly string[]): Run => run([...STC, "audit", ...words, "--dir", dir, "--json"]);
  const plain = rounds(() => stc("query", "--without-index", "--trace-id", generatedTraceId(ENTRIES / 2)));
  const first = stc("stats");
  const [theirs, ours] = [[duckdb()], [stc("stats")]];
  for (let round = 1; round < ROUNDS; round += 1) {
    theirs.push(duckdb());
    ours.push(stc("stats"));
  }
  const indexed = rounds(() => stc("query", "--trace-id", generatedTraceId(ENTRIES / 2)));
  for (const { out } of [first, ...ours]) {
    const { calls } = JSON.parse(out) as { readonly calls: number };
    if (String(calls) !== theirs[0]?.out.trim()) throw new Error(`${calls} calls, and ${theirs[0]?.out} by DuckDB`);
  }
  for (const { out } of [...plain, ...indexed]) if (out !== plain[0]?.out) throw new Error(`found ${out}`);
  return {
    firstStatsRatio: first.ms / medianMs(theirs),
    statsRatio: medianMs(ours) / medianMs(theirs),
    traceMs: medianMs(indexed),
    plainTraceMs: medianMs(plain),
  };
}

/** Returns a function that links lines as the writer does. */
export function chained(): (line: string) => string {
  let [seq, prev] = [0, genesisOf("calls").digest("hex")];
  return (line) => {
    const hashed = `${line.slice(0, -1)},"seq":${seq},"prev":"${prev}"`;
    prev = hash("sha256", hashed, "hex");
    seq += 1;
    return `${hashed},"hash":"${prev}"}`;
  };
}

interface Run {
  readonly out: string;
  readonly ms: number;
}

function run(command: readonly string[]): Run {
  const at = performance.now();
  const child = Bun.spawnSync([...command], { env: environmentOf({}), stdout: "pipe", stderr: "inherit" });
  if (child.exitCode !== 0) throw new Error(`${command.join(" ")} ended with ${child.exitCode}`);
  return { out: child.stdout.toString(), ms: performance.now() - at };
}

function rounds(work: () => Run): readonly Run[] {
  return Array.from({ length: ROUNDS }, work);
}

function medianMs(runs: readonly Run[]): number {
  return runs.map(({ ms }) => ms).sort((one, other) => one - other)[runs.length >> 1] ?? Number.NaN;
}
