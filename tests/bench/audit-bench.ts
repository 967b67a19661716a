import { generateKeyPairSync } from "node:crypto";
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openAuditLog } from "../../src/audit/audit-log.ts";
import { verifyLog } from "../../src/audit/verify/verify.ts";
import { draftOf } from "../audit/support/open.ts";

/**
 * What the log carries: durable entries a second with chain, tree and checkpoints, the start on what was written, and how
 * fast `verify` reads it. Figures of a shared machine: compare them with one another only.
 */
const ENTRIES = Number(process.argv.find((argument) => /^\d+$/.test(argument)) ?? 300_000);
const CALLERS = [1, 64, 512] as const;
const WARM_UP = 20_000;

const dir = mkdtempSync(join(tmpdir(), "stc-audit-bench-"));
const { privateKey, publicKey } = generateKeyPairSync("ed25519");
const open = () =>
  openAuditLog({
    dir,
    instance: "bench",
    clock: Date.now,
    monotonic: () => performance.now(),
    durability: "fdatasync",
    queueEntriesMax: 4_096,
    ids: () => Bun.randomUUIDv7(),
    checkpointKey: privateKey,
  });

async function appendAll(log: ReturnType<typeof open>, callers: number, entries: number): Promise<number> {
  let left = entries;
  const at = performance.now();
  const caller = async (): Promise<void> => {
    while (left > 0) {
      left -= 1;
      await log.append(draftOf(Bun.randomUUIDv7(), { stages: { AUTH: 0.1, EXECUTION: 1.25 } }));
    }
  };
  await Promise.all(Array.from({ length: callers }, caller));
  return entries / ((performance.now() - at) / 1_000);
}

function timed<T>(work: () => T): { readonly value: T; readonly ms: number } {
  const at = performance.now();
  const value = work();
  return { value, ms: performance.now() - at };
}

try {
  const log = open();
  await appendAll(log, 64, WARM_UP);
  const rows: (readonly [string, string])[] = [];
  for (const callers of CALLERS) {
    const perSecond = await appendAll(log, callers, callers === 1 ? 3_000 : ENTRIES);
    rows.push([`durable entries a second, ${callers} waiting callers`, perSecond.toFixed(0)]);
  }
  await log.close();
  const started = timed(open);
  await started.value.close();
  rows.push(["start on that log, ms", started.ms.toFixed(0)]);
  const verified = timed(() => verifyLog({ dir, keys: [publicKey] }));
  const lines = verified.value.streams.reduce((sum, stream) => sum + stream.lines, 0);
  const bytes = statSync(join(dir, `${new Date().toISOString().slice(0, 10)}.jsonl`)).size;
  rows.push([
    `verify, entries a second (${(bytes / lines).toFixed(0)} bytes each)`,
    ((lines / verified.ms) * 1_000).toFixed(0),
  ]);
  for (const [what, figure] of rows) console.log(`${what.padEnd(56)}${figure.padStart(10)}`);
} finally {
  rmSync(dir, { recursive: true, force: true });
}
