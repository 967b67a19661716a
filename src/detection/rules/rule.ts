import type { RE2JS } from "re2js";
import type { Work } from "../bounds.ts";
import type { ActiveLevel, Finding, Matched } from "../finding.ts";
import { passwordArgument } from "../secrets/strings.ts";
import { passes, type ValueTest } from "../secrets/values.ts";
import {
  ALPHANUMERIC,
  BLANK,
  beginsWord,
  classesIn,
  isA,
  isOneOf,
  LINE_END,
  lineEnd,
  QUOTE,
  rowEnd,
  runEnd,
  startAfter,
  type TextRange,
} from "../views/characters.ts";

/** The state of one scan that rules share. */
export interface Reading {
  readonly text: string;
  readonly work: Work;
  /** Returns the result of `make` for this text. Calls `make` once per text. */
  state<State>(make: (reading: Reading) => State): State;
}

/** Finds what a pattern cannot describe, around the anchor from `start` to `end`. */
export type RuleMatcher = (reading: Reading, start: number, end: number) => Matched;

interface Common {
  /** Reported as the finding's rule. */
  readonly id: string;
  /** Literal words in lower case, or as written when `cased`. The rule is applied where one of them occurs. */
  readonly anchors: readonly string[];
  /** The lowest level at which the rule applies. Default: `secrets`. A rule of a higher level finds personal data. */
  readonly level?: ActiveLevel;
  /** Texts that the rule matches, with `«»` around each finding. */
  readonly matches?: readonly string[];
  /** Texts in which the rule finds nothing. */
  readonly misses?: readonly string[];
}

/** A token that is recognized by its prefix: the anchor, followed by characters of some classes. */
export interface TokenRule extends Common {
  readonly token: {
    /** Character classes of the rest of the token. */
    readonly classes: number;
    /** Minimum number of characters after the prefix. */
    readonly min: number;
    /** The rest has exactly `min` characters. */
    readonly exact?: true;
    /** The prefix may be inside a word, and in upper or lower case. */
    readonly loose?: true;
    /** Classes of which the rest must contain a character. */
    readonly needs?: readonly number[];
  };
}

/** A value that is recognized by the text around it. Every condition that is given must hold. Patterns have RE2 syntax. */
export interface ContextRule extends Common {
  /** The anchor must begin a word, if it begins with a letter or digit. */
  readonly word?: true;
  /** The anchor must be a command: a word before a space or tab. */
  readonly command?: true;
  /** The anchor must have the case in which it is written here. */
  readonly cased?: true;
  /** A text that must occur in the window. */
  readonly has?: string;
  /**
   * Character classes of a run that must follow the anchor, its minimum and its maximum length. The run is the finding when there
   * is no pattern.
   */
  readonly run?: readonly [classes: number, min: number, max?: number];
  /** Matches the text directly after the anchor. The last group that takes part is the finding. */
  readonly after?: string;
  /** Matches the text directly before the anchor. A group in it starts the finding. */
  readonly before?: string;
  /** Pattern that is searched for in the window; every match is a finding. */
  readonly near?: string;
  /** Pattern that must occur in the window. */
  readonly requires?: string;
  /** Pattern that must not match the text directly before the anchor. */
  readonly notAfter?: string;
  /** Pattern that must not match the text directly after the anchor. */
  readonly unless?: string;
  /** The finding is the argument of a command that starts where the group is. */
  readonly argument?: true;
  /** Tests that the found value must pass. */
  readonly value?: ValueTest | readonly ValueTest[];
  /**
   * Limits of the window. `line`: the anchor's line. `row`: the same, or up to an escaped line end. `text`: only `windowMax`. `object`:
   * the braces around the anchor. `list`: the brackets after it. Default: `line`.
   */
  readonly scope?: "line" | "row" | "text" | "object" | "list";
  /** Maximum length of the window before and after the anchor, in UTF-16 units. Default: 128 and 256. */
  readonly windowMax?: readonly [before: number, after: number];
}

