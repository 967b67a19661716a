import type { Reading, RuleMatcher } from "../rules/rule.ts";
import {
  ALPHANUMERIC,
  DIGIT,
  endBefore,
  isA,
  isOneOf,
  LETTER,
  NextPosition,
  runEnd,
  wordSet,
} from "../views/characters.ts";
import { dateEnd } from "./calendar.ts";
import { CERTAIN, DigitGroups, LIKELY, type PiiFinding } from "./digit-groups.ts";
import { findSpelledEmail } from "./email.ts";
import { findIpv4 } from "./ip.ts";
import { isPhoneAbroad, isPhoneSomewhere } from "./phone.ts";

/** Maximum distance between a word and its value. UTF-16 units. */
const DISTANCE_CHARS_MAX = 40;

const ID_CHARS_MAX = 24;
const ID_CHARS_MIN = 7;

/** Words that may be parts of longer words: `telephoneNumber`, `mobileNo`. */
const JOINED_PHONE_WORDS: ReadonlySet<string> = new Set(["phone", "mobile", "whatsapp", "msisdn"]);

/** Words that may occur between a phone word and its number. */
const FILLERS = wordSet(
  "number numbers no nr num is at on me us my the him her them office work home phone cell mobile tel or please our",
  "desk direct private s primary",
);
const FILLER_CHARS_MAX = 10;

/**
 * Steps for a word whose value is too far away, for examining a possible value, and for each offset where the value may start.
 */
const STEPS = 15;
const STEPS_PER_CANDIDATE = 220;
const STEPS_PER_POSITION = 40;

/** Returns the offset of the next digit when it is close enough to the word; otherwise -1. */
function digitNear(end: number, reading: Reading): number {
  const { work } = reading;
  work.spend(STEPS);
  const at = reading.state(nextDigit).after(end);
  if (at - end > DISTANCE_CHARS_MAX) return -1;
  work.spend(STEPS_PER_CANDIDATE);
  return at;
}

const nextDigit = ({ text }: Reading): NextPosition => new NextPosition((from) => endBefore(text, from, DIGIT));

export const matchBirthDate: RuleMatcher = (reading, start, end) => {
  const digit = digitNear(end, reading);
  if (digit === -1) return undefined;
  return findBirthDate({ start: digit, end, word: wordAt(reading, start, end) }, reading);
};

export const matchAnnouncedPhone: RuleMatcher = (reading, start, end) => {
  const word = { start, end, word: wordAt(reading, start, end) };
  return isPhoneWord(reading.text, word) && digitNear(end, reading) !== -1
    ? findAnnouncedPhone(word, reading)
    : undefined;
};

/** Finds an e-mail address whose `@` is written out. */
export const matchSpelledEmail: RuleMatcher = ({ text, work }, start, end) => {
  work.spend(STEPS_PER_CANDIDATE);
  return findSpelledEmail(text, start, end, work);
};

export function nationalIdMatcher(rule: string, isValid: (compact: string) => boolean): RuleMatcher {
  return (reading, start, end) => {
    const digit = isA(reading.text, start - 1, LETTER) ? -1 : digitNear(end, reading);
    if (digit === -1) return undefined;
    const word = { start: digit, end, word: wordAt(reading, start, end) };
    return findNationalId(word, { id: { rule, matches: isValid }, reading });
  };
}

function wordAt({ text }: Reading, start: number, end: number): string {
  return text.slice(start, end).toLowerCase();
}

/** Maximum distance from a month in words to the first digit after it. UTF-16 units. */
const MONTH_CHARS_MAX = 14;

/** Finds a date of birth; `start` is the first digit after the word. */
function findBirthDate({ start, end, word }: Word, { text, work }: Reading): PiiFinding | undefined {
  for (let at = Math.max(end, start - MONTH_CHARS_MAX); at <= start; at += 1) {
    if (isA(text, at - 1, ALPHANUMERIC) || !isA(text, at, ALPHANUMERIC)) continue;
    work.spend(STEPS_PER_POSITION * 6);
    const stop = dateEnd(text, at);
    if (stop !== -1) return { rule: "DATE_OF_BIRTH", start: at, end: stop, confidence: CERTAIN, context: word };
  }
  return undefined;
}

