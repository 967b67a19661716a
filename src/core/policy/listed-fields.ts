import { joinPath } from "./field-path.ts";

/** A path as it is shown. Those that were written once are kept: they are few, and the same in every answer. */
export interface ShownPath {
  readonly text: string;
  readonly below: Map<string, ShownPath>;
  readonly isKept: boolean;
  /** The list that it was put on last. */
  listedBy: number;
}

/** What is kept of the paths of one policy, from answer to answer. */
export interface PathMemory {
  readonly top: ShownPath;
  kept: number;
  lists: number;
  /** What was listed last, and its texts sorted: most answers of a tool lose the same fields. */
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

/** The fields of one answer that were hidden or removed. */
export class ListedFields {
  readonly #memory: PathMemory;
  /** Tells it from the lists before. */
  readonly #number: number;
  /** In the order of arrival, to take the last ones back. */
  readonly #arrivals: ShownPath[] = [];
  /** Texts of the listed paths that are not kept. */
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

  /** Forgets the fields of a container that is removed itself, but for those that an earlier one had listed. */
  takeBack(length: number): void {
    if (this.#arrivals.length === length) return;
    for (const field of this.#arrivals.splice(length)) {
      field.listedBy = 0;
      this.#loose?.delete(field.text);
    }
  }

  /** Each text once. Ends in `…` when it was cut. */
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
    // A copy: whoever gets it may change it.
    return this.#isCut ? [...memory.sorted, "…"] : memory.sorted.slice();
  }
}
