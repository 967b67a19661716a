import { RE2JS } from "re2js";
import { fileRefusal } from "./refusals.ts";

/** Decides line by line. `literal`: bytes that a file must hold for any of its lines to match; most files are done with it. */
export interface LinePattern {
  readonly literal: Buffer | undefined;
  matches(line: string): boolean;
}

export interface PatternOrder {
  readonly pattern: string;
  readonly literal: boolean;
  readonly ignoreCase: boolean;
}

/** Steps of the compiled program: each may be looked at for each character. */
const PROGRAM_SIZE_MAX = 2_500;
/** Of a longer line an expression sees only the beginning: between two lines nobody else has a turn. */
const LINE_CHARACTERS_MAX = 16_384;

/**
 * RE2 takes time in the length of the line, whatever the pattern; engines that backtrack do not, and Bun's gives up and says
 * that nothing matches.
 *
 * @throws {Refusal} E_INVALID_PATTERN
 */
export function compilePattern({ pattern, literal, ignoreCase }: PatternOrder): LinePattern {
  const isPlain = literal || !/[\\^$.|?*+()[\]{}]/.test(pattern);
  if (isPlain && !ignoreCase) return { literal: Buffer.from(pattern), matches: (line) => line.includes(pattern) };
  const flags = ignoreCase ? RE2JS.CASE_INSENSITIVE : 0;
  try {
    const compiled = RE2JS.compile(literal ? RE2JS.quote(pattern) : pattern, flags);
    if (compiled.programSize() > PROGRAM_SIZE_MAX) throw new RangeError("the pattern is too large");
    const needed = ignoreCase || literal ? undefined : neededLiteral(pattern);
    const test = (line: string): boolean => compiled.test(line.slice(0, LINE_CHARACTERS_MAX));
    if (needed === undefined) return { literal: undefined, matches: test };
    return { literal: Buffer.from(needed), matches: (line) => line.includes(needed) && test(line) };
  } catch (error) {
    throw fileRefusal("E_INVALID_PATTERN", { cause: error });
  }
}

const LITERAL_CHARACTERS_MIN = 3;

/**
 * The longest run of plain characters that every match must contain, found without understanding more than that: patterns with
 * choices, groups, sets or flags need nothing.
 */
function neededLiteral(pattern: string): string | undefined {
  if (/[|()[\]{}]|\\[^bBdDsSwW.]/.test(pattern)) return undefined;
  const runs: string[] = [];
  let run = "";
  const end = (): void => {
    runs.push(run);
    run = "";
  };
  const characters = [...pattern];
  for (let at = 0; at < characters.length; at += 1) {
    const character = characters[at] ?? "";
    const next = characters[at + 1] ?? "";
    const isEscape = character === "\\";
    const isPlain = isEscape ? next === "." : !".^$?*+".includes(character);
    if (isEscape) at += 1;
    const follower = isEscape ? (characters[at + 1] ?? "") : next;
    // What may be absent, or come again, ends the run before it.
    if (!isPlain || "?*+".includes(follower || " ")) end();
    else run += isEscape ? "." : character;
  }
  end();
  const longest = runs.reduce((best, one) => (one.length > best.length ? one : best), "");
  return longest.length >= LITERAL_CHARACTERS_MIN ? longest : undefined;
}
