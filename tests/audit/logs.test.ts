import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { type LogFolder, logsIn, workerOf } from "../../src/audit/logs.ts";
import { FOLLOWED_ID, LogsFollower, readFollowedId } from "../../src/audit/query/follow-logs.ts";
import { mergedLines, searchLogs } from "../../src/audit/query/merged.ts";
import { type Order, readQuery } from "../../src/audit/query/params.ts";
import { readStats } from "../../src/audit/stats/stats.ts";
import { entryLine, writeDays } from "../support/audit-lines.ts";

const DAYS = ["2026-02-16", "2026-02-17"] as const;
const NOW = Date.parse("2026-02-18T00:00:00.000Z");

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "stc-logs-"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

/** A line: its day and the second at which it was written. */
type Written = readonly [day: 0 | 1, second: number];

/** Writes lines to the log of the directory and those of workers, with trace ids `log:number`. */
function write(logs: readonly (readonly Written[])[], to = dir): void {
  for (const [log, lines] of logs.entries()) {
    const folder = log === 0 ? to : join(to, `worker-${log}`);
    mkdirSync(folder, { recursive: true });
    for (const [number, [day, second]] of lines.entries()) {
      const at = new Date(Date.parse(`${DAYS[day]}T10:00:00.000Z`) + second * 1_000).toISOString();
      writeDays(folder, { [DAYS[day]]: [entryLine(at, { traceId: `${log}:${number}` })] });
    }
  }
}

test("a directory without workers is one log, also when it is missing", () => {
  expect(logsIn(dir)).toEqual([{ name: "", dir }]);
  expect(logsIn(join(dir, "none"))).toEqual([{ name: "", dir: join(dir, "none") }]);
});

test("workers' logs are in the order of their numbers; other names and files are none", () => {
  for (const name of [
    "worker-10",
    "worker-2",
    "worker-1",
    "worker-0",
    "worker-01",
    "worker-1.old",
    "worker-x",
    "journal",
  ]) {
    mkdirSync(join(dir, name));
  }
  mkdirSync(join(dir, "elsewhere"));
  symlinkSync(join(dir, "elsewhere"), join(dir, "worker-3"));
  writeFileSync(join(dir, "worker-4"), "");
  const logs = logsIn(dir);
  expect(logs.map(({ name }) => name)).toEqual(["", "worker-1", "worker-2", "worker-3", "worker-10"]);
  expect(logs.map(workerOf)).toEqual([undefined, 1, 2, 3, 10]);
});

async function idsOf(logs: readonly LogFolder[], order: Order): Promise<readonly string[]> {
  const query = queryOf({ order, limit: "1000" });
  const found: string[] = [];
  for await (const { entry } of mergedLines({ logs, query, pageBytesMax: 4_000 })) found.push(entry.traceId ?? "");
  return found;
}

function queryOf(params: Readonly<Record<string, string | undefined>>) {
  const read = readQuery(params, { limit: 10, limitMax: 1_000, nowMs: NOW });
  if ("faults" in read) throw new Error(read.faults.join());
  return read.ok;
}

/** Reads page after page by its cursor, as a client does. */
async function pagedIds(params: { readonly order: Order; readonly limit: string }, pageBytesMax: number) {
  const pages: (readonly string[])[] = [];
  let cursor: string | undefined;
  let more = true;
  for (let count = 0; more && count < 200; count += 1) {
    const query = queryOf({ ...params, ...(cursor !== undefined && { cursor }) });
    const page = await searchLogs({ logs: logsIn(dir), query, pageBytesMax, mayGoOn: () => () => true });
    pages.push(page.found.map(({ entry }) => entry.traceId ?? ""));
    ({ cursor, more } = page);
  }
  return { ids: pages.flat(), pages, cursor };
}

