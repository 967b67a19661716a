import type { Filter } from "../query/filter.ts";
import { FILTER_PARAMS, type Params, type ReadResult, readFilter, unknownParams } from "../query/params.ts";
import { type LineIndex, type SearchOptions, search } from "../query/query.ts";
import { DURATION_HINT, readDuration } from "../query/time-range.ts";
import type { EntryView } from "../query/view.ts";

/** Maximum number of distinct tools, callers or codes that are counted separately; later ones are counted together. */
const KEYS_MAX = 10_000;
const OTHERS = "(others)";
const NONE = "(none)";
const PAGE_LINES = 10_000;
const PAGE_BYTES_MAX = 16 * 1_048_576;

export type Counts = readonly (readonly [name: string, calls: number])[];

interface DurationStats {
  readonly tool: string;
  readonly calls: number;
  /** Milliseconds. */
  readonly p50: number | undefined;
  readonly p95: number | undefined;
  readonly p99: number | undefined;
}

/** Statistics of the calls that match a filter. A line that sums up several calls counts as that many. */
export interface Stats {
  readonly calls: number;
  readonly byDecision: Counts;
  readonly byStage: Counts;
  readonly byCode: Counts;
  readonly byTool: Counts;
  /** `sub (iss)`. */
  readonly byCaller: Counts;
  /** Denied and failed calls by `code stage tool`. A call that waits for approval does not count. */
  readonly refusals: Counts;
  /** All tools together first, then each tool. */
  readonly durations: readonly DurationStats[];
  readonly isPartial: boolean;
}

interface StatsOptions {
  readonly dir: string;
  readonly filter: Filter;
  readonly places?: LineIndex | undefined;
  readonly mayGoOn?: SearchOptions["mayGoOn"];
}

export async function readStats({ dir, filter, places, mayGoOn }: StatsOptions): Promise<Stats> {
  const tally = new Tally();
  let cursor: SearchOptions["query"]["cursor"];
  let bytesBefore = 0;
  for (;;) {
    const before = bytesBefore;
    const page = await search({
      dir,
      places,
      query: { filter, order: "oldest", limit: PAGE_LINES, cursor, digest: NO_DIGEST },
      pageBytesMax: PAGE_BYTES_MAX,
      ...(mayGoOn !== undefined && { mayGoOn: (bytes) => mayGoOn(before + bytes) }),
    });
    for (const { entry } of page.found) tally.add(entry);
    bytesBefore += page.bytesRead;
    const isEnough = mayGoOn !== undefined && !mayGoOn(bytesBefore);
    if (!page.more || isEnough || page.position === undefined) return tally.end(page.more);
    cursor = { order: "oldest", digest: NO_DIGEST, fromMs: filter.fromMs, toMs: filter.toMs, ...page.position };
  }
}

const NO_DIGEST = "";

class Tally {
  readonly #byDecision = new Map<string, number>();
  readonly #byStage = new Map<string, number>();
  readonly #byCode = new Map<string, number>();
  readonly #byTool = new Map<string, number>();
  readonly #byCaller = new Map<string, number>();
  readonly #refusals = new Map<string, number>();
  readonly #durations = new Map<string, Durations>();
  readonly #allDurations = new Durations();
  #calls = 0;

