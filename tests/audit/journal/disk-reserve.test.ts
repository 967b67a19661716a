import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import fs from "node:fs";
import { join } from "node:path";
import { diskFiles, type FileOperations } from "../../../src/audit/journal/file-operations.ts";
import { until } from "../../support/until.ts";
import { found } from "../support/chained-log.ts";
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
  test("takes no new calls but still their refusals, until there is room again with a margin", async () => {
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

  test("tells how much is free, and nothing while it cannot be asked", () => {
    let isAway = false;
    const log = world.open({
      files: {
        ...diskFiles,
        space(dir) {
          if (isAway) throw new Error("EIO");
          return space(dir);
        },
      },
    });
    expect(log.diskFreeBytes()).toBe(1_000 * MEBIBYTE);
    free = 900 * MEBIBYTE;
    world.now += 1_000;
    expect(log.diskFreeBytes()).toBe(900 * MEBIBYTE);
    isAway = true;
    world.now += 1_000;
    expect(log.diskFreeBytes()).toBeUndefined();
  });

  test("is checked once a second at most", () => {
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

describe("logs of one process", () => {
  const tenantDir = (name = "acme"): string => join(world.dir, "tenants", name);
  const isThere = (dir = world.dir): boolean => fs.existsSync(join(dir, RESERVE));
  const openTenant = (files: FileOperations, name?: string) =>
    world.open({ files, dir: tenantDir(name), tenant: name ?? "acme", reserveOf: world.dir });

  test("share one reserve, however many there are, until the log that has it ends", async () => {
    const files = { ...diskFiles, space };
    fs.mkdirSync(join(tenantDir("t0"), ".state"), { recursive: true });
    fs.writeFileSync(join(tenantDir("t0"), RESERVE), "left by a killed run");
    const own = world.open({ files });
    const tenants = Array.from({ length: 20 }, (_, at) => openTenant(files, `t${at}`));
    const found = fs.readdirSync(world.dir, { recursive: true, encoding: "utf8" });
    expect(found.filter((path) => path.endsWith("/reserve"))).toEqual([RESERVE]);
    expect(fs.statSync(join(world.dir, RESERVE)).size).toBe(16 * MEBIBYTE);
    for (const log of tenants) await log.close();
    expect(isThere()).toBe(true);
    await own.close();
    expect(isThere()).toBe(false);
  });

  test("have a reserve of their own on another disk", () => {
    const files: FileOperations = {
      ...diskFiles,
      space,
      factsAt(path) {
        const facts = diskFiles.factsAt(path);
        return facts && Object.assign(facts, { dev: path.startsWith(tenantDir()) ? 2 : 1 });
      },
    };
    world.open({ files });
    openTenant(files);
    expect([isThere(), isThere(tenantDir())]).toEqual([true, true]);
  });

  test("all write their lines into the room of the one reserve, and none takes calls until it is there again", async () => {
    const disk = { isFull: false };
    const files: FileOperations = {
      ...diskFiles,
      space,
      write(fd, bytes, offset) {
        if (disk.isFull && isThere()) throw errorWith("ENOSPC");
        return diskFiles.write(fd, bytes, offset);
      },
    };
    const logs = [world.open({ files }), openTenant(files), openTenant(files, "globex")];
    await Promise.all(logs.map((log) => log.append(draftOf("t-1"))));
    const looks = (freeNow: number) => {
      free = freeNow * MEBIBYTE;
      world.now += 1_000;
      return logs.map((log) => log.hasRoom());
    };
    expect(looks(64)).toEqual([true, true, true]);
    disk.isFull = true;
    free = 0;
    expect(await outcomes(logs.map((log) => log.append(draftOf("t-2"))))).toEqual(["ok", "ok", "ok"]);
    expect(isThere()).toBe(false);
    disk.isFull = false;
    expect(looks(79)).toEqual([false, false, false]);
    expect(isThere()).toBe(false);
    expect(looks(96)).toEqual([true, true, true]);
    expect(isThere()).toBe(true);
  });

  test("a log that finds the reserve gone has no second chance, and takes no calls", async () => {
    const played = { isFull: false };
    const files: FileOperations = {
      ...diskFiles,
      space,
      write(fd, bytes, offset) {
        if (played.isFull) throw errorWith("ENOSPC");
        return diskFiles.write(fd, bytes, offset);
      },
    };
    const logs = [world.open({ files }), openTenant(files)];
    played.isFull = true;
    free = 0;
    const refused = await outcomes(logs.map((log) => log.append(draftOf("t-1"))));
    expect(refused).toEqual(Array(2).fill(expect.stringContaining("ENOSPC")));
    expect(logs.map((log) => log.hasRoom())).toEqual([false, false]);
  });
});

test("a reserve that a killed run left is adopted", async () => {
  fs.mkdirSync(join(world.dir, ".state"));
  fs.writeFileSync(join(world.dir, RESERVE), "x".repeat(100));
  world.open({ files: { ...diskFiles, space }, diskReserveBytes: 4 * MEBIBYTE });
  expect(fs.statSync(join(world.dir, RESERVE)).size).toBe(MEBIBYTE);
});

describe("a full disk", () => {
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

  test("releases the reserve for waiting lines, and takes no new calls", async () => {
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

  /** A disk on which nothing can be written while `isFull`. */
  function fillingDisk() {
    const state = { isFull: false };
    const played = playDisk({
      space: () => (state.isFull ? { ...space(""), free: 0 } : space("")),
      write(fd, bytes, offset) {
        if (!state.isFull) return diskFiles.write(fd, bytes, offset);
        if (offset > 0) throw errorWith("ENOSPC");
        return fs.writeSync(fd, bytes, 0, 10);
      },
    });
    return Object.assign(state, played);
  }

  test("refuses lines without touching the disk, and continues by itself when there is room again", async () => {
    const disk = fillingDisk();
    const log = world.open({ files: disk.files });
    await log.append(draftOf("t-1"));
    disk.isFull = true;
    const refused = await outcomes([log.append(draftOf("t-2")), log.journal({ type: "intent", traceId: "t-3" })]);
    expect(refused).toEqual(Array(2).fill(expect.stringContaining("ENOSPC")));
    const calls = disk.calls.length;
    expect(await outcomes([log.append(draftOf("t-4"))])).toEqual([expect.stringContaining("ENOSPC")]);
    world.now += 1_000;
    expect([log.hasRoom(), log.health().status, disk.calls.length]).toEqual([false, "failing", calls]);
    disk.isFull = false;
    world.now += 1_000;
    // A line of the journal has to be durable before calls are taken.
    expect(log.hasRoom()).toBe(false);
    await until("room", () => log.hasRoom() || undefined);
    expect(log.health()).toEqual({ status: "ok" });
    await log.append(draftOf("t-5"));
    await world.stop();
    expect(world.lines(CALLS).map(({ traceId, seq }) => [traceId, seq])).toEqual([
      ["t-1", 0],
      ["t-5", 1],
    ]);
    expect(world.lines(join("journal", CALLS)).map(({ type }) => type)).toEqual(["audit.resumed"]);
    expect(found(world.dir, [])).toBe("sound");
    // The intent that was refused announces nothing to the next start.
    world.open();
    await world.stop();
    expect(world.lines(CALLS)).toHaveLength(2);
  });

  test("leaves an unknown outcome for a call whose entry could not be written, once there is room", async () => {
    const disk = fillingDisk();
    const log = world.open({ files: disk.files });
    await log.journal({ type: "intent", traceId: "t-1", tool: "bash", sub: "agent-1" });
    await log.journal({ type: "intent", traceId: "t-2", tool: "bash", sub: "agent-1" });
    disk.isFull = true;
    await outcomes([log.append(draftOf("t-1"))]);
    disk.isFull = false;
    world.now += 1_000;
    await until("room", () => log.hasRoom() || undefined);
    const hasLine = (): boolean => fs.existsSync(join(world.dir, CALLS)) && world.lines(CALLS).length === 1;
    await until("the line", () => hasLine() || undefined);
    // The other call is still under way.
    await log.append(draftOf("t-2"));
    await world.stop();
    expect(world.lines(CALLS)).toMatchObject([
      { traceId: "t-1", intentSeq: 0, error: { code: "OUTCOME_UNKNOWN" } },
      { traceId: "t-2", intentSeq: 1, decision: "ALLOWED" },
    ]);
    expect(found(world.dir, [])).toBe("sound");
  });

  test("takes no call when it is still full although it reports free space", async () => {
    const disk = fillingDisk();
    const log = world.open({ files: { ...disk.files, space } });
    disk.isFull = true;
    await outcomes([log.append(draftOf("t-1"))]);
    for (let look = 0; look < 3; look += 1) {
      world.now += 1_000;
      expect(log.hasRoom()).toBe(false);
      await Bun.sleep(0);
    }
    expect(await outcomes([log.append(draftOf("t-2"))])).toEqual([expect.stringContaining("ENOSPC")]);
  });

  test("does not make up for a sync that failed", async () => {
    const disk = fillingDisk();
    const log = world.open({ files: { ...disk.files, fdatasync: () => Promise.reject(errorWith("ENOSPC")) } });
    expect(await outcomes([log.append(draftOf("t-1"))])).toEqual([expect.stringContaining("restart the service")]);
    const calls = disk.calls.length;
    world.now += 10_000;
    expect([log.hasRoom(), log.health().status]).toEqual([false, "failing"]);
    await log.close();
    expect(disk.calls).toHaveLength(calls);
  });

  test("stops the log when no reserve is left", async () => {
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

  test("stops the log when a part of a line cannot be cut off, with or without reserve", async () => {
    const disk = fullDisk(() => {
      throw errorWith("EIO");
    });
    const log = world.open({ files: disk.files });
    disk.isFull = true;
    expect(await outcomes([log.append(draftOf("t-1"))])).toEqual([expect.stringContaining("could not be cut off")]);
    expect(fs.existsSync(join(world.dir, RESERVE))).toBe(true);
  });
});
