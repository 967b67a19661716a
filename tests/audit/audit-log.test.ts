import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import fs from "node:fs";
import { join } from "node:path";
import { diskFiles, type FileOperations } from "../../src/audit/journal/file-operations.ts";
import { createWorld, draftOf, MIDNIGHT, NOON, outcomes, playDisk, type World } from "./support/open.ts";

const CALLS = "2026-02-16.jsonl";
const NEXT_DAY = "2026-02-17.jsonl";
const HOUR = 3_600_000;
const HASH = expect.stringMatching(/^[0-9a-f]{64}$/);
/** Of a stream's first line. */
const LINK = { seq: 0, prev: HASH, hash: HASH };

let world: World;
beforeEach(() => {
  world = createWorld();
});
afterEach(() => world.end());

describe("writing", () => {
  test("a call is one line of the day's file, stamped by the log, and its receipt names it", async () => {
    const log = world.open();
    expect(await log.append(draftOf("t-1"))).toEqual({ traceId: "t-1" } as never);
    const stamp = { timestamp: "2026-02-16T12:00:00.000Z", instance: "test" };
    expect(world.lines(CALLS)).toEqual([{ ...draftOf("t-1"), ...stamp, ...LINK }]);
  });

  test("a stamp from the caller is ignored", async () => {
    const log = world.open();
    const forged = { ...draftOf("t-1"), timestamp: "1970-01-01T00:00:00.000Z", instance: "other" };
    await log.append(forged as never);
    expect(world.lines(CALLS)[0]).toMatchObject({ timestamp: "2026-02-16T12:00:00.000Z", instance: "test" });
  });

  test("a journal line is in the journal's file of the day", async () => {
    const log = world.open();
    await log.journal({ type: "intent", traceId: "t-1", seq: 7, hash: "forged" });
    expect(world.lines(join("journal", CALLS))).toEqual([
      { timestamp: "2026-02-16T12:00:00.000Z", type: "intent", traceId: "t-1", instance: "test", ...LINK },
    ]);
    expect(fs.existsSync(join(world.dir, CALLS))).toBe(false);
  });

  test("directories and files are accessible to us alone", async () => {
    const dir = join(world.dir, "deep", "audit-logs");
    const log = world.open({ dir });
    await Promise.all([log.append(draftOf("t-1")), log.journal({ type: "boot" })]);
    const modes = ["..", ".", "journal", CALLS, join("journal", CALLS), ".lock"].map((name) => {
      return (fs.statSync(join(dir, name)).mode & 0o777).toString(8);
    });
    expect(modes).toEqual(["700", "700", "700", "600", "600", "600"]);
  });

  test("an instance name without a length limit is refused", () => {
    expect(() => world.open({ instance: "x".repeat(257) })).toThrow("instance name");
  });

  test("a journal line that is not JSON is refused and harms no other line", async () => {
    const log = world.open();
    const [refused] = await outcomes([log.journal({ type: "intent", count: 1n as never })]);
    expect(refused).toStartWith("AuditLogError: no line can be written");
    await log.append(draftOf("t-1"));
    expect(log.health()).toEqual({ status: "ok" });
  });
});

