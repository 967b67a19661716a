import { type Counts, OTHERS, readStats, type Stats, type StatsOptions } from "./stats.ts";

/** A refusal in the range that was asked for, and in the one before it. */
export interface Change {
  /** `code stage tool`. */
  readonly refusal: string;
  readonly before: number;
  readonly now: number;
}

export interface Comparison {
  readonly now: Stats;
  readonly before: Stats;
  /** What rose most comes first, what fell most last; what stayed the same is left out. */
  readonly changes: readonly Change[];
}

export interface CompareOptions extends StatsOptions {
  /** How much earlier the other range is, in milliseconds; as long as the range itself at least. */
  readonly earlierMs: number;
}

/** The range of the filter, which needs both ends, against one of the same length that was earlier. */
export async function compareStats({ earlierMs, ...options }: CompareOptions): Promise<Comparison> {
  const { fromMs = 0, toMs = 0 } = options.filter;
  const now = await readStats(options);
  const filter = { ...options.filter, fromMs: fromMs - earlierMs, toMs: toMs - earlierMs };
  const before = await readStats({ ...options, filter });
  return { now, before, changes: changesOf(before.refusals, now.refusals) };
}

function changesOf(before: Counts, now: Counts): readonly Change[] {
  const [then, today] = [new Map(before), new Map(now)];
  const names = [...new Set([...then.keys(), ...today.keys()])].filter((name) => name !== OTHERS);
  return names
    .map((refusal) => ({ refusal, before: then.get(refusal) ?? 0, now: today.get(refusal) ?? 0 }))
    .filter((change) => change.now !== change.before)
    .sort((one, other) => other.now - other.before - (one.now - one.before) || (one.refusal < other.refusal ? -1 : 1));
}
