import { expect, test } from "bun:test";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openAuditLog } from "../../src/audit/audit-log.ts";
import { verifyLog } from "../../src/audit/verify/verify.ts";
import { keys } from "../audit/support/chained-log.ts";

/** Long: a log is killed again and again under load; after each kill it verifies, and the next start goes on. */
const ROUNDS = 40;
const CALLERS = 64;
const EVENING = Date.parse("2026-02-16T23:59:59.000Z");
const DAY_MS = 86_400_000;
const CHILD = join(import.meta.dir, "../audit/support/append-checkpointed.ts");

test("kill -9 in a loop under 64 callers: nothing acknowledged is lost or doubled, and every start finds a valid log", async () => {
  const dir = mkdtempSync(join(tmpdir(), "stc-audit-kill-"));
  const acknowledged: string[] = [];
  try {
    for (let round = 0; round < ROUNDS; round += 1) {
      acknowledged.push(...(await runUntilKilled(dir, round)));
      const { streams, checkpoints } = verifyLog({ dir, keys: [keys.publicKey] });
      const damages = [...streams, checkpoints].flatMap(({ damage }) => damage ?? []);
      expect(damages.filter(({ isTornEnd, kind }) => isTornEnd !== true && kind !== "bad signature")).toEqual([]);
    }
    const log = openAuditLog({
      ...{ dir, instance: "last", clock: () => beginOf(ROUNDS), durability: "fdatasync", queueEntriesMax: 1_000 },
    });
    await log.close();
    const calls = linesIn(dir).map(({ traceId }) => traceId);
    const intents = linesIn(join(dir, "journal")).filter(({ type }) => type === "intent");
    const written = new Set(calls);
    expect(calls.length).toBe(written.size);
    expect(acknowledged.length).toBeGreaterThan(ROUNDS);
    expect(acknowledged.filter((traceId) => !written.has(traceId))).toEqual([]);
    expect(intents.filter(({ traceId }) => !written.has(traceId))).toEqual([]);
    expect(verifyLog({ dir, keys: [] }).streams.map(({ damage }) => damage)).toEqual([undefined, undefined]);
    console.log(`${calls.length} calls, ${acknowledged.length} acknowledged, ${ROUNDS} kills`);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
});

/** Each run begins a second before the next midnight. */
function beginOf(round: number): number {
  return EVENING + round * DAY_MS;
}

/** Answers what the child said that it has receipts for. */
async function runUntilKilled(dir: string, round: number): Promise<readonly string[]> {
  const lines = 20 + ((round * 317) % 2_000);
  const child = Bun.spawn([process.execPath, CHILD, dir, String(CALLERS), String(beginOf(round))], {
    stdout: "pipe",
    stderr: "inherit",
  });
  const decoder = new TextDecoder();
  let text = "";
  let count = 0;
  for await (const chunk of child.stdout) {
    const more = decoder.decode(chunk, { stream: true });
    text += more;
    count += more.split("\n").length - 1;
    if (count >= lines) child.kill("SIGKILL");
  }
  await child.exited;
  return text.split("\n").slice(0, -1);
}

function linesIn(dir: string): readonly { readonly traceId: string; readonly type?: string }[] {
  return readdirSync(dir)
    .filter((name) => name.endsWith(".jsonl"))
    .flatMap((name) => readFileSync(join(dir, name), "utf8").split("\n").slice(0, -1))
    .map((line) => JSON.parse(line) as { traceId: string; type?: string });
}
