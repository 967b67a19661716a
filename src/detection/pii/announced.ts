import type { Work } from "../bounds.ts";
import { ALPHANUMERIC, DIGIT, isA, isOneOf, LETTER, runEnd } from "../views/characters.ts";
import { dateEnd } from "./calendar.ts";
import { DigitGroups } from "./digit-groups.ts";
import { findSpelledEmail } from "./email.ts";
import { CERTAIN, LIKELY, type PiiFinding } from "./finding.ts";
import { findIpv4 } from "./ip.ts";
import { NATIONAL_IDS, type NationalId } from "./national-id.ts";
import type { NextDigit } from "./next-digit.ts";
import { isPhoneAbroad, isPhoneSomewhere } from "./phone.ts";

/** Maximum distance between a word and its value. UTF-16 units. */
const REACH_CHARS_MAX = 40;

const ID_CHARS_MAX = 24;
const ID_CHARS_MIN = 7;

/** State that the detectors of one text share. */
export interface PiiReading {
  readonly digits: NextDigit;
  readonly work: Work;
}

/** A word that identifies the value after it. */
export interface Announcement {
  readonly word: string;
  find(text: string, start: number, end: number, reading: PiiReading): PiiFinding | undefined;
}

const BIRTH_WORDS = [
  "birth",
  "dob",
  "d.o.b",
  "born",
  "geboren",
  "geburtsdatum",
  "naissance",
  "nacimiento",
  "nascita",
  "bday",
];
const PHONE_WORDS = ["phone", "tel", "mobile", "cell", "call", "fax", "whatsapp", "sms", "contact", "msisdn", "handy"];
/** Words that may be parts of longer words: `telephoneNumber`, `mobileNo`. */
const JOINED_PHONE_WORDS: ReadonlySet<string> = new Set(["phone", "mobile", "whatsapp", "msisdn"]);

/** Words that may occur between a phone word and its number. */
const FILLERS: ReadonlySet<string> = new Set([
  ...[
    "number",
    "numbers",
    "no",
    "nr",
    "num",
    "is",
    "at",
    "on",
    "me",
    "us",
    "my",
    "the",
    "him",
    "her",
    "them",
    "office",
  ],
  ...[
    "work",
    "home",
    "phone",
    "cell",
    "mobile",
    "tel",
    "or",
    "please",
    "our",
    "desk",
    "direct",
    "private",
    "s",
    "primary",
  ],
]);
const FILLER_CHARS_MAX = 10;

const SPELLED_AT = ["[at]", "(at)", "{at}"];

/**
 * Steps for a word whose value is too far away, for examining a possible value, and for each offset where the value may start.
 */
const STEPS = 15;
const STEPS_PER_LOOK = 220;
const STEPS_PER_PLACE = 40;

/** Returns the offset of the next digit when it is close enough to the word; otherwise -1. */
function digitNear(end: number, { digits, work }: PiiReading): number {
  work.spend(STEPS);
  const at = digits.after(end);
  if (at - end > REACH_CHARS_MAX) return -1;
  work.spend(STEPS_PER_LOOK);
  return at;
}

export const ANNOUNCEMENTS: readonly Announcement[] = [
  ...BIRTH_WORDS.map((word) => ({
    word,
    find: (text: string, _start: number, end: number, reading: PiiReading) => {
      const digit = digitNear(end, reading);
      return digit === -1 ? undefined : findBirthDate(text, { start: digit, end, word }, reading);
    },
  })),
  ...PHONE_WORDS.map((word) => ({
    word,
    find: (text: string, start: number, end: number, reading: PiiReading) =>
      isPhoneWord(text, { start, end, word }) && digitNear(end, reading) !== -1
        ? findAnnouncedPhone(text, { start, end, word }, reading)
        : undefined,
  })),
  ...SPELLED_AT.map((word) => ({
    word,
    find: (text: string, start: number, end: number, { work }: PiiReading) => {
      work.spend(STEPS_PER_LOOK);
      return findSpelledEmail(text, start, end, work);
    },
  })),
  ...NATIONAL_IDS.flatMap((id) =>
    id.words.map((word) => ({
      word,
      find: (text: string, start: number, end: number, reading: PiiReading) => {
        const digit = isA(text, start - 1, LETTER) ? -1 : digitNear(end, reading);
        return digit === -1 ? undefined : findNationalId(text, { start: digit, end, word }, { id, reading });
      },
    })),
  ),
];

/** Words in a field name that identify the field's value. */
export const announcingWords: readonly string[] = ANNOUNCEMENTS.map(({ word }) => word).filter(
  (word) => !SPELLED_AT.includes(word),
);

/** Maximum distance from a month in words to the first digit after it. UTF-16 units. */
const MONTH_CHARS_MAX = 14;

/** Finds a date of birth; `start` is the first digit after the word. */
function findBirthDate(text: string, { start, end, word }: Word, { work }: PiiReading): PiiFinding | undefined {
  for (let at = Math.max(end, start - MONTH_CHARS_MAX); at <= start; at += 1) {
    if (isA(text, at - 1, ALPHANUMERIC) || !isA(text, at, ALPHANUMERIC)) continue;
    work.spend(STEPS_PER_PLACE * 6);
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

/** Returns whether the word is separate, or may be part of a longer word. */
function isPhoneWord(text: string, { start, end, word }: Word): boolean {
  return JOINED_PHONE_WORDS.has(word) || !(isA(text, start - 1, LETTER) || isA(text, end, LETTER));
}

function findAnnouncedPhone(text: string, { end, word }: Word, { work }: PiiReading): PiiFinding | undefined {
  const at = behindFillers(text, end);
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
function behindFillers(text: string, from: number): number {
  const limit = Math.min(text.length, from + REACH_CHARS_MAX);
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
  readonly id: NationalId;
  readonly reading: PiiReading;
}

/**
 * Finds an id; `start` is the first digit after the word. The id starts with the alphanumeric run that contains the digit, or
 * with a run before it.
 */
function findNationalId(text: string, { start, end, word }: Word, { id, reading }: IdSearch): PiiFinding | undefined {
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
  reading.work.spend(STEPS_PER_PLACE * 6);
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
