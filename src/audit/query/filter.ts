import {
  type EntryView,
  FILTER_ROWS,
  type FilterParam,
  type FilterRow,
  fieldValue,
  hasPart,
  viewOf,
} from "../../core/audit-fields.ts";
import { LINE_BYTES_MAX } from "../entry.ts";
import { escapeJson } from "../escape.ts";
import { type Chunk, LINE_END, type Range, type RawLine, spansOf, stampAt } from "../journal/day-files.ts";
import { withinYears } from "./time-range.ts";
import { parseLine } from "./view.ts";

/** Maximum characters of a filter value. */
export const VALUE_CHARACTERS_MAX = 512;

/** Minimum length of a search anchor: shorter strings occur in nearly every line. */
const ANCHOR_CHARACTERS_MIN = 3;

export interface Filter {
  /** Start of the time range, inclusive, in milliseconds since 1970. */
  readonly fromMs?: number | undefined;
  /** End of the time range, exclusive, in milliseconds since 1970. */
  readonly toMs?: number | undefined;
  readonly exact: Readonly<Partial<Record<FilterParam, string>>>;
  /** Text anywhere in the line as written; ASCII letters match in either case. */
  readonly text?: string | undefined;
}

/** Returns the normalized value, or the problem with it. */
export function readFilterValue(
  { param, values, isHex }: FilterRow,
  value: string,
): { readonly value: string } | { readonly fault: string } {
  if (value === "" || value.length > VALUE_CHARACTERS_MAX) {
    return { fault: `${param} must have 1 to ${VALUE_CHARACTERS_MAX} characters` };
  }
  if (values !== undefined && !values.includes(value)) return { fault: `${param} must be one of ${values.join(", ")}` };
  return { value: isHex === true && /^[0-9A-Fa-f-]{1,64}$/.test(value) ? value.toLowerCase() : value };
}

/** Decides which lines match a filter, and provides the bytes by which to search for them. */
export class Matcher {
  readonly filter: Filter;
  /** Byte strings that every matching line contains. */
  readonly needles: readonly Buffer[];
  /** Searched in the lowercase copy of the bytes when there is no needle. */
  readonly folded: Buffer | undefined;
  readonly #exact: readonly (readonly [FilterRow, string])[];
  readonly #text: string | undefined;

  constructor(filter: Filter) {
    this.filter = filter;
    const asked = FILTER_ROWS.flatMap((row) => {
      const value = filter.exact[row.param];
      return value === undefined ? [] : [[row, value] as const];
    });
    this.#exact = asked;
    this.#text = filter.text === undefined ? undefined : foldAscii(filter.text);
    const needles = asked.map(([row, value]) => needleOf(row, value));
    const anchor = filter.text === undefined ? undefined : anchorOf(filter.text);
    this.needles = anchor === undefined ? needles : [...needles, Buffer.from(anchor)];
    this.folded = filter.text === undefined ? undefined : Buffer.from(foldAscii(filter.text));
  }

