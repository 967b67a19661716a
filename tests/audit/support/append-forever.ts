import { writeSync } from "node:fs";
import { openAuditLog } from "../../../src/audit/audit-log.ts";
import { draftOf, NOON } from "./open.ts";

// Appends to the log of its first argument until it is killed, and prints every trace id once it has the receipt.
const log = openAuditLog({
  dir: process.argv[2] ?? "",
  instance: "child",
  clock: () => NOON,
  durability: "fdatasync",
  queueEntriesMax: 100,
});

async function call(caller: number): Promise<never> {
  for (let count = 0; ; count += 1) {
    const { traceId } = await log.append(draftOf(`${process.pid}-${caller}-${count}`));
    writeSync(1, `${traceId}\n`);
  }
}

await Promise.all([0, 1, 2, 3, 4, 5, 6, 7].map(call));
