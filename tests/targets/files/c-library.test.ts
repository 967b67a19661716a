import { expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "./stand.ts";

/** With constant garbage collection, memory that only a pointer refers to is freed before the call reads it, once in some thousand calls. */
const EAGER = { BUN_JSC_gcMaxHeapSize: "100000" };
const CALLS = 300_000;

test("a path is the given one, whatever is garbage-collected meanwhile", () => {
  const folder = temporaryFolder();
  writeFileSync(join(folder, "a.txt"), "one");
  const child = Bun.spawnSync(
    [process.execPath, join(import.meta.dir, "opener-child.ts"), folder, "a.txt", String(CALLS)],
    { env: { ...process.env, ...EAGER } },
  );
  expect([child.exitCode, child.stdout.toString(), child.stderr.toString()]).toEqual([0, "0\n", ""]);
});
