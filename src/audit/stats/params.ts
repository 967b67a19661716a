import type { Filter } from "../query/filter.ts";
import { FILTER_PARAMS, type Params, type Read, readFilter, unknownParams } from "../query/params.ts";
import { DURATION_HINT, readDuration } from "../query/time-range.ts";

export interface StatsRange {
  readonly filter: Filter;
  /** Milliseconds; there when the range is to be compared with an earlier one. */
  readonly earlierMs: number | undefined;
}

/**
 * Reads the filters and `compare`: how much earlier the other range is. With it a missing end is now, and a missing
 * beginning is that much before the end: `compare=1d` is the last day against the day before.
 */
export function readStatsRange(params: Params, nowMs: number): Read<StatsRange> {
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
