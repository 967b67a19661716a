/** A text as a reader or a program would take it, and where each of its characters came from. */
export interface View {
  readonly text: string;
  /** By character of the view: where the original's begins, */
  readonly starts: Uint32Array;
  /** and where it ends. */
  readonly ends: Uint32Array;
}

/** Grows a view character by character. */
export class ViewWriter {
  #codes: Uint16Array;
  #starts: Uint32Array;
  #ends: Uint32Array;
  #length = 0;

  constructor(capacity: number) {
    this.#codes = new Uint16Array(capacity);
    this.#starts = new Uint32Array(capacity);
    this.#ends = new Uint32Array(capacity);
  }

  push(code: number, start: number, end: number): void {
    if (this.#length === this.#codes.length) this.#grow();
    this.#codes[this.#length] = code;
    this.#starts[this.#length] = start;
    this.#ends[this.#length] = end;
    this.#length += 1;
  }

  /** All characters of `text` stand for the original's stretch. */
  pushText(text: string, start: number, end: number): void {
    for (let at = 0; at < text.length; at += 1) this.push(text.charCodeAt(at), start, end);
  }

  finish(): View {
    const codes = this.#codes.subarray(0, this.#length);
    return {
      text: textOf(codes),
      starts: this.#starts.subarray(0, this.#length),
      ends: this.#ends.subarray(0, this.#length),
    };
  }

  #grow(): void {
    const capacity = this.#codes.length * 2 + 64;
    const codes = new Uint16Array(capacity);
    const starts = new Uint32Array(capacity);
    const ends = new Uint32Array(capacity);
    codes.set(this.#codes);
    starts.set(this.#starts);
    ends.set(this.#ends);
    this.#codes = codes;
    this.#starts = starts;
    this.#ends = ends;
  }
}

function textOf(codes: Uint16Array): string {
  return Buffer.from(codes.buffer, codes.byteOffset, codes.byteLength).toString("utf16le");
}

/** A view of a view, told in the original's offsets. */
export function compose(inner: View, outer: View): View {
  return {
    text: outer.text,
    starts: outer.starts.map((start) => inner.starts[start] ?? 0),
    ends: outer.ends.map((end) => inner.ends[end - 1] ?? 0),
  };
}

/** What was found in a view, in the original's offsets. */
export function inOriginal<Found extends { readonly start: number; readonly end: number }>(
  view: View,
  found: Found,
): Found {
  return { ...found, start: view.starts[found.start] ?? 0, end: view.ends[found.end - 1] ?? 0 };
}
