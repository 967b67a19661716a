import { expect, test } from "bun:test";
import fs from "node:fs";
import { verifyLog } from "../../src/audit/verify/verify.ts";
import { keys, temporaryDirectory } from "../audit/support/chained-log.ts";
import { createWorld, draftOf } from "../audit/support/open.ts";
import { microsecondsOf } from "../support/processor-time.ts";

/** Long: a directory of a million calls. */
const CALLS = 1_000_000;
const CALLERS = 500;
/** A start reads what was written since the last one: at the default of a second, a quarter of these calls. */
const CHECKPOINT_INTERVAL_MS = 100;
/** Of the processor time that reading them all takes. */
const START_SHARE_MAX = 0.25;

test("a million calls: the start does not read them again, `verify` does", async () => {
  const dir = temporaryDirectory();
  const world = createWorld(dir);
  const checkpointKey = keys.privateKey;
  try {
    const log = world.open({ checkpointKey, checkpointIntervalMs: CHECKPOINT_INTERVAL_MS, durability: "write" });
    let left = CALLS;
    const caller = async (): Promise<void> => {
      while (left > 0) {
        left -= 1;
        await log.append(draftOf(`t-${left}`));
      }
    };
    await Promise.all(Array.from({ length: CALLERS }, caller));
    // As after a crash: without the last checkpoint and the place that a close saves.
    const copy = createWorld();
    fs.cpSync(dir, copy.dir, { recursive: true });
    await world.stop();
    const starts: number[] = [];
    for (const each of [world, copy]) {
      starts.push(microsecondsOf(() => each.open({ checkpointKey }), 1));
      await each.stop();
    }
    await copy.end();
    const verify = microsecondsOf(() => {
      const [calls] = verifyLog({ dir, keys: [keys.publicKey] }).streams;
      expect(calls).toMatchObject({ lines: CALLS, damage: undefined });
    }, 1);
    console.log(`start: ${starts.map((start) => (start / verify).toFixed(3)).join(", ")} of the time to verify`);
    expect(Math.max(...starts) / verify).toBeLessThan(START_SHARE_MAX);
  } finally {
    await world.end();
  }
});