/** A block of several lines: the anchor, and everything up to its last line. */
export interface BlockRule extends Common {
  /** Classes of the character that must follow the anchor. */
  readonly next: number;
  /** The block ends before this text. Without it, the block ends after `max` characters. */
  readonly until: string;
  readonly max: number;
}

/** A rule that a function implements, such as assignments by field name, PEM blocks, check digits. */
export interface MatcherRule extends Common {
  /** Maximum number of steps of one call, except for runs that are read once. */
  readonly steps: number;
  readonly matcher: RuleMatcher;
  /** The matcher remembers how far it has read, and may be called inside its own finding. */
  readonly remembers?: true;
}

export type DetectorRule = TokenRule | ContextRule | BlockRule | MatcherRule;

/** A rule in the form in which a scan applies it, for one of its words. */
export interface CompiledRule {
  readonly word: string;
  readonly level: ActiveLevel;
  readonly steps: number;
  readonly remembers: boolean;
  /** Rules of a group share the offset before which none of them has a finding. */
  readonly group: number;
  readonly match: RuleMatcher;
}

const RUN_STEPS = 80;
const PATTERN_STEPS = 1_000;
const STEPS_PER_WINDOW_CHAR = 25;
const STEPS_PER_CHAR_AFTER = 16;

/** Returns one compiled rule for each anchor. Rules with the same anchor are applied in the given order. */
export function compileRules(rules: readonly DetectorRule[]): readonly CompiledRule[] {
  const compiled: CompiledRule[] = [];
  for (const rule of rules) {
    const group = compiled.length;
    const match = "token" in rule ? undefined : matcherOf(rule);
    for (const [index, anchor] of rule.anchors.entries()) {
      compiled.push({
        word: lowerCase(anchor),
        level: rule.level ?? "secrets",
        steps: "matcher" in rule ? rule.steps : RUN_STEPS,
        remembers: "remembers" in rule && rule.remembers === true,
        group: match === undefined ? group + index : group,
        match: match ?? tokenMatcher(rule as TokenRule, anchor),
      });
    }
  }
  return compiled;
}

/** Some letters become longer in lower case; a word with one of them stays as it is written. */
function lowerCase(anchor: string): string {
  const lower = anchor.toLowerCase();
  return lower.length === anchor.length ? lower : anchor;
}

function matcherOf(rule: Exclude<DetectorRule, TokenRule>): RuleMatcher {
  if ("matcher" in rule) return rule.matcher;
  return "until" in rule ? blockMatcher(rule) : contextMatcher(rule);
}

function blockMatcher({ id, next, until, max }: BlockRule): RuleMatcher {
  return ({ text }, start, end) => {
    if (!isA(text, runEnd(text, end, BLANK, end + 4), next)) return undefined;
    const found = text.slice(end, end + max).indexOf(until);
    return { rule: id, start, end: found === -1 ? Math.min(text.length, end + max) : end + found };
  };
}

interface Patterns {
  readonly after: RE2JS | undefined;
  readonly before: RE2JS | undefined;
  readonly near: RE2JS | undefined;
  readonly requires: RE2JS | undefined;
  readonly notAfter: RE2JS | undefined;
  readonly unless: RE2JS | undefined;
}

/** Loads the library on the first pattern: most texts need none, and loading takes longer than scanning them. */
export function compilePattern(pattern: string): RE2JS {
  const { RE2JS: library } = require("re2js") as typeof import("re2js");
  return library.compile(pattern);
}

function compilePatterns({ after, before, near, requires, notAfter, unless }: ContextRule): Patterns {
  const compiled = (pattern: string | undefined) => (pattern === undefined ? undefined : compilePattern(pattern));
  return {
    after: compiled(after),
    before: compiled(before),
    near: compiled(near),
    requires: compiled(requires),
    notAfter: compiled(notAfter === undefined ? undefined : `(?:${notAfter})$`),
    unless: compiled(unless),
  };
}

const WINDOW_MAX = [128, 256] as const;

/** Maximum number of findings in one window. */
const FINDINGS_MAX = 64;

