import { withoutReturn } from "./contents.ts";

const RULES_MAX = 1_000;
const PATTERN_CHARACTERS_MAX = 256;
/** Maximum steps for one entry with all rules: a few milliseconds, in which no other call runs. */
const STEPS_MAX = 1_000_000;

const ANY_DEPTH = "**";

interface IgnoreRule {
  /** Patterns for the names of the path below the file's directory, or for its last name if not anchored. */
  readonly names: readonly (NameGlob | typeof ANY_DEPTH)[];
  readonly isAnchored: boolean;
  readonly negated: boolean;
  readonly directoriesOnly: boolean;
}

/** A `.gitignore`, and the number of names in the path to its directory. */
export interface IgnoreFile {
  readonly depth: number;
  readonly rules: readonly IgnoreRule[];
}

/** Reads a `.gitignore`. Ignores rules over the limits: a search then finds more, not less. */
export function readIgnoreRules(text: string): readonly IgnoreRule[] {
  return text.split("\n", RULES_MAX).flatMap((line) => readRule(withoutReturn(line)) ?? []);
}

/** Returns whether the files exclude this entry. The last matching rule of the deepest such file decides. */
export function isIgnored(files: readonly IgnoreFile[], names: readonly string[], isDirectory: boolean): boolean {
  const characters = names.map((name) => [...name]);
  const steps: Steps = { left: STEPS_MAX };
  for (let file = files.length - 1; file >= 0 && steps.left > 0; file -= 1) {
    const { depth, rules } = files[file] ?? { depth: 0, rules: [] };
    const below = characters.slice(depth);
    const rule = rules.findLast((one) => (isDirectory || !one.directoriesOnly) && matchesRule(one, below, steps));
    if (rule !== undefined) return !rule.negated;
  }
  return false;
}

function readRule(line: string): IgnoreRule | undefined {
  if (line === "" || line.startsWith("#") || line.length > PATTERN_CHARACTERS_MAX) return undefined;
  const negated = line.startsWith("!");
  let pattern = withoutTrailingSpaces(negated ? line.slice(1) : line);
  const directoriesOnly = pattern.endsWith("/");
  if (directoriesOnly) pattern = pattern.slice(0, -1);
  if (pattern === "" || pattern === "/") return undefined;
  const isAnchored = pattern.includes("/");
  const parts = (pattern.startsWith("/") ? pattern.slice(1) : pattern).split("/");
  const compiled = parts.map((part) => (part === ANY_DEPTH ? ANY_DEPTH : compileName(part)));
  return { names: withNameAtEnd(compiled), isAnchored, negated, directoriesOnly };
}

/** Removes trailing spaces, except after a backslash. */
function withoutTrailingSpaces(pattern: string): string {
  let end = pattern.length;
  while (end > 0 && pattern[end - 1] === " " && pattern[end - 2] !== "\\") end -= 1;
  return pattern.slice(0, end);
}

/** Makes a final `/**` match at least one name: `a/**` matches everything below `a`, but not `a`. */
function withNameAtEnd(names: IgnoreRule["names"]): IgnoreRule["names"] {
  return names.at(-1) === ANY_DEPTH && names.length > 1 ? [...names.slice(0, -1), compileName("*"), ANY_DEPTH] : names;
}

function matchesRule({ names, isAnchored }: IgnoreRule, path: readonly (readonly string[])[], steps: Steps): boolean {
  const below = isAnchored ? path : path.slice(-1);
  return matchesSequence(names, below, {
    isStar: (name) => name === ANY_DEPTH,
    matches: (name, value) => name !== ANY_DEPTH && matchesName(name, value, steps),
    steps,
  });
}

/** One element of a name's pattern: a star, any one character, a set of characters, or one literal character. */
type Token =
  | { readonly kind: "star" }
  | { readonly kind: "any" }
  | { readonly kind: "set"; readonly negated: boolean; readonly ranges: readonly (readonly [string, string])[] }
  | { readonly kind: "literal"; readonly character: string };

type NameGlob = readonly Token[];

const STAR: Token = { kind: "star" };

/** Reads the part of a pattern between two slashes: `*`, `?`, `[a-z]`, `[!a-z]` and `\` before any character. */
export function compileName(pattern: string): NameGlob {
  const characters = [...pattern];
  const tokens: Token[] = [];
  // When one set does not close, later ones do not close either.
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

/** Remaining steps of the match. Without any, nothing matches. */
interface Steps {
  left: number;
}

/** Returns whether a name, given as characters, matches. Takes at most the product of both lengths as steps. */
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

function matchesSequence<P, V>(
  pattern: readonly P[],
  values: readonly V[],
  {
    isStar,
    matches,
    steps,
  }: {
    isStar(pattern: P): boolean;
    matches(pattern: P, value: V): boolean;
    readonly steps: Steps;
  },
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

/** Reads a set. A `]` at its start belongs to it. Classes such as `[:alpha:]` are read as single characters. */
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
