import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { writeGeneratedDay } from "../support/audit-lines.ts";
import { environmentOf, SIGNATURES_NOT_CHECKED, STC } from "../support/stc.ts";

/** Long: reading a day of a million lines takes no more memory than reading one of fifty thousand. */
const [FEW, MANY] = [50_000, 1_000_000];
const MORE_BYTES_MAX = 100 * 1_048_576;
const DAY = "2026-02-16";

const folder = mkdtempSync(join(tmpdir(), "stc-memory-"));
for (const count of [FEW, MANY]) writeGeneratedDay(join(folder, String(count)), DAY, count);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function peakBytes(command: readonly string[], count: number): number {
  const { exitCode, resourceUsage } = Bun.spawnSync(
    [...STC, "audit", ...command, "--dir", join(folder, String(count))],
    {
      env: environmentOf({}),
      stdout: "ignore",
      stderr: "pipe",
    },
  );
  const ended = command[0] === "verify" ? SIGNATURES_NOT_CHECKED : 0;
  expect([command[0], exitCode]).toEqual([command[0], ended]);
  return resourceUsage.maxRSS;
}

test.each([
  "verify",
  "stats",
  "export --format jsonl",
  "export --format ocsf --sub agent-77",
  "query --text AGENT-77 --limit 1000000",
])("memory stays flat: stc audit %s", (command) => {
  const args = command.split(" ");
  const [few, many] = [peakBytes(args, FEW), peakBytes(args, MANY)];
  console.log(`${command}: ${Math.round(few / 1e6)} MB, ${Math.round(many / 1e6)} MB`);
  expect(many - few).toBeLessThan(MORE_BYTES_MAX);
});
