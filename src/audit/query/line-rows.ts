import {
  type EntryView,
  FILTER_ROWS,
  type FilterParam,
  type FilterRow,
  hasPart,
  type ValueParts,
  viewOf,
} from "../../core/audit-fields.ts";
import { LINE_BYTES_MAX } from "../entry.ts";
import { type Chunk, type Range, spansOf } from "../journal/day-files.ts";
import { type Filter, type FoundLine, findIn, type Matcher } from "./filter.ts";
import { parseLine } from "./view.ts";

/** A segment is the lines that start in this many bytes of a day file. */
export const SEGMENT_BYTES = 1_048_576;

type ColumnFilter = FilterRow & { readonly param: Exclude<FilterParam, "traceId"> };

/** The filters whose values the index stores as numbers. Trace ids have keys alone: nearly every line has another one. */
const COLUMN_FILTERS = FILTER_ROWS.filter((row): row is ColumnFilter => row.param !== "traceId");

export type Column = ColumnFilter["param"] | "count";
type Cell = (entry: EntryView) => string | undefined;

/** The members of a row that are stored as the number of their value. */
const COLUMNS: readonly { readonly name: Column; readonly cell: Cell }[] = [
  ...COLUMN_FILTERS.map(({ param, valueIn }) => ({ name: param, cell: valueIn })),
  /** Missing means 1. */
  { name: "count", cell: ({ count }) => (count === 1 ? undefined : String(count)) },
];

/** Changes with the columns, and so with what the index stores. */
export const COLUMNS_VERSION = Bun.hash.xxHash32(COLUMNS.map(({ name }) => name).join()) & 0x7f_ff_ff_ff;

/** The lines of one segment as rows: everything that filters and statistics use, except text. */
export interface LineRows {
  readonly size: number;
  /** Start of each line, in bytes from the start of the segment. */
  readonly offsets: Uint32Array;
  /** Milliseconds since 1970. */
  readonly times: Float64Array;
  /** Codes of `durationCode`; 0 when the line sums up calls or has no duration. */
  readonly durations: Uint16Array;
  readonly codes: Readonly<Record<Column, Uint16Array>>;
  /** The values of a column: code 1 is the first. */
  readonly values: Readonly<Record<Column, readonly string[]>>;
}

/** The rows of a segment in bytes, as the index stores them. */
export interface PackedRows {
  readonly rows: Uint8Array;
  /** Keys of 32 bits: two for each row, of the service's trace id and of the W3C one, then those of all other values. */
  readonly keys: Uint8Array;
}

const HEAD_BYTES = 8;
const TIME_BYTES = 8;
const OFFSET_BYTES = 4;
const CODE_BYTES = 2;
const ROW_BYTES = TIME_BYTES + OFFSET_BYTES + (1 + COLUMNS.length) * CODE_BYTES;
const SHORTEST_LINE = '{"timestamp":"1"}\n';
/** Below 65,536, so every code fits 16 bits. */
const ROWS_MAX = Math.ceil(SEGMENT_BYTES / SHORTEST_LINE.length);

