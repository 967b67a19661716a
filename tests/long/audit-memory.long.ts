import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { writeGeneratedDay } from "../support/audit-lines.ts";
import { environmentOf, SIGNATURES_NOT_CHECKED, STC } from "../support/stc.ts";

/** Long: reading a day of a million lines takes no more memory than reading one of fifty thousand. */
const [FEW, MANY] = [50_000, 1_000_000];
const MORE_BYTES_MAX = 100 * 1_048_576;
const LOOK_EVERY_MS = 5;
const DAY = "2026-02-16";
/** A late collection makes one peak higher; what a command keeps of its lines is in every peak. */
const LOOKS_MAX = 4;

const folder = mkdtempSync(join(tmpdir(), "stc-memory-"));
for (const count of [FEW, MANY]) writeGeneratedDay(join(folder, String(count)), DAY, count);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/**
 * Returns the most memory that the command had, as the kernel records it for the program: in the resource usage of a child, what its
 * parent had when it was started counts, too.
 */
async function peakBytes(command: readonly string[], count: number): Promise<number> {
  const child = Bun.spawn([...STC, "audit", ...command, "--dir", join(folder, String(count))], {
    env: environmentOf({}),
    stdout: "ignore",
    stderr: "ignore",
  });
  let peak = 0;
  while (child.exitCode === null && child.signalCode === null) {
    const [, kib = 0] = /VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, "utf8")) ?? [];
    peak = Math.max(peak, Number(kib) * 1_024);
    await Bun.sleep(LOOK_EVERY_MS);
  }
  const ended = command[0] === "verify" ? SIGNATURES_NOT_CHECKED : 0;
  expect([command[0], child.exitCode]).toEqual([command[0], ended]);
  return peak;
}

test.each([
  "verify",
  "stats",
  "export --format jsonl",
  "export --format ocsf --sub agent-77",
  "query --text AGENT-77 --limit 1000000",
])("memory stays flat: stc audit %s", async (command) => {
  const args = command.split(" ");
  const few = await peakBytes(args, FEW);
  let more = Number.POSITIVE_INFINITY;
  for (let look = 0; look < LOOKS_MAX && more >= MORE_BYTES_MAX; look += 1) {
    more = Math.min(more, (await peakBytes(args, MANY)) - few);
  }
  console.log(`${command}: ${Math.round(few / 1e6)} MB, ${Math.round(more / 1e6)} MB more`);
  expect(more).toBeLessThan(MORE_BYTES_MAX);
});
