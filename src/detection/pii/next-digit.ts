import { DIGIT, isA } from "../views/characters.ts";

/** Where a digit stands next. Asked in a text's order it reads the text once. */
export class NextDigit {
  readonly #text: string;
  #at = -1;

  constructor(text: string) {
    this.#text = text;
  }

  /** At `from` or later; the text's length when nowhere. */
  after(from: number): number {
    if (this.#at >= from) return this.#at;
    let at = from;
    while (at < this.#text.length && !isA(this.#text, at, DIGIT)) at += 1;
    this.#at = at;
    return at;
  }
}