function contextMatcher(rule: ContextRule): RuleMatcher {
  let patterns: Patterns | undefined;
  const hasPattern = [rule.after, rule.before, rule.near, rule.requires, rule.unless].some((one) => one !== undefined);
  return (reading, start, end) => {
    const { text, work } = reading;
    if (!admits(rule, text, { start, end })) return undefined;
    const stop = rule.run === undefined ? end : runEnd(text, end, rule.run[0], end + rule.run[1]);
    if (stop - end < (rule.run?.[1] ?? 0)) return undefined;
    if (!hasPattern && rule.argument === undefined) return runAt(rule, text, end);
    const window = windowOf(rule, text, { start, end });
    if (window === undefined || (rule.has !== undefined && !text.slice(end, window.end).includes(rule.has)))
      return window?.end;
    work.spend(PATTERN_STEPS + (rule.after === undefined ? 0 : (window.end - end) * STEPS_PER_CHAR_AFTER));
    if (rule.before !== undefined) work.spend((start - window.start) * STEPS_PER_WINDOW_CHAR);
    patterns ??= compilePatterns(rule);
    const found = patterns.near === undefined ? valueAt(rule, patterns, { text, start, end, window }) : undefined;
    if (patterns.near === undefined && found === undefined) return undefined;
    if (patterns.unless?.matcher(text.slice(end, window.end)).lookingAt() === true) return undefined;
    const isSearched = [patterns.near, patterns.requires, patterns.notAfter].some((pattern) => pattern !== undefined);
    const size = Math.max(patterns.near?.programSize() ?? 0, STEPS_PER_WINDOW_CHAR * 4);
    if (isSearched) work.spend(((window.end - window.start) * size) / 4);
    const occurs = (pattern: RE2JS) => pattern.matcher(text.slice(window.start, window.end)).find();
    if (patterns.requires !== undefined && !occurs(patterns.requires)) return undefined;
    if (patterns.notAfter?.matcher(text.slice(window.start, start)).find() === true) return undefined;
    return patterns.near === undefined ? found : findAll(rule, patterns.near, { text, end, window });
  };
}

function admits({ word, command, cased, anchors }: ContextRule, text: string, { start, end }: TextRange): boolean {
  if (cased === true && !anchors.includes(text.slice(start, end))) return false;
  if (command === true && !isA(text, end, BLANK) && !isA(text, end - 1, BLANK)) return false;
  return (word === undefined && command === undefined) || beginsWord(text, start) || !isA(text, start, ALPHANUMERIC);
}

/** Returns the run after the anchor, or the offset before which no other anchor needs to be tried. */
function runAt(rule: ContextRule, text: string, from: number): Finding | number {
  const [classes, , max] = rule.run ?? [0, 0];
  const end = runEnd(text, from, classes, max === undefined ? text.length : from + max);
  return passes(text.slice(from, end), rule.value) ? { rule: rule.id, start: from, end } : end;
}

function windowOf(
  { scope, windowMax = WINDOW_MAX }: ContextRule,
  text: string,
  { start, end }: TextRange,
): TextRange | undefined {
  const [before, after] = windowMax;
  const limits = { start: Math.max(0, start - before), end: Math.min(text.length, end + after) };
  switch (scope) {
    case "text":
      return limits;
    case "object":
      return bracesAround(text, { start, end }, limits);
    case "list":
      return listAfter(text, end, limits.end);
    default: {
      const stop = scope === "row" ? rowEnd(text, end, limits.end) : lineEnd(text, end, limits.end);
      return { start: startAfter(text, start, LINE_END, limits.start), end: stop };
    }
  }
}

/** Returns the innermost object around the anchor, without objects inside it. */
function bracesAround(text: string, { start, end }: TextRange, limits: TextRange): TextRange | undefined {
  const before = text.slice(limits.start, start);
  const opening = Math.max(before.lastIndexOf("{"), before.lastIndexOf("}"));
  if (before[opening] !== "{") return undefined;
  const closing = text.slice(end, limits.end).search(/[{}]/);
  return { start: limits.start + opening, end: closing === -1 ? limits.end : end + closing };
}

