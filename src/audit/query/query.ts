import type { StreamName } from "../chain/chain.ts";
import { runWithPauses } from "../chain/chain-walk.ts";
import { LINE_BYTES_MAX } from "../entry.ts";
import {
  daysIn,
  endOfLines,
  LINE_END,
  type OpenDayFile,
  type Range,
  readChunk,
  stampAt,
  streamDir,
  withDay,
} from "../journal/day-files.ts";
import { holdsTime } from "./day-bounds.ts";
import { type Filter, type FoundLine, findIn, Matcher } from "./filter.ts";
import type { LineIndex } from "./line-index.ts";
import { type Order, type Position, type Query, writeCursor } from "./params.ts";
import { dayOf, withinYears } from "./time-range.ts";

const CHUNK_BYTES_MIN = 131_072;
/**
 * Maximum size of a chunk. Other work runs between two chunks: one takes some milliseconds when every line must be
 * parsed.
 */
const CHUNK_BYTES_MAX = 1_048_576;
const CHUNK_GROWTH = 4;
const JOIN_BYTES_MAX = LINE_BYTES_MAX;
/**
 * Lines of one file are ordered by timestamp. A line out of order is still found if it is at most this many bytes from
 * its proper position.
 */
const DISORDER_BYTES = 1_048_576;
/** A smaller file is read completely, whatever its order. */
const SEEK_BYTES_MIN = 4 * DISORDER_BYTES;

export interface SearchOptions {
  readonly dir: string;
  readonly stream?: StreamName;
  readonly query: Query;
  /** Narrows the search. Without it, all lines of the time range are read. */
  readonly index?: LineIndex | undefined;
  /** Maximum bytes of lines in one page. The line that exceeds the limit is still included. */
  readonly pageBytesMax: number;
  /** Called after each chunk with the bytes read and the lines found for this page. Returning `false` ends the page early. */
  readonly mayGoOn?: (bytesRead: number, linesFound: number) => boolean;
}

export interface QueryPage {
  readonly found: readonly FoundLine[];
  /**
   * Start of the next page. `undefined` when a search with the newest first has seen everything; a search with the
   * oldest first always continues with future lines.
   */
  readonly cursor: string | undefined;
  /** The same position, for callers within the service. */
  readonly position: Position | undefined;
  /** True when the search has not read all lines that may match. */
  readonly more: boolean;
  readonly bytesRead: number;
}

/** Yields after each chunk. No file is open while it is suspended. */
function* pageOf(options: SearchOptions): Generator<number, QueryPage> {
  const { query } = options;
  const page = new PageBuilder(options);
  const dir = streamDir(options.dir, options.stream ?? "calls");
  const days = daysHolding(dir, query.filter).filter((day) => isAhead(day, query));
  for (const day of query.order === "oldest" ? days : days.toReversed()) {
    yield* searchDay(dir, day, page);
    if (page.isEnded) break;
  }
  return page.end();
}

/** Returns the days whose files match the time range by name, or by their first and last lines. */
export function daysHolding(dir: string, filter: Filter): readonly string[] {
  const days = daysIn(dir);
  const named = new Set(daysWithin(days, filter));
  return named.size === days.length ? days : days.filter((day) => named.has(day) || holdsTime(dir, day, filter));
}

function daysWithin(days: readonly string[], { fromMs, toMs }: Pick<Filter, "fromMs" | "toMs">): readonly string[] {
  const first = fromMs === undefined ? "" : dayOf(fromMs);
  const last = toMs === undefined ? "9999-12-31" : dayOf(toMs - 1);
  return days.filter((day) => day >= first && day <= last);
}

function isAhead(day: string, { cursor, order }: Query): boolean {
  if (cursor === undefined) return true;
  return order === "oldest" ? day >= cursor.day : day <= cursor.day;
}

