import type { DataLabel } from "../core/types.ts";
import type { AnswerField, PrintColumns } from "./answer-prints.ts";

/** In place of a tool's name: the source is what the host application says that the user asked for. */
export const REQUEST = "the user's request";
/** In place of a tool's name: the source is an approver who has said that a value is fine. */
export const APPROVER = "an approver's answer";

/** An answer that was released before. */
export interface Source {
  readonly id: string;
  readonly tool: string;
  readonly traceId: string;
  /** What was read, such as `id: 812`, as far as the input policy lets the audit contain it. */
  readonly of: string;
  readonly labels: readonly DataLabel[];
  readonly at: number;
  readonly until: number;
  readonly fields: readonly AnswerField[];
}

/** A source with its fingerprints. */
export type ReadSource = Source & { readonly columns: PrintColumns };

/** `field`: its number in the source. `order`: sources with a lower number came first. */
export type TakeSource = (source: Source, field: number, order: number) => void;

/** Answers that are known, in the order in which they came. */
export interface KnownSources {
  values(): readonly Source[];
  /** Calls `take` for each field that has this fingerprint. */
  find(low: number, high: number, take: TakeSource): void;
}

const ENTRIES_MIN = 64;
/** Bits of the number of a field. */
const FIELD_BITS = 8;
/** A source has at most this many fields. */
export const FIELDS = 2 ** FIELD_BITS;
/** Bytes of the objects and texts of one source in memory, besides its fingerprints. */
const SOURCE_BYTES = 1_024;

/**
 * The fingerprints of all answers that a caller got: one look finds the answers that have one, however many answers there are.
 * Fingerprints whose lower halves end in the same bits are a chain. Those of a source that was removed stay until they are half of all.
 */
export class SourceIndex implements KnownSources {
  /** The number of each source by its id. */
  readonly #numbers = new Map<string, number>();
  #sources: (Source | undefined)[] = [];
  #counts: number[] = [];
  #low = new Int32Array(ENTRIES_MIN);
  #high = new Int32Array(ENTRIES_MIN);
  /** The number of its source, and that of the field. */
  #of = new Int32Array(ENTRIES_MIN);
  /** The first fingerprint of each chain, and the next of each. Numbers begin at 1; 0 ends a chain. */
  #first = new Int32Array(ENTRIES_MIN);
  #next = new Int32Array(ENTRIES_MIN);
  #used = 0;
  #removed = 0;

  get bytes(): number {
    return this.#low.byteLength * 5 + this.#numbers.size * SOURCE_BYTES;
  }

  /** Number of sources. */
  get size(): number {
    return this.#numbers.size;
  }

  has(id: string): boolean {
    return this.#numbers.has(id);
  }

  values(): readonly Source[] {
    return this.#sources.filter((source) => source !== undefined);
  }

  add(source: Source, { low, high, field }: PrintColumns): void {
    const number = this.#sources.push(source) - 1;
    this.#counts.push(low.length);
    this.#numbers.set(source.id, number);
    if (this.#used + low.length > this.#low.length) this.#grow(this.#used + low.length);
    // The last one that is put into a chain is found first.
    for (let at = low.length - 1; at >= 0; at -= 1)
      this.#put(low[at] as number, high[at] as number, (number << FIELD_BITS) | (field[at] as number));
  }

  /** Removes the other sources. */
  keep(isKept: (source: Source) => boolean): void {
    for (let number = 0; number < this.#sources.length; number += 1) {
      const source = this.#sources[number];
      if (source === undefined || isKept(source)) continue;
      this.#numbers.delete(source.id);
      this.#sources[number] = undefined;
      this.#removed += this.#counts[number] as number;
    }
    if (this.#removed * 2 > this.#used || this.#numbers.size * 2 < this.#sources.length) this.#compact();
  }

  find(low: number, high: number, take: TakeSource): void {
    const [lows, highs, next] = [this.#low, this.#high, this.#next];
    for (let at = this.#first[low & (lows.length - 1)] as number; at !== 0; at = next[at - 1] as number) {
      if (lows[at - 1] !== low || highs[at - 1] !== high) continue;
      const of = this.#of[at - 1] as number;
      const number = of >>> FIELD_BITS;
      const source = this.#sources[number];
      if (source !== undefined) take(source, of & (FIELDS - 1), number);
    }
  }

  #put(low: number, high: number, of: number): void {
    const at = this.#used;
    const slot = low & (this.#low.length - 1);
    this.#low[at] = low;
    this.#high[at] = high;
    this.#of[at] = of;
    this.#next[at] = this.#first[slot] as number;
    this.#first[slot] = at + 1;
    this.#used = at + 1;
  }

  #grow(wanted: number): void {
    let size = this.#low.length;
    while (size < wanted) size *= 2;
    this.#rewrite(size, (of) => of);
  }

  #compact(): void {
    const [sources, counts] = [this.#sources, this.#counts];
    const numbers = new Int32Array(sources.length).fill(-1);
    this.#sources = [];
    this.#counts = [];
    for (const [number, source] of sources.entries()) {
      if (source === undefined) continue;
      numbers[number] = this.#sources.push(source) - 1;
      this.#counts.push(counts[number] as number);
      this.#numbers.set(source.id, numbers[number]);
    }
    let size = ENTRIES_MIN;
    while (size < this.#used - this.#removed) size *= 2;
    this.#removed = 0;
    this.#rewrite(size, (of) => {
      const number = numbers[of >>> FIELD_BITS] as number;
      return number === -1 ? -1 : (number << FIELD_BITS) | (of & (FIELDS - 1));
    });
  }

  /** Writes all fingerprints again, in their order. `kept` returns where each belongs; -1: nowhere. */
  #rewrite(size: number, kept: (of: number) => number): void {
    const [lows, highs, ofs, used] = [this.#low, this.#high, this.#of, this.#used];
    this.#low = new Int32Array(size);
    this.#high = new Int32Array(size);
    this.#of = new Int32Array(size);
    this.#first = new Int32Array(size);
    this.#next = new Int32Array(size);
    this.#used = 0;
    for (let at = 0; at < used; at += 1) {
      const of = kept(ofs[at] as number);
      if (of !== -1) this.#put(lows[at] as number, highs[at] as number, of);
    }
  }
}

/** Returns sources whose fingerprints are at hand. */
export function indexOf(sources: readonly ReadSource[]): SourceIndex {
  const index = new SourceIndex();
  for (const { columns, ...source } of sources) index.add(source, columns);
  return index;
}

/** Returns the sources of several callers as those of one. A source of several of them is there once. */
export function together(indexes: readonly KnownSources[]): KnownSources {
  const [only] = indexes;
  if (only !== undefined && indexes.length === 1) return only;
  const byId = new Map<string, Source>();
  for (const index of indexes)
    for (const source of index.values()) if (!byId.has(source.id)) byId.set(source.id, source);
  const sources = [...byId.values()];
  const orders = new Map(sources.map((source, order) => [source, order]));
  return {
    values: () => sources,
    find(low, high, take) {
      for (const index of indexes) {
        index.find(low, high, (source, field) => {
          const order = orders.get(source);
          if (order !== undefined) take(source, field, order);
        });
      }
    },
  };
}
