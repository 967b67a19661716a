const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
const BUFFER_BYTES_MIN = 4_096;
/** A larger buffer is released after its line. */
const RETAINED_BYTES_MAX = 65_536;

interface LinesOptions {
  readonly bytesMax: number;
  /** Receives each line without its end. The bytes are only valid during the call. */
  readonly onLine: (line: Uint8Array) => void;
  /** Receives the beginning of a line over the limit. The rest of it is skipped. */
  readonly onTooLong: (beginning: Uint8Array) => void;
}

/** Splits bytes into lines. One growing buffer holds an incomplete line, however small the pieces are. */
export class Lines {
  readonly #options: LinesOptions;
  #buffer = Buffer.alloc(0);
  #bytes = 0;
  /** True while the rest of a line that is too long is skipped. */
  #isSkipping = false;

  constructor(options: LinesOptions) {
    this.#options = options;
  }

  add(chunk: Uint8Array): void {
    for (let from = 0; from < chunk.byteLength; ) {
      const found = chunk.indexOf(LINE_FEED, from);
      const end = found === -1 ? chunk.byteLength : found;
      if (!this.#isSkipping) this.#read(chunk.subarray(from, end), found !== -1);
      if (found !== -1) this.#isSkipping = false;
      from = end + 1;
    }
  }

  /** Passes on a last line that has no end. */
  end(): void {
    if (this.#bytes > 0) this.#emit(this.#take());
  }

  #read(part: Uint8Array, isEnd: boolean): void {
    const { bytesMax, onTooLong } = this.#options;
    const left = bytesMax - this.#bytes;
    if (part.byteLength > left) {
      this.#isSkipping = true;
      this.#keep(part.subarray(0, left));
      onTooLong(this.#take());
    } else if (isEnd && this.#bytes === 0) {
      // Most lines are complete.
      this.#emit(part);
    } else {
      this.#keep(part);
      if (isEnd) this.#emit(this.#take());
    }
  }

  #keep(part: Uint8Array): void {
    const bytes = this.#bytes + part.byteLength;
    if (bytes > this.#buffer.byteLength) {
      const grown = Buffer.allocUnsafe(Math.max(BUFFER_BYTES_MIN, bytes, 2 * this.#buffer.byteLength));
      this.#buffer.copy(grown, 0, 0, this.#bytes);
      this.#buffer = grown;
    }
    this.#buffer.set(part, this.#bytes);
    this.#bytes = bytes;
  }

  #take(): Uint8Array {
    const kept = this.#buffer.subarray(0, this.#bytes);
    this.#bytes = 0;
    if (this.#buffer.byteLength > RETAINED_BYTES_MAX) this.#buffer = Buffer.alloc(0);
    return kept;
  }

  #emit(line: Uint8Array): void {
    this.#options.onLine(line.at(-1) === CARRIAGE_RETURN ? line.subarray(0, -1) : line);
  }
}
