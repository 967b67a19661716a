import type { Filter } from "../query/filter.ts";
import { type Places, type SearchOptions, search } from "../query/query.ts";
import type { EntryView } from "../query/view.ts";
import { Durations } from "./durations.ts";

/** Different tools, callers or codes that are counted each for itself; those that come later are counted together. */
const KEYS_MAX = 10_000;
export const OTHERS = "(others)";
const NONE = "(none)";
const PAGE_LINES = 10_000;
const PAGE_BYTES_MAX = 16 * 1_048_576;

/** Calls by name, the most frequent first. */
export type Counts = readonly (readonly [name: string, calls: number])[];

export interface DurationStats {
  readonly tool: string;
  readonly calls: number;
  /** Milliseconds. */
  readonly p50: number | undefined;
  readonly p95: number | undefined;
  readonly p99: number | undefined;
}

/** Of the calls that a filter lets through. A line that sums up many counts as many. */
export interface Stats {
  readonly calls: number;
  readonly byDecision: Counts;
  readonly byStage: Counts;
  readonly byCode: Counts;
  readonly byTool: Counts;
  /** `sub (iss)`. */
  readonly byCaller: Counts;
  /** `code stage tool` of what was denied or failed; a question that waits is no refusal. */
  readonly refusals: Counts;
  /** Over all tools first, then of each. */
  readonly durations: readonly DurationStats[];
  /** Something ended the reading early. */
  readonly isPartial: boolean;
}

export interface StatsOptions {
  readonly dir: string;
  readonly filter: Filter;
  readonly places?: Places | undefined;
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

  /** Of single calls only: a line that sums up many has no duration of theirs. */
  #time(tool: string, ms: number): void {
    this.#allDurations.add(ms, 1);
    const name = this.#durations.has(tool) || this.#durations.size < TIMED_TOOLS_MAX ? tool : OTHERS;
    const durations = this.#durations.get(name) ?? new Durations();
    this.#durations.set(name, durations);
    durations.add(ms, 1);
  }
}

/** Tools whose durations are kept apart: names of unknown tools are strangers' to choose. */
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