/** Returns the brackets after the anchor and a colon. */
function listAfter(text: string, from: number, limit: number): TextRange | undefined {
  const colon = runEnd(text, from, BLANK | LINE_END, from + 8);
  const start = isOneOf(text, colon, ":") ? runEnd(text, colon + 1, BLANK | LINE_END, colon + 32) : colon;
  if (!isOneOf(text, start, "[")) return undefined;
  const closing = text.slice(start, limit).indexOf("]");
  return { start, end: closing === -1 ? limit : start + closing };
}

interface Position extends TextRange {
  readonly text: string;
  readonly window: TextRange;
}

/** Returns the value next to the anchor when both patterns match. */
function valueAt(rule: ContextRule, { after, before }: Patterns, position: Position): Finding | undefined {
  const { text, start, end, window } = position;
  const next = after?.matcher(text.slice(end, window.end));
  if (next !== undefined && !next.lookingAt()) return undefined;
  const previous = before?.matcher(text.slice(window.start, start));
  if (previous !== undefined && !previous.find()) return undefined;
  const own = next === undefined ? undefined : groupOf(next);
  const earlier = previous === undefined ? undefined : groupOf(previous);
  if (rule.argument === true) return argumentAt(rule, text, { start: end + (own?.start ?? 0), end: window.end });
  if (earlier !== undefined) {
    const stop = next === undefined ? start : end + (own?.end ?? next.end());
    return findingIn(rule, text, { start: window.start + earlier.start, end: stop });
  }
  if (own !== undefined) return findingIn(rule, text, { start: end + own.start, end: end + own.end });
  if (rule.run !== undefined && next === undefined) {
    const found = runAt(rule, text, end);
    return typeof found === "number" ? undefined : found;
  }
  return findingIn(rule, text, { start, end: end + (next?.end() ?? 0) });
}

type PatternMatch = ReturnType<RE2JS["matcher"]>;

/** Returns the range of the last group that takes part in the match. */
function groupOf(match: PatternMatch): TextRange | undefined {
  for (let group = match.groupCount(); group > 0; group -= 1) {
    if (match.start(group) >= 0) return { start: match.start(group), end: match.end(group) };
  }
  return undefined;
}

function argumentAt(rule: ContextRule, text: string, { start, end }: TextRange): Finding | undefined {
  const argument = passwordArgument(text, start, end);
  return argument === undefined ? undefined : findingIn(rule, text, argument);
}

function findingIn({ id, value }: ContextRule, text: string, { start, end }: TextRange): Finding | undefined {
  return end > start && passes(text.slice(start, end), value) ? { rule: id, start, end } : undefined;
}

/** Returns the findings of a window, and the offset before which the rule need not be applied again. */
function findAll(rule: ContextRule, near: RE2JS, { text, end, window }: Omit<Position, "start">): Matched {
  const found: Finding[] = [];
  const match = near.matcher(text.slice(window.start, window.end));
  const flags = new Set<string | null>();
  while (found.length < FINDINGS_MAX && match.find()) {
    // The first flag of each kind belongs to this command; later ones belong to other commands.
    if (rule.argument === true && flags.has(match.group())) continue;
    flags.add(match.group());
    const range = groupOf(match) ?? { start: match.start(), end: match.end() };
    const start = window.start + range.start;
    const one =
      rule.argument === true
        ? argumentAt(rule, text, { start, end: window.end })
        : findingIn(rule, text, { start, end: window.start + range.end });
    if (one !== undefined) found.push(one);
  }
  // A window that ends because of its length may cut a value: an anchor in its second half gets a window of its own.
  const windowMax = rule.windowMax?.[1] ?? WINDOW_MAX[1];
  const isCut = window.end === end + windowMax && rule.scope !== "object" && rule.scope !== "list";
  return { found, done: isCut ? end + windowMax / 2 : window.end };
}

/** Maximum number of line ends or string concatenations inside a token. */
const BREAKS_MAX = 12;

/** Maximum length of a division: line end, indentation, quotes, `+`, backslash. UTF-16 units. */
const BREAK_CHARS_MAX = 48;

