import { afterAll, afterEach, beforeEach, expect, test } from "bun:test";
import fs from "node:fs";
import { join } from "node:path";
import { agedFiles, pruneFiles } from "../../../src/audit/export/prune.ts";
import type { JournalLine } from "../../../src/audit/journal/journal.ts";
import { logProblems, problemText, readRecordedLogs } from "../../../src/audit/verify/worker-logs.ts";
import { keys, temporaryDirectory, writeLog, writeWorkersLogs } from "../support/chained-log.ts";
import { createWorld, draftOf } from "../support/open.ts";

const original = temporaryDirectory();
await writeWorkersLogs(original);
afterAll(() => fs.rmSync(original, { recursive: true }));
const LATER = Date.parse("2026-02-20T12:00:00.000Z");

let dir: string;
beforeEach(() => {
  dir = temporaryDirectory();
  fs.cpSync(original, dir, { recursive: true });
});
afterEach(() => fs.rmSync(dir, { recursive: true }));

const at = (name: string): string => join(dir, name);
const copy = (from: string, to: string): void => fs.cpSync(from, to, { recursive: true });
const remove = (name: string): void => fs.rmSync(at(name), { recursive: true });

/** Writes to the parent's journal, as a later start does. */
async function record(...lines: readonly JournalLine[]): Promise<void> {
  const world = createWorld(dir);
  world.now = LATER;
  const log = world.open({ checkpointKey: keys.privateKey });
  for (const line of lines) await log.journal(line);
  await world.stop();
}

/** Another log in the folder of a worker; returns its origins. */
function another(worker: number): Promise<readonly string[]> {
  return writeLog(at(`worker-${worker}`), keys.privateKey, { instance: `later-${worker}` });
}

const kinds = (): readonly string[] =>
  logProblems(dir, readRecordedLogs(dir)).map(({ kind, log }) => `${kind}: ${log}`);

test.each<readonly [string, () => void, readonly string[]]>([
  [
    "a copy of another worker's log in its place",
    () => {
      remove("worker-2");
      copy(at("worker-1"), at("worker-2"));
    },
    ["duplicate log: worker-2", "wrong log: worker-2", "missing log: worker-2"],
  ],
  [
    "two swapped folders",
    () => {
      fs.renameSync(at("worker-1"), at("other"));
      fs.renameSync(at("worker-2"), at("worker-1"));
      fs.renameSync(at("other"), at("worker-2"));
    },
    ["wrong log: worker-1", "wrong log: worker-2"],
  ],
  [
    "a copy as another worker",
    () => copy(at("worker-1"), at("worker-3")),
    ["duplicate log: worker-3", "wrong log: worker-3"],
  ],
  ["a folder that is renamed", () => fs.renameSync(at("worker-1"), at("worker-3")), ["wrong log: worker-3"]],
  [
    "a copy of the directory's own log",
    () => {
      copy(original, at("worker-3"));
      remove("worker-3/worker-1");
      remove("worker-3/worker-2");
    },
    ["duplicate log: worker-3", "unknown log: worker-3"],
  ],
  ["a folder that is gone", () => remove("worker-2"), ["missing log: worker-2"]],
  ["all folders gone", () => ["worker-1", "worker-2"].map(remove), ["missing log: worker-1", "missing log: worker-2"]],
  [
    "a folder that is emptied",
    () => {
      remove("worker-1");
      fs.mkdirSync(at("worker-1"));
    },
    ["missing log: worker-1"],
  ],
  [
    "swapped files of the calls alone",
    () => {
      for (const day of fs.readdirSync(at("worker-1")).filter((name) => name.endsWith(".jsonl"))) {
        fs.renameSync(at(`worker-1/${day}`), at("other"));
        fs.renameSync(at(`worker-2/${day}`), at(`worker-1/${day}`));
        fs.renameSync(at("other"), at(`worker-2/${day}`));
      }
    },
    ["wrong log: worker-1", "wrong log: worker-2"],
  ],
  [
    "the journal of the directory itself gone",
    () => remove("journal"),
    ["unknown log: worker-1", "unknown log: worker-2"],
  ],
])("%s is found", (_name, harm, found) => {
  expect(kinds()).toEqual([]);
  harm();
  expect(kinds()).toEqual([...found]);
});

