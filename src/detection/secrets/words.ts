/** A list of words without blanks, written as lines of them. */
export function words(...lines: readonly string[]): readonly string[] {
  return lines.flatMap((line) => line.split(" "));
}

/** The same for a lookup. */
export function wordSet(...lines: readonly string[]): ReadonlySet<string> {
  return new Set(words(...lines));
}
