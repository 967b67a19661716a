import type { RawStream } from "./stream-grammar.ts";
import { type Outcome, openStreamStand, type PlayOptions, type ServerKind } from "./stream-player.ts";
import { differenceOf, violationOf } from "./stream-verdict.ts";

/** The HTTP servers for agents. */
export const KINDS = { fastify: { server: { http: "fastify" } }, front: { server: { http: "built-in" } } } as const;

/** Connections at once. */
const LANES = 8;
/** Streams of one service: its audit is read when it has ended. */
const BATCH = 4_000;

interface Play {
  readonly stream: RawStream;
  readonly options?: PlayOptions;
}

/** Plays all against services of one kind; the outcomes in the same order. */
export async function outcomesOf(kind: ServerKind, plays: readonly Play[]): Promise<readonly Outcome[]> {
  const outcomes: Outcome[] = [];
  for (let from = 0; from < plays.length; from += BATCH) {
    outcomes.push(...(await playBatch(kind, plays.slice(from, from + BATCH))));
  }
  return outcomes;
}

async function playBatch(kind: ServerKind, plays: readonly Play[]): Promise<readonly Outcome[]> {
  const stand = await openStreamStand(kind);
  const waiting = [...plays.entries()];
  const lane = async (): Promise<void> => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const [at, { stream, options }] = next;
      await stand.play(nameOf(at), stream, options);
    }
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  const outcomes = await stand.close();
  return plays.map((_, at) => outcomes.get(nameOf(at)) ?? missing(at));
}

const nameOf = (at: number): string => String(at).padStart(6, "0");

function missing(at: number): never {
  throw new Error(`stream ${at} has no outcome`);
}

/** A stream whose outcome is wrong, with all that is needed to see why. */
export interface Fault {
  readonly problem: string;
  readonly stream: RawStream;
  readonly fastify: Outcome;
  readonly front: Outcome;
}

/** Plays the streams against both kinds of server; what the front does wrong. */
export async function faultsOf(streams: readonly RawStream[]): Promise<readonly Fault[]> {
  const plays = streams.map((stream) => ({ stream }));
  const [fastify, front] = [await outcomesOf(KINDS.fastify, plays), await outcomesOf(KINDS.front, plays)];
  return streams.flatMap((stream, at) => {
    const [one, other] = [fastify[at], front[at]];
    if (one === undefined || other === undefined) return missing(at);
    const problem = violationOf(stream, other) ?? differenceOf(stream, one, other);
    return problem === undefined ? [] : [{ problem, stream, fastify: one, front: other }];
  });
}

/** Plays the streams against the front alone; what no server may do with them. */
export async function violationsOf(
  streams: readonly RawStream[],
): Promise<readonly Pick<Fault, "problem" | "stream">[]> {
  const outcomes = await outcomesOf(
    KINDS.front,
    streams.map((stream) => ({ stream })),
  );
  return streams.flatMap((stream, at) => {
    const outcome = outcomes[at];
    const problem = outcome === undefined ? "no outcome" : violationOf(stream, outcome);
    return problem === undefined ? [] : [{ problem, stream }];
  });
}
