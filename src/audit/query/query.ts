import { LINE_BYTES_MAX } from "../entry.ts";
import { type Order, type Position, writeCursor } from "./cursor.ts";
import { holdsTime } from "./day-bounds.ts";
import { daysIn, daysWithin, type Range, type Stream, streamDir, timeRange, withDay } from "./days.ts";
import { type Filter, Matcher } from "./filter.ts";
import type { Query } from "./params.ts";
import { endOfLines, type FoundLine, findIn, type OpenDayFile, readChunk } from "./scan.ts";

const CHUNK_BYTES_MIN = 131_072;
/** Between two chunks others run: where every line has to be parsed one takes some milliseconds. */
const CHUNK_BYTES_MAX = 1_048_576;
const CHUNK_GROWTH = 4;

/** Where in a file the lines of a filter can begin; what it does not know is left in. */
export interface LineIndex {
  narrow(file: OpenDayFile, range: Range, matcher: Matcher): readonly Range[];
}

export interface SearchOptions {
  /** The audit directory. */
  readonly dir: string;
  readonly stream?: Stream;
  readonly query: Query;
  /** A look-up index; without it everything is read. */
  readonly places?: LineIndex | undefined;
  /** Bytes of lines in one page. The line that exceeds them is still in it. */
  readonly pageBytesMax: number;
  /** Asked after each chunk, with the bytes of this page so far: `false` ends it early. */
  readonly mayGoOn?: (bytesRead: number) => boolean;
}

export interface QueryPage {
  readonly found: readonly FoundLine[];
  /** Where the next page begins. None when newest first everything was seen; oldest first it is there for the lines to come. */
  readonly cursor: string | undefined;
  /** The same place, for who asks from within. */
  readonly position: Position | undefined;
  /** Not everything was looked at. */
  readonly more: boolean;
  readonly bytesRead: number;
}

/** Yields after each chunk. No file is open while it waits. */
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

/** Days whose files are of this time by their names, or by their first and last lines. */
function daysHolding(dir: string, filter: Filter): readonly string[] {
  const days = daysIn(dir);
  const named = new Set(daysWithin(days, filter));
  return named.size === days.length ? days : days.filter((day) => named.has(day) || holdsTime(dir, day, filter));
}

function isAhead(day: string, { cursor, order }: Query): boolean {
  if (cursor === undefined) return true;
  return order === "oldest" ? day >= cursor.day : day <= cursor.day;
}

function* searchDay(dir: string, day: string, page: PageBuilder): Generator<number, void> {
  const ranges = withDay(dir, day, (file) => page.ranges(file));
  for (const range of ranges ?? []) {
    // Opened anew for each chunk, so that no descriptor is held while others run.
    withDay(dir, day, (file) => page.read(file, range));
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

  /** What of the file is to be read, in the order of the query, in pieces of a chunk each. */
  ranges(file: OpenDayFile): readonly Range[] {
    const { query, places } = this.#options;
    this.#scope = afterCursor(timeRange(file, query.filter), file.day, query);
    const narrowed = places?.narrow(file, this.#scope, this.#matcher) ?? [this.#scope];
    return pieces(narrowed, query.order);
  }

  read(file: OpenDayFile, range: Range): void {
    const { query, mayGoOn = () => true } = this.#options;
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
    this.#position = { day: file.day, offset };
    this.isEnded = !mayGoOn(this.bytesRead);
  }

  /** All of the day was seen, or an index knew that nothing is there. */
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

/** Small pieces first: whoever asks for the latest few lines need not wait for more. */
function pieces(ranges: readonly Range[], order: Order): readonly Range[] {
  const cut: Range[] = [];
  let bytes = CHUNK_BYTES_MIN;
  for (const range of order === "oldest" ? ranges : ranges.toReversed()) {
    let [from, to] = [range.from, range.to];
    while (from < to) {
      const piece =
        order === "oldest" ? { from, to: Math.min(to, from + bytes) } : { from: Math.max(from, to - bytes), to };
      cut.push(piece);
      if (order === "oldest") from = piece.to;
      else to = piece.from;
      bytes = Math.min(CHUNK_BYTES_MAX, bytes * CHUNK_GROWTH);
    }
  }
  return cut;
}

/** One page. Others run between its chunks. */
export async function search(options: SearchOptions): Promise<QueryPage> {
  const steps = pageOf(options);
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
    await new Promise((resolve) => setImmediate(resolve));
  }
}
