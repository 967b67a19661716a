import { compileName, matchesName, matchesSequence, type NameGlob, type Steps } from "./glob.ts";

const RULES_MAX = 1_000;
const PATTERN_CHARACTERS_MAX = 256;
/** For one entry, of all rules: some milliseconds, in which nobody else has a turn. */
const STEPS_MAX = 1_000_000;

/** `**`: any number of directories. */
const ANY_DEPTH = "**";

interface IgnoreRule {
  /** Of the path below the directory of the file, name by name; without a slash, of the last name alone. */
  readonly names: readonly (NameGlob | typeof ANY_DEPTH)[];
  readonly isAnchored: boolean;
  readonly negated: boolean;
  readonly directoriesOnly: boolean;
}

/** The rules of one `.gitignore`, for what lies below its directory. */
export type IgnoreRules = readonly IgnoreRule[];

/** One `.gitignore` on the way, and how many names of a path lead to its directory. */
export interface IgnoreFile {
  readonly depth: number;
  readonly rules: IgnoreRules;
}

/** Reads a `.gitignore`. What is over the limits ignores nothing: a search then finds more, not less. */
export function readIgnoreRules(text: string): IgnoreRules {
  const rules: IgnoreRule[] = [];
  for (const line of text.split("\n", RULES_MAX)) {
    const rule = readRule(line.endsWith("\r") ? line.slice(0, -1) : line);
    if (rule !== undefined) rules.push(rule);
  }
  return rules;
}

/**
 * Whether the files say that this entry is to be left out. The last rule of the deepest file that matches decides; rules that
 * take too long to match ignore nothing.
 */
export function isIgnored(files: readonly IgnoreFile[], names: readonly string[], isDirectory: boolean): boolean {
  const spelled = names.map((name) => [...name]);
  const steps: Steps = { left: STEPS_MAX };
  for (let file = files.length - 1; file >= 0 && steps.left > 0; file -= 1) {
    const { depth, rules } = files[file] ?? { depth: 0, rules: [] };
    const below = spelled.slice(depth);
    const rule = rules.findLast((one) => (isDirectory || !one.directoriesOnly) && matchesRule(one, below, steps));
    if (rule !== undefined) return !rule.negated;
  }
  return false;
}

function readRule(line: string): IgnoreRule | undefined {
  if (line === "" || line.startsWith("#") || line.length > PATTERN_CHARACTERS_MAX) return undefined;
  const negated = line.startsWith("!");
  let pattern = withoutTrailingBlanks(negated ? line.slice(1) : line);
  const directoriesOnly = pattern.endsWith("/");
  if (directoriesOnly) pattern = pattern.slice(0, -1);
  if (pattern === "" || pattern === "/") return undefined;
  const isAnchored = pattern.includes("/");
  const parts = (pattern.startsWith("/") ? pattern.slice(1) : pattern).split("/");
  const compiled = parts.map((part) => (part === ANY_DEPTH ? ANY_DEPTH : compileName(part)));
  return { names: belowLast(compiled), isAnchored, negated, directoriesOnly };
}

/** Blanks at the end do not count, unless a backslash stands before them. */
function withoutTrailingBlanks(pattern: string): string {
  let end = pattern.length;
  while (end > 0 && pattern[end - 1] === " " && pattern[end - 2] !== "\\") end -= 1;
  return pattern.slice(0, end);
}

/** `a/**` is all that lies below `a`, not `a` itself: one name at least. */
function belowLast(names: IgnoreRule["names"]): IgnoreRule["names"] {
  return names.at(-1) === ANY_DEPTH && names.length > 1 ? [...names.slice(0, -1), compileName("*"), ANY_DEPTH] : names;
}

/** `path`: the characters of its names. */
function matchesRule({ names, isAnchored }: IgnoreRule, path: readonly (readonly string[])[], steps: Steps): boolean {
  const below = isAnchored ? path : path.slice(-1);
  return matchesSequence(names, below, {
    isStar: (name) => name === ANY_DEPTH,
    matches: (name, value) => name !== ANY_DEPTH && matchesName(name, value, steps),
    steps,
  });
}
