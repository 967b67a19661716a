import { expect, test } from "bun:test";
import { randomStream } from "../http/front/stream-grammar.ts";
import { faultsOf, violationsOf } from "../http/front/stream-runs.ts";

/**
 * Long: random streams for a set time, which the front must read strictly. `STC_FUZZ_SECONDS` sets the time, and
 * makes the seeds new ones. With `STC_FUZZ_SEED`, the other server reads them, too, and every difference that no list explains
 * fails.
 */
const SEED = process.env["STC_FUZZ_SEED"];
const TIME = process.env["STC_FUZZ_SECONDS"];
const SECONDS = Number(TIME ?? 20);
const FIRST_SEED = 1_000_000;
const STREAMS = 2_000;

/** A stream that failed is kept as a case of `tests/http/front/streams.test.ts`. */
test(
  "of random streams nothing runs that a strict reader does not find",
  async () => {
    const first = Number(SEED ?? (TIME === undefined ? FIRST_SEED : crypto.getRandomValues(new Uint32Array(1))[0]));
    console.log(`STC_FUZZ_SEED=${first} repeats this run`);
    const judge = SEED === undefined ? violationsOf : faultsOf;
    const end = performance.now() + SECONDS * 1_000;
    for (let seed = first; performance.now() < end; seed += STREAMS) {
      expect(await judge(Array.from({ length: STREAMS }, (_, at) => randomStream(seed + at)))).toEqual([]);
    }
  },
  (SECONDS + 300) * 1_000,
);
