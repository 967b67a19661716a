import { hash } from "node:crypto";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { logIdIn } from "../../src/audit/chain/log-id.ts";
import { readBatch } from "../../src/audit/export/batch.ts";
import { clickHouseExporter, postgresExporter } from "../../src/audit/export/stores.ts";
import { startClickHouse } from "../fleet/clickhouse.ts";
import { generatedTraceId, writeGeneratedDay } from "../support/audit-lines.ts";
import { findPostgres, startPostgres } from "../support/postgres.ts";
import { environmentOf, STC } from "../support/stc.ts";
import { chained } from "./audit-reading.ts";

/**
 * The same questions to the same lines in files, in ClickHouse and in PostgreSQL, in one run: `bun tests/bench/audit-stores.ts [lines]`.
 * Each answer is that of a whole process of `stc`; the places take turns. ClickHouse is its engine behind the HTTP interface of
 * `tests/fleet/clickhouse_server.py`. Lines come in the batches of the exporter. Figures of a shared machine: compare the ratios.
 */
const LINES = Number(process.argv[2] ?? 1_000_000);
const DAY = "2026-02-16";
const ROUNDS = 5;

const QUESTIONS: Readonly<Record<string, readonly string[]>> = {
  "one trace id": ["query", "--trace-id", generatedTraceId(LINES / 2)],
  "newest 50 of a caller": ["query", "--sub", "agent-77", "--limit", "50"],
  "newest 50 refusals": ["query", "--decision", "DENIED", "--limit", "50"],
  "a caller in six hours": ["query", "--sub", "agent-77", "--from", `${DAY}T06:00:00Z`, "--to", `${DAY}T12:00:00Z`],
  "a text that is nowhere": ["query", "--text", "nowhere"],
  statistics: ["stats"],
};

interface Place {
  readonly name: string;
  readonly words: readonly string[];
}

const folder = mkdtempSync(join(tmpdir(), "stc-stores-bench-"));
const ending: (() => Promise<unknown>)[] = [];

function answer(question: readonly string[], words: readonly string[]): { readonly out: string; readonly ms: number } {
  const [command = "", ...options] = question;
  const at = performance.now();
  const child = Bun.spawnSync([...STC, "audit", command, ...words, ...options, "--json"], {
    env: environmentOf({}),
    stdout: "pipe",
    stderr: "pipe",
  });
  const out = child.stdout.toString();
  // 1: nothing was found.
  if (child.exitCode !== 0 && (child.exitCode !== 1 || out !== "")) throw new Error(child.stderr.toString());
  return { out, ms: performance.now() - at };
}

function medianMs(times: readonly number[]): number {
  return [...times].sort((one, other) => one - other)[times.length >> 1] ?? Number.NaN;
}

async function fill(
  name: string,
  dir: string,
  exporter: typeof clickHouseExporter | typeof postgresExporter,
  url: string,
) {
  const urlFile = join(folder, `${name}-url`);
  writeFileSync(urlFile, url);
  const receiver = exporter.open({ urlFile }, { path: (path) => path, clock: Date.now, problem: () => {} });
  if (receiver === undefined) throw new Error("no receiver");
  const at = performance.now();
  const log = logIdIn(dir, "calls");
  for (let batch = readBatch({ dir, stream: "calls", from: undefined, log }); batch !== undefined; ) {
    const outcome = await receiver.deliver(batch.lines, AbortSignal.timeout(600_000));
    if (outcome.kind !== "taken") throw new Error(outcome.reason);
    batch = readBatch({ dir, stream: "calls", from: batch.next, log });
  }
  const seconds = (performance.now() - at) / 1_000;
  await receiver.close?.();
  console.log(`${name}: ${(LINES / seconds).toFixed(0)} lines stored a second`);
  return { name, words: ["--from-store", urlFile] };
}

async function clickHouse(dir: string): Promise<Place> {
  const server = await startClickHouse();
  ending.push(() => server.end());
  const place = await fill("ClickHouse", dir, clickHouseExporter, await server.createDatabase("bench"));
  const report = async (when: string): Promise<void> => {
    const [size] = await server.send(
      "SELECT sum(bytes_on_disk) AS bytes, count() AS parts FROM system.parts WHERE active AND table = 'audit_lines'",
    );
    console.log(`ClickHouse ${when}: ${perLine(size?.["bytes"])} bytes a line on disk, ${size?.["parts"]} parts`);
  };
  await report("after its own merges so far");
  ending.push(async () => {
    await server.send("OPTIMIZE TABLE audit_lines FINAL", "bench");
    await report("after all merges");
  });
  return place;
}

function perLine(bytes: unknown): string {
  return (Number(bytes) / LINES).toFixed(0);
}

async function postgres(dir: string): Promise<readonly Place[]> {
  const native = findPostgres();
  if (native === undefined) return [];
  const server = await startPostgres(native);
  ending.push(() => server.end());
  const place = await fill("PostgreSQL", dir, postgresExporter, await server.createDatabase("bench"));
  await server.send("VACUUM ANALYZE", "bench");
  const [size] = await server.send("SELECT pg_database_size('bench')::float8 AS bytes", "bench");
  console.log(`PostgreSQL: ${perLine(size?.["bytes"])} bytes a line on disk`);
  return [place];
}

try {
  const dir = join(folder, "log");
  mkdirSync(dir);
  const finish = chained();
  // Hashes that repeat would take no space on disk.
  const unique = (line: string) => line.replaceAll(/([abc])\1{63}/g, (text) => hash("sha256", `${text}${line}`));
  writeGeneratedDay(dir, DAY, LINES, (line) => finish(unique(line)));
  const files = { name: "files", words: ["--dir", dir] };
  const places = [files, await clickHouse(dir), ...(await postgres(dir))];
  // The first statistics build the index of the files.
  answer(["stats"], files.words);
  console.log(["question", ...places.map(({ name }) => `${name} ms`), "ratios to files"].join(" | "));
  for (const [title, question] of Object.entries(QUESTIONS)) {
    const times = places.map((): number[] => []);
    for (let round = 0; round < ROUNDS; round += 1) {
      const answers = places.map(({ words }) => answer(question, words));
      for (const [at, { ms }] of answers.entries()) times[at]?.push(ms);
      const differs = new Set(answers.map(({ out }) => out.replaceAll(/^\{"log":"[0-9a-f]{32}",/gm, "{"))).size > 1;
      if (differs) throw new Error(`${title}: the places answer differently`);
    }
    const medians = times.map(medianMs);
    const ratios = medians.slice(1).map((ms) => (ms / (medians[0] ?? 1)).toFixed(2));
    console.log([title, ...medians.map((ms) => ms.toFixed(0)), ratios.join(", ")].join(" | "));
  }
} finally {
  for (const end of ending.reverse()) await end();
  rmSync(folder, { recursive: true, force: true });
}
