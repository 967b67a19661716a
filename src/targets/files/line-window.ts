import { CUT_MARGIN_BYTES } from "../../core/partial-answer.ts";

const NEWLINE = 10;

export interface LineRange {
  /** 1-based, inclusive. */
  readonly startLine: number;
  readonly endLine: number;
}

interface Window {
  readonly bytes: Buffer;
  readonly truncated: boolean;
  /** Where a line is cut: the same, and a little more, for redaction to see what the cut goes through. */
  readonly beyond?: Buffer;
}

/** Takes a window of lines out of a file that passes by in parts, and counts the lines of all of it. */
export class LineWindow {
  readonly #range: LineRange;
  readonly #bytesMax: number;
  readonly #kept: Buffer[] = [];
  #keptBytes = 0;
  #newlines = 0;
  #bytes = 0;
  #endsWithNewline = false;

  constructor(range: LineRange, bytesMax: number) {
    this.#range = range;
    this.#bytesMax = bytesMax;
  }

  /** The part is copied as far as it is wanted. */
  add(part: Buffer): void {
    const { startLine, endLine } = this.#range;
    let from = this.#newlines + 1 >= startLine ? 0 : part.length;
    let to = this.#newlines + 1 > endLine ? 0 : part.length;
    for (let at = part.indexOf(NEWLINE); at >= 0; at = part.indexOf(NEWLINE, at + 1)) {
      this.#newlines += 1;
      if (this.#newlines + 1 === startLine) from = at + 1;
      if (this.#newlines === endLine) to = at + 1;
    }
    if (from < to) this.#keep(part.subarray(from, to));
    this.#bytes += part.length;
    this.#endsWithNewline = part.at(-1) === NEWLINE;
  }

  get totalLines(): number {
    return this.#newlines + (this.#bytes > 0 && !this.#endsWithNewline ? 1 : 0);
  }

  /** The window as far as it fits: whole lines, or the beginning of the first where not even that one fits. */
  get window(): Window {
    const kept = Buffer.concat(this.#kept);
    if (kept.length <= this.#bytesMax) return { bytes: kept, truncated: false };
    const bytes = kept.subarray(0, this.#bytesMax);
    const lineEnd = bytes.lastIndexOf(NEWLINE) + 1;
    if (lineEnd > 0) return { bytes: bytes.subarray(0, lineEnd), truncated: true };
    return { bytes: wholeCharacters(bytes), truncated: true, beyond: wholeCharacters(kept) };
  }

  #keep(part: Buffer): void {
    const room = this.#bytesMax + CUT_MARGIN_BYTES - this.#keptBytes;
    if (room <= 0) return;
    const kept = Buffer.from(part.subarray(0, room));
    this.#kept.push(kept);
    this.#keptBytes += kept.length;
  }
}

const CONTINUATION_BYTES_MAX = 3;

function wholeCharacters(bytes: Buffer): Buffer {
  return bytes.subarray(0, characterEnd(bytes));
}

/** Where the last whole UTF-8 character ends, when the bytes were cut anywhere. */
function characterEnd(bytes: Buffer): number {
  for (let back = 1; back <= CONTINUATION_BYTES_MAX + 1 && back <= bytes.length; back += 1) {
    const byte = bytes[bytes.length - back] ?? 0;
    if ((byte & 0xc0) === 0x80) continue;
    const isCut = (byte >= 0xf0 && back < 4) || (byte >= 0xe0 && back < 3) || (byte >= 0xc0 && back < 2);
    return isCut ? bytes.length - back : bytes.length;
  }
  return bytes.length;
}
