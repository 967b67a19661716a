import { STORED_PRINT_BYTES, type StoredText } from "./stored-rows.ts";

/** Bits that say what a stored fingerprint means. */
export const [PRIVATE, UNTRUSTED, EARNS_PRIVATE, EARNS_UNTRUSTED] = [1, 2, 4, 8];
/** The value is not known: a caller with untrusted text wrote it, and neither the user nor an answer without such text had named it. */
export const NAMED = 16;
/** Bits in an entry besides the number of its row. */
const FLAG_BITS = 5;
const ALL_FLAGS = 2 ** FLAG_BITS - 1;
const SLOTS_MIN = 1_024;
/** Bits of the filter for each slot. */
const FILTER_BITS = 8;

type Writer = Omit<StoredText, "prints"> & { readonly count: number };

/** Fingerprints with flags, packed as a row keeps them. */
export class FlaggedPrints {
  readonly #low: number[] = [];
  readonly #high: number[] = [];
  readonly #flags: number[] = [];
  readonly #known = new Map<string, number>();

  get count(): number {
    return this.#low.length;
  }

  /** All flags together. */
  get flags(): number {
    return this.#flags.reduce((all, one) => all | one, 0);
  }

  add(low: number, high: number, flags: number): void {
    const name = `${low} ${high}`;
    const known = this.#known.get(name);
    if (known !== undefined) {
      this.#flags[known] = (this.#flags[known] as number) | flags;
      return;
    }
    this.#known.set(name, this.#low.length);
    this.#low.push(low);
    this.#high.push(high);
    this.#flags.push(flags);
  }

  /** Packs those that are not left out. */
  packed(isWanted: (low: number, high: number, flags: number) => boolean): Uint8Array {
    const kept = this.#low.flatMap((low, at) => {
      const [high, flags] = [this.#high[at] as number, this.#flags[at] as number];
      return isWanted(low, high, flags) ? [{ low, high, flags }] : [];
    });
    const prints = new Uint8Array(kept.length * STORED_PRINT_BYTES);
    const halves = new Int32Array(prints.buffer, 0, kept.length * 2);
    for (const [at, { low, high, flags }] of kept.entries()) {
      halves[at] = low;
      halves[kept.length + at] = high;
      prints[kept.length * 8 + at] = flags;
    }
    return prints;
  }
}

export function countOf(prints: Uint8Array): number {
  return prints.byteLength / STORED_PRINT_BYTES;
}

/** The stored fingerprints of all callers, in memory: a hash table with open addressing. */
export class StoredTable {
  #low = new Int32Array(SLOTS_MIN);
  #high = new Int32Array(SLOTS_MIN);
  /** Number of the row, beginning at 1, and flags; 0: the slot is empty. */
  #entry = new Int32Array(SLOTS_MIN);
  /** Bits of the upper halves: small enough for the processor's cache, and nearly every fingerprint that is not there ends here. */
  #filter = new Int32Array((SLOTS_MIN * FILTER_BITS) / 32);
  #used = 0;
  #rows: Writer[] = [];
  #whole: Writer[] = [];

  get isEmpty(): boolean {
    return this.#rows.length === 0 && this.#whole.length === 0;
  }

  /** Bytes of the fingerprints. */
  get bytes(): number {
    return this.#low.byteLength * 3 + this.#filter.byteLength;
  }

  add({ prints, ...text }: StoredText, now: number): void {
    const count = countOf(prints);
    const writer = { ...text, count };
    if (text.system !== "") {
      this.#whole.push(writer);
      return;
    }
    this.#reserve(count, now);
    // A copy, because the bytes of a row need not begin at a multiple of four.
    const bytes = new Uint8Array(prints);
    const halves = new Int32Array(bytes.buffer, 0, count * 2);
    const row = this.#rows.push(writer);
    for (let at = 0; at < count; at += 1) {
      const flags = (bytes[count * 8 + at] as number) & ALL_FLAGS;
      this.#put(halves[at] as number, halves[count + at] as number, (row << FLAG_BITS) | flags);
    }
  }

