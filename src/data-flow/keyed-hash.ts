import { BOUNDARY } from "./texts.ts";
import { DIGIT, HIGH, LETTER } from "./units.ts";

export const [SEPARATES, ENDS] = [0, 1];
const FIRST_HIGH_BYTE = 0x80;
export const BOUNDARY_BYTE = BOUNDARY.charCodeAt(0);

/** Value that each UTF-8 byte adds to a word's hash: lower-case letters, digits and non-ASCII bytes, each with its kind. */
export const FOLDED = Uint16Array.from({ length: 256 }, (_, code) => {
  if (code >= FIRST_HIGH_BYTE) return code | HIGH;
  if (code >= 0x30 && code <= 0x39) return code | DIGIT;
  if (code === BOUNDARY_BYTE) return ENDS;
  const folded = code | 0x20;
  return folded >= 0x61 && folded <= 0x7a ? folded | LETTER : SEPARATES;
});

/** Value that each byte adds where words are hashed together with the characters between them. */
export const WRITTEN = FOLDED.map((code, byte) => code || byte);

const ODD_FACTOR = 0x9e37_79b1;

/** Returns the factor by which the fingerprints of a sort differ from those of others. */
export function factorOf(sort: number): number {
  return Math.imul(sort, ODD_FACTOR) | 1;
}

/**
 * A hash of 64 bits with a key. The loops over many bytes, here and in the files next to this one, all compute the same: a loop that
 * goes on from where another one ended costs less than a call for each byte.
 */
export class KeyedHash {
  /** Halves of the hash that was made last. */
  low = 0;
  high = 0;
  readonly seedLow: number;
  readonly seedHigh: number;
  /** Odd, so that no bit is lost. */
  readonly factor: number;
  readonly one: number;
  readonly two: number;

  /** `secret`: 32 bytes. */
  constructor(secret: Uint8Array) {
    const view = new DataView(secret.buffer, secret.byteOffset, secret.byteLength);
    this.seedLow = view.getInt32(0);
    this.seedHigh = view.getInt32(4);
    this.factor = view.getInt32(8) | 1;
    this.one = view.getInt32(12) | 1;
    this.two = view.getInt32(16) | 1;
  }

  /** Hashes the words between two positions as if nothing were between them. */
  between(bytes: Uint8Array, from: number, to: number): void {
    const factor = this.factor;
    let low = this.seedLow;
    let high = this.seedHigh;
    for (let at = from; at < to; at += 1) {
      const code = FOLDED[bytes[at] as number] as number;
      if (code <= ENDS) continue;
      low = Math.imul(low ^ code, factor);
      high = (((high << 7) | (high >>> 25)) + low) | 0;
    }
    this.finish(low, high);
  }

  /** Hashes words and what is between them, but for the bytes between two positions. */
  written(bytes: Uint8Array, from: number, to: number, leftOut = to, goesOn = to): void {
    const factor = this.factor;
    let low = this.seedLow;
    let high = this.seedHigh;
    for (let at = from; at < to; at += 1) {
      if (at === leftOut) at = goesOn;
      const byte = bytes[at] as number;
      low = Math.imul(low ^ (WRITTEN[byte] as number), factor);
      high = (((high << 7) | (high >>> 25)) + low) | 0;
    }
    this.finish(low, high);
  }

  /** Hashes letters and digits of ASCII. */
  letters(bytes: Uint8Array, from: number, to: number): void {
    const factor = this.factor;
    let low = this.seedLow;
    let high = this.seedHigh;
    for (let at = from; at < to; at += 1) {
      low = Math.imul(low ^ (FOLDED[bytes[at] as number] as number), factor);
      high = (((high << 7) | (high >>> 25)) + low) | 0;
    }
    this.finish(low, high);
  }

  /** Makes a fingerprint one of another sort. */
  sorted(low: number, high: number, sort: number): void {
    const factor = factorOf(sort);
    this.low = Math.imul(low, factor) ^ high;
    this.high = (Math.imul(high, this.one) + Math.imul(low, factor) + sort) | 0;
  }

  /** Mixes both halves of a hash whose bytes have all been added. */
  finish(low: number, high: number): void {
    let first = Math.imul(low ^ (high >>> 16), this.one);
    first ^= first >>> 15;
    const second = Math.imul(high ^ first, this.two);
    this.low = first;
    this.high = second ^ (second >>> 14);
  }
}