  accepts(entry: EntryView, line: string): boolean {
    const { fromMs, toMs } = this.filter;
    if (fromMs !== undefined && entry.timeMs < fromMs) return false;
    if (toMs !== undefined && entry.timeMs >= toMs) return false;
    if (!this.#exact.every(([row, value]) => matches(row, entry, value))) return false;
    return this.#text === undefined || foldAscii(line).includes(this.#text);
  }
}

function matches({ valueIn, or, parts }: FilterRow, entry: EntryView, wanted: string): boolean {
  const value = valueIn(entry);
  if (value === wanted) return true;
  if (or !== undefined && fieldValue(entry, or) === wanted) return true;
  return value !== undefined && parts !== undefined && hasPart(parts, value, wanted);
}

/** Returns the value as the writer serializes it; without the quotes that a part of a value does not have. */
function needleOf({ parts }: FilterRow, value: string): Buffer {
  const quoted = escapeJson(JSON.stringify(value));
  return Buffer.from(quoted.slice(parts?.begins === "anywhere" ? 1 : 0, parts === undefined ? undefined : -1));
}

/** Returns the longest part of the text that is the same in either case. */
function anchorOf(text: string): string | undefined {
  const parts = text.split(/[A-Za-z]/).sort((one, other) => other.length - one.length);
  return parts.find((part) => part.length >= ANCHOR_CHARACTERS_MIN || part === text);
}

/** Returns the text with ASCII letters in lower case. */
export function foldAscii(text: string): string {
  return text.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
}

/** One line that matches a query. */
export interface FoundLine extends RawLine {
  /** `YYYY-MM-DD`. */
  readonly day: string;
  readonly entry: EntryView;
  /** Id of the log that holds the line; missing where a single log is read. */
  readonly log?: string | undefined;
}

/**
 * Returns the lines of the chunk that the matcher accepts, in file order. Parses only lines that can match. Skips lines
 * that are longer than the log ever writes.
 */
export function findIn(chunk: Chunk, matcher: Matcher): readonly FoundLine[] {
  const found: FoundLine[] = [];
  for (const { from, to } of candidates(chunk, matcher)) {
    if (to - from > LINE_BYTES_MAX) continue;
    const line = chunk.bytes.toString("utf8", from, to);
    const members = parseLine(line);
    const entry = members && viewOf(members);
    if (entry === undefined || !matcher.accepts(entry, line)) continue;
    found.push({ day: chunk.day, offset: chunk.base + from, end: chunk.base + to + 1, line, entry });
  }
  return found;
}

function candidates(chunk: Chunk, { needles, folded, filter }: Matcher): Iterable<Range> {
  const [needle, ...others] = needles;
  if (needle !== undefined) return withNeedle(chunk, (at) => chunk.bytes.indexOf(needle, at), others);
  if (folded === undefined) return inTime(chunk, filter);
  const bytes = foldBytes(chunk.bytes);
  return withNeedle(chunk, (at) => bytes.indexOf(folded, at), []);
}

function* withNeedle(
  { bytes, first, last }: Chunk,
  search: (at: number) => number,
  others: readonly Buffer[],
): Generator<Range, void> {
  let at = first;
  for (;;) {
    const hit = search(at);
    if (hit === -1) return;
    const from = Math.max(first, bytes.lastIndexOf(LINE_END, hit) + 1);
    const to = bytes.indexOf(LINE_END, hit);
    if (from >= last || to === -1) return;
    at = to + 1;
    if (others.every((other) => bytes.subarray(from, to).includes(other))) yield { from, to };
  }
}

/**
 * Yields the lines that can be in the filter's time range, when there is no text to search for. Decides by the
 * timestamp as the writer spells it; yields every line that starts differently, so that it is parsed.
 */
function* inTime(chunk: Chunk, { fromMs, toMs }: Filter): Generator<Range, void> {
  const [from, to] = [stampOf(fromMs) ?? "", stampOf(toMs) ?? AFTER_STAMPS];
  const isOpen = from === "" && to === AFTER_STAMPS;
  for (const span of spansOf(chunk)) {
    const stamp = isOpen ? undefined : stampAt(chunk.bytes, span.from);
    if (stamp === undefined || (stamp >= from && stamp < to)) yield span;
  }
}

/** Sorts after every timestamp. */
const AFTER_STAMPS = "~";

/** Returns the timestamp as the writer spells it; `undefined` when its year does not have four digits. */
function stampOf(ms: number | undefined): string | undefined {
  return ms === undefined || withinYears(ms) !== ms ? undefined : new Date(ms).toISOString();
}

const HIGH_BITS = 0x80808080;
const LOW_BITS = 0x7f7f7f7f;
/** Added to a byte below 128, they set its high bit when the byte is at least "A", or above "Z". */
const FROM_A = 0x3f3f3f3f;
const ABOVE_Z = 0x25252525;
/** Shift from the high bit to the bit that distinguishes lowercase from uppercase. */
const TO_CASE_BIT = 2;
const WORD_BYTES = 4;

/** Reused by each call: the contents are valid until the next one. */
let words = new Int32Array(0);

/**
 * Returns the bytes with ASCII letters in lowercase, converting four bytes at a time. The result shares its memory with
 * that of the next call.
 */
export function foldBytes(bytes: Buffer): Buffer {
  const length = Math.ceil(bytes.length / WORD_BYTES);
  if (words.length < length) words = new Int32Array(length);
  const folded = Buffer.from(words.buffer, 0, bytes.length);
  bytes.copy(folded);
  foldWords(words, length);
  return folded;
}

function foldWords(all: Int32Array, length: number): void {
  for (let at = 0; at < length; at += 1) {
    const word = all[at] ?? 0;
    const low = word & LOW_BITS;
    const isCapital = (low + FROM_A) & ~(low + ABOVE_Z) & ~word & HIGH_BITS;
    all[at] = word | (isCapital >>> TO_CASE_BIT);
  }
}