test("the pages of several logs hold each line once, in the order of time, whatever their sizes", async () => {
  const seconds = fc.uniqueArray(fc.tuple(fc.constantFrom<0 | 1>(0, 1), fc.nat(3_000)), { maxLength: 12 });
  await fc.assert(
    fc.asyncProperty(
      fc.array(seconds, { minLength: 1, maxLength: 4 }),
      fc.constantFrom<Order>("newest", "oldest"),
      fc.integer({ min: 1, max: 7 }),
      fc.constantFrom(1, 1_500, 1_000_000),
      async (logs, order, limit, pageBytesMax) => {
        rmSync(dir, { recursive: true, force: true });
        // Each log is in the order of time, as its writer's clock guarantees.
        const sorted = logs.map((lines) => [...lines].sort(([one, a], [other, b]) => one - other || a - b));
        write(sorted);
        const all = sorted.flatMap((lines, log) =>
          lines.map(([day, second], number) => ({ id: `${log}:${number}`, at: day * 86_400 + second })),
        );
        const { ids, pages } = await pagedIds({ order, limit: String(limit) }, pageBytesMax);
        expect([...ids].sort()).toEqual(all.map(({ id }) => id).sort());
        const times = ids.map((id) => all.find((line) => line.id === id)?.at ?? Number.NaN);
        expect(times).toEqual([...times].sort((one, other) => (order === "oldest" ? one - other : other - one)));
        expect(pages.every((page) => page.length <= limit)).toBe(true);
        expect(await idsOf(logsIn(dir), order)).toEqual(ids);
      },
    ),
    { numRuns: 60 },
  );
});

test("with the oldest first, the last cursor continues with what all logs receive later", async () => {
  write([[[0, 1]], [[0, 2]], []]);
  const first = await pagedIds({ order: "oldest", limit: "10" }, 100_000);
  expect(first.ids).toEqual(["0:0", "1:0"]);
  writeDays(join(dir, "worker-2"), { [DAYS[1]]: [entryLine(`${DAYS[1]}T10:00:09.000Z`, { traceId: "late" })] });
  const query = queryOf({ order: "oldest", limit: "10", ...(first.cursor !== undefined && { cursor: first.cursor }) });
  const next = await searchLogs({ logs: logsIn(dir), query, pageBytesMax: 100_000, mayGoOn: () => () => true });
  expect(next.found.map(({ entry }) => entry.traceId)).toEqual(["late"]);
});

test("a log whose reading ended early keeps later lines of the others for the next page", async () => {
  write([
    [
      [0, 1],
      [0, 4],
    ],
    [
      [0, 2],
      [0, 3],
    ],
  ]);
  const query = queryOf({ order: "newest", limit: "10" });
  const stopped = (log: number) => () => log !== 1;
  const page = await searchLogs({ logs: logsIn(dir), query, pageBytesMax: 100_000, mayGoOn: stopped });
  expect(page.more).toBe(true);
  const { cursor } = page;
  const rest = queryOf({ order: "newest", limit: "10", ...(cursor !== undefined && { cursor }) });
  const next = await searchLogs({ logs: logsIn(dir), query: rest, pageBytesMax: 100_000, mayGoOn: () => () => true });
  const ids = [...page.found, ...next.found].map(({ entry }) => entry.traceId);
  expect(ids).toEqual(["0:1", "1:1", "1:0", "0:0"]);
});

test("a cursor from before there were workers continues in the log of the directory", async () => {
  write([
    [
      [0, 1],
      [0, 2],
      [0, 3],
    ],
  ]);
  const query = queryOf({ order: "newest", limit: "1" });
  const page = await searchLogs({ logs: logsIn(dir), query, pageBytesMax: 100_000, mayGoOn: () => () => true });
  mkdirSync(join(dir, "worker-1"));
  writeDays(join(dir, "worker-1"), { [DAYS[1]]: [entryLine(`${DAYS[1]}T10:00:09.000Z`, { traceId: "later" })] });
  const { cursor = "" } = page;
  const rest = queryOf({ order: "newest", limit: "10", cursor });
  const next = await searchLogs({ logs: logsIn(dir), query: rest, pageBytesMax: 100_000, mayGoOn: () => () => true });
  expect(next.found.map(({ entry }) => entry.traceId)).toEqual(["0:1", "0:0"]);
});

