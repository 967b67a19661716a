const NAMES_SHOWN_MAX = 10;
/** Only the first characters of a name are compared (UTF-16 units). Real names are shorter. */
const COMPARED_CHARS_MAX = 256;

/** Returns the three-character pieces of a text, in lower case. */
function trigrams(text: string): ReadonlySet<string> {
  const lower = text.slice(0, COMPARED_CHARS_MAX).toLowerCase();
  return new Set([...lower].map((_, at) => lower.slice(at, at + 3)));
}

/** Returns the known names, most similar first: those that share the most three-character pieces with `name`. */
export function nearest(name: string, known: Iterable<string>): readonly string[] {
  const wanted = trigrams(name);
  const score = (other: string) =>
    [...trigrams(other)].filter((trigram) => wanted.has(trigram)).length / (other.length + 1);
  return [...known].sort((left, right) => score(right) - score(left) || left.localeCompare(right));
}

const NAME_CHARS_MAX = 64;
/** Minimum lengths of a name in which one typo, and two typos, are tolerated. */
const ONE_TYPO_CHARS = 3;
const TWO_TYPOS_CHARS = 10;

/** Returns the name that was probably meant: one with the same words, or one with a typo (two in a long name). */
export function closestName(name: string, known: Iterable<string>): string | undefined {
  const plain = (text: string): string => text.toLowerCase().replaceAll(/[_-]/g, "");
  if (name.length > COMPARED_CHARS_MAX) return undefined;
  const wanted = plain(name);
  const names = [...known].filter((other) => other.length <= NAME_CHARS_MAX);
  const same = names.find((other) => plain(other) === wanted);
  if (same !== undefined || name.length > NAME_CHARS_MAX) return same;
  const bound = Number(name.length >= ONE_TYPO_CHARS) + Number(name.length >= TWO_TYPOS_CHARS);
  const near = names
    .filter((other) => Math.abs(other.length - name.length) <= bound)
    .map((other) => ({ other, edits: edits(name, other, bound) }))
    .filter((one) => one.edits <= bound);
  return near.sort((left, right) => left.edits - right.edits)[0]?.other;
}

/** Returns the end of a message about an unknown name; empty when no known name is similar. */
export function hint(name: string, known: Iterable<string>): string {
  const like = closestName(name, known);
  return like === undefined ? "" : `; did you mean ${like}?`;
}

/**
 * Returns how many characters must be added, removed, replaced or swapped with their neighbor. For more than `bound`, returns any
 * larger number: only the cells near the diagonal are computed, and only until none of them can end within the bound.
 */
function edits(from: string, to: string, bound: number): number {
  const far = bound + 1;
  let leastBefore = 0;
  let before: readonly number[] = [];
  let row: readonly number[] = Array.from({ length: to.length + 1 }, (_, at) => at);
  for (let at = 1; at <= from.length; at += 1) {
    const next: number[] = [];
    let least = far;
    if (at <= bound) next[0] = least = at;
    for (let other = Math.max(1, at - bound); other <= Math.min(to.length, at + bound); other += 1) {
      const isSame = from[at - 1] === to[other - 1];
      const isSwapped = at > 1 && from[at - 1] === to[other - 2] && from[at - 2] === to[other - 1];
      const swapped = isSwapped ? (before[other - 2] ?? far) + 1 : far;
      const changed = (row[other - 1] ?? far) + (isSame ? 0 : 1);
      const cell = Math.min((row[other] ?? far) + 1, (next[other - 1] ?? far) + 1, changed, swapped);
      next[other] = cell;
      least = Math.min(least, cell);
    }
    // A swap reaches back over two rows.
    if (least > bound && leastBefore > bound) return far;
    leastBefore = least;
    before = row;
    row = next;
  }
  return row[to.length] ?? far;
}

/** Returns the first names as text for a message, with the number of those left out. */
export function listed(names: readonly string[]): string {
  if (names.length === 0) return "none";
  const more = names.length > NAMES_SHOWN_MAX ? `, and ${names.length - NAMES_SHOWN_MAX} more` : "";
  return `${names.slice(0, NAMES_SHOWN_MAX).join(", ")}${more}`;
}