  add(entry: EntryView): void {
    const { count, decision = NONE, stage, tool = NONE, sub = NONE, iss } = entry;
    const code = entry.code ?? (decision === "ALLOWED" ? "OK" : NONE);
    this.#calls += count;
    increase(this.#byDecision, decision, count);
    increase(this.#byCode, code, count);
    increase(this.#byTool, tool, count);
    increase(this.#byCaller, iss === undefined ? sub : `${sub} (${iss})`, count);
    if (stage !== undefined) increase(this.#byStage, stage, count);
    if (decision === "DENIED" || decision === "ERROR")
      increase(this.#refusals, `${code} ${stage ?? NONE} ${tool}`, count);
    if (entry.duration !== undefined && !entry.isSum) this.#time(tool, entry.duration);
  }

  end(isPartial: boolean): Stats {
    const tools = [...this.#durations].map(([tool, times]) => durationsOf(tool, times));
    const all = durationsOf("(all)", this.#allDurations);
    return {
      calls: this.#calls,
      byDecision: ranked(this.#byDecision),
      byStage: ranked(this.#byStage),
      byCode: ranked(this.#byCode),
      byTool: ranked(this.#byTool),
      byCaller: ranked(this.#byCaller),
      refusals: ranked(this.#refusals),
      durations: [all, ...tools.sort((one, other) => other.calls - one.calls)],
      isPartial,
    };
  }

  /** Adds the duration of a single call: a line that sums up several calls has no duration of theirs. */
  #time(tool: string, ms: number): void {
    this.#allDurations.add(ms);
    const name = this.#durations.has(tool) || this.#durations.size < TIMED_TOOLS_MAX ? tool : OTHERS;
    const durations = this.#durations.get(name) ?? new Durations();
    this.#durations.set(name, durations);
    durations.add(ms);
  }
}

/**
 * Maximum number of tools whose durations are counted separately: clients can choose the names of unknown tools freely.
 */
const TIMED_TOOLS_MAX = 500;

function durationsOf(tool: string, durations: Durations): DurationStats {
  const [p50, p95, p99] = durations.percentiles([50, 95, 99]);
  return { tool, calls: durations.total, p50, p95, p99 };
}

function increase(counts: Map<string, number>, key: string, by: number): void {
  const name = counts.has(key) || counts.size < KEYS_MAX ? key : OTHERS;
  counts.set(name, (counts.get(name) ?? 0) + by);
}

function ranked(counts: ReadonlyMap<string, number>): Counts {
  return [...counts].sort(([one, calls], [other, otherCalls]) => otherCalls - calls || (one < other ? -1 : 1));
}

/**
 * Significant digits of a duration: percentiles are accurate to half a percent, and integers below a thousand are
 * exact.
 */
const DIGITS = 3;
const DURATION_MS_MAX = 1e9;

/**
 * Counts of durations. Rounding limits the number of distinct durations to some ten thousand, however many are added.
 */
export class Durations {
  readonly #counts = new Map<number, number>();
  total = 0;

  add(ms: number): void {
    const rounded = round(Math.min(ms, DURATION_MS_MAX));
    this.#counts.set(rounded, (this.#counts.get(rounded) ?? 0) + 1);
    this.total += 1;
  }

  /**
   * Returns, for each percentage, the smallest duration that this percentage of calls does not exceed (nearest rank);
   * `undefined` when there are no durations.
   */
  percentiles<const P extends readonly number[]>(percents: P): { readonly [At in keyof P]: number | undefined } {
    const sorted = [...this.#counts].sort(([one], [other]) => one - other);
    const at = (percent: number): number | undefined => {
      const rank = Math.max(1, Math.ceil((percent / 100) * this.total));
      let passed = 0;
      for (const [ms, count] of sorted) {
        passed += count;
        if (passed >= rank) return ms;
      }
      return undefined;
    };
    return percents.map(at) as { readonly [At in keyof P]: number | undefined };
  }
}

function round(ms: number): number {
  if (ms < 0.001) return 0;
  const step = 10 ** (Math.floor(Math.log10(ms)) + 1 - DIGITS);
  // Divides by an integer where possible, because multiplying by a step such as 0.1 is not exact.
  return step < 1 ? Math.round(ms / step) / Math.round(1 / step) : Math.round(ms / step) * step;
}

/** Number of refusals of one kind in the requested range and in the earlier one. */
export interface RefusalChange {
  /** `code stage tool`. */
  readonly refusal: string;
  readonly before: number;
  readonly now: number;
}

interface Comparison {
  readonly now: Stats;
  readonly before: Stats;
  /** Largest increase first, largest decrease last; unchanged refusals are left out. */
  readonly changes: readonly RefusalChange[];
}

interface CompareOptions extends StatsOptions {
  /** How much earlier the other range is, in milliseconds; at least the length of the range. */
  readonly earlierMs: number;
}

/** Compares the range of the filter, which needs both ends, with an earlier range of the same length. */
export async function compareStats({ earlierMs, ...options }: CompareOptions): Promise<Comparison> {
  const { fromMs = 0, toMs = 0 } = options.filter;
  const now = await readStats(options);
  const filter = { ...options.filter, fromMs: fromMs - earlierMs, toMs: toMs - earlierMs };
  const before = await readStats({ ...options, filter });
  return { now, before, changes: changesOf(before.refusals, now.refusals) };
}

function changesOf(before: Counts, now: Counts): readonly RefusalChange[] {
  const [then, today] = [new Map(before), new Map(now)];
  const names = [...new Set([...then.keys(), ...today.keys()])].filter((name) => name !== OTHERS);
  return names
    .map((refusal) => ({ refusal, before: then.get(refusal) ?? 0, now: today.get(refusal) ?? 0 }))
    .filter((change) => change.now !== change.before)
    .sort((one, other) => other.now - other.before - (one.now - one.before) || (one.refusal < other.refusal ? -1 : 1));
}

interface StatsRange {
  readonly filter: Filter;
  /** Milliseconds; set when the range is compared with an earlier one. */
  readonly earlierMs: number | undefined;
}

/**
 * Reads the filters and `compare`, which is how much earlier the other range is. With `compare`, a missing end is now,
 * and a missing start is that much before the end: `compare=1d` compares the last day with the day before.
 */
export function readStatsRange(params: Params, nowMs: number): ReadResult<StatsRange> {
  const faults = unknownParams(params, [...FILTER_PARAMS, "compare"]);
  const filter = readFilter(params, nowMs);
  if ("faults" in filter) return { faults: [...faults, ...filter.faults] };
  const { compare } = params;
  const earlierMs = compare === undefined ? undefined : readDuration(compare);
  if (compare === undefined) return faults.length > 0 ? { faults } : { ok: { filter: filter.ok, earlierMs } };
  if (earlierMs === undefined) return { faults: [...faults, `compare must be ${DURATION_HINT}`] };
  const toMs = filter.ok.toMs ?? nowMs;
  const fromMs = filter.ok.fromMs ?? toMs - earlierMs;
  if (fromMs >= toMs) faults.push("from must be earlier than to");
  if (toMs - fromMs > earlierMs) faults.push("compare must be at least as long as the range, or the two would overlap");
  return faults.length > 0 ? { faults } : { ok: { filter: { ...filter.ok, fromMs, toMs }, earlierMs } };
}
