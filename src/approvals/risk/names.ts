/** A list of words without blanks, written as lines of them. */
export function words(...lines: readonly string[]): readonly string[] {
  return lines.flatMap((line) => line.split(" "));
}

/** The same for a lookup. */
export function names(...lines: readonly string[]): ReadonlySet<string> {
  return new Set(words(...lines));
}

/** What is known by a name; a row may hold for several. */
export function byName<Value>(rows: readonly (readonly [names: string, value: Value])[]): ReadonlyMap<string, Value> {
  return new Map(rows.flatMap(([some, value]) => words(some).map((name) => [name, value] as const)));
}
