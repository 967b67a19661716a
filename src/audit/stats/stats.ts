import type { Range } from "../journal/day-files.ts";
import type { Filter } from "../query/filter.ts";
import { durationOf, type LineRows, rowTest } from "../query/line-rows.ts";
import { FILTER_PARAMS, type Params, type ReadResult, readFilter, unknownParams } from "../query/params.ts";
import { DURATION_HINT, readDuration } from "../query/time-range.ts";
import { KEYS_MAX, Names, NONE, OTHERS, RADIX, type Sum } from "./names.ts";
import { type CountOptions, countSegments } from "./segments.ts";

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

export async function readStats(options: CountOptions): Promise<Stats> {
  const tally = new Tally(options.filter);
  return tally.end(await countSegments(options, tally));
}

class Tally {
  readonly #filter: Filter;
  readonly #decisions = new Names(KEYS_MAX);
  readonly #stages = new Names(KEYS_MAX);
  readonly #codes = new Names(KEYS_MAX);
  readonly #tools = new Names(KEYS_MAX);
  readonly #subs = new Names(KEYS_MAX);
  readonly #issuers = new Names(KEYS_MAX);
  readonly #timedTools = new Names(TIMED_TOOLS_MAX);
  readonly #callers = new Map<number, number>();
  readonly #refusals = new Map<number, number>();
  /** Calls by tool and code of the duration. */
  readonly #durations = new Map<number, number>();
  #calls = 0;

  constructor(filter: Filter) {
    this.#filter = filter;
  }

