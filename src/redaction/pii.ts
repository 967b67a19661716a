import { Anchors } from "./anchors.ts";
import { dateEnd } from "./calendar.ts";
import { ALPHANUMERIC, BLANK, classOf, DIGIT, HEX, isA, LETTER, runEnd } from "./characters.ts";
import { countDigits, type DigitGroups, digitsEnd, digitsOf, readGroups } from "./digit-groups.ts";
import { findCards } from "./pii-card.ts";
import { findEmails, findSpelledEmail } from "./pii-email.ts";
import { CERTAIN, LIKELY, type PiiFinding } from "./pii-finding.ts";
import { findIban } from "./pii-iban.ts";
import { findIpv4, findIpv6 } from "./pii-ip.ts";
import { isCpf, isSocialSecurityNumber, NATIONAL_IDS, type NationalId, US_SSN } from "./pii-national-id.ts";
import { findPhone, isPhoneIn, PHONE_CHECKS_MAX, type PhoneBudget } from "./pii-phone.ts";

/** How far behind its word a value may stand. UTF-16 units. */
const REACH_CHARS_MAX = 40;

const ID_CHARS_MAX = 24;
const ID_CHARS_MIN = 7;

/** What the detectors of one text share. */
interface Reading {
  readonly budget: PhoneBudget;
  readonly digits: NextDigit;
}

/** A word in the text that says what the value behind it is. */
interface Announcement {
  readonly word: string;
  find(text: string, start: number, end: number, reading: Reading): PiiFinding | undefined;
}

/** Where a digit stands next. Asked in a text's order it reads the text once. */
class NextDigit {
  readonly #text: string;
  #at = -1;

  constructor(text: string) {
    this.#text = text;
  }

