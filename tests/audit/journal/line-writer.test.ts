import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import fs from "node:fs";
import { join } from "node:path";
import { AuditLogError } from "../../../src/audit/audit-log-error.ts";
import type { AuditEntry } from "../../../src/audit/entry.ts";
import { QUEUE_BYTES_MAX, type WrittenBatch } from "../../../src/audit/journal/line-writer.ts";
import { createWorld, draftOf, outcomes, playDisk, playGate, type World } from "../support/open.ts";

const CALLS = "2026-02-16.jsonl";

let world: World;
beforeEach(() => {
  world = createWorld();
});
afterEach(() => world.end());

describe("group commit", () => {
  test("a receipt comes only after the sync, and lines that arrive meanwhile share the next one", async () => {
    const gate = playGate();
    const { files, calls } = playDisk({ fdatasync: gate.fdatasync });
    const log = world.open({ files });
    const settled: string[] = [];
    const first = log.append(draftOf("t-1")).then(() => settled.push("t-1"));
    await gate.reached();
    const others = ["t-2", "t-3"].map((id) => log.append(draftOf(id)).then(() => settled.push(id)));
    await Bun.sleep(0);
    expect(settled).toEqual([]);
    expect(world.lines(CALLS)).toHaveLength(1);
    gate.open();
    await first;
    await gate.reached();
    expect(settled).toEqual(["t-1"]);
    gate.open();
    await Promise.all(others);
    expect(settled).toEqual(["t-1", "t-2", "t-3"]);
    expect(calls).toEqual(["write calls", "sync calls", "write calls", "sync calls"]);
    expect(world.lines(CALLS).map((line) => line["traceId"])).toEqual(["t-1", "t-2", "t-3"]);
  });

  test("the journal of a batch is on disk before the calls of the batch are written", async () => {
    const { files, calls } = playDisk({});
    const log = world.open({ files });
    await Promise.all([log.append(draftOf("t-1")), log.journal({ type: "intent", traceId: "t-2" })]);
    expect(calls).toEqual(["write journal", "sync journal", "write calls", "sync calls"]);
  });

  test("durability write acknowledges without a sync", async () => {
    const { files, calls } = playDisk({});
    const log = world.open({ files, durability: "write" });
    await log.append(draftOf("t-1"));
    expect(calls).toEqual(["write calls"]);
  });

  test("callers that one batch woke share the next", async () => {
    const batches: WrittenBatch[] = [];
    const log = world.open({ onBatch: (batch) => batches.push(batch) });
    const caller = async () => {
      for (let turn = 0; turn < 5; turn += 1) {
        await log.append(draftOf("t"));
      }
    };
    await Promise.all(Array.from({ length: 64 }, caller));
    expect(batches.map(({ entries }) => entries)).toEqual([64, 64, 64, 64, 64]);
    const { size } = fs.statSync(join(world.dir, CALLS));
    expect(batches.reduce((sum, { bytes }) => sum + bytes, 0)).toBe(size);
  });

  test("a batch of more than one chunk is written in order, whole, and synced once", async () => {
    const { files, calls } = playDisk({});
    const batches: WrittenBatch[] = [];
    const log = world.open({ files, onBatch: (batch) => batches.push(batch) });
    const texts = Array.from({ length: 12 }, (_, index) => "ü".repeat(index * 2_000));
    await Promise.all(texts.map((text, index) => log.append(draftOf(`t-${index}`, argumentsOf(text)))));
    expect(world.lines(CALLS)).toMatchObject(
      texts.map((text, index) => ({ traceId: `t-${index}`, ...argumentsOf(text) })),
    );
    expect(calls).toEqual(["write calls", "write calls", "write calls", "sync calls"]);
    expect(batches).toMatchObject([{ entries: 12, bytes: fs.statSync(join(world.dir, CALLS)).size }]);
  });

  test("short writes are continued where they stopped", async () => {
    const { files } = playDisk({
      write: (fd, bytes, offset) => fs.writeSync(fd, bytes, offset, Math.min(7, bytes.length - offset)),
    });
    const log = world.open({ files });
    await Promise.all([log.append(draftOf("t-ü")), log.append(draftOf("t-2"))]);
    expect(world.lines(CALLS).map((line) => line["traceId"])).toEqual(["t-ü", "t-2"]);
  });
});

describe("the bounded queue", () => {
  test("a full queue refuses, and recovers when the disk has written its lines", async () => {
    const gate = playGate();
    const log = world.open({ files: playDisk({ fdatasync: gate.fdatasync }).files, queueEntriesMax: 2 });
    const waiting = [log.append(draftOf("t-1")), log.journal({ type: "intent" })];
    expect(log.hasRoom()).toBe(false);
    expect((await outcomes([log.append(draftOf("t-3"))]))[0]).toContain("queueEntriesMax");
    expect(log.health()).toEqual({ status: "ok" });
    await gate.reached();
    gate.open();
    await gate.reached();
    gate.open();
    expect(await outcomes(waiting)).toEqual(["ok", "ok"]);
    expect(log.hasRoom()).toBe(true);
  });

  test("the waiting bytes are limited too", async () => {
    const gate = playGate();
    const log = world.open({ files: playDisk({ fdatasync: gate.fdatasync }).files });
    const args = { text: "x".repeat(64_000) };
    const draft = draftOf("t", { request: { args, argsHash: "", hashAlg: "sha256" } });
    const waiting: Promise<unknown>[] = [];
    while (log.hasRoom()) {
      waiting.push(log.append(draft));
    }
    expect(waiting.length).toBe(Math.ceil(QUEUE_BYTES_MAX / 64_530));
    expect((await outcomes([log.append(draft)]))[0]).toContain("bytes already wait");
    await gate.reached();
    gate.open();
    expect(new Set(await outcomes(waiting))).toEqual(new Set(["ok"]));
  });
});

describe("closing", () => {
  test("writes waiting lines, refuses new ones, and may be called again", async () => {
    const log = world.open();
    const waiting = [log.append(draftOf("t-1")), log.journal({ type: "stop" })];
    await Promise.all([log.close(), log.close()]);
    expect(await outcomes(waiting)).toEqual(["ok", "ok"]);
    expect(world.lines(CALLS)).toHaveLength(1);
    expect(await outcomes([log.append(draftOf("t-2"))])).toEqual(["AuditLogError: the audit log is closed"]);
    expect(log.health()).toEqual({ status: "failing", reason: "the audit log is closed" });
    expect(log.hasRoom()).toBe(false);
  });

  test("leaves no descriptor open", async () => {
    const before = fs.readdirSync("/dev/fd").length;
    const log = world.open();
    await Promise.all([log.append(draftOf("t-1")), log.journal({ type: "boot" })]);
    await log.close();
    expect(fs.readdirSync("/dev/fd").length).toBe(before);
  });
});

test("failures are AuditLogErrors, also by their class", async () => {
  const log = world.open();
  await log.close();
  await expect(log.append(draftOf("t-1"))).rejects.toBeInstanceOf(AuditLogError);
});

function argumentsOf(text: string): Pick<AuditEntry, "request"> {
  return { request: { args: { text }, argsHash: "00", hashAlg: "sha256" } };
}