interface Word {
  readonly start: number;
  readonly end: number;
  readonly word: string;
}

/** Returns whether the word is a separate word, or one that may be part of a longer word. */
function isPhoneWord(text: string, { start, end, word }: Word): boolean {
  return JOINED_PHONE_WORDS.has(word) || !(isA(text, start - 1, LETTER) || isA(text, end, LETTER));
}

function findAnnouncedPhone({ end, word }: Word, { text, work }: Reading): PiiFinding | undefined {
  const at = afterFillers(text, end);
  if (at === -1 || findIpv4(text, at) !== undefined) return undefined;
  const groups = new DigitGroups(text);
  groups.read(at);
  const { digits, end: stop } = groups;
  if (digits < 7 || digits > 15 || groups.lineEnds() > 0 || isA(text, stop, LETTER)) return undefined;
  const mark = text[at - 1] ?? "";
  const from = mark === "+" || mark === "(" ? at - 1 : at;
  const all = groups.digitsOf(0, groups.count - 1);
  if (!(mark === "+" ? isPhoneAbroad(all, work) : isPhoneSomewhere(all, work))) return undefined;
  return { rule: "PHONE", start: from, end: stop, confidence: LIKELY, context: word };
}

/** Returns the offset of the first digit when only punctuation and filler words come before it; otherwise -1. */
function afterFillers(text: string, from: number): number {
  const limit = Math.min(text.length, from + DISTANCE_CHARS_MAX);
  let at = from;
  while (at < limit) {
    if (isA(text, at, DIGIT)) return at;
    if (isA(text, at, LETTER)) {
      const end = runEnd(text, at, LETTER);
      if (end - at > FILLER_CHARS_MAX || !FILLERS.has(text.slice(at, end).toLowerCase())) return -1;
      at = end;
    } else at += 1;
  }
  return -1;
}

/** Maximum distance from the first letter of an id to its first digit. UTF-16 units. */
const ID_LETTERS_MAX = 6;

interface IdSearch {
  readonly id: { readonly rule: string; readonly matches: (compact: string) => boolean };
  readonly reading: Reading;
}

/**
 * Finds an id; `start` is the first digit after the word. The id starts with the alphanumeric run that contains the digit, or
 * with a run before it.
 */
function findNationalId({ start, end, word }: Word, { id, reading }: IdSearch): PiiFinding | undefined {
  const { text } = reading;
  for (let at = Math.max(end, start - ID_LETTERS_MAX); at <= start; at += 1) {
    if (!isA(text, at, ALPHANUMERIC) || isA(text, at - 1, ALPHANUMERIC)) continue;
    const stop = idEnd(text, at, { id, reading });
    if (stop !== -1) return { rule: id.rule, start: at, end: stop, confidence: CERTAIN, context: word };
  }
  return undefined;
}

const ID_DIGITS_MIN = 5;

/** Steps for checking whether a range is such an id; some checks multiply. */
const STEPS_PER_ID = 300;

/**
 * Returns the end of the longest range from `at` that is such an id, ignoring spaces, dashes, dots and slashes. A new word ends
 * the search.
 */
function idEnd(text: string, at: number, { id, reading }: IdSearch): number {
  reading.work.spend(STEPS_PER_POSITION * 6);
  let compact = "";
  let digits = 0;
  let found = -1;
  const limit = at + ID_CHARS_MAX;
  for (let end = at; end < limit; end += 1) {
    const isPart = isA(text, end, ALPHANUMERIC);
    const beginsWord = isA(text, end, LETTER) && isA(text, end + 1, LETTER) && !isA(text, end - 1, ALPHANUMERIC);
    if ((beginsWord && end > at) || (!isPart && !isOneOf(text, end, " -./"))) return found;
    if (!isPart) continue;
    compact += text[end];
    if (isA(text, end, DIGIT)) digits += 1;
    const isWhole = digits >= ID_DIGITS_MIN && compact.length >= ID_CHARS_MIN && !isA(text, end + 1, ALPHANUMERIC);
    if (!isWhole) continue;
    reading.work.spend(STEPS_PER_ID);
    if (id.matches(compact.toUpperCase())) found = end + 1;
  }
  return found;
}
