import { afterAll, afterEach, beforeEach, describe, expect, test } from "bun:test";
import fs from "node:fs";
import { join } from "node:path";
import { agedFiles, pruneFiles } from "../../../src/audit/export/prune.ts";
import type { JournalLine } from "../../../src/audit/journal/journal.ts";
import { logProblems, problemText, readRecordedLogs, tenantLogLine } from "../../../src/audit/verify/worker-logs.ts";
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
  const origins = (worker: number) => readRecordedLogs(original).originsOf(`worker-${worker}`);
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
  const own = readRecordedLogs(original).originsOf("worker-2");
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

describe("tenants' logs", () => {
  const ofTenant = (name: string) => writeLog(at(`tenants/${name}`), keys.privateKey, { tenant: name });
  let origins: readonly string[];
  beforeEach(async () => {
    origins = await ofTenant("acme");
    await record(tenantLogLine("acme", origins.slice(1)), tenantLogLine("globex", await ofTenant("globex")));
    // A later start, after the first calls of acme.
    await record(tenantLogLine("acme", origins));
  });

  test.each<readonly [string, () => unknown, readonly string[]]>([
    ["a folder that is gone", () => remove("tenants/acme"), ["missing log: tenants/acme"]],
    ["all folders gone", () => remove("tenants"), ["missing log: tenants/acme", "missing log: tenants/globex"]],
    [
      "a younger log in its place",
      async () => {
        remove("tenants/acme");
        await writeLog(at("tenants/acme"), keys.privateKey, { tenant: "acme", instance: "later" });
      },
      ["wrong log: tenants/acme", "missing log: tenants/acme"],
    ],
    [
      "a younger log that a later start has recorded",
      async () => {
        remove("tenants/acme");
        const later = await writeLog(at("tenants/acme"), keys.privateKey, { tenant: "acme", instance: "later" });
        await record(tenantLogLine("acme", later));
      },
      ["missing log: tenants/acme"],
    ],
    [
      "a renamed folder",
      () => fs.renameSync(at("tenants/acme"), at("tenants/initech")),
      ["wrong log: tenants/initech"],
    ],
    [
      "a copy in another tenant's place",
      () => {
        remove("tenants/globex");
        copy(at("tenants/acme"), at("tenants/globex"));
      },
      ["duplicate log: tenants/globex", "wrong log: tenants/globex", "missing log: tenants/globex"],
    ],
  ])("%s is found", async (_name, harm, found) => {
    expect(kinds()).toEqual([]);
    await harm();
    expect(kinds()).toEqual([...found]);
  });

  test("a tenant that later starts do not have, a new one, and one whose start was refused are no problem", async () => {
    await record(tenantLogLine("globex", readRecordedLogs(dir).originsOf("tenants/globex")));
    await ofTenant("initech");
    expect(kinds()).toEqual([]);
  });

  test("the problem names the origins that are lost", () => {
    remove("tenants/acme");
    expect(logProblems(dir, readRecordedLogs(dir)).map(problemText)).toEqual([
      `missing log: tenants/acme: the journal recorded a log of this tenant that is not here (${[origins[1], origins[0]].join(", ")})`,
    ]);
  });

  test("a folder's name cannot lead out of the directory or mislead a reader", async () => {
    await record(
      { type: "tenant.log", folder: "../../elsewhere", origins: ["a"] },
      { type: "tenant.log", folder: 7, origins: ["b"] },
    );
    expect(kinds()).toEqual([]);
    fs.renameSync(at("tenants/acme"), at("tenants/\u001b[2J"));
    const [problem] = logProblems(dir, readRecordedLogs(dir));
    expect(problem && problemText(problem)).toBe("wrong log: tenants/\\u001b[2J: holds the log of tenants/acme");
  });
});

test("a directory without workers has no problem", async () => {
  const alone = temporaryDirectory();
  expect(logProblems(alone, readRecordedLogs(alone))).toEqual([]);
  await writeLog(alone);
  expect(logProblems(alone, readRecordedLogs(alone))).toEqual([]);
  fs.rmSync(alone, { recursive: true });
});
