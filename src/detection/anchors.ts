/** Receives the matches of a scan. */
export interface AnchorVisitor {
  /** Reports a word from `start` to `end`. Words arrive in the order of their ends; words with the same end, longest first. */
  word(index: number, start: number, end: number): void;
  /** Reports a marked character. Returns the offset at or after which the next marked character is reported. */
  mark(at: number): number;
}

interface Tables {
  /** Column of each UTF-16 unit; 0 for characters that occur in no word. Marks have the last columns. */
  readonly classes: Uint8Array;
  readonly marksFrom: number;
  /** Next state by state and column, one row of `width` columns per state; states at which words end come last. */
  readonly next: States;
  readonly endsFrom: number;
  /** Words that end at each state, from `endsFrom` on, longest first. */
  readonly ends: readonly (readonly number[])[];
  readonly width: number;
}

const UNITS = 0x10000;

/** State numbers: half as large while there are fewer than 65,536 states, as with the built-in rules. */
type States = Uint16Array | Uint32Array;

/**
 * Finds all words of a set in one pass over any text: an Aho-Corasick automaton that ignores case. The same pass reports marked
 * characters. The tables are built when the first text is read.
 */
export class Anchors {
  readonly #words: () => readonly string[];
  readonly #marks: string;
  #made: { readonly lengths: readonly number[]; readonly tables: Tables } | undefined;

  /** @param words - returns the words in lower case */
  constructor(words: () => readonly string[], marks = "") {
    this.#words = words;
    this.#marks = marks;
  }

  scan(text: string, visitor: AnchorVisitor): void {
    const { lengths, tables } = this.#make();
    const { classes, marksFrom, next, endsFrom, ends, width } = tables;
    const length = text.length;
    let state = 0;
    let free = 0;
    for (let at = 0; at < length; at += 1) {
      const column = classes[text.charCodeAt(at)] ?? 0;
      state = next[state * width + column] ?? 0;
      if (at >= free && column >= marksFrom) free = visitor.mark(at);
      if (state < endsFrom) continue;
      for (const word of ends[state - endsFrom] ?? []) visitor.word(word, at + 1 - (lengths[word] ?? 0), at + 1);
    }
  }

  /** Returns whether any word occurs. */
  occursIn(text: string): boolean {
    return this.#occurs(text, Number.POSITIVE_INFINITY);
  }

  /** Returns whether `scan` would report anything. */
  occursOrMarkIn(text: string): boolean {
    return this.#occurs(text, this.#make().tables.marksFrom);
  }

  /** Returns whether any word occurs, or any character whose column is `markFrom` or higher. */
  #occurs(text: string, markFrom: number): boolean {
    const { classes, next, endsFrom, width } = this.#make().tables;
    let state = 0;
    for (let at = 0; at < text.length; at += 1) {
      const column = classes[text.charCodeAt(at)] ?? 0;
      state = next[state * width + column] ?? 0;
      if (state >= endsFrom || column >= markFrom) return true;
    }
    return false;
  }

  #make() {
    if (this.#made === undefined) {
      const words = this.#words();
      this.#made = { lengths: words.map((word) => word.length), tables: tablesOf(words, this.#marks) };
    }
    return this.#made;
  }
}

function tablesOf(words: readonly string[], marks: string): Tables {
  const columns = [...new Set(words.join(""))].filter((character) => !marks.includes(character));
  const classes = new Uint8Array(UNITS);
  for (const [index, character] of [...columns, ...marks].entries()) {
    classes[character.charCodeAt(0)] = index + 1;
    const capital = character.toUpperCase();
    if (capital.length === 1) classes[capital.charCodeAt(0)] = index + 1;
  }
  const width = columns.length + marks.length + 1;
  const trie = trieOf(words, { classes, width });
  link(trie, width);
  return { classes, marksFrom: columns.length + 1, width, ...inOrder(trie, width) };
}

function statesOf(count: number, width: number): States {
  return count <= UNITS ? new Uint16Array(count * width) : new Uint32Array(count * width);
}

/** Returns the number of different beginnings of the words, the empty one included. */
function countOfBeginnings(words: readonly string[]): number {
  let count = 1;
  let previous = "";
  for (const word of words.toSorted()) {
    let shared = 0;
    while (shared < previous.length && word[shared] === previous[shared]) shared += 1;
    count += word.length - shared;
    previous = word;
  }
  return count;
}

interface Trie {
  readonly next: States;
  readonly ends: (readonly number[] | undefined)[];
}

function trieOf(words: readonly string[], { classes, width }: { classes: Uint8Array; width: number }): Trie {
  const next = statesOf(countOfBeginnings(words), width);
  const ends: (readonly number[] | undefined)[] = [undefined];
  words.forEach((word, index) => {
    let state = 0;
    for (let at = 0; at < word.length; at += 1) {
      const edge = state * width + (classes[word.charCodeAt(at)] ?? 0);
      if (next[edge] === 0) next[edge] = ends.push(undefined) - 1;
      state = next[edge] ?? 0;
    }
    ends[state] = [...(ends[state] ?? []), index];
  });
  return { next, ends };
}

/**
 * Links the states breadth first: a missing edge leads where the longest proper suffix leads, and the words of that suffix end
 * here too.
 */
function link({ next, ends }: Trie, width: number): void {
  const fallbacks = new Uint32Array(ends.length);
  const queue: number[] = [];
  for (let column = 0; column < width; column += 1) if (next[column] !== 0) queue.push(next[column] ?? 0);
  for (const state of queue) {
    const fallback = fallbacks[state] ?? 0;
    const inherited = ends[fallback];
    if (inherited !== undefined) ends[state] = [...(ends[state] ?? []), ...inherited];
    for (let column = 0; column < width; column += 1) {
      const child = next[state * width + column] ?? 0;
      const other = next[fallback * width + column] ?? 0;
      if (child === 0) {
        next[state * width + column] = other;
        continue;
      }
      fallbacks[child] = other;
      queue.push(child);
    }
  }
}

/** Moves states at which words end to the back, so that one comparison identifies them. */
function inOrder({ next, ends }: Trie, width: number): Pick<Tables, "next" | "ends" | "endsFrom"> {
  const states = [...ends.keys()];
  const order = [
    ...states.filter((state) => ends[state] === undefined),
    ...states.filter((state) => ends[state] !== undefined),
  ];
  const numbers = new Uint32Array(order.length);
  order.forEach((state, index) => {
    numbers[state] = index;
  });
  const ordered = statesOf(order.length, width);
  order.forEach((state, index) => {
    for (let column = 0; column < width; column += 1) {
      ordered[index * width + column] = numbers[next[state * width + column] ?? 0] ?? 0;
    }
  });
  const ending = ends.filter((words) => words !== undefined);
  return { next: ordered, ends: ending, endsFrom: order.length - ending.length };
}
