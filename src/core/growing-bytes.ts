const BYTES_MIN = 4_096;
/** A larger buffer is released when its bytes are taken. */
const RETAINED_BYTES_MAX = 65_536;

/** Joins bytes that arrive in pieces in one growing buffer: many small pieces cost no more than their bytes. */
export class GrowingBytes {
  #buffer = new Uint8Array();
  #length = 0;

  get length(): number {
    return this.#length;
  }

  add(part: Uint8Array): void {
    const length = this.#length + part.length;
    if (length > this.#buffer.length) {
      const grown = new Uint8Array(Math.max(BYTES_MIN, length, 2 * this.#buffer.length));
      grown.set(this.#buffer.subarray(0, this.#length));
      this.#buffer = grown;
    }
    this.#buffer.set(part, this.#length);
    this.#length = length;
  }

  /** Returns the bytes, and is empty again. They are valid until the next `add`. */
  take(): Uint8Array {
    const taken = this.#buffer.subarray(0, this.#length);
    this.#length = 0;
    if (this.#buffer.length > RETAINED_BYTES_MAX) this.#buffer = new Uint8Array();
    return taken;
  }
}
