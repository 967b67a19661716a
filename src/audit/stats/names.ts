import type { Column, LineRows } from "../query/line-rows.ts";

/** Maximum number of distinct tools, callers or codes that are counted separately; later ones are counted together. */
export const KEYS_MAX = 10_000;
export const OTHERS = "(others)";
export const NONE = "(none)";

export type Sum = readonly [name: string, calls: number];

/** More than any number of a name, and any code of a duration: several of them make one key. */
export const RADIX = 16_384;
export const OTHERS_ID = 0;
const UNKNOWN_ID = -1;

/** Numbers the names of a column across segments, so that counting a row compares no text. */
export class Names {
  readonly #ids = new Map<string | undefined, number>();
  readonly #names: (string | undefined)[] = [OTHERS];
  readonly #calls: Float64Array;
  readonly #namesMax: number;

  /** Names beyond the maximum share the number of `(others)`. */
  constructor(namesMax: number) {
    this.#namesMax = namesMax;
    this.#calls = new Float64Array(namesMax + 1);
  }

  /** Returns a function that returns the number of a row's name; a missing name has a number, too. */
  reader({ codes, values }: LineRows, column: Column): (row: number) => number {
    const [code, names] = [codes[column], values[column]];
    const ids = new Int32Array(names.length + 1).fill(UNKNOWN_ID);
    return (row) => {
      const at = code[row] ?? 0;
      const known = ids[at] ?? UNKNOWN_ID;
      if (known !== UNKNOWN_ID) return known;
      const id = this.idOf(at === 0 ? undefined : names[at - 1]);
      ids[at] = id;
      return id;
    };
  }

  idOf(name: string | undefined): number {
    const known = this.#ids.get(name);
    if (known !== undefined) return known;
    if (this.#ids.size >= this.#namesMax) return OTHERS_ID;
    const id = this.#names.push(name) - 1;
    this.#ids.set(name, id);
    return id;
  }

  nameOf(id: number): string | undefined {
    return this.#names[id];
  }

  add(id: number, calls: number): void {
    this.#calls[id] = (this.#calls[id] ?? 0) + calls;
  }

  sums(): readonly Sum[] {
    return this.#names.map((name, id) => [name ?? NONE, this.#calls[id] ?? 0] as const);
  }
}
