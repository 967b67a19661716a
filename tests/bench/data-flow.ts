import { createHash } from "node:crypto";
import { join } from "node:path";
import { Fingerprints } from "../../src/data-flow/fingerprints.ts";
import { openSqliteState, StoredPolicy } from "../data-flow/stored-policy.ts";
import { median } from "./footprint.ts";
import { textOf } from "./texts.ts";

const TEXT_CHARACTERS = 4_096;
const TEXTS = 16;
const BATCHES = 400;
/** Times that the texts are hashed in a batch: about as long as they are fingerprinted. */
const HASHED = 8;
const [CALLERS, CALLS, ROUNDS] = [100, 30, 5];
/** Answers that each caller got before the first call that counts. */
const ANSWERS_BEFORE = 10;

/** Time of fingerprinting a text of 4 KB, to that of SHA-256 of the same bytes, in turns. */
export function fingerprintRatio(kind: "prose" | "addresses" | "codes"): number {
  const fingerprints = new Fingerprints(new Uint8Array(32).fill(7));
  const texts = Array.from({ length: TEXTS }, () => textOf(kind, TEXT_CHARACTERS));
  const bytes = texts.map((text) => Buffer.from(text));
  const timed = (work: () => void): number => {
    const at = performance.now();
    work();
    return performance.now() - at;
  };
  const printed: number[] = [];
  const hashed: number[] = [];
  // The first batches only warm up the code.
  for (let batch = -BATCHES; batch < BATCHES; batch += 1) {
    const prints = timed(() => {
      for (const text of texts) fingerprints.read([text]);
    });
    const hashes = timed(() => {
      for (let round = 0; round < HASHED; round += 1)
        for (const one of bytes) createHash("sha256").update(one).digest();
    });
    if (batch < 0) continue;
    printed.push(prints);
    hashed.push(hashes / HASHED);
  }
  return median(printed) / median(hashed);
}

/** What data flow adds to a call, in microseconds. */
export interface FlowCost {
  readonly p50: number;
  readonly p99: number;
}

/**
 * Data flow's time in calls that read 1 KB, and in calls that send outside, with a SQLite file. Of each call, the fastest of the rounds
 * counts, so that what other programs of the machine take is left out; what comes at the same call of every round, such as the
 * database's checkpoints, is not.
 */
export async function flowCosts(folder: string): Promise<{ readonly read: FlowCost; readonly send: FlowCost }> {
  const answers = Array.from({ length: 64 }, (_, at) => textOf(at % 4 === 0 ? "addresses" : "prose", 1_024));
  const read = new Float64Array(CALLERS * CALLS).fill(Number.POSITIVE_INFINITY);
  const send = read.slice();
  const timed = async (least: Float64Array, call: number, work: () => Promise<unknown>): Promise<void> => {
    const at = performance.now();
    await work();
    least[call] = Math.min(least[call] as number, (performance.now() - at) * 1_000);
  };
  // The first round only warms up the code.
  for (let round = 0; round <= ROUNDS; round += 1) {
    const state = await openSqliteState(join(folder, `flow-${round}.sqlite`));
    const policy = new StoredPolicy({ state });
    const answer = (call: number) => ({ notes: [answers[call % answers.length] ?? ""] });
    for (let call = 0; call < CALLERS * ANSWERS_BEFORE; call += 1)
      await policy.reads("list_notes", answer(call), `agent-${call % CALLERS}`);
    for (let call = 0; call < CALLERS * CALLS; call += 1) {
      const subject = `agent-${call % CALLERS}`;
      const input = {
        to: ["bob@partner.test"],
        body: `Order ${call} was sent to the warehouse near the harbour today`,
      };
      const least = round === 0 ? [read.slice(), send.slice()] : [read, send];
      await timed(least[0] as Float64Array, call, () => policy.reads("list_notes", answer(call), subject));
      await timed(least[1] as Float64Array, call, async () => {
        await policy.asks("send_mail", input, subject);
        await policy.writes("send_mail", input, subject);
        await policy.reads("send_mail", { sent: 1 }, subject);
      });
    }
    await state.close();
  }
  const cost = (least: Float64Array): FlowCost => {
    const sorted = least.toSorted();
    const at = (share: number): number => sorted[Math.floor(sorted.length * share)] as number;
    return { p50: at(0.5), p99: at(0.99) };
  };
  return { read: cost(read), send: cost(send) };
}
