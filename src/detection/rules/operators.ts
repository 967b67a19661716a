import { Work } from "../bounds.ts";
import { RuleSet } from "../scan.ts";
import { type ContextRule, compilePattern } from "./rule.ts";

/** A rule as an operator writes it in the configuration. */
export interface OperatorRow {
  readonly id: string;
  readonly anchors: readonly string[];
  readonly pattern: string;
  readonly level: "secrets" | "balanced" | "strict";
  readonly matches: readonly string[];
  readonly misses: readonly string[];
}

/** Maximum number of instructions of a compiled pattern: the time for one character grows with it. */
const PROGRAM_SIZE_MAX = 512;

/** The pattern is searched for in so much text around an anchor, in UTF-16 units, within the anchor's line. */
export const OPERATOR_WINDOW = [64, 256] as const;

/** Returns the rules that the rows describe. They are compiled when they are first applied. */
export function operatorRules(rows: readonly OperatorRow[]): readonly ContextRule[] {
  return rows.map(({ id, anchors, pattern, level }) => ({
    id,
    anchors,
    near: pattern,
    level,
    windowMax: OPERATOR_WINDOW,
  }));
}

/** Returns what is wrong with the rows: the field, such as `[0].pattern`, and a message. Empty when all can be applied. */
export function operatorRuleProblems(rows: readonly OperatorRow[]): readonly string[] {
  const ids = rows.map(({ id }) => id);
  return rows.flatMap((row, index) => {
    const problems = ids.indexOf(row.id) < index ? [`id: "${row.id}" is the id of an earlier rule`] : [];
    return [...problems, ...problemsOf(row)].map((problem) => `[${index}].${problem}`);
  });
}

function problemsOf(row: OperatorRow): readonly string[] {
  try {
    const pattern = compilePattern(row.pattern);
    const size = pattern.programSize();
    if (size > PROGRAM_SIZE_MAX)
      return [`pattern: is too large: ${size} instructions, at most ${PROGRAM_SIZE_MAX}; write shorter repetitions`];
    if (pattern.matcher("").matches()) return ["pattern: matches the empty text"];
  } catch (error) {
    return [`pattern: ${error instanceof Error ? error.message : String(error)} (syntax: RE2)`];
  }
  const rules = new RuleSet(operatorRules([row]));
  const finds = (text: string): boolean =>
    rules.scan(text, "strict", new Work(text.length)).some(({ rule }) => rule === row.id);
  return [
    ...row.matches.flatMap((text, at) => (finds(text) ? [] : [`matches[${at}]: ${quoted(text)} is not matched`])),
    ...row.misses.flatMap((text, at) => (finds(text) ? [`misses[${at}]: ${quoted(text)} is matched`] : [])),
  ];
}

const SHOWN_CHARS_MAX = 64;

function quoted(text: string): string {
  return JSON.stringify(text.length > SHOWN_CHARS_MAX ? `${text.slice(0, SHOWN_CHARS_MAX)}…` : text);
}
