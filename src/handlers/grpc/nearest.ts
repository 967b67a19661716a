const NAMES_SHOWN_MAX = 10;

/** Pieces of three letters, the same in any case. */
function pieces(text: string): ReadonlySet<string> {
  const lower = text.toLowerCase();
  return new Set([...lower].map((_, at) => lower.slice(at, at + 3)));
}

/** Those that share most three-letter pieces with the name come first. */
export function nearest(name: string, known: Iterable<string>): readonly string[] {
  const wanted = pieces(name);
  const score = (other: string) => [...pieces(other)].filter((piece) => wanted.has(piece)).length / (other.length + 1);
  return [...known].sort((left, right) => score(right) - score(left) || left.localeCompare(right));
}

/** The one name that was probably meant, when one is much like it: a letter more, less or other, or another spelling. */
export function meant(name: string, known: Iterable<string>): string | undefined {
  const [first] = nearest(name, known);
  const plain = (text: string): string => text.toLowerCase().replaceAll(/[_-]/g, "");
  if (first === undefined) return undefined;
  if (plain(first) === plain(name)) return first;
  const wanted = pieces(name);
  const shared = [...pieces(first)].filter((piece) => wanted.has(piece)).length;
  return shared * 3 >= Math.max(first.length, name.length) ? first : undefined;
}

/** The first few, for a message. */
export function listed(names: readonly string[]): string {
  if (names.length === 0) return "none";
  const more = names.length > NAMES_SHOWN_MAX ? `, and ${names.length - NAMES_SHOWN_MAX} more` : "";
  return `${names.slice(0, NAMES_SHOWN_MAX).join(", ")}${more}`;
}
