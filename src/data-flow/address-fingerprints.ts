import {
  ADDRESS,
  type FingerprintTable,
  HOST,
  HOST_OF_ADDRESS,
  WORDS,
  WORDS_MAX,
  WORDS_OF_ADDRESS,
} from "./fingerprint-table.ts";
import { PUBLIC_MAIL } from "./frequent-words.ts";
import { WRITTEN } from "./keyed-hash.ts";
import { addressesIn, HOST_LABELS_MAX, hostEnds, lastBeforeTag, nextLabel, type WordSpan } from "./units.ts";

/** An address: its first word, that of its host name, and the number of words at which it may end. */
interface Address {
  readonly first: number;
  readonly host: number;
  readonly ends: number;
}

/** Adds the fingerprints of mail addresses and host names to those of the words. */
export class AddressFingerprints {
  /** 1 for each word in the host name of a mail address. */
  readonly isAddressHost = new Uint8Array(WORDS_MAX);
  /** The words at which the present host name may end. */
  readonly #ends = new Uint16Array(HOST_LABELS_MAX);
  readonly #table: FingerprintTable;

  constructor(table: FingerprintTable) {
    this.#table = table;
  }

  /**
   * Adds addresses and host names. The words in the host name of a mail address have fingerprints of another sort: they say nothing
   * of other addresses at that host.
   */
  add(span: WordSpan, text: number, firstPrint: number): void {
    const table = this.#table;
    const { hash } = table;
    const isAddressHost = this.isAddressHost.fill(0, span.from, span.to + 1);
    let hasAddress = false;
    addressesIn(table, span, {
      address: (first, host, last) => {
        const ends = hostEnds(table, host, last, this.#ends);
        hasAddress ||= ends > 0;
        if (ends > 0) isAddressHost.fill(1, host, (this.#ends[ends - 1] as number) + 1);
        this.#address({ first, host, ends }, text);
      },
      host: (first, last) => {
        const ends = hostEnds(table, first, last, this.#ends);
        this.#hosts({ first, host: first, ends }, text);
      },
    });
    if (!hasAddress || table.isValue) return;
    const { from, to, sort, low, high, count } = table;
    for (let at = firstPrint; at < count; at += 1) {
      if (sort[at] !== WORDS || isAddressHost[from[at] as number] === 0 || isAddressHost[to[at] as number] === 0)
        continue;
      hash.sorted(low[at] as number, high[at] as number, WORDS_OF_ADDRESS);
      [low[at], high[at], sort[at]] = [hash.low, hash.high, WORDS_OF_ADDRESS];
    }
  }

  /** Adds an address with each of its ends, and its host name. */
  #address({ first, host, ends }: Address, text: number): void {
    const table = this.#table;
    const { hash } = table;
    const { start, end, bytes } = table;
    const { factor } = hash;
    const tag = lastBeforeTag(table, first, host);
    const hostStart = start[host] as number;
    let low = hash.seedLow;
    let high = hash.seedHigh;
    let at = start[first] as number;
    for (; at < hostStart; at += 1) {
      low = Math.imul(low ^ (WRITTEN[bytes[at] as number] as number), factor);
      high = (((high << 7) | (high >>> 25)) + low) | 0;
    }
    let hostLow = hash.seedLow;
    let hostHigh = hash.seedHigh;
    for (let index = 0; index < ends; index += 1) {
      const to = this.#ends[index] as number;
      const after = end[to] as number;
      // Two hashes that do not wait for each other take the time of one.
      for (; at < after; at += 1) {
        const code = WRITTEN[bytes[at] as number] as number;
        low = Math.imul(low ^ code, factor);
        high = (((high << 7) | (high >>> 25)) + low) | 0;
        hostLow = Math.imul(hostLow ^ code, factor);
        hostHigh = (((hostHigh << 7) | (hostHigh >>> 25)) + hostLow) | 0;
      }
      hash.finish(low, high);
      table.addSorted(first, to, text, ADDRESS);
      if (tag !== undefined) {
        hash.written(table.bytes, start[first] as number, after, end[tag] as number, hostStart - 1);
        table.addSorted(first, to, text, ADDRESS);
      }
      if (table.isValue) {
        this.#hostOfValue(host, to, text, true);
        continue;
      }
      hash.finish(hostLow, hostHigh);
      table.addSorted(host, to, text, HOST_OF_ADDRESS);
    }
  }

  /** Adds a host name that is not that of an address, with each of its ends. */
  #hosts({ first, ends }: Address, text: number): void {
    const table = this.#table;
    const { hash } = table;
    const { start, end, bytes } = table;
    const { factor } = hash;
    let low = hash.seedLow;
    let high = hash.seedHigh;
    let at = start[first] as number;
    for (let index = 0; index < ends; index += 1) {
      const to = this.#ends[index] as number;
      if (table.isValue) {
        this.#hostOfValue(first, to, text, false);
        continue;
      }
      const after = end[to] as number;
      for (; at < after; at += 1) {
        low = Math.imul(low ^ (WRITTEN[bytes[at] as number] as number), factor);
        high = (((high << 7) | (high >>> 25)) + low) | 0;
      }
      hash.finish(low, high);
      table.addSorted(first, to, text, HOST);
    }
  }

  /** Adds a host name of a value, also without its first labels. */
  #hostOfValue(first: number, to: number, text: number, isInAddress: boolean): void {
    const table = this.#table;
    const { hash } = table;
    for (let from = first; from !== -1; from = nextLabel(table, from, to)) {
      hash.written(table.bytes, table.start[from] as number, table.end[to] as number);
      const [low, high] = [hash.low, hash.high];
      // A host name may be that of an address; an address is not one because of another address at its host.
      if (!isInAddress) table.addSorted(from, to, text, HOST_OF_ADDRESS);
      if (isInAddress && PUBLIC_MAIL.has(table.written(from, to).toLowerCase())) continue;
      [hash.low, hash.high] = [low, high];
      table.addSorted(from, to, text, HOST);
    }
  }
}
