import { expect, test } from "bun:test";
import fs from "node:fs";
import { verifyLog } from "../../src/audit/verify/verify.ts";
import { keys, temporaryDirectory } from "../audit/support/chained-log.ts";
import { createWorld, draftOf } from "../audit/support/open.ts";

/** Long: a directory of a million calls. */
const CALLS = 1_000_000;
const CALLERS = 500;
const START_MS_MAX = 1_000;

test("a million calls: the start does not read them again, `verify` does", async () => {
  const dir = temporaryDirectory();
  const world = createWorld(dir);
  const checkpointKey = keys.privateKey;
  try {
    const log = world.open({ checkpointKey, durability: "write" });
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
    for (const each of [world, copy]) {
      const startedAt = performance.now();
      each.open({ checkpointKey });
      const ms = performance.now() - startedAt;
      console.log(`start: ${ms.toFixed(0)} ms`);
      expect(ms).toBeLessThan(START_MS_MAX);
      await each.stop();
    }
    await copy.end();
    const [calls] = verifyLog({ dir, keys: [keys.publicKey] }).streams;
    expect(calls).toMatchObject({ lines: CALLS, damage: undefined });
  } finally {
    await world.end();
  }
});
