import { runWithPauses } from "../chain/chain-walk.ts";
import { LINE_BYTES_MAX } from "../entry.ts";
import { type OpenDayFile, type Range, readChunk, withDay } from "../journal/day-files.ts";
import { type Filter, Matcher } from "../query/filter.ts";
import type { LineIndex } from "../query/line-index.ts";
import { type LineRows, packLines, SEGMENT_BYTES, segmentAt, unpackRows } from "../query/line-rows.ts";
import { daysHolding, timeRange } from "../query/query.ts";

export interface CountOptions {
  /** The logs that are counted as one. */
  readonly logs: readonly { readonly dir: string; readonly index?: LineIndex | undefined }[];
  readonly filter: Filter;
  /** Called after each segment with the bytes read. Returning `false` ends the count early. */
  readonly mayGoOn?: (bytesRead: number) => boolean;
}

/** Counts the rows of a segment that match a filter. */
export interface SegmentTally {
  /** Adds the rows that match and start within the range, in bytes from the start of their segment. */
  add(rows: LineRows, range: Range): void;
}

/**
 * Adds the lines of all logs, one segment of a file at a time, the newest first. Other work runs between two segments. Returns
 * whether lines were left out because it may not go on.
 */
export function countSegments(options: CountOptions, tally: SegmentTally): Promise<boolean> {
  return runWithPauses(counting(options, tally));
}

function* counting({ logs, filter, mayGoOn = () => true }: CountOptions, tally: SegmentTally) {
  let bytesRead = 0;
  for (const log of logs) {
    for (const bytes of countLog(log, filter, tally)) {
      bytesRead += bytes;
      yield bytesRead;
      if (!mayGoOn(bytesRead)) return true;
    }
  }
  return false;
}

/** Yields the bytes of each segment. */
function* countLog(
  { dir, index }: CountOptions["logs"][number],
  filter: Filter,
  tally: SegmentTally,
): Generator<number, void> {
  const reader = new SegmentReader(filter, index);
  for (const day of daysHolding(dir, filter).toReversed()) {
    const scope = withDay(dir, day, (file) => timeRange(file, filter)) ?? NOTHING;
    for (let at = Math.ceil(scope.to / SEGMENT_BYTES) - 1; segmentAt(at).to > scope.from; at -= 1) {
      const rows = withDay(dir, day, (file) => reader.read(file, at));
      if (rows === undefined) break;
      const { from } = segmentAt(at);
      tally.add(rows, { from: scope.from - from, to: scope.to - from });
      yield Math.min(SEGMENT_BYTES, scope.to - from);
    }
  }
}

const NOTHING: Range = { from: 0, to: 0 };

class SegmentReader {
  readonly #buffer = Buffer.allocUnsafe(SEGMENT_BYTES + LINE_BYTES_MAX + 2);
  readonly #index: LineIndex | undefined;
  /** Set when rows do not suffice to compare lines with the filter. */
  readonly #matcher: Matcher | undefined;

  constructor(filter: Filter, index: LineIndex | undefined) {
    this.#index = index;
    this.#matcher = filter.text === undefined && filter.exact.traceId === undefined ? undefined : new Matcher(filter);
  }

  read(file: OpenDayFile, at: number): LineRows {
    if (this.#matcher === undefined && this.#index !== undefined) return this.#index.rowsOf(file, at, this.#buffer);
    return unpackRows(packLines(readChunk(file, segmentAt(at), this.#buffer), this.#matcher).rows);
  }
}
