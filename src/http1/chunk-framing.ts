import { Http1Error } from "./http1-error.ts";

/** Longest size of a chunk: llhttp allows any number of leading zeros. */
const SIZE_DIGITS_MAX = 16;

const CR = 0x0d;
const LF = 0x0a;

/**
 * Looks for extensions in the framing of a chunked body: the bytes that are no content. llhttp has checked the framing, but the
 * build that is used here reports no extensions. Without them, the framing consists of hexadecimal digits, CR and LF.
 */
export class ChunkFraming {
  #digits = 0;
  #isInExtension = false;

  /**
   * Checks a part of the framing. Returns true when an extension begins in it.
   *
   * @throws {Http1Error}
   */
  hasExtension(bytes: Buffer, start: number, end: number): boolean {
    let found = false;
    for (let at = start; at < end; at += 1) {
      const byte = bytes[at] ?? 0;
      if (byte === LF) {
        this.#digits = 0;
        this.#isInExtension = false;
      } else if (this.#isInExtension || byte === CR) {
      } else if (isHexDigit(byte)) {
        this.#digits += 1;
        if (this.#digits > SIZE_DIGITS_MAX) throw new Http1Error("CHUNK_SIZE_TOO_LONG", "A chunk size is too long");
      } else {
        this.#isInExtension = true;
        found = true;
      }
    }
    return found;
  }
}

function isHexDigit(byte: number): boolean {
  return (byte >= 0x30 && byte <= 0x39) || ((byte | 0x20) >= 0x61 && (byte | 0x20) <= 0x66);
}
