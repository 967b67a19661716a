import { generateKeyPairSync } from "node:crypto";
import { writeSync } from "node:fs";
import { openAuditLog } from "../../../src/audit/audit-log.ts";
import { draftOf } from "./open.ts";

// Announces and appends calls to the log of its first argument, with as many callers as its second says, until it is
// killed; prints every trace id once it has the receipt. Its clock begins at the third and goes on with each call.
const [, , dir = "", callers = "1", beginMs = "0"] = process.argv;
let now = Number(beginMs);

const log = openAuditLog({
  dir,
  instance: "child",
  clock: () => now,
  durability: "fdatasync",
  queueEntriesMax: 1_000,
  checkpointKey: generateKeyPairSync("ed25519").privateKey,
  checkpointIntervalMs: 1,
});

async function call(caller: number): Promise<never> {
  for (let count = 0; ; count += 1) {
    const traceId = `${process.pid}-${caller}-${count}`;
    now += 40;
    await log.journal({ type: "intent", traceId, tool: "bash" });
    await log.append(draftOf(traceId));
    writeSync(1, `${traceId}\n`);
  }
}

await Promise.all(Array.from({ length: Number(callers) }, (_, caller) => call(caller)));
