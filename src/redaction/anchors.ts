/** Finds all words of a set in one pass, whatever the text: an Aho-Corasick automaton, ASCII letters in any case. */
export class Anchors {
  readonly #width: number;
  readonly #classes = new Uint8Array(128);
  readonly #next: Uint16Array;
  /** By state: the indices of the words that end there. Longest first. */
  readonly #ends: readonly (readonly number[] | undefined)[];
  readonly #isEnd: Uint8Array;
  readonly #lengths: readonly number[];

  /** `words` in lower case, ASCII. */
  constructor(words: readonly string[]) {
    this.#lengths = words.map((word) => word.length);
    this.#width = this.#classify(words);
    const trie = this.#plant(words);
    this.#next = trie.next;
    this.#ends = trie.ends;
    this.#isEnd = Uint8Array.from(trie.ends, (ends) => (ends === undefined ? 0 : 1));
  }

  /** Calls `visit` for each word found, in the order of their ends. */
  scan(text: string, visit: (word: number, start: number, end: number) => void): void {
    const classes = this.#classes;
    const next = this.#next;
    const isEnd = this.#isEnd;
    const width = this.#width;
    const length = text.length;
    let state = 0;
    for (let at = 0; at < length; at += 1) {
      const code = text.charCodeAt(at);
      state = code < 128 ? (next[state * width + (classes[code] ?? 0)] ?? 0) : 0;
      if (isEnd[state] === 0) continue;
      for (const word of this.#ends[state] ?? []) visit(word, at + 1 - (this.#lengths[word] ?? 0), at + 1);
    }
  }

  /** Gives each character that occurs a column of its own; 0 is for all others. */
  #classify(words: readonly string[]): number {
    const characters = [...new Set(words.join(""))];
    characters.forEach((character, index) => {
      this.#classes[character.charCodeAt(0)] = index + 1;
      this.#classes[character.toUpperCase().charCodeAt(0)] = index + 1;
    });
    return characters.length + 1;
  }

  #plant(words: readonly string[]) {
    const width = this.#width;
    const next = new Uint16Array((words.join("").length + 1) * width);
    const ends: (number[] | undefined)[] = [undefined];
    words.forEach((word, index) => {
      let state = 0;
      for (let at = 0; at < word.length; at += 1) {
        const edge = state * width + (this.#classes[word.charCodeAt(at)] ?? 0);
        if (next[edge] === 0) next[edge] = ends.push(undefined) - 1;
        state = next[edge] ?? 0;
      }
      ends[state] = [...(ends[state] ?? []), index];
    });
    this.#link(next, ends);
    return { next: next.slice(0, ends.length * width), ends };
  }

  /** Breadth first: a missing edge leads where the longest proper suffix leads, and its words end here too. */
  #link(next: Uint16Array, ends: (number[] | undefined)[]): void {
    const width = this.#width;
    const fallbacks = new Uint16Array(ends.length);
    const queue: number[] = [];
    for (let column = 0; column < width; column += 1) {
      const child = next[column] ?? 0;
      if (child !== 0) queue.push(child);
    }
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
}