/** Minimum number of characters between the prefix and the first division: a word at a line's end is not a token. */
const FIRST_PIECE_CHARS_MIN = 4;

type Token = TokenRule["token"];

/**
 * Matches the token whose prefix is the anchor. Returns the end of a run that is too short, or that lacks needed characters: no
 * later prefix in this run starts a token, so that each run is read once.
 */
function tokenMatcher({ id, token }: TokenRule, prefix: string): RuleMatcher {
  const { classes, min, needs, exact, loose } = token;
  return ({ text }, start, body) => {
    const isWritten = loose === true ? isInOneCase(text.slice(start, body), prefix) : text.startsWith(prefix, start);
    if (!isWritten || (loose !== true && !beginsWord(text, start))) return undefined;
    const enough = runEnd(text, body, classes, body + min);
    if (enough - body < min) {
      const end = joinPieces(text, token, { start: body, end: enough });
      if (end !== -1) return { rule: id, start, end };
      return exact === true ? undefined : enough;
    }
    const end = exact === true ? enough : runEnd(text, enough, classes);
    const isWhole = exact !== true || !isA(text, end, classes | ALPHANUMERIC);
    if (isWhole && hasAll(classesIn(text, body, end), needs)) return { rule: id, start, end };
    return exact === true ? undefined : end;
  };
}

/** Random text has a prefix's letters in both cases: `xOxP-`. */
function isInOneCase(written: string, prefix: string): boolean {
  return written === prefix || written === written.toLowerCase() || written === written.toUpperCase();
}

function hasAll(seen: number, needs: readonly number[] = []): boolean {
  return needs.every((need) => (seen & need) !== 0);
}

/**
 * Returns the end of a token that line ends or joins of quoted strings divide; -1 when there is none. Words are not
 * pieces: a line may end with `sk-learn`, and the next one begin with a long name.
 */
function joinPieces(text: string, { classes, min, exact, needs }: Token, first: TextRange): number {
  if (first.end - first.start < FIRST_PIECE_CHARS_MIN) return -1;
  let missing = min - (first.end - first.start);
  let seen = classesIn(text, first.start, first.end);
  let end = first.end;
  let areWords = areWordsOnly(text.slice(first.start, end));
  for (let breaks = 0; breaks < BREAKS_MAX; breaks += 1) {
    const piece = pieceAfter(text, end);
    const pieceEnd = runEnd(text, piece, classes, piece + missing + 1);
    if (piece === end || pieceEnd === piece) return -1;
    seen |= classesIn(text, piece, pieceEnd);
    missing -= pieceEnd - piece;
    end = missing > 0 ? pieceEnd : runEnd(text, pieceEnd, classes);
    areWords &&= areWordsOnly(text.slice(piece, Math.min(end, piece + WORDS_CHARS_MAX)));
    if (missing > 0) continue;
    return (exact === true && missing < 0) || areWords || !hasAll(seen, needs) ? -1 : end;
  }
  return -1;
}

const WORDS_CHARS_MAX = 64;
/** Matches a word in any of the usual cases, with a number at its end: `learn`, `URL`, `HttpClient2`. */
const WORD = /^(?:[A-Z]+|[A-Z]?[a-z]*(?:[A-Z][a-z]{2,20})*)\d*$/;

function areWordsOnly(piece: string): boolean {
  return piece.split(/[-_./]/).every((word) => WORD.test(word));
}

/** Returns the start of the next piece; `at` when neither a line end nor a string concatenation follows. */
function pieceAfter(text: string, at: number): number {
  const limit = at + BREAK_CHARS_MAX;
  let end = at;
  let joins = false;
  while (end < limit) {
    const character = text[end] ?? "";
    if (isA(text, end, LINE_END | QUOTE) || character === "\\") joins = true;
    else if (!isA(text, end, BLANK) && character !== "+") break;
    end += character === "\\" && isA(text, end + 1, ALPHANUMERIC) ? 2 : 1;
  }
  return joins ? end : at;
}
