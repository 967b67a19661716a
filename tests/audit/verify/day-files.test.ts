import { afterAll, beforeEach, expect, test } from "bun:test";
import fs from "node:fs";
import { join } from "node:path";
import { openAuditLog } from "../../../src/audit/audit-log.ts";
import { readBatch } from "../../../src/audit/export/batch.ts";
import { startExporters } from "../../../src/audit/export/exporter.ts";
import { agedFiles, pruneFiles } from "../../../src/audit/export/prune.ts";
import { dayProblems } from "../../../src/audit/query/day-bounds.ts";
import { Follower } from "../../../src/audit/query/follow.ts";
import { search } from "../../../src/audit/query/query.ts";
import { DAY_MS } from "../../../src/audit/query/time-range.ts";
import { verifyLog } from "../../../src/audit/verify/verify.ts";
import { found, keys, linesOf, temporaryDirectory, writeLines, writeLog } from "../support/chained-log.ts";
import { createWorld, draftOf, MIDNIGHT } from "../support/open.ts";
import { verifyIndependently } from "./independent-verifier.ts";

const [ONE, TWO, LAST] = ["2026-02-16.jsonl", "2026-02-17.jsonl", "2026-02-19.jsonl"];
const NOON = Date.parse("2026-02-19T13:00:00.000Z");

const original = temporaryDirectory();
await writeLog(original);
const dir = temporaryDirectory();
beforeEach(() => {
  fs.rmSync(dir, { recursive: true, force: true });
  fs.cpSync(original, dir, { recursive: true });
});
afterAll(() => {
  for (const made of [original, dir]) fs.rmSync(made, { recursive: true, force: true });
});

const rename = (from: string, to: string) => (): void => fs.renameSync(join(dir, from), join(dir, to));
const copy = (from: string, to: string) => (): void => fs.copyFileSync(join(dir, from), join(dir, to));

function swap(one: string, other: string): void {
  rename(one, "held")();
  rename(other, one)();
  rename("held", other)();
}

function append(from: string, to: string): void {
  fs.appendFileSync(join(dir, to), fs.readFileSync(join(dir, from)));
  fs.rmSync(join(dir, from));
}

/** Moves the first line of one file to the end of another: the chain still holds. */
function moveLine(from: string, to: string): void {
  const [line = "", ...rest] = linesOf(join(dir, from));
  fs.appendFileSync(join(dir, to), `${line}\n`);
  writeLines(join(dir, from), rest);
}

async function traceIds(from: string, to: string): Promise<readonly (string | undefined)[]> {
  const filter = { exact: {}, fromMs: Date.parse(from), toMs: Date.parse(to) };
  const query = { filter, order: "oldest", limit: 100, cursor: undefined, digest: "" } as const;
  const { found: lines } = await search({ dir, query, pageBytesMax: 1e6 });
  return lines.map(({ entry }) => entry.traceId);
}

const ofDay = (index: number): readonly string[] => [0, 1, 2, 3, 4].map((call) => `t-${index}-${call}`);

/** Each row: what is done, what `verify` finds, whether a start is refused. */
test.each<readonly [string, () => void, string]>([
  ["the first day under an earlier name", rename(ONE, "2026-02-10.jsonl"), "wrong day 2026-02-10.jsonl:1"],
  ["the first day under a name between", rename(TWO, "2026-02-18.jsonl"), "wrong day 2026-02-18.jsonl:1"],
  ["a day under a name before all", rename(TWO, "2020-01-01.jsonl"), "wrong day 2020-01-01.jsonl:1"],
  ["a day under a name after all", rename(TWO, "2026-02-20.jsonl"), "wrong day 2026-02-20.jsonl:1"],
  ["the newest day under a name of the future", rename(LAST, "2099-12-31.jsonl"), "wrong day 2099-12-31.jsonl:1"],
  ["a day under a date that no calendar has", rename(TWO, "2026-02-30.jsonl"), "wrong day 2026-02-30.jsonl:1"],
  ["two neighbours swapped", () => swap(ONE, TWO), `wrong day ${ONE}:1`],
  ["the first and the last swapped", () => swap(ONE, LAST), `wrong day ${ONE}:1`],
  ["a copy under an earlier name", copy(TWO, "2026-02-15.jsonl"), "wrong day 2026-02-15.jsonl:1"],
  ["a copy under a name between", copy(TWO, "2026-02-18.jsonl"), "wrong day 2026-02-18.jsonl:1"],
  ["a copy under a name after all", copy(ONE, "2026-02-20.jsonl"), "wrong day 2026-02-20.jsonl:1"],
  ["a copy over another day", copy(ONE, TWO), `wrong day ${TWO}:1`],
  [
    "a journal file under another name",
    rename(join("journal", TWO), "journal/2026-02-18.jsonl"),
    "wrong day journal/2026-02-18.jsonl:1",
  ],
  ["journal files swapped", () => swap(join("journal", ONE), join("journal", TWO)), `wrong day journal/${ONE}:1`],
])("%s: found by verify, refused by the next start", (_name, harm, want) => {
  harm();
  expect(found(dir)).toBe(want);
  expect(verifyIndependently(dir, keys.publicKey)).not.toEqual([]);
  const open = () => openAuditLog({ dir, instance: "t", clock: () => NOON, durability: "write", queueEntriesMax: 9 });
  expect(open).toThrow("wrong day: the line is not of");
});

