/** A text after decoding, with the original range of each of its characters. */
export interface DecodedText {
  readonly text: string;
  /** Returns the start of the original of the character at `at`. */
  startOf(at: number): number;
  /** Returns the end of the original of the character at `at`. */
  endOf(at: number): number;
}

const BYTE_MAX = 0xff;

/**
 * Builds a view from left to right. An unchanged range takes one entry, whatever its length; so does a range that is replaced.
 */
export class ViewWriter implements DecodedText {
  readonly #original: string;
  /** Character codes; one byte each as long as that is sufficient. */
  #codes: Uint8Array | Uint16Array;
  #length = 0;
  #text = "";
  /** Three numbers for each entry: start in the view, start in the original, end in the original (0 for an unchanged range). */
  #entries = new Uint32Array(96);
  #count = 0;

  constructor(original: string) {
    this.#original = original;
    this.#codes = new Uint8Array(original.length + 16);
  }

  get text(): string {
    return this.#text;
  }

  /** Copies the original's characters from `start` to `end`. */
  copy(start: number, end: number): void {
    if (start === end) return;
    this.#enter(start, 0);
    for (let at = start; at < end; at += 1) this.#push(this.#original.charCodeAt(at));
  }

  /** Writes a character that replaces a range of the original. */
  put(code: number, start: number, end: number): void {
    this.#enter(start, end);
    this.#push(code);
  }

  /** Writes a text that replaces a range of the original. An empty text removes the range. */
  putText(text: string, start: number, end: number): void {
    if (text === "") return;
    this.#enter(start, end);
    for (let at = 0; at < text.length; at += 1) this.#push(text.charCodeAt(at));
  }

  finish(): DecodedText {
    const codes = this.#codes.subarray(0, this.#length);
    const bytes = Buffer.from(codes.buffer, codes.byteOffset, codes.byteLength);
    this.#text = bytes.toString(codes instanceof Uint8Array ? "latin1" : "utf16le");
    return this;
  }

  startOf(at: number): number {
    const entry = this.#entryAt(at);
    return this.#isCopy(entry) ? this.#startAt(entry) + at - this.#viewAt(entry) : this.#startAt(entry);
  }

  endOf(at: number): number {
    const entry = this.#entryAt(at);
    return this.#isCopy(entry)
      ? this.#startAt(entry) + at - this.#viewAt(entry) + 1
      : (this.#entries[entry * 3 + 2] ?? 0);
  }

  #viewAt(entry: number): number {
    return this.#entries[entry * 3] ?? 0;
  }

  #startAt(entry: number): number {
    return this.#entries[entry * 3 + 1] ?? 0;
  }

  #isCopy(entry: number): boolean {
    return this.#entries[entry * 3 + 2] === 0;
  }

  /** Returns the last entry that starts at or before `at`. */
  #entryAt(at: number): number {
    let low = 0;
    let high = this.#count - 1;
    while (low < high) {
      const middle = (low + high + 1) >>> 1;
      if (this.#viewAt(middle) <= at) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  #enter(start: number, end: number): void {
    const at = this.#count * 3;
    if (at === this.#entries.length) {
      const larger = new Uint32Array(at * 2);
      larger.set(this.#entries);
      this.#entries = larger;
    }
    this.#entries[at] = this.#length;
    this.#entries[at + 1] = start;
    this.#entries[at + 2] = end;
    this.#count += 1;
  }

  #push(code: number): void {
    if (this.#length === this.#codes.length) this.#widen(this.#codes.length * 2, this.#codes instanceof Uint16Array);
    if (code > BYTE_MAX && this.#codes instanceof Uint8Array) this.#widen(this.#codes.length, true);
    this.#codes[this.#length] = code;
    this.#length += 1;
  }

  #widen(capacity: number, isWide: boolean): void {
    const larger = isWide ? new Uint16Array(capacity) : new Uint8Array(capacity);
    larger.set(this.#codes);
    this.#codes = larger;
  }
}

/** Returns a view of a view, with offsets in the original. */
export function compose(inner: DecodedText, outer: DecodedText): DecodedText {
  return {
    text: outer.text,
    startOf: (at) => inner.startOf(outer.startOf(at)),
    endOf: (at) => inner.endOf(outer.endOf(at) - 1),
  };
}

/** Returns a finding in a view with offsets in the original. */
export function inOriginal<Found extends { readonly start: number; readonly end: number }>(
  view: DecodedText,
  found: Found,
): Found {
  return { ...found, start: view.startOf(found.start), end: view.endOf(found.end - 1) };
}
