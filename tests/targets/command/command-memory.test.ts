import { expect, test } from "bun:test";
import { z } from "zod";
import { commandMemory, residentBytes } from "../../../src/targets/command/command-memory.ts";
import { until } from "../../support/until.ts";
import { call, refusalFrom, stand, standTool } from "./stand.ts";

const MEBIBYTE = 1_048_576;
const LIMIT = 128 * MEBIBYTE;
const BASH = Bun.which("bash") ?? "/bin/bash";
/** A script that allocates this many bytes and waits. */
const hold = (bytes: number): string => `tail -c ${bytes} < <(head -c ${bytes} /dev/zero; sleep 20) > /dev/null`;

const { handler } = stand({ commands: new Map([["bash", BASH]]), memoryBytesMax: LIMIT });
const script = (text: string, classification: "read" | "write" = "read") =>
  standTool(
    { command: "bash", options: ["-c"], argsBuilder: () => ["-c", text] },
    z.strictObject({ text: z.string() }),
    { classification },
  );

test.each([
  ["one process", hold(150_000_000)],
  ["several together, in the background", `for i in 1 2 3 4 5 6; do ${hold(30_000_000)} & done; wait`],
  ["several in groups of their own", `set -m; for i in 1 2 3 4 5 6; do ${hold(30_000_000)} & done; wait`],
])("%s: a command that uses more memory than its limit is ended", async (_title, text) => {
  const refusal = await refusalFrom(call(script(text), { handler }));
  expect(refusal.code).toBe("TARGET_FAILED");
  expect(refusal.message).toBe(
    "The command used more memory than is allowed, and was ended. Let it process less at once.",
  );
  expect(refusal.details).toEqual({ limit: "memory", memoryBytesMax: LIMIT });
  expect(String(refusal.cause)).toContain("memoryBound");
});

test("the outcome of a change that is ended this way is unknown", async () => {
  const refusal = await refusalFrom(call(script(hold(150_000_000), "write"), { handler }));
  expect(refusal.code).toBe("OUTCOME_UNKNOWN");
  expect(refusal.details).toEqual({ limit: "memory", memoryBytesMax: LIMIT });
});

test.each([
  ["less than the limit", `head -c 60000000 /dev/zero | tail -c 60000000 | wc -c; echo whole`],
  [
    "pages that many processes share count once",
    `printf -v x "%*s" 10000000 ""; for i in {1..16}; do (sleep 0.3; :) & done; wait; echo whole`,
  ],
])("%s", async (_title, text) => {
  expect(await call(script(text), { handler })).toMatchObject({ text: expect.stringMatching(/whole\n$/) });
});

test("a command yields memory and processor to the service", async () => {
  const text =
    'until read x < /proc/self/oom_score_adj && [ "$x" = 1000 ] && [ "$(nice)" -ge 10 ]; do sleep 0.01; done; echo whole';
  expect(await call(script(text), { handler })).toEqual({ text: "whole\n" });
});

test("the derived limit is at most 2 GiB; a configured one is used as it is", () => {
  expect(commandMemory().bytesMax()).toBeLessThanOrEqual(2_048 * MEBIBYTE);
  expect(commandMemory().bytesMax()).toBeGreaterThanOrEqual(32 * MEBIBYTE);
  expect(commandMemory(LIMIT).bytesMax()).toBe(LIMIT);
});

test("other work goes on while many processes are measured", async () => {
  let turns = 0;
  const isOver = { now: false };
  const count = (): void => {
    turns += 1;
    if (!isOver.now) setImmediate(count);
  };
  setImmediate(count);
  const bytes = await residentBytes(Array.from({ length: 1_000 }, () => process.pid));
  isOver.now = true;
  expect(bytes).toBeGreaterThan(1_000 * MEBIBYTE);
  expect(turns).toBeGreaterThanOrEqual(10);
});

const PYTHON = Bun.which("python3");

test.skipIf(PYTHON === null)("page tables count: sparse reads of unwritten memory create them", async () => {
  const read = `import mmap, sys, time
size = 32 << 30
memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, mmap.PROT_READ)
for at in range(0, size, 1 << 21): memory[at]
print("read", flush=True)
time.sleep(20)`;
  const child = Bun.spawn([PYTHON ?? "", "-c", read], { stdout: "pipe", stderr: "inherit" });
  for await (const _ of child.stdout) break;
  const bytes = await residentBytes([child.pid]);
  child.kill("SIGKILL");
  await child.exited;
  expect(bytes).toBeGreaterThan(64 * MEBIBYTE);
});

test("while a command is being ended, no other one is ended for the memory that it still holds", async () => {
  const looked = { times: 0 };
  const usedBytes = (): number => {
    looked.times += 1;
    return 1_024 * MEBIBYTE;
  };
  const memory = commandMemory(LIMIT, { bytesMax: 512 * MEBIBYTE, usedBytes });
  const ended: number[] = [];
  const children = [1, 2].map(() =>
    Bun.spawn(["sleep", "60"], { detached: true, stdio: ["ignore", "ignore", "ignore"] }),
  );
  const releases = children.map(({ pid }, index) =>
    memory.watch({ session: pid, isLeaderCounted: true, bytesMax: LIMIT }, () => ended.push(index)),
  );
  await until("five measurements", () => looked.times >= 5 || undefined);
  expect(ended).toHaveLength(1);
  releases[ended[0] ?? 0]?.();
  await until("the other one is ended", () => ended.length === 2 || undefined);
  for (const release of releases) release();
  for (const child of children) {
    child.kill("SIGKILL");
    await child.exited;
  }
});
