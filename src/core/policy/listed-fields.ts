import { joinPath } from "./field-path.ts";

/** A path as it is shown. Paths are cached after their first use: they are few, and the same in every result. */
export interface ShownPath {
  readonly text: string;
  readonly below: Map<string, ShownPath>;
  readonly isKept: boolean;
  /** Number of the list that the path was added to last. */
  listedBy: number;
}

/** The paths of one policy that are cached between results. */
export interface PathMemory {
  readonly top: ShownPath;
  kept: number;
  lists: number;
  /** The last list, and its sorted texts: most results of a tool lose the same fields. */
  listed: readonly ShownPath[];
  sorted: readonly string[];
}

const PATHS_KEPT_MAX = 10_000;
const FILTERED_FIELDS_MAX = 1_000;

export function newMemory(): PathMemory {
  return { top: newPath("", true), kept: 0, lists: 0, listed: [], sorted: [] };
}

function newPath(text: string, isKept: boolean): ShownPath {
  return { text, below: new Map(), isKept, listedBy: 0 };
}

/** The fields of one result that were hidden or removed. */
export class ListedFields {
  readonly #memory: PathMemory;
  /** Distinguishes this list from earlier ones. */
  readonly #number: number;
  /** In insertion order, so that the last ones can be taken back. */
  readonly #arrivals: ShownPath[] = [];
  /** Texts of the listed paths that are not cached. */
  #loose: Set<string> | undefined;
  #isCut = false;

  constructor(memory: PathMemory) {
    memory.lists += 1;
    this.#memory = memory;
    this.#number = memory.lists;
  }

  get length(): number {
    return this.#arrivals.length;
  }

  below(path: ShownPath, shown: string): ShownPath {
    const known = path.below.get(shown);
    if (known !== undefined) return known;
    const made = newPath(joinPath(path.text, shown), path.isKept && this.#memory.kept < PATHS_KEPT_MAX);
    if (made.isKept) {
      this.#memory.kept += 1;
      path.below.set(shown, made);
    }
    return made;
  }

  add(field: ShownPath): void {
    if (field.listedBy === this.#number || this.#loose?.has(field.text)) return;
    if (this.#arrivals.length >= FILTERED_FIELDS_MAX) {
      this.#isCut = true;
      return;
    }
    field.listedBy = this.#number;
    if (!field.isKept) {
      this.#loose ??= new Set();
      this.#loose.add(field.text);
    }
    this.#arrivals.push(field);
  }

  /** Removes the fields of a container that is itself removed, except those that an earlier container had listed. */
  takeBack(length: number): void {
    if (this.#arrivals.length === length) return;
    for (const field of this.#arrivals.splice(length)) {
      field.listedBy = 0;
      this.#loose?.delete(field.text);
    }
  }

  /** Returns the sorted texts, each once. Ends in `…` when the list was cut. */
  sorted(): readonly string[] {
    const memory = this.#memory;
    const arrivals = this.#arrivals;
    let isSame = memory.listed.length === arrivals.length;
    for (let index = 0; isSame && index < arrivals.length; index += 1)
      isSame = memory.listed[index] === arrivals[index];
    if (!isSame) {
      memory.listed = arrivals;
      memory.sorted = [...new Set(arrivals.map(({ text }) => text))].sort();
    }
    // A copy, because the recipient may change it.
    return this.#isCut ? [...memory.sorted, "…"] : memory.sorted.slice();
  }
}