  /** At `from` or later; the text's length when nowhere. */
  after(from: number): number {
    if (this.#at >= from) return this.#at;
    let at = from;
    while (at < this.#text.length && !isA(this.#text, at, DIGIT)) at += 1;
    this.#at = at;
    return at;
  }
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
/** These may be parts of longer words: `telephoneNumber`, `mobileNo`. */
const JOINED_PHONE_WORDS: ReadonlySet<string> = new Set(["phone", "mobile", "whatsapp", "msisdn"]);

/** What may stand between such a word and its number. */
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

const ANNOUNCEMENTS: readonly Announcement[] = [
  ...BIRTH_WORDS.map((word) => ({
    word,
    find: (text: string, _start: number, end: number, { digits }: Reading) =>
      findBirthDate(text, { start: digits.after(end), end, word }),
  })),
  ...PHONE_WORDS.map((word) => ({
    word,
    find: (text: string, start: number, end: number, { budget, digits }: Reading) =>
      digits.after(end) - end > REACH_CHARS_MAX ? undefined : findAnnouncedPhone(text, { start, end, word }, budget),
  })),
  ...SPELLED_AT.map((word) => ({
    word,
    find: (text: string, start: number, end: number) => findSpelledEmail(text, start, end),
  })),
  ...NATIONAL_IDS.flatMap((id) =>
    id.words.map((word) => ({
      word,
      find: (text: string, start: number, end: number, { digits }: Reading) =>
        isA(text, start - 1, LETTER) ? undefined : findNationalId(text, { start: digits.after(end), end, word }, id),
    })),
  ),
];

/** What a field's name may say about its value. */
export const announcingWords: readonly string[] = ANNOUNCEMENTS.map(({ word }) => word).filter(
  (word) => !SPELLED_AT.includes(word),
);

const ANCHORS = new Anchors(ANNOUNCEMENTS.map(({ word }) => word));

/** Personal data of a text as it stands: in no order, with overlaps, whatever the confidence. Linear. */
export function scanPii(text: string): readonly PiiFinding[] {
  const reading = { budget: { checks: PHONE_CHECKS_MAX }, digits: new NextDigit(text) };
  const found: PiiFinding[] = [...findEmails(text)];
  const nothingBefore = new Uint32Array(ANNOUNCEMENTS.length);
  ANCHORS.scan(text, (index, start, end) => {
    if (start < (nothingBefore[index] ?? 0)) return;
    const finding = ANNOUNCEMENTS[index]?.find(text, start, end, reading);
    if (finding === undefined) return;
    found.push(finding);
    nothingBefore[index] = finding.end;
  });
  scanNumbers(text, found, reading.budget);
  return found;
}

/** A month in words may stand this far before the first digit. UTF-16 units. */
const MONTH_CHARS_MAX = 14;

/** `start` is the first digit behind the word. */
function findBirthDate(text: string, { start, end, word }: Word): PiiFinding | undefined {
  if (start - end > REACH_CHARS_MAX) return undefined;
  for (let at = Math.max(end, start - MONTH_CHARS_MAX); at <= start; at += 1) {
    if (isA(text, at - 1, ALPHANUMERIC) || !isA(text, at, ALPHANUMERIC)) continue;
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

function findAnnouncedPhone(text: string, { start, end, word }: Word, budget: PhoneBudget): PiiFinding | undefined {
  if (!JOINED_PHONE_WORDS.has(word) && (isA(text, start - 1, LETTER) || isA(text, end, LETTER))) return undefined;
  const at = behindFillers(text, end);
  if (at === -1) return undefined;
  const groups = readGroups(text, at);
  const stop = groups.ends.at(-1) ?? at;
  if (groups.digits < 7 || groups.digits > 15 || groups.lineEnds > 0 || isA(text, stop, LETTER)) return undefined;
  const from = "+(".includes(text[at - 1] ?? "?") ? at - 1 : at;
  if (!isPhoneIn(text.slice(from, stop), budget)) return undefined;
  return { rule: "PHONE", start: from, end: stop, confidence: LIKELY, context: word };
}

/** Where the first digit stands, when nothing but signs and filling words come before it; else -1. */
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

/** Letters of an id may stand this far before its first digit. UTF-16 units. */
const ID_LETTERS_MAX = 6;

/** `start` is the first digit behind the word: the id is the word that it stands in, or that comes before it. */
function findNationalId(text: string, { start, end, word }: Word, id: NationalId): PiiFinding | undefined {
  if (start - end > REACH_CHARS_MAX) return undefined;
  for (let at = Math.max(end, start - ID_LETTERS_MAX); at <= start; at += 1) {
    if (!isA(text, at, ALPHANUMERIC) || isA(text, at - 1, ALPHANUMERIC)) continue;
    const stop = idEnd(text, at, id);
    if (stop !== -1) return { rule: id.rule, start: at, end: stop, confidence: CERTAIN, context: word };
  }
  return undefined;
}

/** The longest stretch from `at` that is such an id, blanks, dashes and dots apart. */
function idEnd(text: string, at: number, id: NationalId): number {
  let compact = "";
  let found = -1;
  const limit = at + ID_CHARS_MAX;
  for (let end = at; end < limit; end += 1) {
    const isPart = isA(text, end, ALPHANUMERIC);
    if (isPart) compact += text[end];
    else if (!" -./".includes(text[end] ?? "?")) return found;
    const isWhole = isPart && !isA(text, end + 1, ALPHANUMERIC) && compact.length >= ID_CHARS_MIN;
    if (isWhole && id.matches(compact.toUpperCase())) found = end + 1;
  }
  return found;
}

const COLON = 0x3a;

/** What digits alone give away: cards, accounts, addresses, telephone numbers, formatted ids. */
function scanNumbers(text: string, found: PiiFinding[], budget: PhoneBudget): void {
  let at = 0;
  while (at < text.length) {
    const code = text.charCodeAt(at);
    if (code >= 0x30 && code <= 0x39) at = readNumber(text, at, { found, budget });
    else if (code === COLON) at = readColon(text, at, found);
    else at += 1;
  }
}

interface Sink {
  readonly found: PiiFinding[];
  readonly budget: PhoneBudget;
}

/** Reads what begins with the digit at `at`, and says where to go on. */
function readNumber(text: string, at: number, sink: Sink): number {
  const end = digitsEnd(text, at);
  if (isA(text, at - 1, LETTER)) return readAfterLetter(text, at, { end, sink });
  if (isA(text, end, LETTER)) return isA(text, end, HEX) ? hexEnd(text, end) : end;
  if (text[end] === "." && end - at < 4) {
    const ip = findIpv4(text, at);
    if (ip !== undefined) {
      sink.found.push(ip);
      return ip.end;
    }
  }
  const counted = countDigits(text, at, ID_CHARS_MIN);
  if (counted < 0) return -counted;
  const groups = readGroups(text, at);
  const stop = groups.ends.at(-1) ?? end;
  sink.found.push(...findCards(text, groups));
  if (!groups.isCut) {
    const other = findFormatted(text, groups) ?? phoneApart(text, groups, sink.budget);
    if (other !== undefined) sink.found.push(other);
    return stop;
  }
  return groups.starts.at(-20) ?? stop;
}

/** Of hexadecimal text, the rest: no group of digits in it is a number. */
function hexEnd(text: string, at: number): number {
  return runEnd(text, at, ALPHANUMERIC);
}

/** Behind letters: an account that begins with its country, or a long number right behind a word. */
function readAfterLetter(
  text: string,
  at: number,
  { end, sink }: { readonly end: number; readonly sink: Sink },
): number {
  const iban = end - at >= 2 ? findIban(text, at - 2) : undefined;
  if (iban !== undefined) {
    sink.found.push(iban);
    return iban.end;
  }
  if (end - at >= 12 && !isA(text, end, LETTER) && (isA(text, at - 3, LETTER) || text[at - 2] === "\\")) {
    const groups = readGroups(text, at);
    sink.found.push(...findCards(text, groups));
    return groups.ends.at(-1) ?? end;
  }
  return text[at - 2] === "\\" ? readAfterEscape(text, at, { end, sink }) : hexEnd(text, end);
}

/** `\n4111 1111 …`: the letter belongs to an escape. */
function readAfterEscape(
  text: string,
  at: number,
  { end, sink }: { readonly end: number; readonly sink: Sink },
): number {
  if (!"nrt".includes(text[at - 1] ?? "?")) return end;
  const groups = readGroups(text, at);
  sink.found.push(...findCards(text, groups));
  return groups.ends.at(-1) ?? end;
}

function readColon(text: string, at: number, found: PiiFinding[]): number {
  const next = text.charCodeAt(at + 1);
  if (next !== COLON && (classOf(next) & HEX) === 0) return at + 1;
  const { end, found: ip } = findIpv6(text, at);
  if (ip === undefined) return at + 1;
  found.push(ip);
  return Math.max(end, at + 1);
}

/** Numbers that their punctuation gives away: `123-45-6789`, `123.456.789-09`. */
function findFormatted(text: string, groups: DigitGroups): PiiFinding | undefined {
  const { starts, ends, separators, digits } = groups;
  if (digits !== 9 && digits !== 11) return undefined;
  const sizes = starts.map((start, index) => (ends[index] ?? 0) - start).join(",");
  const at = { start: starts[0] ?? 0, end: ends.at(-1) ?? 0 };
  if (!isApart(text, at.start, at.end)) return undefined;
  const all = digitsOf(text, groups, 0, starts.length - 1);
  if (sizes === "3,2,4" && separators === "--" && isSocialSecurityNumber(all))
    return { rule: US_SSN.rule, ...at, confidence: CERTAIN };
  return sizes === "3,3,3,2" && separators === "..-" && isCpf(all)
    ? { rule: "BR_CPF", ...at, confidence: CERTAIN }
    : undefined;
}

/** A part of no longer word. */
function isApart(text: string, start: number, end: number): boolean {
  const before = text[start - 1] ?? " ";
  const after = text[end] ?? " ";
  return (
    !"-_/.".includes(before) &&
    !isA(text, start - 1, ALPHANUMERIC) &&
    !"-_/".includes(after) &&
    !isA(text, end, ALPHANUMERIC)
  );
}

function phoneApart(text: string, groups: DigitGroups, budget: PhoneBudget): PiiFinding | undefined {
  const start = groups.starts[0] ?? 0;
  const end = groups.ends.at(-1) ?? 0;
  const hasMark = "+(".includes(text[start - 1] ?? "?");
  if (!hasMark && (groups.starts.length < 2 || !isApart(text, start, end))) return undefined;
  if (isA(text, end, LETTER) && !isA(text, end, BLANK)) return undefined;
  return findPhone(text, groups, budget);
}