test("a folder that was made again by a later start is found, whatever that start recorded", async () => {
  remove("worker-2");
  const origins = await another(2);
  expect(kinds()).toEqual(["wrong log: worker-2", "missing log: worker-2"]);
  await record({ type: "worker.started", worker: 2, pid: 7 }, { type: "worker.log", worker: 2, pid: 7, origins });
  const [problem, ...others] = logProblems(dir, readRecordedLogs(dir));
  expect(others).toEqual([]);
  expect(problem && problemText(problem)).toMatch(
    /^missing log: worker-2: the journal recorded a log of this worker that is not here \(safe-tool-call\/audit\/calls\/[0-9a-f]{32}, safe-tool-call\/audit\/journal\/[0-9a-f]{32}\)$/,
  );
});

test("swapped folders stay wrong after a start that records them in their new places", async () => {
  const [one, two] = [at("worker-1"), at("worker-2")];
  fs.renameSync(one, at("other"));
  fs.renameSync(two, one);
  fs.renameSync(at("other"), two);
  const origins = (worker: number) => readRecordedLogs(original).originsOf(worker);
  await record(
    { type: "worker.log", worker: 1, pid: 7, origins: [...origins(2)] },
    { type: "worker.log", worker: 2, pid: 8, origins: [...origins(1)] },
  );
  expect(kinds()).toEqual(["wrong log: worker-1", "wrong log: worker-2"]);
});

test("a log of a worker that was never started is found", async () => {
  await another(3);
  expect(kinds()).toEqual(["unknown log: worker-3"]);
});

test("a worker without a recorded log is known by the name of its folder", async () => {
  await another(3);
  await record({ type: "worker.started", worker: 3, pid: 7 });
  expect(kinds()).toEqual([]);
  remove("worker-3");
  expect(kinds()).toEqual(["missing log: worker-3"]);
});

test("a worker whose start was refused needs no log, and may have one", async () => {
  await record(
    { type: "worker.started", worker: 3, pid: 7 },
    { type: "worker.ended", worker: 3, pid: 7, code: 78, signal: null },
  );
  expect(kinds()).toEqual([]);
  await another(3);
  expect(kinds()).toEqual([]);
});

test("workers that were replaced after a crash, more workers and fewer workers are no problem", async () => {
  const origins = await another(3);
  const own = readRecordedLogs(original).originsOf(2);
  await record(
    { type: "worker.ended", worker: 2, pid: 2, code: null, signal: "9" },
    { type: "worker.started", worker: 2, pid: 7 },
    { type: "worker.log", worker: 2, pid: 7, origins: [...own] },
    { type: "worker.started", worker: 3, pid: 8 },
    // Before its first call, and after it.
    { type: "worker.log", worker: 3, pid: 8, origins: origins.slice(1) },
    { type: "worker.log", worker: 3, pid: 8, origins: [...origins] },
    { type: "service.started", tools: 1, pid: 9 },
    { type: "worker.started", worker: 1, pid: 10 },
  );
  expect(kinds()).toEqual([]);
});

test("a worker that has written no call when it is verified is no problem", async () => {
  fs.mkdirSync(at("worker-3"));
  expect(kinds()).toEqual([]);
  const world = createWorld(at("worker-3"));
  const log = world.open();
  await log.journal({ type: "service.started" });
  const origins = log.origins();
  expect(origins).toEqual([expect.stringContaining("/journal/")]);
  await record(
    { type: "worker.started", worker: 3, pid: 7 },
    { type: "worker.log", worker: 3, pid: 7, origins: [...origins] },
  );
  await log.append(draftOf("t-1"));
  expect(kinds()).toEqual([]);
  await world.stop();
});

async function prune(log: string): Promise<void> {
  const options = { dir: log, nowMs: LATER, keepMs: 0 };
  expect((await pruneFiles(agedFiles(options), options)).some(({ keptBecause }) => keptBecause === undefined)).toBe(
    true,
  );
}

test("day files that retention deleted from the workers' logs change nothing", async () => {
  for (const log of ["worker-1", "worker-2"]) await prune(at(log));
  expect(kinds()).toEqual([]);
  fs.renameSync(at("worker-1"), at("worker-3"));
  expect(kinds()).toEqual(["wrong log: worker-3"]);
});

test("a parent's journal that retention has shortened knows what it has recorded since", async () => {
  await record({ type: "service.started", tools: 1 });
  await prune(dir);
  expect(readRecordedLogs(dir).isWhole).toBe(false);
  await another(3);
  expect(kinds()).toEqual([]);
  copy(at("worker-1"), at("worker-4"));
  expect(kinds()).toEqual(["duplicate log: worker-4"]);
});

test("a directory without workers has no problem", async () => {
  const alone = temporaryDirectory();
  expect(logProblems(alone, readRecordedLogs(alone))).toEqual([]);
  await writeLog(alone);
  expect(logProblems(alone, readRecordedLogs(alone))).toEqual([]);
  fs.rmSync(alone, { recursive: true });
});