  /** Calls `found` for each text that has this fingerprint and has not expired, and returns all flags together. */
  find(low: number, high: number, now: number, found?: (text: Writer, flags: number) => void): number {
    const filter = this.#filter;
    // The lowest bits choose the bit, those above it the word.
    if (((filter[(high >>> 5) & (filter.length - 1)] as number) & (1 << (high & 31))) === 0) return 0;
    return this.#find(low, high, now, found);
  }

  #find(low: number, high: number, now: number, found?: (text: Writer, flags: number) => void): number {
    const lows = this.#low;
    const mask = lows.length - 1;
    let all = 0;
    for (let slot = low & mask; this.#entry[slot] !== 0; slot = (slot + 1) & mask) {
      if (lows[slot] !== low || this.#high[slot] !== high) continue;
      const entry = this.#entry[slot] as number;
      const row = this.#rows[(entry >>> FLAG_BITS) - 1];
      if (row === undefined || row.until <= now) continue;
      all |= entry & ALL_FLAGS;
      found?.(row, entry & ALL_FLAGS);
    }
    return all;
  }

  /** Returns the texts of a system whose fingerprints were not kept. */
  wholeOf(system: string, now: number): readonly Writer[] {
    return this.#whole.filter((one) => one.system === system && one.until > now);
  }

  /** Returns the number of stored fingerprints, and of those that a caller stored. */
  counts({ issuer, subject }: Pick<StoredText, "issuer" | "subject">, now: number) {
    let [all, own] = [0, 0];
    for (const row of this.#rows) {
      if (row.until <= now) continue;
      all += row.count;
      if (row.issuer === issuer && row.subject === subject) own += row.count;
    }
    return { all, own };
  }

  /** The same fingerprint with the same meaning is there once: the text that lasts longest has it. */
  #put(low: number, high: number, entry: number): void {
    const mask = this.#low.length - 1;
    let slot = low & mask;
    for (; this.#entry[slot] !== 0; slot = (slot + 1) & mask) {
      const other = this.#entry[slot] as number;
      if (this.#low[slot] !== low || this.#high[slot] !== high || ((other ^ entry) & ALL_FLAGS) !== 0) continue;
      if (this.#untilOf(other) < this.#untilOf(entry)) this.#entry[slot] = entry;
      return;
    }
    const word = (high >>> 5) & (this.#filter.length - 1);
    this.#filter[word] = (this.#filter[word] as number) | (1 << (high & 31));
    this.#low[slot] = low;
    this.#high[slot] = high;
    this.#entry[slot] = entry;
    this.#used += 1;
  }

  #untilOf(entry: number): number {
    return this.#rows[(entry >>> FLAG_BITS) - 1]?.until ?? 0;
  }

  /** Keeps half of the slots empty. What has expired is left out when the table is written again. */
  #reserve(more: number, now: number): void {
    if ((this.#used + more) * 2 <= this.#low.length) return;
    const [lows, highs, entries, rows] = [this.#low, this.#high, this.#entry, this.#rows];
    const numbers = new Int32Array(rows.length + 1);
    this.#rows = rows.filter((row, index) => {
      if (row.until <= now) return false;
      numbers[index + 1] = 1;
      return true;
    });
    let number = 0;
    for (let index = 1; index < numbers.length; index += 1) if (numbers[index] === 1) numbers[index] = number += 1;
    let live = 0;
    for (const entry of entries) if (numbers[entry >>> FLAG_BITS] !== 0) live += 1;
    let size = SLOTS_MIN;
    while (size < (live + more) * 2) size *= 2;
    this.#low = new Int32Array(size);
    this.#high = new Int32Array(size);
    this.#entry = new Int32Array(size);
    this.#filter = new Int32Array((size * FILTER_BITS) / 32);
    this.#used = 0;
    for (let slot = 0; slot < entries.length; slot += 1) {
      const entry = entries[slot] as number;
      const row = numbers[entry >>> FLAG_BITS] as number;
      if (row !== 0) this.#put(lows[slot] as number, highs[slot] as number, (row << FLAG_BITS) | (entry & ALL_FLAGS));
    }
    this.#whole = this.#whole.filter(({ until }) => until > now);
  }
}
