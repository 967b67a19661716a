import type { PatternNode } from "./parse.ts";

/** Ways through a pattern that a backtracking matcher may try: each costs at most the pattern's length, written out. */
const WAYS_MAX = 512;
/** The same where each may cost the text's length. */
const LONG_WAYS_MAX = 8;

/**
 * Whether a backtracking matcher is plainly fast, too: the match begins at the text's first character, and nothing is repeated
 * without end but one character, right before the text's end. Most patterns of names and numbers are so.
 */
export function isPlainlyLinear(pattern: PatternNode): boolean {
  const options = pattern.kind === "choice" ? pattern.options : [pattern];
  const all = options.map(linearWays);
  const isLong = all.some(({ isLong }) => isLong);
  return all.reduce((sum, { ways }) => sum + ways, 0) <= (isLong ? LONG_WAYS_MAX : WAYS_MAX);
}

interface Ways {
  readonly ways: number;
  readonly isLong: boolean;
}

function linearWays(pattern: PatternNode): Ways {
  const parts = pattern.kind === "sequence" ? pattern.parts : [pattern];
  const [first, ...others] = parts;
  if (first?.kind !== "start" || first.everyLine) return { ways: Number.POSITIVE_INFINITY, isLong: true };
  const isLong = isEndlessCharacter(others.at(-2)) && isEnd(others.at(-1));
  const bounded = isLong ? others.slice(0, -2) : others;
  return { ways: bounded.reduce((product, part) => product * ways(part), 1), isLong };
}

function isEndlessCharacter(node: PatternNode | undefined): boolean {
  return (
    node?.kind === "repeat" && node.max === Number.POSITIVE_INFINITY && node.body.kind === "character" && node.min <= 1
  );
}

function isEnd(node: PatternNode | undefined): boolean {
  return node?.kind === "end" && !node.everyLine;
}

function ways(node: PatternNode): number {
  switch (node.kind) {
    case "sequence":
      return node.parts.reduce((product, part) => product * ways(part), 1);
    case "choice":
      return node.options.reduce((sum, option) => sum + ways(option), 0);
    case "repeat":
      return repeated(ways(node.body), node.min, node.max);
    case "group":
      return ways(node.body);
    case "look":
    case "reference":
      return Number.POSITIVE_INFINITY;
    default:
      return 1;
  }
}

/** Every number of turns from `min` to `max`, each turn in every way. */
function repeated(body: number, min: number, max: number): number {
  if (max > WAYS_MAX) return Number.POSITIVE_INFINITY;
  let sum = 0;
  for (let turns = min; turns <= max; turns += 1) sum += body ** turns;
  return sum;
}
