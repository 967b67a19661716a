import { childrenOf, type PatternNode } from "./parse.ts";
import { characterAfter, characterBefore, characterTest, isBoundary, isEdge, lengthOf } from "./program.ts";

/** Limits the time of a pattern with a back reference. */
const STEPS_MAX = 1_000_000;
/** Longer texts are refused (UTF-16 units). */
const TEXT_LENGTH_MAX = 4_096;

/** The text captured by each group, by group number. */
type Captures = readonly (string | undefined)[];
type Continue = (position: number, captures: Captures) => boolean;
/** Tries to match at a position, and then to match what follows. */
type Match = (attempt: Attempt, position: number, captures: Captures, follow: Continue) => boolean;

interface Attempt {
  readonly text: string;
  steps: number;
}

interface Direction {
  readonly isUnicode: boolean;
  readonly backward: boolean;
}

/** Returns whether a pattern refers to the text that a group captured. */
export function hasReference(node: PatternNode): boolean {
  return node.kind === "reference" || childrenOf(node).some(hasReference);
}

/**
 * Returns a test that tries one alternative after the other, as the language specification says. It throws a
 * `RangeError` for texts that are too long or need too many steps.
 */
export function backtrackingTest(
  tree: PatternNode,
  { isUnicode, anywhere }: { readonly isUnicode: boolean; readonly anywhere: boolean },
): (text: string) => boolean {
  const match = matchOf(tree, { isUnicode, backward: false });
  return (text) => {
    if (text.length > TEXT_LENGTH_MAX) throw new RangeError("the text is too long for a pattern with a back reference");
    const attempt = { text, steps: STEPS_MAX };
    for (let start = 0; start <= (anywhere ? text.length : 0); ) {
      if (match(attempt, start, [], () => true)) return true;
      start += lengthOf(characterAfter(text, start, isUnicode) ?? 0);
    }
    return false;
  };
}

function matchOf(node: PatternNode, direction: Direction): Match {
  const match = uncounted(node, direction);
  return (attempt, position, captures, follow) => {
    attempt.steps -= 1;
    if (attempt.steps < 0) throw new RangeError("the pattern takes too many steps for this text");
    return match(attempt, position, captures, follow);
  };
}

function uncounted(node: PatternNode, direction: Direction): Match {
  switch (node.kind) {
    case "character":
      return characterMatch(node, direction);
    case "sequence": {
      const parts = node.parts.map((part) => matchOf(part, direction));
      return sequenceMatch(direction.backward ? parts.toReversed() : parts);
    }
    case "choice": {
      const options = node.options.map((option) => matchOf(option, direction));
      return (attempt, position, captures, follow) =>
        options.some((option) => option(attempt, position, captures, follow));
    }
    case "repeat":
      return repeatMatch(node, direction);
    case "group":
      return groupMatch(node, direction);
    case "reference":
      return referenceMatch(node, direction);
    case "look":
      return lookMatch(node, direction);
    case "boundary": {
      const isWord = characterTest("\\w", node.flags);
      return ({ text }, position, captures, follow) =>
        isBoundary(text, position, isWord) !== node.negated && follow(position, captures);
    }
    default:
      return ({ text }, position, captures, follow) => isEdge(node, text, position) && follow(position, captures);
  }
}

type Node<Kind extends PatternNode["kind"]> = Extract<PatternNode, { readonly kind: Kind }>;

function characterMatch({ source, flags }: Node<"character">, { isUnicode, backward }: Direction): Match {
  const test = characterTest(source, flags);
  return ({ text }, position, captures, follow) => {
    const code = (backward ? characterBefore : characterAfter)(text, position, isUnicode);
    if (code === undefined || !test(code)) return false;
    return follow(position + (backward ? -lengthOf(code) : lengthOf(code)), captures);
  };
}

function sequenceMatch(parts: readonly Match[]): Match {
  return (attempt, from, held, follow) => {
    const rest = (index: number, position: number, captures: Captures): boolean => {
      const part = parts[index];
      if (part === undefined) return follow(position, captures);
      return part(attempt, position, captures, (after, captured) => rest(index + 1, after, captured));
    };
    return rest(0, from, held);
  };
}

function repeatMatch({ body, min, max, lazy }: Node<"repeat">, direction: Direction): Match {
  const turn = matchOf(body, direction);
  const inside = groupsIn(body);
  return (attempt, from, held, follow) => {
    const again = (turns: number, position: number, captures: Captures): boolean => {
      const leave = (): boolean => turns >= min && follow(position, captures);
      const stay = (): boolean =>
        turns < max &&
        // Each iteration starts without the captures of the previous one. An iteration without text is the last.
        turn(attempt, position, withoutCaptures(captures, inside), (after, captured) =>
          turns >= min && after === position ? false : again(turns + 1, after, captured),
        );
      return lazy ? leave() || stay() : stay() || leave();
    };
    return again(0, from, held);
  };
}

function groupMatch({ index, body }: Node<"group">, direction: Direction): Match {
  const match = matchOf(body, direction);
  return (attempt, from, captures, follow) =>
    match(attempt, from, captures, (to, captured) => {
      const holding = [...captured];
      holding[index] = attempt.text.slice(Math.min(from, to), Math.max(from, to));
      return follow(to, holding);
    });
}

function referenceMatch({ groups, flags }: Node<"reference">, { backward }: Direction): Match {
  return (attempt, position, captures, follow) => {
    const wanted = groups.map((group) => captures[group]).find((held) => held !== undefined) ?? "";
    const to = position + (backward ? -wanted.length : wanted.length);
    const found = to < 0 ? "" : attempt.text.slice(Math.min(position, to), Math.max(position, to));
    if (wanted === found) return follow(to, captures);
    if (!flags.includes("i") || wanted.length !== found.length) return false;
    attempt.steps -= STEPS_PER_PATTERN + wanted.length;
    return isSameInAnyCase(wanted, found, flags) && follow(to, captures);
  };
}

/** Steps charged for making a pattern from a captured text, in addition to the text's length. */
const STEPS_PER_PATTERN = 200;

function isSameInAnyCase(wanted: string, found: string, flags: string): boolean {
  return new RegExp(`^(?:${RegExp.escape(wanted)})$`, flags.replace("m", "")).test(found);
}

function lookMatch({ body, behind, negated }: Node<"look">, { isUnicode }: Direction): Match {
  const match = matchOf(body, { isUnicode, backward: behind });
  return (attempt, position, captures, follow) => {
    let found: Captures | undefined;
    const keep: Continue = (_position, captured) => {
      found = captured;
      return true;
    };
    if (match(attempt, position, captures, keep) === negated) return false;
    return follow(position, negated ? captures : (found ?? captures));
  };
}

function groupsIn(node: PatternNode): readonly number[] {
  const inner = childrenOf(node).flatMap(groupsIn);
  return node.kind === "group" ? [node.index, ...inner] : inner;
}

function withoutCaptures(captures: Captures, groups: readonly number[]): Captures {
  if (groups.every((group) => captures[group] === undefined)) return captures;
  return captures.map((held, index) => (groups.includes(index) ? undefined : held));
}