function* searchDay(dir: string, day: string, page: PageBuilder): Generator<number, void> {
  const ranges = withDay(dir, day, (file) => page.ranges(file));
  for (const range of ranges ?? []) {
    // Opened again for each chunk, so that no descriptor is held while other work runs.
    if (range.from < range.to) withDay(dir, day, (file) => page.read(file, range));
    else page.passedTo({ day, offset: range.to });
    yield page.bytesRead;
    if (page.isEnded) return;
  }
  page.passed(day);
}

class PageBuilder {
  readonly #options: SearchOptions;
  readonly #matcher: Matcher;
  readonly #found: FoundLine[] = [];
  #buffer = Buffer.alloc(0);
  #foundBytes = 0;
  #position: Position | undefined;
  #scope: Range = { from: 0, to: 0 };
  bytesRead = 0;
  isEnded = false;

  constructor(options: SearchOptions) {
    this.#options = options;
    this.#matcher = new Matcher(options.query.filter);
    this.#position = options.query.cursor;
  }

  /**
   * Returns the ranges of the file to read, in the order of the query, each at most one chunk long. An empty range
   * means that, in this order, no line up to its offset can match.
   */
  ranges(file: OpenDayFile): Iterable<Range> {
    const { query, index } = this.#options;
    this.#scope = afterCursor(timeRange(file, query.filter), file.day, query);
    const narrowed = index?.narrow(file, this.#scope, query.filter, query.order) ?? [this.#scope];
    return pieces(joined(narrowed), query.order);
  }

  read(file: OpenDayFile, range: Range): void {
    const { query } = this.#options;
    const chunk = readChunk(file, range, this.#bufferFor(range));
    this.bytesRead += chunk.bytes.length;
    const found = findIn(chunk, this.#matcher);
    for (const one of query.order === "oldest" ? found : found.toReversed()) {
      this.#found.push(one);
      this.#foundBytes += one.end - one.offset;
      this.#position = { day: one.day, offset: query.order === "oldest" ? one.end : one.offset };
      if (this.#isFull()) {
        this.isEnded = true;
        return;
      }
    }
    const offset = query.order === "oldest" ? endOfLines(chunk, range.to, file) : range.from;
    this.passedTo({ day: file.day, offset });
  }

  passedTo(position: Position): void {
    this.#position = position;
    this.isEnded = this.#options.mayGoOn?.(this.bytesRead, this.#found.length) === false;
  }

  /** Moves the position past a day that was read completely, or in which the index found nothing. */
  passed(day: string): void {
    const isReadTo = this.#position?.day === day;
    if (this.#options.query.order === "newest") this.#position = { day, offset: 0 };
    else if (!isReadTo) this.#position = { day, offset: this.#scope.to };
  }

  end(): QueryPage {
    const { query } = this.#options;
    const hasCursor = this.isEnded || query.order === "oldest";
    const position = this.#position;
    const { order, digest, filter } = query;
    const cursor =
      hasCursor && position !== undefined
        ? writeCursor({ order, digest, fromMs: filter.fromMs, toMs: filter.toMs, ...position })
        : undefined;
    return { found: this.#found, cursor, position, more: this.isEnded, bytesRead: this.bytesRead };
  }

  #isFull(): boolean {
    return this.#found.length >= this.#options.query.limit || this.#foundBytes >= this.#options.pageBytesMax;
  }

  #bufferFor({ from, to }: Range): Buffer {
    const length = to - from + LINE_BYTES_MAX + 2;
    if (this.#buffer.length < length) this.#buffer = Buffer.allocUnsafe(length);
    return this.#buffer;
  }
}

function afterCursor(range: Range, day: string, { cursor, order }: Query): Range {
  if (cursor === undefined || cursor.day !== day) return range;
  return order === "oldest"
    ? { from: Math.max(range.from, cursor.offset), to: Math.max(range.to, cursor.offset) }
    : { from: Math.min(range.from, cursor.offset), to: Math.min(range.to, cursor.offset) };
}

/** Joins ranges that are close to each other, because reading a range also reads the bytes after it. */
function* joined(ranges: Iterable<Range>): Generator<Range, void> {
  let open: Range | undefined;
  for (const range of ranges) {
    const both = open && { from: Math.min(open.from, range.from), to: Math.max(open.to, range.to) };
    const isJoined = both !== undefined && range.from < range.to && gapIn(both, open, range) <= JOIN_BYTES_MAX;
    if (open !== undefined && !isJoined) yield open;
    open = isJoined ? both : range;
  }
  if (open !== undefined) yield open;
}

function gapIn(both: Range, one: Range | undefined, other: Range): number {
  return both.to - both.from - (other.to - other.from) - (one === undefined ? 0 : one.to - one.from);
}

/** Splits ranges into pieces that grow in size: a request for the latest few lines does not wait for more. */
function* pieces(ranges: Iterable<Range>, order: Order): Generator<Range, void> {
  let bytes = CHUNK_BYTES_MIN;
  for (let { from, to } of ranges) {
    if (from === to) yield { from, to };
    while (from < to) {
      const piece =
        order === "oldest" ? { from, to: Math.min(to, from + bytes) } : { from: Math.max(from, to - bytes), to };
      yield piece;
      if (order === "oldest") from = piece.to;
      else to = piece.from;
      bytes = Math.min(CHUNK_BYTES_MAX, bytes * CHUNK_GROWTH);
    }
  }
}

/** Returns one page. Other work runs between its chunks. */
export function search(options: SearchOptions): Promise<QueryPage> {
  return runWithPauses(pageOf(options));
}

/** Most lines of one page of a search that reads on by itself. */
const PAGE_LINES = 1_000;

/** Searches page after page, up to the query's limit. A page that ended early because of `mayGoOn` is followed by the next. */
export async function* searchPages(options: SearchOptions): AsyncGenerator<QueryPage, void> {
  const { query } = options;
  let [left, cursor] = [query.limit, query.cursor];
  while (left > 0) {
    const page = await search({ ...options, query: { ...query, limit: Math.min(left, PAGE_LINES), cursor } });
    yield page;
    left -= page.found.length;
    if (!page.more || page.position === undefined) return;
    const { order, digest, filter } = query;
    cursor = { order, digest, fromMs: filter.fromMs, toMs: filter.toMs, ...page.position };
  }
}

/** Returns the range of a file outside which no line of this time range starts. */
export function timeRange(file: OpenDayFile, { fromMs, toMs }: Pick<Filter, "fromMs" | "toMs">): Range {
  if (file.size < SEEK_BYTES_MIN) return { from: 0, to: file.size };
  const from = fromMs === undefined ? 0 : seek(file, fromMs).from;
  const to = toMs === undefined ? file.size : seek(file, toMs).to;
  return { from: Math.max(0, from - DISORDER_BYTES), to: Math.min(file.size, to + DISORDER_BYTES) };
}

/**
 * Searches the file by bisection until the first line of that time is known to start in `[from, to)`; stops at a line
 * without a timestamp.
 */
function seek(file: OpenDayFile, ms: number): Range {
  const wanted = new Date(withinYears(ms)).toISOString();
  let [from, to] = [0, file.size];
  while (to - from > DISORDER_BYTES) {
    const middle = Math.floor((from + to) / 2);
    const stamp = firstStamp(file, middle);
    if (stamp === undefined) return { from, to };
    if (stamp < wanted) from = middle;
    else to = middle;
  }
  return { from, to };
}

function firstStamp(file: OpenDayFile, at: number): string | undefined {
  const { bytes, first, last } = readChunk(file, { from: at, to: at + 1 });
  // No line starts in the range: use the start of the next line, however far away it is.
  const begin = first < last ? first : bytes.indexOf(LINE_END) + 1;
  return begin === 0 && at > 0 ? undefined : stampAt(bytes, begin);
}
