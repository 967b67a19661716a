import { afterEach, beforeEach, expect, test } from "bun:test";
import fs from "node:fs";
import { join } from "node:path";
import { type Aged, agedFiles, pruneFiles } from "../../src/audit/export/prune.ts";
import { savedPositionPath } from "../../src/audit/journal/saved-position.ts";
import { DAY_MS } from "../../src/audit/query/time-range.ts";
import { verifyLog } from "../../src/audit/verify/verify.ts";
import { CALLS_A_DAY, found, keys, linesOf, writeLines, writeLog } from "./support/chained-log.ts";
import { createWorld, draftOf, type World } from "./support/open.ts";

const [ONE, TWO, LAST] = ["2026-02-16.jsonl", "2026-02-17.jsonl", "2026-02-19.jsonl"];
const RECORD = "pruned.jsonl";
const checkpointKey = keys.privateKey;

let world: World;
beforeEach(async () => {
  world = createWorld();
  world.now = Date.parse("2026-02-19T13:00:00.000Z");
  await writeLog(world.dir);
});
afterEach(() => world.end());

/** Deletes the files of days before this one. */
async function prune(before: string): Promise<readonly Aged[]> {
  const options = {
    dir: world.dir,
    nowMs: world.now,
    keepMs: Math.floor((world.now - Date.parse(before)) / DAY_MS) * DAY_MS,
  };
  return pruneFiles(agedFiles(options), options);
}

const went = (settled: readonly Aged[]): readonly string[] =>
  settled.filter(({ keptBecause }) => keptBecause === undefined).map(({ stream, day }) => `${stream} ${day}`);

const callsOf = () => verifyLog({ dir: world.dir, keys: [keys.publicKey] }).streams[0];

test.each([
  ["2026-02-17", 1, 2],
  ["2026-02-19", 2, 1],
])(
  "a log without the days before %s verifies, its later checkpoints compared with the lines",
  async (day, days, compared) => {
    expect(went(await prune(day))).toHaveLength(2 * days);
    expect([found(world.dir), callsOf()]).toMatchObject([
      "sound",
      { compared, prunedTo: days * CALLS_A_DAY, lines: (3 - days) * CALLS_A_DAY, damage: undefined },
    ]);
  },
);

test.each<readonly [string, () => void]>([
  ["with its saved place", () => {}],
  ["without it", () => fs.rmSync(savedPositionPath(world.dir))],
  ["without it, and pruned twice", () => fs.rmSync(savedPositionPath(world.dir))],
])("a pruned log continues %s, and new lines verify", async (name, harm) => {
  await prune("2026-02-17");
  if (name.includes("twice")) await prune("2026-02-19");
  harm();
  await world.open({ checkpointKey }).append(draftOf("t-new"));
  await world.stop();
  expect(world.lines(LAST).at(-1)).toMatchObject({ traceId: "t-new", seq: 3 * CALLS_A_DAY });
  expect([found(world.dir), callsOf()?.compared]).toEqual(["sound", name.includes("twice") ? 2 : 3]);
});

test.each<readonly [string, (record: string) => string]>([
  ["another hash of a subtree", (record) => record.replace(/"hashes":\["..../, '"hashes":["AAAA')],
  ["another last hash", (record) => record.replace(/"nextPrev":"..../, '"nextPrev":"0000')],
  ["another log", (record) => record.replace(/"logId":"..../, '"logId":"0000')],
  ["no record", () => ""],
])("a deletion that was recorded with %s is found, and nothing is appended to it", async (_name, change) => {
  await prune("2026-02-17");
  const path = join(world.dir, RECORD);
  fs.writeFileSync(path, fs.readFileSync(path, "utf8").split("\n").map(change).join("\n"));
  expect(found(world.dir)).not.toBe("sound");
});

test("a record that a crash cut short invalidates no later one", async () => {
  fs.writeFileSync(join(world.dir, RECORD), '{"type":"audit.pruned","stre', { mode: 0o600 });
  await prune("2026-02-17");
  expect(found(world.dir)).toBe("sound");
});

test("a crash between the record and the deletion leaves a valid log, which can be pruned again", async () => {
  const kept = fs.readFileSync(join(world.dir, ONE));
  await prune("2026-02-17");
  fs.writeFileSync(join(world.dir, ONE), kept);
  expect(found(world.dir)).toBe("sound");
  expect(went(await prune("2026-02-19"))).toContain("calls 2026-02-16");
  expect(found(world.dir)).toBe("sound");
});

test("a file that does not verify stays as evidence, and so do later ones", async () => {
  const path = join(world.dir, ONE);
  writeLines(path, linesOf(path).with(2, '{"timestamp":"2026-02-16T12:00:03.000Z"}'));
  const settled = await prune("2026-02-19");
  expect(went(settled)).toEqual(["journal 2026-02-16", "journal 2026-02-17"]);
  expect(settled.find(({ stream }) => stream === "calls")?.keptBecause).toContain("does not verify");
  expect(found(world.dir)).toStartWith(`changed ${ONE}:3`);
});

test("other work continues while a file is followed to its end", async () => {
  const long = createWorld();
  const log = long.open({ checkpointKey, durability: "write", queueEntriesMax: 5_000 });
  await Promise.all(Array.from({ length: 4_000 }, (_, call) => log.append(draftOf(`t-${call}`))));
  long.now += 3 * DAY_MS;
  await log.append(draftOf("t-last"));
  await long.stop();
  const options = { dir: long.dir, nowMs: long.now, keepMs: DAY_MS };
  let turns = 0;
  const timer = setInterval(() => (turns += 1), 0);
  const settled = await pruneFiles(agedFiles(options), options);
  clearInterval(timer);
  expect(went(settled)).toEqual(["calls 2026-02-16"]);
  expect(turns).toBeGreaterThan(0);
  expect(found(long.dir)).toBe("sound");
  await long.end();
});

test("lines from before the chain may be deleted too: the rest is still followed", async () => {
  const old = createWorld();
  for (const day of ["2026-02-13", "2026-02-14"]) {
    writeLines(join(old.dir, `${day}.jsonl`), [`{"timestamp":"${day}T00:00:00.000Z","traceId":"t-old"}`]);
  }
  await writeLog(old.dir);
  for (const [day, linesBefore] of [
    ["2026-02-14", 1],
    ["2026-02-15", 0],
    ["2026-02-17", 0],
  ] as const) {
    const options = {
      dir: old.dir,
      nowMs: world.now,
      keepMs: Math.floor((world.now - Date.parse(day)) / DAY_MS) * DAY_MS,
    };
    await pruneFiles(agedFiles(options), options);
    expect([found(old.dir), verifyLog({ dir: old.dir, keys: [] }).streams[0]?.linesBefore]).toEqual([
      "sound",
      linesBefore,
    ]);
    fs.rmSync(savedPositionPath(old.dir), { force: true });
    old.now = world.now;
    old.open({ checkpointKey });
    await old.stop();
  }
  writeLines(join(old.dir, TWO), ['{"timestamp":"2026-02-17T00:00:00.000Z"}', ...linesOf(join(old.dir, TWO))]);
  expect(found(old.dir)).toStartWith("inserted");
  await old.end();
});