  /** Adds the rows that match and start within the range, in bytes from the start of their segment. */
  add(rows: LineRows, { from, to }: Range): void {
    const isWanted = rowTest(rows, this.#filter);
    if (isWanted === undefined) return;
    const { size, offsets, durations, codes, values } = rows;
    const decisionIn = this.#decisions.reader(rows, "decision");
    const stageIn = this.#stages.reader(rows, "stage");
    const codeIn = this.#codes.reader(rows, "code");
    const toolIn = this.#tools.reader(rows, "tool");
    const subIn = this.#subs.reader(rows, "sub");
    const issuerIn = this.#issuers.reader(rows, "iss");
    const timedToolIn = this.#timedTools.reader(rows, "tool");
    const [ok, allowed] = [this.#codes.idOf("OK"), this.#decisions.idOf("ALLOWED")];
    const [denied, failed] = [this.#decisions.idOf("DENIED"), this.#decisions.idOf("ERROR")];
    for (let row = 0; row < size; row += 1) {
      const offset = offsets[row] ?? 0;
      if (offset < from || offset >= to || !isWanted(row)) continue;
      const sum = codes.count[row] ?? 0;
      const calls = sum === 0 ? 1 : Number(values.count[sum - 1]);
      const decision = decisionIn(row);
      const stage = stageIn(row);
      const tool = toolIn(row);
      const code = codes.code[row] === 0 && decision === allowed ? ok : codeIn(row);
      this.#calls += calls;
      this.#decisions.add(decision, calls);
      this.#codes.add(code, calls);
      this.#tools.add(tool, calls);
      if (codes.stage[row] !== 0) this.#stages.add(stage, calls);
      if (decision === denied || decision === failed)
        increase(this.#refusals, (code * RADIX + stage) * RADIX + tool, calls);
      increase(this.#callers, subIn(row) * RADIX + issuerIn(row), calls);
      const duration = durations[row] ?? 0;
      if (duration === 0) continue;
      const key = timedToolIn(row) * RADIX + duration;
      this.#durations.set(key, (this.#durations.get(key) ?? 0) + 1);
    }
  }

  end(isPartial: boolean): Stats {
    return statsFrom({
      calls: this.#calls,
      decisions: this.#decisions.sums(),
      stages: this.#stages.sums(),
      codes: this.#codes.sums(),
      tools: this.#tools.sums(),
      callers: named(this.#callers, [this.#subs, this.#issuers], callerText),
      refusals: named(this.#refusals, [this.#codes, this.#stages, this.#tools], refusalText),
      durations: [...this.#durations].map(([key, calls]) => ({
        tool: this.#timedTools.nameOf(Math.floor(key / RADIX)),
        code: key % RADIX,
        calls,
      })),
      isPartial,
    });
  }
}

/** Calls that were counted, by name in any order. */
interface CountedCalls extends Pick<Stats, "calls" | "isPartial"> {
  readonly decisions: readonly Sum[];
  readonly stages: readonly Sum[];
  readonly codes: readonly Sum[];
  readonly tools: readonly Sum[];
  readonly callers: readonly Sum[];
  readonly refusals: readonly Sum[];
  /** Calls by tool and code of the duration. */
  readonly durations: readonly { readonly tool: string | undefined; readonly code: number; readonly calls: number }[];
}

export function statsFrom({ calls, isPartial, durations, ...counted }: CountedCalls): Stats {
  return {
    calls,
    byDecision: ranked(counted.decisions),
    byStage: ranked(counted.stages),
    byCode: ranked(counted.codes),
    byTool: ranked(counted.tools),
    byCaller: ranked(counted.callers),
    refusals: ranked(counted.refusals),
    durations: durationStats(durations),
    isPartial,
  };
}

function durationStats(counted: CountedCalls["durations"]): readonly DurationStats[] {
  const [all, tools] = [new Durations(), new Map<string, Durations>()];
  for (const { tool = NONE, code, calls } of counted) {
    const durations = tools.get(tool) ?? new Durations();
    tools.set(tool, durations);
    durations.add(code, calls);
    all.add(code, calls);
  }
  const rows = [...tools].map(([tool, durations]) => durationsOf(tool, durations));
  const sorted = rows.sort((one, other) => other.calls - one.calls || (one.tool < other.tool ? -1 : 1));
  return [durationsOf("(all)", all), ...sorted];
}

/**
 * Maximum number of tools whose durations are counted separately: clients can choose the names of unknown tools freely.
 */
export const TIMED_TOOLS_MAX = 500;
function increase(counts: Map<number, number>, key: number, by: number): void {
  const before = counts.get(key);
  const at = before === undefined && counts.size >= KEYS_MAX ? OTHERS_KEY : key;
  counts.set(at, (before ?? counts.get(at) ?? 0) + by);
}

const OTHERS_KEY = -1;

/** Returns the counts by the names whose numbers make up their keys. */
function named(
  counts: ReadonlyMap<number, number>,
  columns: readonly Names[],
  labelOf: (names: readonly (string | undefined)[]) => string,
): readonly Sum[] {
  return [...counts].map(([key, calls]) => {
    const names = columns.map((column, at) => {
      const id = Math.floor(key / RADIX ** (columns.length - 1 - at)) % RADIX;
      return column.nameOf(id);
    });
    return [key === OTHERS_KEY ? OTHERS : labelOf(names), calls] as const;
  });
}

export function callerText([sub = NONE, iss]: readonly (string | undefined)[]): string {
  return iss === undefined ? sub : `${sub} (${iss})`;
}

export function refusalText(names: readonly (string | undefined)[]): string {
  return names.map((name) => name ?? NONE).join(" ");
}

function durationsOf(tool: string, durations: Durations): DurationStats {
  const [p50, p95, p99] = durations.percentiles([50, 95, 99]);
  return { tool, calls: durations.total, p50, p95, p99 };
}

/** Returns the sums by name, highest first; leaves out names without calls. */
function ranked(sums: readonly Sum[]): Counts {
  const counts = new Map<string, number>();
  for (const [name, calls] of sums) if (calls > 0) counts.set(name, (counts.get(name) ?? 0) + calls);
  return [...counts].sort(([one, calls], [other, otherCalls]) => otherCalls - calls || (one < other ? -1 : 1));
}

/** Counts of durations, by code. */
export class Durations {
  readonly #counts = new Map<number, number>();
  total = 0;

  add(code: number, calls = 1): void {
    this.#counts.set(code, (this.#counts.get(code) ?? 0) + calls);
    this.total += calls;
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
      for (const [code, count] of sorted) {
        passed += count;
        if (passed >= rank) return durationOf(code);
      }
      return undefined;
    };
    return percents.map(at) as { readonly [At in keyof P]: number | undefined };
  }
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

/** A range with both ends, and how much earlier the other range is, in milliseconds; at least the length of the range. */
interface ComparedRange {
  readonly filter: Filter;
  readonly earlierMs: number;
}

/** Compares a range with an earlier one of the same length. */
export async function compareStats(
  { filter, earlierMs }: ComparedRange,
  statsOf: (filter: Filter) => Promise<Stats>,
): Promise<Comparison> {
  const { fromMs = 0, toMs = 0 } = filter;
  const now = await statsOf(filter);
  const before = await statsOf({ ...filter, fromMs: fromMs - earlierMs, toMs: toMs - earlierMs });
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

export interface StatsRange {
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
