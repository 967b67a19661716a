import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Fingerprints } from "../../src/data-flow/fingerprints.ts";
import { FlaggedPrints } from "../../src/data-flow/stored-table.ts";
import { openSqliteState, StoredPolicy } from "../data-flow/stored-policy.ts";
import { next, textOf } from "./texts.ts";

/**
 * What data flow costs a read with stored fingerprints and without: `bun tests/bench/data-flow-stored.ts [count]`. The same answers,
 * in turns, each remembered in a SQLite file. Figures of a shared machine: compare them with one another only.
 */
const STORED = Number(process.argv[2] ?? 1_000_000);
const PRINTS_OF_CALL = 1_000;
const ROUNDS = 3_000;
const ANSWER_CHARACTERS = 4_096;

const folder = mkdtempSync(join(tmpdir(), "stc-stored-bench-"));

async function policyWith(name: string, stored: number): Promise<{ policy: StoredPolicy; loadMs: number }> {
  const path = join(folder, name);
  const writer = new StoredPolicy({ state: await openSqliteState(path), limits: { callerPrintsMax: stored } });
  for (let done = 0; done < stored; done += PRINTS_OF_CALL) {
    const prints = new FlaggedPrints();
    for (let at = 0; at < PRINTS_OF_CALL; at += 1) prints.add(next(), next(), 10);
    const call = {
      tool: "keep_note",
      traceId: "t",
      system: "notes",
      prints,
      isCut: false,
      carried: [],
      storedMs: 1e10,
    };
    await writer.texts.store({ issuer: "https://issuer.test", subject: "agent-7" }, call, Date.now());
  }
  const policy = new StoredPolicy({ state: await openSqliteState(path) });
  const at = performance.now();
  await policy.reads("list_notes", { notes: ["first"] });
  return { policy, loadMs: performance.now() - at };
}

function row(name: string, times: readonly number[]) {
  const sorted = times.toSorted((one, other) => one - other);
  const at = (share: number): number => Math.round((sorted[Math.floor(sorted.length * share)] ?? 0) * 1_000);
  return { read: name, "p50 µs": at(0.5), "p95 µs": at(0.95), "p99 µs": at(0.99) };
}

try {
  const [none, many] = [await policyWith("none.sqlite", 0), await policyWith("many.sqlite", STORED)];
  const [without, with_]: [number[], number[]] = [[], []];
  for (let round = 0; round < ROUNDS; round += 1) {
    const answer = { notes: [textOf("words", ANSWER_CHARACTERS)] };
    for (const [{ policy }, times] of [
      [none, without],
      [many, with_],
    ] as const) {
      const at = performance.now();
      await policy.reads("list_notes", answer);
      if (round > ROUNDS / 10) times.push(performance.now() - at);
    }
  }
  const rows = [row("without stored fingerprints", without), row(`with ${STORED}`, with_)];
  console.table(rows);
  const [one, other] = rows;
  console.log(`ratio of p50: ${((other?.["p50 µs"] ?? 0) / (one?.["p50 µs"] ?? 1)).toFixed(2)}`);
  console.log(
    `table: ${(many.policy.texts.table.bytes / 2 ** 20).toFixed(0)} MiB, read at the start in ${many.loadMs.toFixed(0)} ms`,
  );
  const fingerprints = new Fingerprints(new Uint8Array(32).fill(7));
  const text = textOf("words", ANSWER_CHARACTERS);
  let runs = 0;
  const timed = (work: () => void): string => {
    const at = performance.now();
    for (let round = 0; round < 1_000; round += 1) work();
    return (performance.now() - at).toFixed(0);
  };
  console.log(
    `4 KB: fingerprints ${timed(() => fingerprints.read([text]))} µs, runs ${timed(() =>
      fingerprints.runs(() => {
        runs += 1;
      }),
    )} µs (${runs / 1_000}), ${fingerprints.count} look-ups ${timed(() => {
      for (let at = 0; at < fingerprints.count; at += 1)
        many.policy.texts.table.find(fingerprints.low[at] ?? 0, fingerprints.high[at] ?? 0, 0);
    })} µs`,
  );
} finally {
  rmSync(folder, { recursive: true, force: true });
}
