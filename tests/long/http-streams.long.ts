import { expect, test } from "bun:test";
import { randomStream } from "../http/front/stream-grammar.ts";
import { faultsOf } from "../http/front/stream-runs.ts";

/** Long: random streams for a set time. `STC_FUZZ_SECONDS` sets it, `STC_FUZZ_SEED` repeats a run. */
const SECONDS = Number(process.env["STC_FUZZ_SECONDS"] ?? 60);
const STREAMS = 2_000;

/** A stream that failed is kept as a case of `tests/http/front/streams.test.ts`. */
test(
  "random streams, for a minute, have the outcome that they have at the other server",
  async () => {
    const first = Number(process.env["STC_FUZZ_SEED"] ?? crypto.getRandomValues(new Uint32Array(1))[0]);
    console.log(`STC_FUZZ_SEED=${first} repeats this run`);
    const end = performance.now() + SECONDS * 1_000;
    for (let seed = first; performance.now() < end; seed += STREAMS) {
      expect(await faultsOf(Array.from({ length: STREAMS }, (_, at) => randomStream(seed + at)))).toEqual([]);
    }
  },
  (SECONDS + 300) * 1_000,
);
