import { DIGIT, isA } from "../views/characters.ts";

/** Finds the next digit. Queries in text order read the text only once. */
export class NextDigit {
  readonly #text: string;
  #at = -1;

  constructor(text: string) {
    this.#text = text;
  }

  /** Returns the offset of the first digit at or after `from`; the text's length when there is none. */
  after(from: number): number {
    if (this.#at >= from) return this.#at;
    let at = from;
    while (at < this.#text.length && !isA(this.#text, at, DIGIT)) at += 1;
    this.#at = at;
    return at;
  }
}
