import { joinPath } from "./field-path.ts";

/** A displayed path. Paths are cached after their first use: they are few, and the same in every result. */
export interface ShownPath {
  readonly text: string;
  readonly below: Map<string, ShownPath>;
  readonly isCached: boolean;
  /** Number of the last list that contains the path. */
  listedBy: number;
}

/** The paths of one policy that are cached between results. */
export interface PathMemory {
  readonly top: ShownPath;
  cached: number;
  lists: number;
  /** The previous list, with its sorted texts: most results of one tool lose the same fields. */
  listed: readonly ShownPath[];
  sorted: readonly string[];
}

const PATHS_CACHED_MAX = 10_000;
const FILTERED_FIELDS_MAX = 1_000;

export function newMemory(): PathMemory {
  return { top: newPath("", true), cached: 0, lists: 0, listed: [], sorted: [] };
}

function newPath(text: string, isCached: boolean): ShownPath {
  return { text, below: new Map(), isCached, listedBy: 0 };
}

/** The fields of one result that were hidden or removed. */
export class ListedFields {
  readonly #memory: PathMemory;
  /** Distinguishes this list from earlier ones. */
  readonly #number: number;
  /** In insertion order, so that the last ones can be removed. */
  readonly #fields: ShownPath[] = [];
  /** Texts of the listed paths that are not cached. */
  #uncached: Set<string> | undefined;
  #isCut = false;

  constructor(memory: PathMemory) {
    memory.lists += 1;
    this.#memory = memory;
    this.#number = memory.lists;
  }

  get length(): number {
    return this.#fields.length;
  }

  below(path: ShownPath, shown: string): ShownPath {
    const known = path.below.get(shown);
    if (known !== undefined) return known;
    const made = newPath(joinPath(path.text, shown), path.isCached && this.#memory.cached < PATHS_CACHED_MAX);
    if (made.isCached) {
      this.#memory.cached += 1;
      path.below.set(shown, made);
    }
    return made;
  }

  add(field: ShownPath): void {
    if (field.listedBy === this.#number || this.#uncached?.has(field.text)) return;
    if (this.#fields.length >= FILTERED_FIELDS_MAX) {
      this.#isCut = true;
      return;
    }
    field.listedBy = this.#number;
    if (!field.isCached) {
      this.#uncached ??= new Set();
      this.#uncached.add(field.text);
    }
    this.#fields.push(field);
  }

  /** Removes the fields after the first `length`: their container is removed itself and listed instead. */
  removeAfter(length: number): void {
    if (this.#fields.length === length) return;
    for (const field of this.#fields.splice(length)) {
      field.listedBy = 0;
      this.#uncached?.delete(field.text);
    }
  }

  /** Returns the sorted texts without duplicates. Ends in `…` when the list was cut. */
  sorted(): readonly string[] {
    const memory = this.#memory;
    const fields = this.#fields;
    let isSame = memory.listed.length === fields.length;
    for (let index = 0; isSame && index < fields.length; index += 1) isSame = memory.listed[index] === fields[index];
    if (!isSame) {
      memory.listed = fields;
      memory.sorted = [...new Set(fields.map(({ text }) => text))].sort();
    }
    // A copy, because the recipient may change it.
    return this.#isCut ? [...memory.sorted, "…"] : memory.sorted.slice();
  }
}
