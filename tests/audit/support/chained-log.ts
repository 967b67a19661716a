import { generateKeyPairSync, hash, type KeyObject } from "node:crypto";
import fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openAuditLog } from "../../../src/audit/audit-log.ts";
import type { JournalLine } from "../../../src/audit/journal/journal.ts";
import { verifyLog } from "../../../src/audit/verify/verify.ts";
import { draftOf } from "./open.ts";

const DAYS = ["2026-02-16", "2026-02-17", "2026-02-19"] as const;
/** Calls of each day of the log that `writeLog` makes; the journal has one line less. */
export const CALLS_A_DAY = 5;

export const keys = generateKeyPairSync("ed25519");

interface WrittenBy {
  readonly instance?: string;
  readonly tenant?: string | undefined;
  /** Lines at the start of the journal. */
  readonly journal?: readonly JournalLine[];
}

/**
 * A log of three days, of which two are neighbours, with checkpoints: written by the product itself. Returns its origins.
 */
export async function writeLog(
  dir: string,
  checkpointKey: KeyObject | undefined = keys.privateKey,
  { instance = "test", tenant, journal = [] }: WrittenBy = {},
): Promise<readonly string[]> {
  let now = Date.parse(`${DAYS[0]}T00:00:00.000Z`);
  const log = openAuditLog({
    dir,
    instance,
    tenant,
    clock: () => now,
    durability: "fdatasync",
    queueEntriesMax: 1_000,
    ids: () => `id-${now}`,
    checkpointKey,
  });
  for (const line of journal) await log.journal(line);
  for (const [index, day] of DAYS.entries()) {
    now = Date.parse(`${day}T12:00:00.000Z`);
    for (let call = 0; call < CALLS_A_DAY; call += 1) {
      now += 1_000;
      const traceId = `t-${index}-${call}`;
      if (call > 0) {
        await log.journal({ type: "intent", traceId, tool: "bash", sub: "agent-1" });
      }
      await log.append(draftOf(traceId));
    }
  }
  const origins = log.origins();
  await log.close();
  return origins;
}

/** The log of a service with workers: the workers' own, and that of the parent, which has recorded them. */
export async function writeWorkersLogs(dir: string, workers: readonly number[] = [1, 2]): Promise<void> {
  const journal: JournalLine[] = [];
  for (const worker of workers) {
    const origins = await writeLog(join(dir, `worker-${worker}`), keys.privateKey, { instance: `test-${worker}` });
    journal.push({ type: "worker.started", worker, pid: worker }, { type: "worker.log", worker, pid: worker, origins });
  }
  await writeLog(dir, keys.privateKey, { journal });
}

export function temporaryDirectory(): string {
  return fs.mkdtempSync(join(tmpdir(), "stc-chain-"));
}

export function linesOf(path: string): string[] {
  return fs.readFileSync(path, "utf8").split("\n").slice(0, -1);
}

export function writeLines(path: string, lines: readonly string[]): void {
  fs.writeFileSync(path, lines.map((line) => `${line}\n`).join(""));
}

/** The line with a `hash` that fits what stands before it, as anybody can make one. */
export function rehashed(line: string, link: { readonly seq?: number; readonly prev?: string } = {}): string {
  const body = line.replace(/,"seq":\d+,"prev":"[0-9a-f]*","hash":"[0-9a-f]*"\}$/, "");
  const { seq = numberIn(line), prev = /"prev":"([0-9a-f]*)"/.exec(line)?.[1] ?? "" } = link;
  const hashed = `${body},"seq":${seq},"prev":"${prev}"`;
  return `${hashed},"hash":"${hash("sha256", hashed, "hex")}"}`;
}

export function hashIn(line: string): string {
  return /"hash":"([0-9a-f]*)"\}$/.exec(line)?.[1] ?? "";
}

function numberIn(line: string): number {
  return Number(/,"seq":(\d+),"prev"/.exec(line)?.[1]);
}

/** What `verify` finds first, in short: kind, file, line. */
export function found(dir: string, publicKeys: readonly KeyObject[] = [keys.publicKey]): string {
  const { streams, checkpoints } = verifyLog({ dir, keys: publicKeys });
  const damages = [...streams.map(({ damage }) => damage), checkpoints.damage].filter((one) => one !== undefined);
  return damages.map(({ kind, file, line }) => `${kind} ${file}:${line}`).join("; ") || "sound";
}
