import type { Work } from "../bounds.ts";
import {
  ALPHANUMERIC,
  BASE64,
  BASE64URL,
  classOf,
  EQUALS,
  HEX,
  isA,
  LINE_END,
  runEnd,
  type TextRange,
} from "./characters.ts";

/** A part of a text that is base64 or hex, with its decoded text. */
export interface EncodedSegment extends TextRange {
  readonly text: string;
}

const NONE: readonly EncodedSegment[] = [];

const BASE64_CHARS_MIN = 12;
const HEX_CHARS_MIN = 12;

/** Minimum length of a line of wrapped base64. UTF-16 units. */
const WRAPPED_CHARS_MIN = 40;

/** Number of bytes that are sampled to distinguish text from other data. */
const SAMPLE_BYTES = 24;

/** Minimum number of readable bytes in 16 sampled bytes of text. */
const READABLE_OF_16 = 13;

/** Maximum number of unreadable bytes in the check before decoding. */
const HIDDEN_BYTES_MAX = 2;

const ASCII_CODES = 128;

const IS_ENCODED = Uint8Array.from({ length: ASCII_CODES }, (_, code) =>
  (classOf(code) & (BASE64URL | BASE64)) === 0 ? 0 : 1,
);

/** Steps for reading one character, for a run that is examined, for a decoded segment, and for a sample. */
const STEPS_PER_CHAR = 2;
const STEPS_PER_RUN = 30;
const STEPS_PER_SEGMENT = 500;
const STEPS_PER_SAMPLE = 300;

/**
 * Decodes base64 and hex segments that contain text. A run is tried as a whole, and after each `/` and `-` where encoded text
 * could start.
 */
export function encodedSegments(text: string, work: Work): readonly EncodedSegment[] {
  // Created on demand: most texts contain no run that is long enough.
  let run: Run | undefined;
  const { length } = text;
  work.spend(length * STEPS_PER_CHAR);
  let start = 0;
  while (start + BASE64_CHARS_MIN <= length) {
    // A run that contains this character is long enough only when all characters from `start` up to it belong to the run.
    let last = start + BASE64_CHARS_MIN - 1;
    while (last >= start && isEncoded(text.charCodeAt(last))) last -= 1;
    if (last >= start) {
      start = last + 1;
      continue;
    }
    let end = start + BASE64_CHARS_MIN;
    while (end < length && isEncoded(text.charCodeAt(end))) end += 1;
    run ??= { end, segments: [], work };
    run.end = wrappedEnd(text, start, end);
    start = readRun(text, start, run);
  }
  return run?.segments ?? NONE;
}

function isEncoded(code: number): boolean {
  return code < ASCII_CODES && IS_ENCODED[code] === 1;
}

/** Returns the end of a run that is wrapped into lines. */
function wrappedEnd(text: string, start: number, end: number): number {
  if (end - start < WRAPPED_CHARS_MIN) return end;
  let last = end;
  while (isA(text, last, LINE_END)) {
    const next = runEnd(text, last, LINE_END, last + 2);
    const line = runEnd(text, next, BASE64URL | BASE64);
    if (line === next || line - next > end - start) break;
    last = line;
    if (line - next < end - start) break;
  }
  return last;
}

interface Run {
  end: number;
  readonly segments: EncodedSegment[];
  readonly work: Work;
}

/** Returns the offset after the run. Reads the whole run, and each possible start once. */
function readRun(text: string, start: number, run: Run): number {
  const { end, segments, work } = run;
  let from = start;
  while (end - from >= BASE64_CHARS_MIN) {
    work.spend(STEPS_PER_RUN);
    const found = decodeFrom(text, from, run);
    if (found === undefined) {
      from = nextStart(text, from, end);
      continue;
    }
    work.spend(STEPS_PER_SEGMENT);
    work.find();
    segments.push(found);
    from = found.end;
  }
  return Math.max(from, end + 1);
}

/** Returns the offset after the next character that could also precede an encoded text. */
function nextStart(text: string, from: number, end: number): number {
  let at = from;
  while (at < end && isA(text, at, ALPHANUMERIC)) at += 1;
  return at + 1;
}

