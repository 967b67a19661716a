/** One element of a name's pattern: a star, any one character, or a set of characters. */
type Token =
  | { readonly kind: "star" }
  | { readonly kind: "any" }
  | { readonly kind: "set"; readonly negated: boolean; readonly ranges: readonly (readonly [string, string])[] }
  | { readonly kind: "literal"; readonly character: string };

export type NameGlob = readonly Token[];

const STAR: Token = { kind: "star" };

/** Reads the part of a pattern between two slashes: `*`, `?`, `[a-z]`, `[!a-z]` and `\` before any character. */
export function compileName(pattern: string): NameGlob {
  const characters = [...pattern];
  const tokens: Token[] = [];
  // Where one set does not close, those behind it do not either.
  let mayClose = true;
  for (let at = 0; at < characters.length; at += 1) {
    const character = characters[at] ?? "";
    if (character === "*") {
      if (tokens.at(-1)?.kind !== "star") tokens.push(STAR);
    } else if (character === "?") tokens.push({ kind: "any" });
    else if (character === "[") {
      const set: ReturnType<typeof readSet> = mayClose ? readSet(characters, at) : undefined;
      mayClose = set !== undefined;
      tokens.push(set?.token ?? { kind: "literal", character });
      at = set?.end ?? at;
    } else if (character === "\\" && at + 1 < characters.length) {
      at += 1;
      tokens.push({ kind: "literal", character: characters[at] ?? "" });
    } else tokens.push({ kind: "literal", character });
  }
  return tokens;
}

/** What matching may still cost. When none are left nothing matches. */
export interface Steps {
  left: number;
}

/** By the characters of a name. In time of their number times the pattern's: only the last star ever gives way. */
export function matchesName(tokens: NameGlob, name: readonly string[], steps: Steps): boolean {
  return matchesSequence(tokens, name, {
    isStar: (token) => token.kind === "star",
    matches: (token, character) => {
      if (token.kind === "set") steps.left -= token.ranges.length;
      return matchesOne(token, character);
    },
    steps,
  });
}

/** How the elements of a sequence with stars are compared. */
export interface Comparison<P, V> {
  isStar(pattern: P): boolean;
  matches(pattern: P, value: V): boolean;
  readonly steps: Steps;
}

export function matchesSequence<P, V>(
  pattern: readonly P[],
  values: readonly V[],
  { isStar, matches, steps }: Comparison<P, V>,
): boolean {
  let at = 0;
  let star = -1;
  let resume = 0;
  for (let value = 0; value < values.length; ) {
    const element = pattern[at];
    steps.left -= 1;
    if (steps.left < 0) return false;
    if (element !== undefined && isStar(element)) {
      star = at;
      at += 1;
      resume = value;
    } else if (element !== undefined && matches(element, values[value] as V)) {
      at += 1;
      value += 1;
    } else if (star >= 0) {
      at = star + 1;
      resume += 1;
      value = resume;
    } else return false;
  }
  return pattern.slice(at).every(isStar);
}

function matchesOne(token: Token, character: string): boolean {
  if (token.kind === "any") return true;
  if (token.kind === "literal") return token.character === character;
  if (token.kind === "star") return false;
  return token.ranges.some(([from, to]) => from <= character && character <= to) !== token.negated;
}

/** A `]` that comes first belongs to the set. Classes such as `[:alpha:]` are not known here and match their own letters. */
function readSet(
  characters: readonly string[],
  start: number,
): { readonly token: Token; readonly end: number } | undefined {
  let at = start + 1;
  const negated = characters[at] === "!" || characters[at] === "^";
  if (negated) at += 1;
  const ranges: (readonly [string, string])[] = [];
  for (let isFirst = true; at < characters.length; isFirst = false) {
    if (characters[at] === "]" && !isFirst) return { token: { kind: "set", negated, ranges }, end: at };
    if (characters[at] === "\\") at += 1;
    const from = characters[at] ?? "";
    const isRange = characters[at + 1] === "-" && characters[at + 2] !== undefined && characters[at + 2] !== "]";
    const to = isRange ? (characters[at + 2] ?? from) : from;
    ranges.push([from, to]);
    at += isRange ? 3 : 1;
  }
  return undefined;
}
