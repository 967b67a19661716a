import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import fs from "node:fs";
import { join } from "node:path";
import { diskFiles, type FileOperations } from "../../src/audit/journal/file-operations.ts";
import { createWorld, draftOf, errorWith, MIDNIGHT, outcomes, playDisk, playGate, type World } from "./support/open.ts";

const CALLS = "2026-02-16.jsonl";

let world: World;
beforeEach(() => {
  world = createWorld();
});
afterEach(() => world.end());

describe("a failing disk", () => {
  const noSpace = errorWith("ENOSPC");
  const broken = errorWith("EIO");
  let writes = 0;
  beforeEach(() => {
    writes = 0;
  });
  const shortThen = (error: Error): FileOperations["write"] => {
    return (fd, bytes, offset) => {
      writes += 1;
      if (writes > 2) {
        throw error;
      }
      // The first batch goes through, of the second only a part.
      return fs.writeSync(fd, bytes, offset, writes === 1 ? bytes.length : 40);
    };
  };
  const failSecond = (error: Error): FileOperations["fdatasync"] => {
    return (fd) => {
      writes += 1;
      return writes > 1 ? Promise.reject(error) : diskFiles.fdatasync(fd);
    };
  };

  test.each<readonly [string, () => Partial<FileOperations>, string, readonly string[]]>([
    ["EIO on write", () => ({ write: failAfter(1, broken) }), "EIO", ["t-1"]],
    ["a write of nothing", () => ({ write: nothingAfter(1) }), "nothing was written", ["t-1"]],
    ["ENOSPC after a short write", () => ({ write: shortThen(noSpace) }), "ENOSPC", ["t-1"]],
    ["EIO on fdatasync", () => ({ fdatasync: failSecond(broken) }), "EIO", ["t-1", "t-2", "t-3"]],
  ])(
    "%s refuses every waiting and every later line, and the file keeps whole lines",
    async (_name, faults, reason, kept) => {
      const { files, calls } = playDisk(faults());
      const log = world.open({ files });
      await log.append(draftOf("t-1"));
      const refused = await outcomes([log.append(draftOf("t-2")), log.append(draftOf("t-3"))]);
      const after = calls.length;
      const later = await outcomes([log.append(draftOf("t-4")), log.journal({ type: "intent" })]);
      for (const outcome of [...refused, ...later]) {
        expect(outcome).toStartWith("AuditLogError: ");
        expect(outcome).toContain(reason);
        expect(outcome).toContain(CALLS);
      }
      expect(log.health()).toMatchObject({ status: "failing", reason: expect.stringContaining(reason) });
      expect(log.hasRoom()).toBe(false);
      expect(calls.length).toBe(after);
      expect(world.lines(CALLS).map((line) => line["traceId"])).toEqual([...kept]);
      expect(fs.readFileSync(join(world.dir, CALLS), "utf8")).toEndWith("\n");
    },
  );

  test("a batch of several chunks leaves nothing behind when a later chunk fails", async () => {
    const { files } = playDisk({ write: failAfter(2, broken) });
    const log = world.open({ files });
    await log.append(draftOf("t-1"));
    const request = { args: { text: "x".repeat(50_000) }, argsHash: "00", hashAlg: "sha256" };
    const refused = await outcomes(["t-2", "t-3", "t-4"].map((id) => log.append(draftOf(id, { request }))));
    expect(refused).toEqual(Array(3).fill(expect.stringContaining("EIO")));
    expect(world.lines(CALLS).map((line) => line["traceId"])).toEqual(["t-1"]);
  });

  test("a failed sync is never tried again on that descriptor, not at close either", async () => {
    const { files, calls } = playDisk({ fdatasync: () => Promise.reject(broken) });
    const log = world.open({ files });
    await outcomes([log.append(draftOf("t-1")), log.append(draftOf("t-2"))]);
    await outcomes([log.append(draftOf("t-3"))]);
    await log.close();
    expect(calls).toEqual(["write calls", "sync calls"]);
  });

  test("a part that cannot be cut off is named, and removed at the next start", async () => {
    const truncate = () => {
      throw broken;
    };
    const { files } = playDisk({ write: shortThen(noSpace), truncate });
    const log = world.open({ files });
    await log.append(draftOf("t-1"));
    const [refused] = await outcomes([log.append(draftOf("t-2"))]);
    expect(refused).toContain("taken out at the next start");
    await log.close();
    const next = world.open();
    await next.append(draftOf("t-3"));
    expect(world.lines(CALLS).map((line) => line["traceId"])).toEqual(["t-1", "t-3"]);
  });

  test("the cut does not reach into our lines when somebody added a line of their own", async () => {
    const { files } = playDisk({ write: shortThen(noSpace) });
    const log = world.open({ files });
    await log.append(draftOf("t-1"));
    fs.appendFileSync(join(world.dir, CALLS), '{"traceId":"foreign"}\n');
    await outcomes([log.append(draftOf("t-2"))]);
    expect(world.lines(CALLS).map((line) => line["traceId"])).toEqual(["t-1", "foreign"]);
  });

  test("an intent that is on disk stays acknowledged when the calls of its batch fail", async () => {
    const write: FileOperations["write"] = (fd, bytes, offset) => {
      if (Buffer.from(bytes).includes("t-1")) {
        throw broken;
      }
      return diskFiles.write(fd, bytes, offset);
    };
    const log = world.open({ files: playDisk({ write }).files });
    const [journal, call] = await outcomes([log.journal({ type: "intent" }), log.append(draftOf("t-1"))]);
    expect(journal).toBe("ok");
    expect(call).toContain("EIO");
  });

  test.each(["openAppend", "syncDirectory", "factsOf"] as const)(
    "%s that fails refuses the line",
    async (operation) => {
      const fail = () => {
        throw broken;
      };
      const log = world.open({ files: { ...diskFiles, [operation]: fail } });
      expect((await outcomes([log.append(draftOf("t-1"))]))[0]).toContain("cannot open");
      expect(log.health().status).toBe("failing");
    },
  );

  test("a close that fails blocks neither the change of day nor the release of the directory", async () => {
    const close: FileOperations["close"] = (fd) => {
      diskFiles.close(fd);
      throw broken;
    };
    const log = world.open({ files: playDisk({ close }).files });
    await log.append(draftOf("t-1"));
    world.now = MIDNIGHT;
    await log.append(draftOf("t-2"));
    await log.close();
    expect(world.open().health()).toEqual({ status: "ok" });
  });

  test("an observer that throws stops the log rather than leave it in doubt", async () => {
    const onBatch = () => {
      throw new Error("no such gauge");
    };
    const log = world.open({ onBatch });
    expect(await outcomes([log.append(draftOf("t-1"))])).toEqual(["ok"]);
    expect(await outcomes([log.append(draftOf("t-2"))])).toEqual([expect.stringContaining("no such gauge")]);
  });

  test("a disk that does not answer is reported, and takes no new calls until it answers", async () => {
    const gate = playGate();
    const log = world.open({ files: playDisk({ fdatasync: gate.fdatasync }).files });
    const waiting = log.append(draftOf("t-1"));
    await gate.reached();
    expect([log.health().status, log.hasRoom()]).toEqual(["ok", true]);
    world.now += 2_001;
    expect([log.health().status, log.hasRoom()]).toEqual(["failing", false]);
    gate.open();
    await waiting;
    expect([log.health().status, log.hasRoom()]).toEqual(["ok", true]);
  });
});

function failAfter(count: number, error: Error): FileOperations["write"] {
  let done = 0;
  return (fd, bytes, offset) => {
    done += 1;
    if (done > count) {
      throw error;
    }
    return diskFiles.write(fd, bytes, offset);
  };
}

function nothingAfter(count: number): FileOperations["write"] {
  let done = 0;
  return (fd, bytes, offset) => {
    done += 1;
    return done > count ? 0 : diskFiles.write(fd, bytes, offset);
  };
}