test.each<readonly [string, () => void, string]>([
  ["two days in one file", () => append(TWO, ONE), `wrong day ${ONE}:6`],
  ["a line moved into the file before", () => moveLine(TWO, ONE), `wrong day ${ONE}:6`],
  ["a day that is gone", () => fs.rmSync(join(dir, TWO)), `gap ${LAST}:1`],
  ["a day under a name that is not a day", rename(TWO, `${TWO}.bak`), `gap ${LAST}:1`],
  ["an empty file instead of a day", () => fs.truncateSync(join(dir, TWO)), `gap ${LAST}:1`],
])("%s: found by verify", (_name, harm, want) => {
  harm();
  expect(found(dir)).toBe(want);
  expect(verifyIndependently(dir, keys.publicKey)).not.toEqual([]);
});

test("a renamed file is found outside of the named days too", () => {
  rename(ONE, "2026-02-25.jsonl")();
  const { streams } = verifyLog({ dir, keys: [], from: "2026-02-17", to: "2026-02-19" });
  expect(streams[0]?.damage).toMatchObject({ kind: "wrong day", file: "2026-02-25.jsonl" });
});

test("lines of a renamed file are found by their time, and readers get a warning", async () => {
  expect(dayProblems(dir, "calls")).toEqual([]);
  rename(TWO, "2026-01-01.jsonl")();
  expect(await traceIds("2026-02-17", "2026-02-18")).toEqual(ofDay(1));
  expect(await traceIds("2026-02-19", "2026-02-20")).toEqual(ofDay(2));
  expect(dayProblems(dir, "calls")[0]).toBe("2026-01-01.jsonl of calls holds lines of 2026-02-17");
});

test.each<readonly [string, () => void, string]>([
  ["a day between", () => fs.rmSync(join(dir, TWO)), `before ${LAST} of calls lines are missing`],
  ["the first day", () => fs.rmSync(join(dir, ONE)), `before ${TWO} of calls lines are missing`],
  ["the last day", () => fs.rmSync(join(dir, LAST)), "calls held 15 lines, and its last file ends after 10"],
])("%s is missing: readers get a warning", (_name, harm, want) => {
  harm();
  expect(dayProblems(dir, "calls")).toEqual([expect.stringContaining(want)]);
});

test("prune deletes no young line, whatever the name of its file, and continues up to that file", async () => {
  rename(LAST, "2026-02-17.jsonl.young")();
  rename(TWO, "2026-02-18.jsonl")();
  rename("2026-02-17.jsonl.young", TWO)();
  const options = { dir, nowMs: NOON + DAY_MS, keepMs: 2 * DAY_MS };
  const settled = await pruneFiles(agedFiles(options), options);
  const calls = settled.filter(({ stream }) => stream === "calls");
  expect(calls.map(({ day, keptBecause }) => [day, keptBecause])).toEqual([
    ["2026-02-16", undefined],
    ["2026-02-17", "it holds lines of 2026-02-19: stc audit verify shows more"],
  ]);
  expect(linesOf(join(dir, TWO))).toHaveLength(5);
});

test("retention in a running service reports the file that it keeps", async () => {
  rename(TWO, "2026-02-15.jsonl")();
  const reports: string[] = [];
  const { promise: reported, resolve } = Promise.withResolvers<void>();
  const running = startExporters({
    ...{ dir, targets: [], retentionDays: 1, clock: () => NOON, random: () => 0 },
    report(message) {
      reports.push(message);
      resolve();
    },
    journal: async () => {},
  });
  await reported;
  await running.stop();
  const text = "2026-02-15.jsonl stays: it holds lines of 2026-02-17: stc audit verify shows more";
  expect(reports).toEqual([join(dir, text)]);
  expect(linesOf(join(dir, "2026-02-15.jsonl"))).toHaveLength(5);
});

