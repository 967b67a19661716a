import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import fs from "node:fs";
import { join } from "node:path";
import { diskFiles, type FileOperations } from "../../../src/audit/journal/file-operations.ts";
import { createWorld, draftOf, errorWith, outcomes, playDisk, type World } from "../support/open.ts";

const CALLS = "2026-02-16.jsonl";
const MEBIBYTE = 1_048_576;
const RESERVE = ".state/reserve";

let world: World;
let free: number;
beforeEach(() => {
  world = createWorld();
  free = 1_000 * MEBIBYTE;
});
afterEach(() => world.end());

/** A disk of 16 GiB, of which the test says what is free. */
const space: FileOperations["space"] = () => ({ free, total: 16_384 * MEBIBYTE });

describe("a disk that runs low", () => {
  test("takes no new calls and still their refusals, until there is room again and some to spare", async () => {
    const log = world.open({ files: { ...diskFiles, space } });
    const look = (freeNow: number) => {
      free = freeNow * MEBIBYTE;
      world.now += 1_000;
      return [log.hasRoom(), log.health().status];
    };
    expect(look(64)).toEqual([true, "ok"]);
    expect(look(63)).toEqual([false, "failing"]);
    await log.append(draftOf("t-refused"));
    expect(look(70)).toEqual([false, "failing"]);
    expect(look(80)).toEqual([true, "ok"]);
    expect(look(64)).toEqual([true, "ok"]);
  });

  test("is asked once a second at most", () => {
    let asked = 0;
    const files = { ...diskFiles, space: () => ({ ...space(""), free: free - ++asked }) };
    const log = world.open({ files });
    for (let ask = 0; ask < 10; ask += 1) log.hasRoom();
    world.now += 1_000;
    for (let ask = 0; ask < 10; ask += 1) log.hasRoom();
    expect(asked).toBe(2);
  });

  test.each([
    ["as large as configured", 8, 16_384, 2],
    ["a sixteenth of a small disk at most", 64, 256, 4],
  ])("has a reserve that is %s, a quarter of it in a file", async (_name, configured, total, held) => {
    const files = { ...diskFiles, space: () => ({ free, total: total * MEBIBYTE }) };
    world.open({ files, diskReserveBytes: configured * MEBIBYTE });
    const { size, blocks } = fs.statSync(join(world.dir, RESERVE));
    expect([size, blocks * 512]).toEqual([held * MEBIBYTE, held * MEBIBYTE]);
    await world.stop();
    expect(fs.existsSync(join(world.dir, RESERVE))).toBe(false);
  });
});

test("a reserve that a killed run left behind is taken over", async () => {
  fs.mkdirSync(join(world.dir, ".state"));
  fs.writeFileSync(join(world.dir, RESERVE), "x".repeat(100));
  world.open({ files: { ...diskFiles, space }, diskReserveBytes: 4 * MEBIBYTE });
  expect(fs.statSync(join(world.dir, RESERVE)).size).toBe(MEBIBYTE);
});

describe("a disk that is full", () => {
  /** Writes find no room while the reserve file is there. */
  function fullDisk(truncate = diskFiles.truncate): {
    readonly files: FileOperations;
    readonly calls: string[];
    isFull: boolean;
  } {
    const disk = {
      isFull: false,
      ...playDisk({
        space,
        truncate,
        write(fd, bytes, offset) {
          if (disk.isFull && fs.existsSync(join(world.dir, RESERVE))) {
            if (offset > 0) throw errorWith("ENOSPC");
            return fs.writeSync(fd, bytes, 0, 10);
          }
          return diskFiles.write(fd, bytes, offset);
        },
      }),
    };
    return disk;
  }

  test("gives the reserve up for the lines that are waiting, and takes no new calls", async () => {
    const disk = fullDisk();
    const log = world.open({ files: disk.files });
    await log.append(draftOf("t-1"));
    disk.isFull = true;
    expect(await outcomes(["t-2", "t-3"].map((id) => log.append(draftOf(id))))).toEqual(["ok", "ok"]);
    expect([log.hasRoom(), log.health().status]).toEqual([false, "failing"]);
    await log.append(draftOf("t-4"));
    expect(world.lines(CALLS).map(({ traceId, seq }) => [traceId, seq])).toEqual(
      [1, 2, 3, 4].map((n) => [`t-${n}`, n - 1]),
    );
    disk.isFull = false;
    world.now += 1_000;
    expect([log.hasRoom(), fs.existsSync(join(world.dir, RESERVE))]).toEqual([true, true]);
  });

  test("with no reserve left stops the log", async () => {
    const log = world.open({
      files: playDisk({
        space,
        write() {
          throw errorWith("ENOSPC");
        },
      }).files,
    });
    expect(await outcomes([log.append(draftOf("t-1"))])).toEqual([expect.stringContaining("ENOSPC")]);
    world.now += 10_000;
    expect([log.hasRoom(), log.health().status]).toEqual([false, "failing"]);
  });

  test("that leaves a part of a line which cannot be cut off stops the log, reserve or not", async () => {
    const disk = fullDisk(() => {
      throw errorWith("EIO");
    });
    const log = world.open({ files: disk.files });
    disk.isFull = true;
    expect(await outcomes([log.append(draftOf("t-1"))])).toEqual([expect.stringContaining("could not be cut off")]);
    expect(fs.existsSync(join(world.dir, RESERVE))).toBe(true);
  });
});
