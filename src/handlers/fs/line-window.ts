const NEWLINE = 10;

export interface LineRange {
  /** 1-based, inclusive. */
  readonly startLine: number;
  readonly endLine: number;
}

/** Takes a window of lines out of a file that passes by in parts, and counts the lines of all of it. */
export class LineWindow {
  readonly #range: LineRange;
  readonly #bytesMax: number;
  readonly #kept: Buffer[] = [];
  #keptBytes = 0;
  #overflows = false;
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
  get window(): { readonly bytes: Buffer; readonly truncated: boolean } {
    const bytes = Buffer.concat(this.#kept);
    if (!this.#overflows) return { bytes, truncated: false };
    const lineEnd = bytes.lastIndexOf(NEWLINE) + 1;
    return { bytes: bytes.subarray(0, lineEnd > 0 ? lineEnd : characterEnd(bytes)), truncated: true };
  }

  #keep(part: Buffer): void {
    const room = this.#bytesMax - this.#keptBytes;
    if (part.length > room) this.#overflows = true;
    if (room <= 0) return;
    const kept = Buffer.from(part.subarray(0, room));
    this.#kept.push(kept);
    this.#keptBytes += kept.length;
  }
}

const CONTINUATION_BYTES_MAX = 3;

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
