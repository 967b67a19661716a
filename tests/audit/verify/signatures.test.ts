import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { generateKeyPairSync, type KeyObject } from "node:crypto";
import fs from "node:fs";
import { join } from "node:path";
import { exitCodeOf, verifyInSteps, verifyLog } from "../../../src/audit/verify/verify.ts";
import { present as presentNamed } from "../../../src/core/present.ts";
import { found, hashIn, keys, linesOf, rehashed, writeLines } from "../support/chained-log.ts";
import { createWorld, draftOf, NOON, type World } from "../support/open.ts";
import { verifyIndependently } from "./independent-verifier.ts";

const DAY_MS = 86_400_000;
const other = generateKeyPairSync("ed25519");

const present = <T>(value: T | undefined): T => presentNamed(value, "a part of the log");

let world: World;
beforeEach(() => {
  world = createWorld();
});
afterEach(() => world.end());

/** A run of the service with this key: a call on each of these days, and a line of the journal, ten minutes apart. */
async function run(key: KeyObject | undefined, days: readonly number[], streams = "calls and journal"): Promise<void> {
  const log = world.open({ checkpointKey: key });
  for (const day of days) {
    for (const minutes of [0, 10]) {
      world.now = NOON + day * DAY_MS + minutes * 60_000;
      if (streams.includes("calls")) await log.append(draftOf(`t-${day}-${minutes}`));
      await log.journal({ type: "tick" });
    }
  }
  await world.stop();
}

const report = (publicKeys: readonly KeyObject[]) => verifyLog({ dir: world.dir, keys: publicKeys });
const codeOf = (publicKeys: readonly KeyObject[]) => exitCodeOf(report(publicKeys));
const coverage = (publicKeys: readonly KeyObject[]) => report(publicKeys).streams.map(({ covered }) => covered);

describe("a log that was signed from some day on", () => {
  test("the first checkpoint covers all lines so far, and the report says since when", async () => {
    await run(undefined, [0, 1]);
    expect(coverage([])).toEqual([undefined, undefined]);
    await run(keys.privateKey, [2, 3]);
    expect([found(world.dir), codeOf([keys.publicKey])]).toEqual(["sound", 0]);
    for (const covered of coverage([keys.publicKey])) {
      expect(covered?.size).toBe(8);
      // The start signs what it finds, before the first line of this run, with it or after it.
      const { file = "", size = 0 } = covered?.since ?? {};
      expect(file).toMatch(/^checkpoints\/2026-02-1[78]\.txt$/);
      expect(size).toBeWithin(4, 7);
    }
    expect(verifyIndependently(world.dir, keys.publicKey)).toEqual([]);
  });

  test("a line from before the first checkpoint cannot be changed after it", async () => {
    await run(undefined, [0]);
    await run(keys.privateKey, [1]);
    const file = join(world.dir, "2026-02-16.jsonl");
    fs.writeFileSync(file, fs.readFileSync(file, "utf8").replace("t-0-0", "t-9-9"));
    expect(found(world.dir)).toBe("changed 2026-02-16.jsonl:1");
  });
});

describe("the key was replaced", () => {
  beforeEach(async () => {
    await run(keys.privateKey, [0, 1]);
    await run(other.privateKey, [2, 3], "journal");
  });

  test("both keys verify all checkpoints, the old days with the old key", () => {
    const { checkpoints } = report([keys.publicKey, other.publicKey]);
    expect(checkpoints).toMatchObject({ otherKeys: 0, damage: undefined });
    expect(checkpoints.signed).toBe(checkpoints.checkpoints);
  });

  test("the new key alone verifies the whole log, also a stream without new lines: it signed all of it at its start", () => {
    const { checkpoints, streams } = report([other.publicKey]);
    expect([found(world.dir, [other.publicKey]), codeOf([other.publicKey])]).toEqual(["sound", 0]);
    expect(checkpoints.otherKeys).toBeGreaterThan(0);
    expect(checkpoints.signed + checkpoints.otherKeys).toBe(checkpoints.checkpoints);
    expect(streams.map(({ covered, lines }) => covered?.size === lines)).toEqual([true, true]);
    expect(verifyIndependently(world.dir, other.publicKey)).toEqual([]);
  });

  test("the old key alone does not verify what the new one signed", () => {
    expect(found(world.dir)).toStartWith("bad signature ");
    expect(codeOf([keys.publicKey])).toBe(4);
    expect(verifyIndependently(world.dir, keys.publicKey)).not.toEqual([]);
  });

  test("a third key verifies nothing", () => {
    const { publicKey } = generateKeyPairSync("ed25519");
    expect(found(world.dir, [publicKey])).toBe("bad signature checkpoints/2026-02-16.txt:1");
  });

  test("whoever has the old key cannot change what the new one signed", async () => {
    const file = join(world.dir, "checkpoints/2026-02-16.txt");
    const old = fs.readFileSync(file, "utf8");
    fs.writeFileSync(
      file,
      old.replace(/^(safe-tool-call.*\n\d+\n)(.)/m, (_, head, first) => head + (first === "A" ? "B" : "A")),
    );
    expect(found(world.dir, [other.publicKey])).toContain("checkpoint mismatch");
  });

  test("an old checkpoint without a signature is damage with every key", () => {
    const file = join(world.dir, "checkpoints/2026-02-16.txt");
    fs.writeFileSync(file, fs.readFileSync(file, "utf8").replace(/^— .*\n/m, "x\n"));
    expect(found(world.dir, [other.publicKey])).toBe("not signed checkpoints/2026-02-16.txt:1");
  });

  test("a start with the same key signs nothing again", async () => {
    const before = report([other.publicKey]).checkpoints.checkpoints;
    world.open({ checkpointKey: other.privateKey });
    await world.stop();
    expect(report([other.publicKey]).checkpoints.checkpoints).toBe(before);
  });
});