describe("days and clocks", () => {
  test("the day changes at midnight UTC, and a batch over midnight is split between the files", async () => {
    const { files, calls } = playDisk({});
    const log = world.open({ files });
    world.now = MIDNIGHT - 1;
    const before = [log.append(draftOf("t-1")), log.append(draftOf("t-2"))];
    world.now = MIDNIGHT;
    const after = [log.append(draftOf("t-3")), log.journal({ type: "intent" })];
    await Promise.all([...before, ...after]);
    expect(world.lines(CALLS).map((line) => line["timestamp"])).toEqual(Array(2).fill("2026-02-16T23:59:59.999Z"));
    expect(world.lines(NEXT_DAY).map((line) => line["timestamp"])).toEqual(["2026-02-17T00:00:00.000Z"]);
    expect(world.lines(join("journal", NEXT_DAY))).toHaveLength(1);
    expect(calls).toEqual(["write journal", "sync journal", "write calls", "sync calls", "write calls", "sync calls"]);
  });

  test("a clock that goes backwards stands still, over midnight too", async () => {
    const log = world.open();
    const times = [NOON, NOON - HOUR, NOON + 1, MIDNIGHT, MIDNIGHT - 1, MIDNIGHT + 5];
    for (const [index, now] of times.entries()) {
      world.now = now;
      await log.append(draftOf(`t-${index}`));
    }
    expect(world.lines(CALLS).map((line) => line["timestamp"])).toEqual([
      "2026-02-16T12:00:00.000Z",
      "2026-02-16T12:00:00.000Z",
      "2026-02-16T12:00:00.001Z",
    ]);
    expect(world.lines(NEXT_DAY).map((line) => line["timestamp"])).toEqual([
      "2026-02-17T00:00:00.000Z",
      "2026-02-17T00:00:00.000Z",
      "2026-02-17T00:00:00.005Z",
    ]);
  });

  test.each([
    ["of the same day", NOON - HOUR, CALLS],
    ["of the day before", NOON - 13 * HOUR, CALLS],
  ])(
    "a clock that is behind the log after a restart, at a time %s, continues at the last line",
    async (_name, now, file) => {
      await world.open().append(draftOf("t-1"));
      await world.stop();
      world.now = now;
      await world.open().append(draftOf("t-2"));
      expect(world.lines(file).map((line) => line["timestamp"])).toEqual(Array(2).fill("2026-02-16T12:00:00.000Z"));
    },
  );

  test("says until when it is complete on disk, and no later line has an earlier time", async () => {
    const log = world.open();
    expect(log.settled("calls")).toBeUndefined();
    await log.append(draftOf("t-1"));
    world.now = NOON + 5_000;
    const settled = log.settled("calls");
    expect(settled).toMatchObject({ stream: "calls", nextSeq: 1, untilMs: NOON + 5_000 });
    expect(log.origins()).toEqual([`safe-tool-call/audit/calls/${settled?.log}`]);
    expect(log.settled("journal")).toBeUndefined();
    world.now = NOON - HOUR;
    const waiting = log.append(draftOf("t-2"));
    expect(log.settled("calls")).toBeUndefined();
    await waiting;
    expect(world.lines(CALLS)[1]).toMatchObject({ timestamp: "2026-02-16T12:00:05.000Z" });
    expect(log.settled("calls")).toMatchObject({ nextSeq: 2, untilMs: NOON + 5_000 });
    await log.close();
    expect(log.settled("calls")).toBeUndefined();
  });

  test("the same applies to the journal", async () => {
    await world.open().journal({ type: "boot" });
    await world.stop();
    world.now = NOON - HOUR;
    await world.open().append(draftOf("t-2"));
    expect(world.lines(CALLS)[0]).toMatchObject({ timestamp: "2026-02-16T12:00:00.000Z" });
  });

  test("a clock that is days behind the log refuses the start", async () => {
    await world.open().append(draftOf("t-1"));
    await world.stop();
    world.now = 0;
    expect(() => world.open()).toThrow(/holds a line of 2026-02-16T12:00:00.000Z, but the clock says 1970-01-01T00/);
  });

  test.each([Number.NaN, Number.POSITIVE_INFINITY, -1, 8.64e15])(
    "a clock that says %d refuses the line",
    async (now) => {
      const log = world.open();
      world.now = now;
      expect((await outcomes([log.append(draftOf("t-1"))]))[0]).toContain("the clock says");
    },
  );

  test("a second run appends to the file of the day", async () => {
    for (const id of ["t-1", "t-2"]) {
      await world.open().append(draftOf(id));
      await world.stop();
    }
    expect(world.lines(CALLS).map((line) => line["traceId"])).toEqual(["t-1", "t-2"]);
  });
});

describe("the open file", () => {
  test.each<readonly [string, (path: string) => void, string]>([
    ["deleted", (path) => fs.rmSync(path), "was deleted or replaced"],
    ["replaced", (path) => replace(path), "was deleted or replaced"],
    ["emptied", (path) => fs.truncateSync(path, 0), "was cut from"],
  ])("%s is noticed within a second, permanently", async (_name, harm, reason) => {
    const log = world.open();
    await log.append(draftOf("t-1"));
    harm(join(world.dir, CALLS));
    world.now += 1_000;
    for (const id of ["t-2", "t-3"]) {
      expect((await outcomes([log.append(draftOf(id))]))[0]).toContain(reason);
    }
    expect(log.health()).toMatchObject({ status: "failing", reason: expect.stringContaining(CALLS) });
  });

  test.each([".lock", "."])("%s deleted is noticed too", async (name) => {
    const log = world.open();
    await log.append(draftOf("t-1"));
    fs.renameSync(join(world.dir, name), `${world.dir}-moved`);
    world.now += 1_000;
    expect((await outcomes([log.append(draftOf("t-2"))]))[0]).toContain("was deleted or replaced");
    fs.rmSync(`${world.dir}-moved`, { recursive: true });
  });

  test("is checked at most once a second, in either direction of the clock", async () => {
    let looks = 0;
    const factsAt: FileOperations["factsAt"] = (path) => {
      if (path.endsWith(".jsonl")) looks += 1;
      return diskFiles.factsAt(path);
    };
    const log = world.open({ files: { ...diskFiles, factsAt } });
    for (const now of [NOON, NOON, NOON + 999, NOON + 1_000, NOON + 1_500, NOON]) {
      world.now = now;
      await log.append(draftOf("t"));
    }
    expect(looks).toBe(2);
  });

  test.each<readonly [string, (path: string) => void]>([
    ["link", (path) => fs.symlinkSync(join(path, "..", "elsewhere"), path)],
    ["directory", (path) => fs.mkdirSync(path)],
    ["named pipe", (path) => Bun.spawnSync(["mkfifo", path])],
  ])("a %s in the place of a file is refused, not followed and not waited for", async (_name, plant) => {
    fs.writeFileSync(join(world.dir, "elsewhere"), "");
    const log = world.open();
    plant(join(world.dir, CALLS));
    expect((await outcomes([log.append(draftOf("t-1"))]))[0]).toContain("cannot open");
    expect(fs.readFileSync(join(world.dir, "elsewhere"), "utf8")).toBe("");
    await world.stop();
    expect(() => world.open()).toThrow();
  });
});

