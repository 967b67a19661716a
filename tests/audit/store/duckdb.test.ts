import { afterAll, beforeAll, expect, test } from "bun:test";
import fs from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { DuckDBInstance } from "@duckdb/node-api";
import { logIdIn } from "../../../src/audit/chain/log-id.ts";
import { readBatch } from "../../../src/audit/export/batch.ts";
import { readFilter } from "../../../src/audit/query/params.ts";
import { readStats } from "../../../src/audit/stats/stats.ts";
import { LINE_COLUMNS, rowOf, type StoreRow, stored } from "../../../src/audit/store/columns.ts";
import { duckdbView } from "../../../src/audit/store/duckdb.ts";
import { archiveLog } from "../../support/archived-log.ts";
import { ObjectStorage } from "../../support/object-storage.ts";
import { NOW, writeReplica } from "../../support/stored-logs.ts";
import { temporaryDirectory, writeLog } from "../support/chained-log.ts";

/** DuckDB itself reads an archive with the SQL that `stc audit duckdb` prints. */

const folder = temporaryDirectory();
const copy = join(folder, "calls", "it's a copy");
const dirs: string[] = [];
let ask: (sql: string) => Promise<readonly Readonly<Record<string, unknown>>[]>;

beforeAll(async () => {
  const storage = new ObjectStorage();
  dirs.push(writeReplica(folder, 0, 2_500), writeReplica(folder, 1, 1_500), join(folder, "other"));
  await writeLog(join(folder, "other"));
  for (const dir of dirs) await archiveLog(dir, storage.open());
  for (const [key, object] of storage.objects) {
    fs.mkdirSync(join(copy, key, ".."), { recursive: true });
    fs.writeFileSync(join(copy, key), object);
  }
  await storage.stop();
  fs.writeFileSync(join(copy, "pruned.jsonl.gz"), gzipSync("{}\n"));
  const connection = await (await DuckDBInstance.create(":memory:")).connect();
  ask = async (sql) => (await connection.runAndReadAll(sql)).getRowObjectsJson();
  await ask(duckdbView(copy));
});
afterAll(() => fs.rmSync(folder, { recursive: true }));

/** A row as both sides can say it: DuckDB's JSON has texts for large numbers, and lone surrogates are replaced. */
function comparable(row: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const { duration_code: _, ids, ...rest } = row;
  const texts = Object.entries({ ...rest, ids: [...(ids as readonly string[])].sort().join(" ") }).map(
    ([name, value]) => [name, value === null ? null : stored(String(value)).toWellFormed()],
  );
  return Object.fromEntries(texts);
}

function storedRows(stream: "calls" | "journal"): readonly StoreRow[] {
  return dirs.flatMap((dir) => {
    const rows: StoreRow[] = [];
    const log = logIdIn(dir, stream);
    let from: { readonly day: string; readonly offset: number } | undefined;
    for (let batch = readBatch({ dir, stream, from, log }); batch !== undefined; ) {
      rows.push(...batch.lines.map(rowOf));
      from = batch.next;
      batch = readBatch({ dir, stream, from, log });
    }
    return rows;
  });
}

test("the view has the columns of the stores", async () => {
  const names = (await ask("DESCRIBE audit_lines")).map(({ column_name }) => column_name);
  expect(names).toEqual(LINE_COLUMNS.map(({ name }) => name).filter((name) => name !== "duration_code"));
});

test.each(["calls", "journal"] as const)("every line of the %s has the row that a store has", async (stream) => {
  const rows = await ask(`SELECT * FROM audit_lines WHERE stream = '${stream}' ORDER BY log, seq`);
  const placeOf = (row: StoreRow): string => `${row["log"]} ${String(row["seq"]).padStart(16)}`;
  const want = storedRows(stream).toSorted((one, other) => (placeOf(one) < placeOf(other) ? -1 : 1));
  expect(rows.length).toBe(want.length);
  for (const [at, row] of rows.entries()) expect(comparable(row)).toEqual(comparable(want[at] ?? {}));
});

test("Parquet counts calls by decision, tool and caller as stc audit stats", async () => {
  const parquet = join(folder, "parquet");
  await ask(`COPY (SELECT * FROM audit_lines) TO '${parquet}' (FORMAT parquet, PARTITION_BY (stream, day))`);
  const file = `${parquet}/stream=calls/*/*.parquet`;
  const filter = readFilter({}, NOW);
  if ("faults" in filter) throw new Error(filter.faults.join());
  const stats = await readStats({ logs: dirs.map((dir) => ({ dir })), filter: filter.ok });
  const counted = async (column: string): Promise<Readonly<Record<string, number>>> => {
    const rows = await ask(
      `SELECT ${column} AS value, sum(count)::INT AS calls FROM '${file}' WHERE value IS NOT NULL GROUP BY ALL`,
    );
    return Object.fromEntries(rows.map(({ value, calls }) => [String(value), Number(calls)]));
  };
  const total = await ask(`SELECT sum(count)::INT AS calls FROM '${file}'`);
  expect(total).toEqual([{ calls: stats.calls }]);
  expect(await counted("decision")).toEqual(Object.fromEntries(stats.byDecision));
  expect(await counted("tool")).toEqual(Object.fromEntries(stats.byTool));
  expect(await counted("coalesce(code, 'OK')")).toEqual(Object.fromEntries(stats.byCode));
  const callers = stats.byCaller.map(([caller, calls]) => [caller.toWellFormed(), calls]);
  expect(await counted("sub || CASE WHEN iss IS NULL THEN '' ELSE ' (' || iss || ')' END")).toEqual(
    Object.fromEntries(callers),
  );
});

test("a line that is not JSON, and one whose texts look like escapes, do not stop the others", async () => {
  const day = join(folder, "odd", "a".repeat(32), "calls", "b".repeat(32), "2026-02-16");
  fs.mkdirSync(day, { recursive: true });
  const lines = [
    "not json",
    '{"timestamp":"2026-02-16T12:00:00.000Z","tool":{"name":"\\\\ud800 \\ud800\\ud800 \\ud83d\\ude00"},"decision":7,"count":"x"}',
    '{"tool":["name"],"decision":"ALLOWED"}',
    "",
  ];
  fs.writeFileSync(join(day, "000000000000.jsonl.gz"), gzipSync(lines.join("\n")));
  await ask(duckdbView(join(folder, "odd")).replace("audit_lines", "odd_lines"));
  expect(
    await ask("SELECT tool, decision, count::INT AS count, day::VARCHAR AS day FROM odd_lines ORDER BY line"),
  ).toEqual([
    { tool: null, decision: null, count: 1, day: "2026-02-16" },
    { tool: "\\ud800 \ufffd\ufffd \ufffd\ufffd", decision: null, count: 1, day: "2026-02-16" },
    { tool: null, decision: "ALLOWED", count: 1, day: "2026-02-16" },
  ]);
});
