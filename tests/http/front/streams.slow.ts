import { expect, test } from "bun:test";
import { type RawStream, randomStream, singleOddities } from "./stream-grammar.ts";
import { faultsOf, KINDS, outcomesOf } from "./stream-runs.ts";
import { splitDifferenceOf } from "./stream-verdict.ts";

const STREAMS = 20_000;
const SPLIT_STREAMS = 200;
const SPLIT_CHARACTERS_MAX = 400;
const FIRST_SPLIT_SEED = 100_000;

test("twenty thousand random streams have the outcome that they have at the other server", async () => {
  expect(await faultsOf(Array.from({ length: STREAMS }, (_, seed) => randomStream(seed)))).toEqual([]);
});

function shortStreams(): readonly RawStream[] {
  const streams: RawStream[] = [];
  for (let seed = FIRST_SPLIT_SEED; streams.length < SPLIT_STREAMS; seed += 1) {
    const stream = randomStream(seed);
    if (stream.end === "probe" && stream.text.length <= SPLIT_CHARACTERS_MAX) streams.push(stream);
  }
  return streams;
}

test("a stream in two parts has the outcome of the whole, wherever it is split", async () => {
  const streams = shortStreams();
  const wholes = await outcomesOf(
    KINDS.front,
    streams.map((stream) => ({ stream })),
  );
  const splits = streams.flatMap((stream, at) =>
    Array.from({ length: stream.text.length - 1 }, (_, before) => ({ stream, at, options: { splitAt: before + 1 } })),
  );
  const outcomes = await outcomesOf(KINDS.front, splits);
  const faults = splits.flatMap(({ stream, at, options: { splitAt } }, index) => {
    const [whole, split] = [wholes[at], outcomes[index]];
    const problem = whole && split && splitDifferenceOf(whole, split);
    return problem === undefined ? [] : [{ problem, stream, splitAt, whole, split }];
  });
  expect(faults).toEqual([]);
});

test.each(["TLS", "Unix socket"] as const)("each oddity has the same outcome over %s as over TCP", async (over) => {
  const plays = singleOddities().map((stream) => ({ stream }));
  expect(await outcomesOf({ ...KINDS.front, over }, plays)).toEqual([...(await outcomesOf(KINDS.front, plays))]);
});