describe("signatures that stop", () => {
  const withoutState = () => fs.rmSync(join(world.dir, ".state"), { recursive: true });

  test.each<readonly [string, () => Promise<void>, string]>([
    [
      "the service was started without a key, and days follow",
      () => run(undefined, [2, 3]),
      "not signed 2026-02-18.jsonl:1; not signed journal/2026-02-18.jsonl:1",
    ],
    [
      "somebody deleted the newest checkpoints, to rebuild the lines after them",
      async () => {
        fs.rmSync(join(world.dir, "checkpoints/2026-02-17.txt"));
        withoutState();
      },
      "not signed 2026-02-17.jsonl:1; not signed journal/2026-02-17.jsonl:1",
    ],
    [
      "somebody deleted those of one stream",
      async () => {
        for (const day of [16, 17]) {
          const file = join(world.dir, `checkpoints/2026-02-${day}.txt`);
          const text = fs.readFileSync(file, "utf8");
          fs.writeFileSync(file, text.replaceAll(/^safe-tool-call\/audit\/calls\/\w+\n\d+\n.*\n\n— .*\n\n/gm, ""));
        }
        withoutState();
      },
      "not signed 2026-02-16.jsonl:1",
    ],
  ])("are found with a key, and are no damage without one: %s", async (_name, harm, want) => {
    await run(keys.privateKey, [0, 1]);
    await harm();
    expect([found(world.dir), codeOf([keys.publicKey])]).toEqual([want, 4]);
    expect([found(world.dir, []), codeOf([])]).toEqual(["sound", 0]);
  });

  test.each<readonly [string, (line: string, index: number, count: number) => string]>([
    ["no time", (line) => line.replace('{"timestamp"', '{ "timestamp"')],
    ["a time that no clock shows", (line) => line.replace(/T\d\d:/, "T99:")],
    ["times that go backwards", (line, at, count) => (at === count - 1 ? line.replace("T12:10", "T12:00") : line)],
  ])("are found when somebody rebuilds the lines with %s", async (_name, change) => {
    await run(keys.privateKey, [0, 1]);
    await run(undefined, [1, 1]);
    fs.rmSync(join(world.dir, ".state"), { recursive: true });
    const signed = present(report([keys.publicKey]).streams[0]?.covered).size;
    const file = join(world.dir, "2026-02-17.jsonl");
    const lines = linesOf(file);
    const own = signed - linesOf(join(world.dir, "2026-02-16.jsonl")).length;
    for (let at = own; at < lines.length; at += 1) {
      const prev = hashIn(present(lines[at - 1]));
      lines[at] = rehashed(change(present(lines[at]), at - own, lines.length - own), { prev });
    }
    writeLines(file, lines);
    expect(report([]).streams[0]?.damage).toBeUndefined();
    expect(found(world.dir)).toStartWith(`not signed 2026-02-17.jsonl:${own + 1}`);
  });

  test("are no damage any more when the key signs again: it covers them", async () => {
    await run(keys.privateKey, [0]);
    await run(undefined, [1, 2]);
    await run(keys.privateKey, [3]);
    expect(found(world.dir)).toBe("sound");
  });

  test("are no damage in the lines of the last minute: the service signs them next", async () => {
    await run(keys.privateKey, [0]);
    const log = world.open();
    for (const seconds of [0, 60]) {
      world.now = NOON + DAY_MS + seconds * 1_000;
      await log.append(draftOf(`t-${seconds}`));
    }
    await world.stop();
    expect(found(world.dir)).toBe("sound");
    expect(report([keys.publicKey]).streams[0]).toMatchObject({ covered: { size: 2 }, lastSeq: 3 });
  });

  test("are no damage in what a running service signs while a long check reads", async () => {
    await run(keys.privateKey, [0, 1]);
    const steps = verifyInSteps({ dir: world.dir, keys: [keys.publicKey] });
    expect(steps.next().done).toBe(false);
    await run(keys.privateKey, [1]);
    let step = steps.next();
    while (step.done !== true) step = steps.next();
    expect(step.value.report.streams.map(({ damage }) => damage)).toEqual([undefined, undefined]);
    expect(step.value.report.streams[0]?.lines).toBe(6);
  });
});

describe("logs that share one key", () => {
  test("have origins of their own, and a checkpoint of one does not verify another", async () => {
    const replica = createWorld();
    try {
      await run(keys.privateKey, [0]);
      const log = replica.open({ checkpointKey: keys.privateKey, instance: "replica" });
      await log.append(draftOf("t-0"));
      await replica.stop();
      const [own] = report([keys.publicKey]).streams;
      const [others] = verifyLog({ dir: replica.dir, keys: [keys.publicKey] }).streams;
      expect(own?.origin).toMatch(/^safe-tool-call\/audit\/calls\/[0-9a-f]{32}$/);
      expect(others?.origin).toMatch(/^safe-tool-call\/audit\/calls\/[0-9a-f]{32}$/);
      expect(others?.origin).not.toBe(own?.origin);
      expect([found(world.dir), found(replica.dir)]).toEqual(["sound", "sound"]);
      fs.cpSync(join(world.dir, "checkpoints"), join(replica.dir, "checkpoints"), { recursive: true });
      expect(found(replica.dir)).toContain("checkpoint mismatch checkpoints/2026-02-16.txt:1");
    } finally {
      await replica.end();
    }
  });
});
