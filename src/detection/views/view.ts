/** A text as a reader or a program would take it, and where each of its characters came from. */
export interface DecodedText {
  readonly text: string;
  /** Where the original of the character at `at` begins, */
  startOf(at: number): number;
  /** and where it ends. */
  endOf(at: number): number;
}

const BYTE_MAX = 0xff;

/**
 * Grows a view from left to right. Stretches that stay as they are cost one entry, however long they are; so does a stretch that
 * stands for another one.
 */
export class ViewWriter implements DecodedText {
  readonly #original: string;
  /** One byte a character while that is enough. */
  #codes: Uint8Array | Uint16Array;
  #length = 0;
  #text = "";
  /** By entry: where it begins in the view, where in the original; and where the original ends, 0 when it stays as it is. */
  #entries = new Uint32Array(96);
  #count = 0;

  constructor(original: string) {
    this.#original = original;
    this.#codes = new Uint8Array(original.length + 16);
  }

  get text(): string {
    return this.#text;
  }

  /** The original's characters from `start` to `end`, as they are. */
  copy(start: number, end: number): void {
    if (start === end) return;
    this.#enter(start, 0);
    for (let at = start; at < end; at += 1) this.#push(this.#original.charCodeAt(at));
  }

  /** A character stands for the original's stretch. */
  put(code: number, start: number, end: number): void {
    this.#enter(start, end);
    this.#push(code);
  }

  /** All characters of `text` stand for the original's stretch; none may. */
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

  /** The last entry that begins at `at` or before. */
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

/** A view of a view, told in the original's offsets. */
export function compose(inner: DecodedText, outer: DecodedText): DecodedText {
  return {
    text: outer.text,
    startOf: (at) => inner.startOf(outer.startOf(at)),
    endOf: (at) => inner.endOf(outer.endOf(at) - 1),
  };
}

/** What was found in a view, in the original's offsets. */
export function inOriginal<Found extends { readonly start: number; readonly end: number }>(
  view: DecodedText,
  found: Found,
): Found {
  return { ...found, start: view.startOf(found.start), end: view.endOf(found.end - 1) };
}