function decodeFrom(text: string, from: number, { end, work }: Pick<Run, "end" | "work">): EncodedSegment | undefined {
  const hex = mayBeHex(text, from) ? runEnd(text, from, HEX, end) : from;
  if (hex - from >= HEX_CHARS_MIN && !isA(text, hex, BASE64URL) && (hex - from) % 2 === 0) {
    const decoded = readable(text, { start: from, end: hex, encoding: "hex", work });
    if (decoded !== undefined) return { start: from, end: hex, text: decoded };
  }
  if (!mayBeBase64(text, from)) return undefined;
  const padded = runEnd(text, end, EQUALS, end + 2);
  const decoded = readable(text, { start: from, end: padded, encoding: "base64", work });
  return decoded === undefined ? undefined : { start: from, end: padded, text: decoded };
}

/** Returns the encoded text, or undefined when the bytes are not text. */
function readable(
  text: string,
  { start, end, encoding, work }: TextRange & { readonly encoding: "hex" | "base64"; readonly work: Work },
): string | undefined {
  work.spend(STEPS_PER_SAMPLE);
  const sample = Buffer.from(text.slice(start, Math.min(end, start + SAMPLE_BYTES * 2)), encoding);
  if (isUtf16(sample)) return Buffer.from(text.slice(start, end), encoding).toString("utf16le");
  const seen = Math.min(sample.length, SAMPLE_BYTES);
  let visible = 0;
  for (let at = 0; at < seen; at += 1) if (isVisible(sample[at] ?? 0)) visible += 1;
  if (seen === 0 || visible * 16 < seen * READABLE_OF_16) return undefined;
  return Buffer.from(text.slice(start, end), encoding).toString("utf8");
}

/** Six-bit value by character code. */
const SIXES = Uint8Array.from({ length: 128 }, (_, code) => sixBits(String.fromCharCode(code)));

function sixBits(character: string): number {
  const at = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".indexOf(character);
  if (at !== -1) return at;
  return character === "-" ? 62 : 63;
}

/** Checks the first nine bytes without decoding: most runs are words and paths, which this check rejects. */
function mayBeBase64(text: string, start: number): boolean {
  let hidden = 0;
  for (let at = start; at < start + BASE64_CHARS_MIN; at += 4) {
    const one = six(text, at);
    // Above 31, the first byte is not ASCII; this is true for half of all letters and digits.
    if (one > 31) hidden += 1;
    if (hidden > HIDDEN_BYTES_MAX) return false;
    const two = six(text, at + 1);
    const three = six(text, at + 2);
    if (!mayBeSeen(((one << 2) | (two >> 4)) & 127)) hidden += 1;
    if (!mayBeSeen(((two & 15) << 4) | (three >> 2))) hidden += 1;
    if (!mayBeSeen(((three & 3) << 6) | six(text, at + 3))) hidden += 1;
    if (hidden > HIDDEN_BYTES_MAX) return false;
  }
  return true;
}

function six(text: string, at: number): number {
  return SIXES[text.charCodeAt(at)] ?? 0;
}

/** Returns whether the byte can be part of text. UTF-16 has a zero byte next to each ASCII character. */
function mayBeSeen(byte: number): boolean {
  return byte === 0 || isVisible(byte);
}

/** Checks the first digit of each byte: readable characters begin with 2 to 7. */
function mayBeHex(text: string, start: number): boolean {
  let hidden = 0;
  for (let at = start; at < start + HEX_CHARS_MIN; at += 2) {
    const code = text.charCodeAt(at);
    if (code < 0x32 || code > 0x37) hidden += 1;
    if (hidden === HIDDEN_BYTES_MAX) return false;
  }
  return true;
}

function isVisible(byte: number): boolean {
  return (byte >= 0x20 && byte < 0x7f) || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

function isUtf16(bytes: Buffer): boolean {
  if (bytes.length < 12) return false;
  for (let at = 0; at + 1 < 12; at += 2) if (!isVisible(bytes[at] ?? 0) || bytes[at + 1] !== 0) return false;
  return true;
}
