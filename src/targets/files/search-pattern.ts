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
/** Steps of the program times characters of a line: a large program sees less of a long line. */
const LINE_WORK_MAX = 8_000_000;
/** Characters of a text times those of a line, from which on it is looked for by its bytes. */
const LITERAL_WORK_MAX = 1_000_000;

/**
 * RE2 takes time in the length of the line, whatever the pattern; engines that backtrack do not, and Bun's gives up and says
 * that nothing matches.
 *
 * @throws {Refusal} E_INVALID_PATTERN
 */
export function compilePattern({ pattern, literal, ignoreCase }: PatternOrder): LinePattern {
  const isPlain = literal || !/[\\^$.|?*+()[\]{}]/.test(pattern);
  if (isPlain && !ignoreCase) return literalPattern(pattern);
  const flags = ignoreCase ? RE2JS.CASE_INSENSITIVE : 0;
  try {
    const compiled = RE2JS.compile(literal ? RE2JS.quote(pattern) : pattern, flags);
    if (compiled.programSize() > PROGRAM_SIZE_MAX) throw new RangeError("the pattern is too large");
    const needed = ignoreCase || literal ? undefined : neededLiteral(pattern);
    const charactersMax = Math.min(LINE_CHARACTERS_MAX, Math.floor(LINE_WORK_MAX / compiled.programSize()));
    const test = (line: string): boolean => compiled.test(line.slice(0, charactersMax));
    if (needed === undefined) return { literal: undefined, matches: test };
    const { literal: bytes, matches } = literalPattern(needed);
    return { literal: bytes, matches: (line) => matches(line) && test(line) };
  } catch (error) {
    throw fileRefusal("E_INVALID_PATTERN", { cause: error });
  }
}

/** The engine's search in texts tries each place anew, its search in bytes does not. */
function literalPattern(text: string): LinePattern {
  const literal = Buffer.from(text);
  const isLong = (line: string): boolean => line.length * text.length > LITERAL_WORK_MAX;
  return {
    literal,
    matches: (line) => (isLong(line) ? Buffer.from(line).includes(literal) : line.includes(text)),
  };
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
