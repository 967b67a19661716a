import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { LineIndex } from "../../src/audit/query/line-index.ts";
import { type Params, readQuery } from "../../src/audit/query/params.ts";
import { search } from "../../src/audit/query/query.ts";
import { readStats } from "../../src/audit/stats/stats.ts";
import { generatedTraceId, writeGeneratedDay } from "../support/audit-lines.ts";

const ENTRIES = 1_000_000;
const DAY = "2026-02-16";
const dir = mkdtempSync(join(tmpdir(), "stc-million-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

beforeAll(() => {
  writeGeneratedDay(dir, DAY, ENTRIES);
  console.log(`${ENTRIES} entries, ${Math.round(statSync(join(dir, `${DAY}.jsonl`)).size / 1e6)} MB`);
});

async function timed(params: Params, index?: LineIndex): Promise<{ readonly ms: number; readonly found: number }> {
  const query = readQuery(params, { limit: 100, limitMax: ENTRIES, nowMs: Date.parse("2026-02-17") });
  if ("faults" in query) throw new Error(query.faults.join());
  const times: number[] = [];
  let found = 0;
  for (let run = 0; run < 5; run += 1) {
    const begin = performance.now();
    found = (await search({ dir, query: query.ok, index, pageBytesMax: 1e12 })).found.length;
    times.push(performance.now() - begin);
  }
  const ms = Math.min(...times);
  console.log(`${index === undefined ? "scan " : "index"} ${JSON.stringify(params)}: ${found} in ${ms.toFixed(1)} ms`);
  return { ms, found };
}

const limit = String(ENTRIES);
const SCAN_MS_MAX = 1_000;
/** For parsing and keeping a line that is found. */
const MS_PER_LINE_MAX = 0.02;

test.each<[Params, number]>([
  [{ limit: "20" }, 20],
  [{ sub: "agent-77", limit }, 1_000],
  [{ traceId: generatedTraceId(500_000) }, 1],
  [{ traceId: "nobody" }, 0],
  [{ tool: "k8s_get_pods", sub: "agent-13", decision: "DENIED", limit }, 1_000],
  [{ code: "PERMISSION_DENIED", limit }, 100_000],
  [{ text: "c-4999", limit }, 200],
  [{ text: "nobodywasheretoday", limit }, 0],
  [{ text: "Xyz" }, 0],
  [{ from: `${DAY}T12:00`, to: `${DAY}T12:10`, limit }, 6_945],
])(
  "a day of a million is filtered within a second, and each line that is found takes little more: %j",
  async (params, want) => {
    const { ms, found } = await timed(params);
    expect(found).toBe(want);
    expect(ms).toBeLessThan(SCAN_MS_MAX + found * MS_PER_LINE_MAX);
  },
);

test("with the index a lookup takes less than fifty milliseconds", async () => {
  const index = new LineIndex(dir);
  const begin = performance.now();
  for (const _bytes of index.extend()) {
    // All of it.
  }
  const { size } = statSync(join(dir, "index.sqlite"));
  console.log(`indexed in ${Math.round(performance.now() - begin)} ms, ${Math.round(size / 1e6)} MB`);
  for (const params of [
    { traceId: generatedTraceId(500_000) },
    { traceId: "nobody" },
    { sub: "agent-77", limit: "10" },
    { code: "INVALID_INPUT" },
  ]) {
    expect((await timed(params, index)).ms).toBeLessThan(50);
  }
  index.close();
});

test("statistics of a million are the same with and without the index", async () => {
  const index = new LineIndex(dir);
  const begin = performance.now();
  const indexed = await readStats({ logs: [{ dir, index }], filter: { exact: {} } });
  const between = performance.now();
  const plain = await readStats({ logs: [{ dir }], filter: { exact: {} } });
  const [indexedMs, plainMs] = [between - begin, performance.now() - between].map(Math.round);
  console.log(`statistics in ${indexedMs} ms, without the index in ${plainMs} ms`);
  expect(indexed).toEqual(plain);
  expect(plain.calls).toBe(ENTRIES);
  index.close();
});