describe("torn ends", () => {
  const whole = '{"timestamp":"2026-02-16T11:00:00.000Z","traceId":"t-0"}\n';

  test.each<readonly [string, string, string]>([
    ["of a call", CALLS, whole],
    ["of a call that was the file's first", CALLS, ""],
    ["of a journal line", join("journal", CALLS), whole],
    ["of an earlier day", "2026-02-15.jsonl", whole],
  ])("the end %s goes into quarantine, and the journal records it", async (_name, file, before) => {
    fs.mkdirSync(join(world.dir, "journal"));
    const torn = '{"timestamp":"2026-02-16T11:00:01.000Z","tra';
    fs.writeFileSync(join(world.dir, file), before + torn);
    const log = world.open();
    await log.append(draftOf("t-1"));
    const quarantine = join(".quarantine", `${file.replace("/", "-")}.1`);
    expect(fs.readFileSync(join(world.dir, quarantine), "utf8")).toBe(torn);
    const journal = world.lines(join("journal", CALLS));
    const sha256 = new Bun.CryptoHasher("sha256").update(torn).digest("hex");
    expect(journal.at(-1)).toMatchObject({ type: "torn_tail", file, bytes: torn.length, sha256, quarantine });
    expect(fs.readFileSync(join(world.dir, file), "utf8")).toStartWith(before);
    expect(world.lines(CALLS).at(-1)).toMatchObject({ traceId: "t-1" });
  });

  test("each torn end is kept under its own name", async () => {
    for (const _run of [1, 2, 3]) {
      await world.open().append(draftOf("t"));
      await world.stop();
      fs.appendFileSync(join(world.dir, CALLS), "{");
    }
    await world.open().append(draftOf("t"));
    expect(fs.readdirSync(join(world.dir, ".quarantine")).sort()).toEqual(
      [1, 2, 3].map((count) => `${CALLS}.${count}`),
    );
    expect(world.lines(CALLS)).toHaveLength(4);
  });

  test("a whole line is never changed, nor is a foreign file", () => {
    fs.writeFileSync(join(world.dir, CALLS), whole);
    fs.writeFileSync(join(world.dir, "notes.jsonl"), "no line end");
    world.open();
    expect(fs.readFileSync(join(world.dir, CALLS), "utf8")).toBe(whole);
    expect(fs.readFileSync(join(world.dir, "notes.jsonl"), "utf8")).toBe("no line end");
    expect(fs.existsSync(join(world.dir, ".quarantine"))).toBe(false);
  });

  test("a torn end of many blocks is found, a file without any line end is not ours", async () => {
    fs.writeFileSync(join(world.dir, CALLS), whole + "x".repeat(1_000_000));
    world.open();
    expect(fs.readFileSync(join(world.dir, CALLS), "utf8")).toBe(whole);
    fs.writeFileSync(join(world.dir, "2026-02-14.jsonl"), Buffer.alloc(17 * 1024 * 1024, "x"));
    await world.stop();
    expect(() => world.open()).toThrow(/2026-02-14.jsonl has no line end in its last/);
  });

  test.each([
    ["no JSON", "broken\n"],
    ["no stamp", '{"traceId":"t-0"}\n'],
    ["a stamp that is no time", '{"timestamp":"soon"}\n'],
    ["null", "null\n"],
    ["an empty line", `${whole}\n`],
  ])("a last line that is whole but has %s prevents the start", (_name, text) => {
    fs.writeFileSync(join(world.dir, CALLS), text);
    expect(() => world.open()).toThrow(/last line of .*2026-02-16.jsonl is not a line of this log/);
    // The refused start let go of the directory.
    fs.rmSync(join(world.dir, CALLS));
    world.open();
  });
});

function replace(path: string): void {
  fs.copyFileSync(path, `${path}.copy`);
  fs.renameSync(`${path}.copy`, path);
}
