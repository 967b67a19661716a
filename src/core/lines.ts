import { GrowingBytes } from "./growing-bytes.ts";

const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;

interface LinesOptions {
  readonly bytesMax: number;
  /** Receives each line without its end. The bytes are only valid during the call. */
  readonly onLine: (line: Uint8Array) => void;
  /** Receives the beginning of a line over the limit. The rest of it is skipped. */
  readonly onTooLong: (beginning: Uint8Array) => void;
}

/** Splits bytes into lines. */
export class Lines {
  readonly #options: LinesOptions;
  /** The beginning of a line. */
  readonly #kept = new GrowingBytes();
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
    if (this.#kept.length > 0) this.#emit(this.#kept.take());
  }

  #read(part: Uint8Array, isEnd: boolean): void {
    const { bytesMax, onTooLong } = this.#options;
    const left = bytesMax - this.#kept.length;
    if (part.byteLength > left) {
      this.#isSkipping = true;
      this.#kept.add(part.subarray(0, left));
      onTooLong(this.#kept.take());
    } else if (isEnd && this.#kept.length === 0) {
      // Most lines are complete.
      this.#emit(part);
    } else {
      this.#kept.add(part);
      if (isEnd) this.#emit(this.#kept.take());
    }
  }

  #emit(line: Uint8Array): void {
    this.#options.onLine(line.at(-1) === CARRIAGE_RETURN ? line.subarray(0, -1) : line);
  }
}

/** Splits a stream of bytes into lines. Yields undefined for a line that is too long. */
export async function* linesIn(
  input: AsyncIterable<Uint8Array>,
  bytesMax: number,
): AsyncGenerator<string | undefined, void> {
  const read: (string | undefined)[] = [];
  const lines = new Lines({
    bytesMax,
    onLine: (line) => read.push(Buffer.from(line).toString("utf8")),
    onTooLong: () => read.push(undefined),
  });
  for await (const chunk of input) {
    lines.add(chunk);
    yield* read.splice(0);
  }
  lines.end();
  yield* read.splice(0);
}
