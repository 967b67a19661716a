import { generateKeyPairSync } from "node:crypto";
import { writeSync } from "node:fs";
import { type AuditLog, openAuditLog } from "../../../src/audit/audit-log.ts";
import { draftOf } from "./open.ts";

// Appends to the log of its first argument, opening it again whenever it fails, and prints every trace id once it has the
// receipt. With a second argument: one line, and any failure is its own.
const ROUNDS = 24;
const CALLS = 6;
const EVENING = Date.parse("2026-02-16T23:59:59.900Z");

const [, , dir = "", isOnce] = process.argv;
const { privateKey: checkpointKey } = generateKeyPairSync("ed25519");
let now = EVENING;

function open(): AuditLog {
  return openAuditLog({
    dir,
    instance: "child",
    clock: () => now,
    durability: "fdatasync",
    queueEntriesMax: 100,
    checkpointKey,
    checkpointIntervalMs: 1,
  });
}

async function call(log: AuditLog, traceId: string): Promise<void> {
  now += 3;
  await log.journal({ type: "intent", traceId, tool: "bash" });
  await log.append(draftOf(traceId));
  writeSync(1, `${traceId}\n`);
}

async function round(number: number): Promise<void> {
  const log = open();
  const ids = Array.from({ length: CALLS }, (_, index) => `${process.pid}-${number}-${index}`);
  await Promise.allSettled(ids.slice(0, CALLS / 2).map((id) => call(log, id)));
  await Promise.allSettled(ids.slice(CALLS / 2).map((id) => call(log, id)));
  await log.close();
}

if (isOnce !== undefined) {
  const log = open();
  await call(log, `${process.pid}-once`);
  await log.close();
} else {
  for (let number = 0; number < ROUNDS; number += 1) {
    try {
      await round(number);
    } catch {
      // The start itself met a fault: the next one finds what it left.
    }
  }
}