/** Collects the rows of one segment. Reused: its arrays are as long as the longest segment. */
class RowBuilder {
  readonly #offsets = new Uint32Array(ROWS_MAX);
  readonly #times = new Float64Array(ROWS_MAX);
  readonly #traces = new Uint32Array(2 * ROWS_MAX);
  readonly #durations = new Uint16Array(ROWS_MAX);
  readonly #columns = COLUMNS.map(({ name, cell }) => ({
    column: name,
    cell,
    codes: new Uint16Array(ROWS_MAX),
    /** The code of each value. */
    values: new Map<string, number>(),
  }));
  #size = 0;

  reset(): this {
    this.#size = 0;
    for (const { values } of this.#columns) values.clear();
    return this;
  }

  add(offset: number, entry: EntryView): void {
    const row = this.#size;
    this.#size += 1;
    this.#offsets[row] = offset;
    this.#times[row] = entry.timeMs;
    this.#traces[2 * row] = keyOf("traceId", entry.traceId);
    this.#traces[2 * row + 1] = keyOf("traceId", entry.wireTraceId);
    const { duration, isSum } = entry;
    this.#durations[row] = duration === undefined || isSum ? 0 : durationCode(duration);
    for (const { cell, codes, values } of this.#columns) {
      const value = cell(entry);
      let code = value === undefined ? 0 : values.get(value);
      if (code === undefined) {
        code = values.size + 1;
        values.set(value as string, code);
      }
      codes[row] = code;
    }
  }

  pack(): PackedRows {
    const size = this.#size;
    const values = Buffer.from(JSON.stringify(this.#columns.map(({ values: known }) => [...known.keys()])));
    const rows = new Uint8Array(HEAD_BYTES + size * ROW_BYTES + values.length);
    new Uint32Array(rows.buffer, 0, 1)[0] = size;
    let at = HEAD_BYTES;
    const put = (bytes: Uint8Array): void => {
      rows.set(bytes, at);
      at += bytes.length;
    };
    put(bytesOf(this.#times, size));
    put(bytesOf(this.#offsets, size));
    put(bytesOf(this.#durations, size));
    for (const { codes } of this.#columns) put(bytesOf(codes, size));
    put(values);
    const keys = this.#columns.flatMap(({ column, values: known }) =>
      [...known.keys()].map((value) => keyOf(column, value)),
    );
    return {
      rows,
      keys: Buffer.concat([bytesOf(this.#traces, 2 * size), bytesOf(Uint32Array.from(keys), keys.length)]),
    };
  }
}

function bytesOf(array: Float64Array | Uint32Array | Uint16Array, length: number): Uint8Array {
  return new Uint8Array(array.buffer, 0, length * array.BYTES_PER_ELEMENT);
}

const builder = new RowBuilder();

/**
 * Returns the rows of the lines that start in the chunk; with a matcher, only of those that it accepts. Lines that the
 * log could not have written have no row.
 */
export function packLines(chunk: Chunk, matcher?: Matcher): PackedRows {
  builder.reset();
  const origin = originOf(chunk);
  for (const { offset, entry } of matcher === undefined ? entriesIn(chunk) : findIn(chunk, matcher)) {
    builder.add(offset - origin, entry);
  }
  return builder.pack();
}

function* entriesIn(chunk: Chunk): Generator<Pick<FoundLine, "offset" | "entry">, void> {
  for (const { from, to } of spansOf(chunk)) {
    const members = to - from > LINE_BYTES_MAX ? undefined : parseLine(chunk.bytes.toString("utf8", from, to));
    const entry = members && viewOf(members);
    if (entry !== undefined) yield { offset: chunk.base + from, entry };
  }
}

/** Returns the start of the segment that the chunk holds: a chunk begins one byte before its lines. */
export function originOf({ base }: Chunk): number {
  return base === 0 ? 0 : base + 1;
}

export function segmentAt(at: number): Range {
  return { from: at * SEGMENT_BYTES, to: (at + 1) * SEGMENT_BYTES };
}

/** Reads packed rows, which must be what `packLines` made, in a buffer of their own. */
export function unpackRows({ buffer }: Uint8Array): LineRows {
  const size = new Uint32Array(buffer, 0, 1)[0] ?? 0;
  const offsetsAt = HEAD_BYTES + size * TIME_BYTES;
  const durationsAt = offsetsAt + size * OFFSET_BYTES;
  const codesAt = (column: number): number => durationsAt + (1 + column) * size * CODE_BYTES;
  const lists: readonly (readonly string[])[] = JSON.parse(Buffer.from(buffer, codesAt(COLUMNS.length)).toString());
  const codes = COLUMNS.map(({ name }, at) => [name, new Uint16Array(buffer, codesAt(at), size)] as const);
  return {
    size,
    times: new Float64Array(buffer, HEAD_BYTES, size),
    offsets: new Uint32Array(buffer, offsetsAt, size),
    durations: new Uint16Array(buffer, durationsAt, size),
    codes: Object.fromEntries(codes) as LineRows["codes"],
    values: Object.fromEntries(COLUMNS.map(({ name }, at) => [name, lists[at] ?? []])) as LineRows["values"],
  };
}

/** Returns a key of a value; two values may share one. */
function keyOf(field: FilterParam | Column, value: string | undefined): number {
  return value === undefined ? 0 : Bun.hash.xxHash32(`${field} ${value}`);
}

/** Returns the keys that a segment has if one of its lines matches the filter. */
export function keysWanted({ exact }: Filter): readonly number[] {
  return FILTER_ROWS.flatMap(({ param, parts }) => {
    const value = exact[param];
    return value === undefined || parts !== undefined ? [] : [keyOf(param, value)];
  });
}

/** Returns the test whether a row can have the trace id of the filter, by the keys of its segment. */
export function traceTest(keys: Uint32Array, { exact: { traceId } }: Filter): (row: number) => boolean {
  if (traceId === undefined) return () => true;
  const key = keyOf("traceId", traceId);
  return (row) => keys[2 * row] === key || keys[2 * row + 1] === key;
}

/**
 * Returns the test whether a row matches the filter, apart from `text` and `traceId`; `undefined` when no row of the
 * segment does.
 */
export function rowTest(
  { times, codes, values }: LineRows,
  { exact, fromMs = Number.NEGATIVE_INFINITY, toMs = Number.POSITIVE_INFINITY }: Filter,
): ((row: number) => boolean) | undefined {
  const wanted: { readonly column: Uint16Array; readonly accepted: (code: number) => boolean }[] = [];
  for (const { param, parts } of COLUMN_FILTERS) {
    const value = exact[param];
    if (value === undefined) continue;
    const accepted = codesOf(values[param], parts, value);
    if (accepted === undefined) return undefined;
    wanted.push({ column: codes[param], accepted });
  }
  if (wanted.length === 0 && fromMs === Number.NEGATIVE_INFINITY && toMs === Number.POSITIVE_INFINITY)
    return () => true;
  return (row) => {
    const timeMs = times[row] ?? 0;
    return timeMs >= fromMs && timeMs < toMs && wanted.every(({ column, accepted }) => accepted(column[row] ?? 0));
  };
}

/** Returns the test of a column's codes; undefined when no value of the segment is one of those wanted. */
function codesOf(
  values: readonly string[],
  parts: ValueParts | undefined,
  wanted: string,
): ((code: number) => boolean) | undefined {
  if (parts === undefined) {
    const exact = values.indexOf(wanted) + 1;
    return exact === 0 ? undefined : (code) => code === exact;
  }
  const matching = new Set(
    values.flatMap((value, at) => (value === wanted || hasPart(parts, value, wanted) ? [at + 1] : [])),
  );
  return matching.size === 0 ? undefined : (code) => matching.has(code);
}

const DURATION_MS_MAX = 1e9;
const DURATION_MS_MIN = 0.001;
/**
 * Significant digits of a duration: percentiles are accurate to half a percent, and integers below a thousand are
 * exact.
 */
const DIGITS = 3;
const MANTISSA_MIN = 10 ** (DIGITS - 1);
const MANTISSAS = 10 ** DIGITS - MANTISSA_MIN;
const EXPONENT_MIN = Math.log10(DURATION_MS_MIN);

/** Returns the code of a duration in milliseconds, rounded to `DIGITS`: longer durations have higher codes, from 1. */
export function durationCode(duration: number): number {
  const ms = Math.min(duration, DURATION_MS_MAX);
  if (ms < DURATION_MS_MIN) return 1;
  const exponent = Math.floor(Math.log10(ms));
  const mantissa = Math.round(ms / 10 ** (exponent + 1 - DIGITS));
  return 2 + (exponent - EXPONENT_MIN) * MANTISSAS + mantissa - MANTISSA_MIN;
}

/** Returns the duration of a code, in milliseconds. */
export function durationOf(code: number): number {
  if (code < 2) return 0;
  const mantissa = MANTISSA_MIN + ((code - 2) % MANTISSAS);
  const step = 10 ** (EXPONENT_MIN + Math.floor((code - 2) / MANTISSAS) + 1 - DIGITS);
  // Divides by an integer where possible, because multiplying by a step such as 0.1 is not exact.
  return step < 1 ? mantissa / Math.round(1 / step) : mantissa * step;
}
