const NOTES_MAX = 20;
const PLACES_SHOWN_MAX = 3;
const PLAIN = /^[A-Za-z_$][\w$-]{0,63}$/;

/** Notes what is left out of one schema. */
export type Lose = (cause: string) => void;

/** Collects what a draft leaves out, by cause: one note for each, with the first positions. */
export class Losses {
  readonly #places = new Map<string, Set<string>>();
  count = 0;

  add(cause: string, place: string): void {
    this.count += 1;
    const places = this.#places.get(cause) ?? new Set();
    this.#places.set(cause, places.add(place));
  }

  notes(): readonly string[] {
    const all = [...this.#places].map(([cause, places]) => {
      const shown = [...places].slice(0, PLACES_SHOWN_MAX);
      const more = places.size > shown.length ? ` and ${places.size - shown.length} more` : "";
      return `${shown.join(", ")}${more}: ${cause}`;
    });
    const more = all.length - NOTES_MAX;
    return more > 0 ? [...all.slice(0, NOTES_MAX - 1), `${more + 1} more causes like these`] : all;
  }
}

/** Returns whether a name of a system may be repeated in a note. */
export function isPlain(name: string): boolean {
  return PLAIN.test(name);
}

/** Returns a word of a system for a note: a plain one as it is. */
export function plainWord(word: unknown): string {
  return typeof word === "string" && isPlain(word) ? word : "(with another name)";
}
