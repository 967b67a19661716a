import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import fs from "node:fs";
import { join } from "node:path";
import { diskFiles, type FileOperations } from "../../../src/audit/journal/file-operations.ts";
import { until } from "../../support/until.ts";
import { found, keys } from "../support/chained-log.ts";
import { createWorld, draftOf, errorWith, MIDNIGHT, NOON, outcomes, type World } from "../support/open.ts";

const NOTES = "checkpoints/2026-02-16.txt";
const checkpointKey = keys.privateKey;

let world: World;
beforeEach(() => {
  world = createWorld();
});
afterEach(() => world.end());

/** Stream and size of each note of a file. */
function notes(file: string): readonly string[] {
  const path = join(world.dir, file);
  const text = fs.existsSync(path) ? fs.readFileSync(path, "utf8") : "";
  return [...text.matchAll(/^safe-tool-call\/audit\/(\w+)\/\w+\n(\d+)\n/gm)].map(
    ([, stream, size]) => `${stream} ${size}`,
  );
}

describe("checkpoints", () => {
  test("are made automatically after lines, once for the same lines", async () => {
    const log = world.open({ checkpointKey, checkpointIntervalMs: 1 });
    await log.append(draftOf("t-1"));
    await until("a checkpoint", () => notes(NOTES).length === 1 || undefined);
    await log.append(draftOf("t-2"));
    await until("a checkpoint", () => notes(NOTES).length === 2 || undefined);
    await log.close();
    expect(notes(NOTES)).toEqual(["calls 1", "calls 2"]);
    expect(found(world.dir)).toBe("sound");
  });

  test("are made at the end of a run for new lines", async () => {
    for (const id of ["t-1", "t-2"]) {
      await world.open({ checkpointKey }).append(draftOf(id));
      await world.stop();
    }
    world.open({ checkpointKey });
    await world.stop();
    expect(notes(NOTES)).toEqual(["calls 1", "calls 2"]);
  });

  test("close each day in its own file", async () => {
    const log = world.open({ checkpointKey });
    for (const now of [NOON, MIDNIGHT, MIDNIGHT + 86_400_000]) {
      world.now = now;
      await log.append(draftOf(`t-${now}`));
      await log.journal({ type: "tick" });
    }
    await log.close();
    const days = ["16", "17", "18"].map((day) => notes(`checkpoints/2026-02-${day}.txt`).toSorted());
    expect(days).toEqual([1, 2, 3].map((size) => [`calls ${size}`, `journal ${size}`]));
  });

  test.each(["fdatasync", "write"] as const)("cover durable lines only, with durability %s", async (durability) => {
    const synced: number[] = [];
    const calls = new Set<number>();
    const files: FileOperations = {
      ...diskFiles,
      openAppend(path) {
        const fd = diskFiles.openAppend(path);
        if (path.endsWith(".jsonl")) calls.add(fd);
        if (path.endsWith(".txt")) synced.push(Number.NaN);
        return fd;
      },
      async fdatasync(fd) {
        await diskFiles.fdatasync(fd);
        if (calls.has(fd)) synced.push(fs.fstatSync(fd).size);
      },
    };
    const log = world.open({ checkpointKey, durability, files });
    await log.append(draftOf("t-1"));
    await log.close();
    expect(synced).toEqual([fs.statSync(join(world.dir, "2026-02-16.jsonl")).size, Number.NaN]);
  });

  test("block new calls while they cannot be written, and are tried again", async () => {
    let isBroken = true;
    const files: FileOperations = {
      ...diskFiles,
      async replace(path, bytes) {
        if (isBroken) throw errorWith("EIO");
        await diskFiles.replace(path, bytes);
      },
    };
    const log = world.open({ checkpointKey, checkpointIntervalMs: 1, files });
    await log.append(draftOf("t-1"));
    await until("no room", () => !log.hasRoom() || undefined);
    expect(log.health()).toMatchObject({ status: "failing", reason: expect.stringContaining("no checkpoint") });
    await log.append(draftOf("t-refused"));
    isBroken = false;
    await until("room", () => log.hasRoom() || undefined);
    expect(log.health()).toEqual({ status: "ok" });
  });

  test("stop the log when the lines cannot be synced: the kernel dropped them", async () => {
    const files = { ...diskFiles, fdatasync: () => Promise.reject(errorWith("EIO")) };
    const log = world.open({ checkpointKey, checkpointIntervalMs: 1, durability: "write", files });
    await log.append(draftOf("t-1"));
    await until("a failure", () => log.health().status === "failing" || undefined);
    expect(await outcomes([log.append(draftOf("t-2"))])).toEqual([expect.stringContaining("cannot sync")]);
    expect(notes(NOTES)).toEqual([]);
  });

  test("that were partly written leave nothing behind", async () => {
    let writes = 0;
    const files: FileOperations = {
      ...diskFiles,
      write(fd, bytes, offset) {
        const isNote = Buffer.from(bytes).includes("safe-tool-call/audit");
        if (isNote && offset > 0) throw errorWith("ENOSPC");
        writes += isNote ? 1 : 0;
        return isNote && writes === 1 ? fs.writeSync(fd, bytes, 0, 30) : diskFiles.write(fd, bytes, offset);
      },
    };
    const log = world.open({ checkpointKey, checkpointIntervalMs: 1, files });
    await log.append(draftOf("t-1"));
    await until("a checkpoint", () => notes(NOTES).length === 1 || undefined);
    await log.close();
    expect(found(world.dir)).toBe("sound");
  });

  test("are not made without a key, nor by a failed log", async () => {
    await world.open().append(draftOf("t-1"));
    await world.stop();
    const files = { ...diskFiles, fdatasync: () => Promise.reject(errorWith("EIO")) };
    await world
      .open({ checkpointKey, files })
      .append(draftOf("t-2"))
      .catch(() => undefined);
    await world.stop();
    expect(notes(NOTES)).toEqual([]);
  });
});