test("prune keeps lines from before the chain that are younger than the limit", async () => {
  fs.rmSync(dir, { recursive: true });
  const old = (time: string) => `{"timestamp":"${time}","traceId":"t"}`;
  fs.mkdirSync(dir);
  writeLines(join(dir, "2026-01-01.jsonl"), [old("2026-01-01T00:00:00.000Z")]);
  const mixed = ["2026-01-02T00:00:00.000Z", "2026-02-18T00:00:00.000Z", "2026-01-02T00:00:01.000Z"];
  writeLines(join(dir, "2026-01-02.jsonl"), mixed.map(old));
  writeLines(join(dir, "2026-02-19.jsonl"), [old("2026-02-19T00:00:00.000Z")]);
  const options = { dir, nowMs: NOON, keepMs: 10 * DAY_MS };
  await pruneFiles(agedFiles(options), options);
  expect(fs.existsSync(join(dir, "2026-01-01.jsonl"))).toBe(false);
  expect(linesOf(join(dir, "2026-01-02.jsonl"))).toHaveLength(3);
});

test("an exporter stops at a renamed file rather than move its position to that day", () => {
  copy(ONE, "2099-01-01.jsonl")();
  const from = { day: "2026-02-19", offset: fs.statSync(join(dir, LAST)).size };
  expect(() => readBatch({ dir, stream: "calls", from })).toThrow("2099-01-01.jsonl holds lines of another day");
});

test.each<readonly [string, () => void]>([
  ["an empty", () => fs.writeFileSync(join(dir, "2099-01-01.jsonl"), "")],
  ["a copied", copy(ONE, "2099-01-01.jsonl")],
])("%s file of the future does not block a follower", (_name, harm) => {
  harm();
  const follower = new Follower(dir);
  follower.readNewLines();
  fs.appendFileSync(join(dir, LAST), '{"new":1}\n');
  expect(follower.readNewLines().map(({ line }) => line)).toEqual(['{"new":1}']);
  writeLines(join(dir, "2026-02-20.jsonl"), ['{"new":2}']);
  expect(follower.readNewLines().map(({ line }) => line)).toEqual(['{"new":2}']);
  fs.appendFileSync(join(dir, "2026-02-20.jsonl"), '{"new":3}\n');
  expect(follower.readNewLines().map(({ line }) => line)).toEqual(['{"new":3}']);
});

test("a call over midnight, a clock that is set back and a recovery write lines to their file's day", async () => {
  const world = createWorld();
  world.now = MIDNIGHT - 1;
  const log = world.open();
  await log.journal({ type: "intent", traceId: "t-1", tool: "bash", sub: "a" });
  const first = log.append(draftOf("t-0"));
  world.now = MIDNIGHT + 1;
  await Promise.all([first, log.append(draftOf("t-2"))]);
  world.now = MIDNIGHT - 60_000;
  await log.append(draftOf("t-3"));
  await world.stop();
  // The call of the intent never ended: its entry is written by the next start, under that day.
  world.now = MIDNIGHT + DAY_MS;
  world.open();
  await world.stop();
  expect(["16", "17", "18"].map((day) => world.lines(`2026-02-${day}.jsonl`).map(({ traceId }) => traceId))).toEqual([
    ["t-0"],
    ["t-2", "t-3"],
    ["t-1"],
  ]);
  expect(found(world.dir, [])).toBe("sound");
  expect(dayProblems(world.dir, "calls")).toEqual([]);
  await world.end();
});

test("a log whose old days were pruned, or are from before the chain, has no problems of days", async () => {
  const options = { dir, nowMs: NOON, keepMs: DAY_MS };
  await pruneFiles(agedFiles(options), options);
  expect(fs.existsSync(join(dir, TWO))).toBe(false);
  expect(dayProblems(dir, "calls")).toEqual([]);
  expect(verifyIndependently(dir, keys.publicKey)).toEqual([]);
  fs.rmSync(dir, { recursive: true });
  fs.mkdirSync(dir);
  // Another writer's days need not be those of UTC.
  writeLines(join(dir, "2026-02-15.jsonl"), ['{"timestamp":"2026-02-16T01:00:00.000Z"}']);
  await writeLog(dir, keys.privateKey);
  expect([found(dir), dayProblems(dir, "calls")]).toEqual(["sound", []]);
  expect(verifyIndependently(dir, keys.publicKey)).toEqual([]);
});
