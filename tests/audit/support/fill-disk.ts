import fs from "node:fs";
import { join } from "node:path";
import { openAuditLog } from "../../../src/audit/audit-log.ts";
import { draftOf } from "./open.ts";

// Fills the small file system on which its first argument lies, frees it again, and prints what the log made of it.
const [, , dir = ""] = process.argv;
const FILLER = join(dir, "..", "filler");
let now = Date.parse("2026-02-16T12:00:00.000Z");
const log = openAuditLog({
  dir,
  instance: "child",
  clock: () => now,
  durability: "fdatasync",
  queueEntriesMax: 100,
});

function fill(): void {
  const fd = fs.openSync(FILLER, "a");
  const block = Buffer.alloc(4_096);
  try {
    for (;;) if (fs.writeSync(fd, block) < block.length) return;
  } catch {
    // Full.
  } finally {
    fs.closeSync(fd);
  }
}

/** Appends until a line is refused; returns how many were taken. */
async function appendUntilFull(): Promise<number> {
  for (let taken = 0; ; taken += 1) {
    try {
      await log.append(draftOf(`t-${taken}`, { request: { args: {}, argsHash: "0".repeat(4_000), hashAlg: "none" } }));
    } catch {
      return taken;
    }
  }
}

await log.append(draftOf("t-first"));
fill();
now += 1_000;
const roomWhenLow = log.hasRoom();
const taken = await appendUntilFull();
const healthWhenFull = log.health();
now += 1_000;
const roomWhenFull = log.hasRoom();
fs.rmSync(FILLER);
let looks = 0;
for (; !log.hasRoom() && looks < 1_000; looks += 1) {
  now += 1_000;
  await Bun.sleep(1);
}
await log.append(draftOf("t-last"));
await log.close();
const files = ["2026-02-16.jsonl", "journal/2026-02-16.jsonl"].map((name) => fs.readFileSync(join(dir, name), "utf8"));
process.stdout.write(JSON.stringify({ roomWhenLow, taken, healthWhenFull, roomWhenFull, files }));