test.each([
  ["positions that are no list", [1, "newest", DAYS[0], 0, null, null, "0".repeat(16), "x"]],
  ["a position without its day", [1, "newest", DAYS[0], 0, null, null, "0".repeat(16), [["worker-1", "x", 0]]]],
  ["a position before the file", [1, "newest", DAYS[0], 0, null, null, "0".repeat(16), [["worker-1", DAYS[0], -1]]]],
])("a cursor with %s is refused", (_name, members) => {
  const cursor = Buffer.from(JSON.stringify(members)).toString("base64url");
  expect(readQuery({ cursor }, { limit: 10, limitMax: 10, nowMs: NOW })).toHaveProperty("faults");
});

test("statistics count the lines of all logs", async () => {
  write([
    [[0, 1]],
    [
      [0, 2],
      [1, 3],
    ],
    [[1, 4]],
  ]);
  const { calls, byTool } = await readStats({ logs: logsIn(dir), filter: { exact: {} } });
  expect({ calls, byTool }).toEqual({ calls: 4, byTool: [["get_customer", 4]] });
});

test("a follower reads new lines of all logs, and continues from the id of any of them", () => {
  write([[[0, 1]], [[0, 2]], []]);
  const follower = new LogsFollower(dir);
  expect(follower.readNewLines()).toEqual([]);
  const later = (second: number, traceId: string) => ({
    [DAYS[1]]: [entryLine(`${DAYS[1]}T10:00:0${second}.000Z`, { traceId })],
  });
  writeDays(dir, later(2, "own"));
  writeDays(join(dir, "worker-1"), later(1, "first"));
  writeDays(join(dir, "worker-2"), later(3, "second"));
  const seen = follower.readNewLines();
  const idOf = (line: string): string => (JSON.parse(line) as { traceId: string }).traceId;
  expect(seen.map(({ line }) => idOf(line))).toEqual(["first", "own", "second"]);
  const after = seen.map(({ id }) =>
    new LogsFollower(dir, readFollowedId(id, NOW)).readNewLines().map(({ line }) => idOf(line)),
  );
  expect(after).toEqual([["own", "second"], ["second"], []]);
});

test("a log that has appeared since the id is read from its start; an id of a later day is another log's", () => {
  write([[[0, 1]]]);
  const positions = readFollowedId("2026-02-16:1000000", NOW);
  mkdirSync(join(dir, "worker-1"));
  writeDays(join(dir, "worker-1"), { [DAYS[0]]: [entryLine(`${DAYS[0]}T10:00:00.000Z`, { traceId: "new" })] });
  expect(new LogsFollower(dir, positions).readNewLines()).toHaveLength(1);
  expect(readFollowedId("2026-02-16:1,worker-1:2027-01-01:0", NOW)).toBeUndefined();
});

test("a log that appears while it is followed is read from its start, and its position is part of the ids", () => {
  write([[[0, 1]], [[0, 2]]]);
  const follower = new LogsFollower(dir);
  expect(follower.readNewLines()).toEqual([]);
  const appear = (worker: number): void => {
    mkdirSync(join(dir, `worker-${worker}`));
    writeDays(join(dir, `worker-${worker}`), {
      [DAYS[0]]: [entryLine(`${DAYS[0]}T10:00:0${worker}.000Z`, { traceId: `new-${worker}` })],
    });
  };
  for (const worker of [3, 2]) appear(worker);
  const seen = follower.readNewLines();
  expect(seen.map(({ line }) => (JSON.parse(line) as { traceId: string }).traceId)).toEqual(["new-2", "new-3"]);
  expect(follower.readNewLines()).toEqual([]);
  const { id = "" } = seen.at(-1) ?? {};
  expect(FOLLOWED_ID.test(id)).toBe(true);
  expect(new LogsFollower(dir, readFollowedId(id, NOW)).readNewLines()).toEqual([]);
  appear(4);
  expect(follower.readNewLines()).toHaveLength(1);
  expect(new LogsFollower(dir, readFollowedId(id, NOW)).readNewLines()).toHaveLength(1);
});

test("a followed folder that is gone for a while is not read again", () => {
  write([[[0, 1]], [[0, 2]]]);
  const follower = new LogsFollower(dir);
  renameSync(join(dir, "worker-1"), join(dir, "away"));
  expect(follower.readNewLines()).toEqual([]);
  renameSync(join(dir, "away"), join(dir, "worker-1"));
  expect(follower.readNewLines()).toEqual([]);
});
