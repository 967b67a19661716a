import type { Work } from "../bounds.ts";
import {
  ALPHANUMERIC,
  BLANK,
  beginsLine,
  classOf,
  DIGIT,
  HEX,
  isA,
  isOneOf,
  LETTER,
  LINE_END,
  runEnd,
} from "../views/characters.ts";
import { findCards } from "./card.ts";
import { CERTAIN, DigitGroups, mayContinue, type PiiFinding } from "./digit-groups.ts";
import { findIban, isCpf, isSocialSecurityNumber } from "./identifiers.ts";
import { findIpv4, findIpv6 } from "./ip.ts";
import { findPhone } from "./phone.ts";

/** Number of groups of a card number that is written digit by digit. */
const CARD_GROUPS_MAX = 19;

/** Minimum number of digits of a number that is reported. */
const DIGITS_MIN = 7;

/** Digits of telephone numbers and of ids that are recognized by their punctuation. */
const OTHER_DIGITS_MIN = 9;
const OTHER_DIGITS_MAX = 15;

/** Minimum number of groups that may form several numbers. */
const PART_GROUPS_MIN = 4;

/** Minimum number of digits of a card number. */
const CARD_DIGITS_MIN = 13;

/** Steps for a run of digits, a row of groups, each group, a part of the groups, an IP address, a colon, and an IBAN. */
const STEPS = 15;
const STEPS_PER_READ = 30;
const STEPS_PER_GROUP = 12;
const STEPS_PER_PART = 150;
const STEPS_PER_ADDRESS = 120;
const STEPS_PER_COLON = 30;
const STEPS_PER_ADDRESS_CHAR = 6;
const STEPS_PER_ACCOUNT = 350;

const PLUS = 0x2b;
const OPENING = 0x28;
const COLON = 0x3a;
const FULL_STOP = 0x2e;
const BACKSLASH = 0x5c;

/**
 * Finds numbers that are recognized by their digits: cards, IBANs, IP addresses, telephone numbers, formatted ids. Must be called
 * in text order.
 */
export class NumberReader {
  readonly #text: string;
  readonly #work: Work;
  readonly #report: (found: PiiFinding) => void;
  /** Offset, in the middle of a line, from which groups are read again. */
  #midway = -1;
  /** Created on demand: most texts contain no number of several groups. */
  #made: DigitGroups | undefined;

  constructor(text: string, work: Work, report: (found: PiiFinding) => void) {
    this.#text = text;
    this.#work = work;
    this.#report = report;
  }

  get #groups(): DigitGroups {
    this.#made ??= new DigitGroups(this.#text);
    return this.#made;
  }

  /** Reads the number that starts with the digit at `at`. Returns the offset to continue from. */
  digit(at: number): number {
    this.#work.spend(STEPS);
    const text = this.#text;
    const end = runEnd(text, at, DIGIT);
    if (isA(text, at - 1, LETTER)) return this.#afterLetter(at, end);
    // Skips the rest of hexadecimal text: none of its digit groups is a number.
    if (isA(text, end, LETTER)) return isA(text, end, HEX) ? runEnd(text, end, ALPHANUMERIC) : end;
    if (end - at < 4 && text.charCodeAt(end) === FULL_STOP && isA(text, end + 1, DIGIT)) {
      this.#work.spend(STEPS_PER_ADDRESS);
      const ip = findIpv4(text, at);
      if (ip !== undefined) {
        this.#report(ip);
        return ip.end;
      }
    }
    const isAlone = end - at < CARD_DIGITS_MIN && !mayContinue(text, end);
    return isAlone && (end - at < DIGITS_MIN || !hasMark(text, at)) ? end : this.#groupsFrom(at);
  }

  /** Reads the address that may contain the colon at `at`. Returns the offset to continue from. */
  colon(at: number): number {
    const next = this.#text.charCodeAt(at + 1);
    if (next !== COLON && (classOf(next) & HEX) === 0) return at + 1;
    this.#work.spend(STEPS_PER_COLON);
    const { end, found } = findIpv6(this.#text, at, this.#work);
    this.#work.spend((end - at) * STEPS_PER_ADDRESS_CHAR);
    if (found === undefined) return at + 1;
    this.#report(found);
    return Math.max(end, at + 1);
  }

  #groupsFrom(at: number): number {
    const groups = this.#groups;
    groups.read(at, at !== this.#midway);
    this.#work.spend(STEPS_PER_READ + groups.count * STEPS_PER_GROUP);
    const { end } = groups;
    const address = this.#addressAmong(groups);
    if (address !== -1) {
      groups.cut(address);
      if (groups.digits >= DIGITS_MIN) this.#all(groups);
      return groups.end;
    }
    if (groups.digits < DIGITS_MIN) return end;
    const cards = this.#all(groups);
    if (!groups.isCut) return end;
    // A card number may continue after the limit: the last groups that no finding contains are read again.
    const again = groups.count - CARD_GROUPS_MAX;
    const next = Math.max(groups.startOf(again), cards.at(-1)?.end ?? 0);
    if (!groups.beginsLine(again)) this.#midway = next;
    return next;
  }

  /** Returns the group that starts an IP address, as after a time or a status: `12:34:56 203.0.113.7`; -1 when there is none. */
  #addressAmong(groups: DigitGroups): number {
    for (let group = 1; group + 3 < groups.count; group += 1) {
      const at = groups.startOf(group);
      if (!isA(this.#text, at - 1, BLANK | LINE_END) || this.#text.charCodeAt(groups.endOf(group)) !== FULL_STOP)
        continue;
      this.#work.spend(STEPS_PER_ADDRESS);
      if (findIpv4(this.#text, at) !== undefined && !followsFractions(groups, group)) return group;
    }
    return -1;
  }

  #all(groups: DigitGroups): readonly PiiFinding[] {
    const cards = this.#cards();
    this.#others(groups);
    return cards;
  }

  #cards(): readonly PiiFinding[] {
    const cards = findCards({ text: this.#text, groups: this.#groups, work: this.#work });
    for (const card of cards) this.#report(card);
    return cards;
  }

  /** Reads other numbers: all groups together, those of one line, or those between spaces. */
  #others(groups: DigitGroups): void {
    if (!groups.hasTabs && ((!groups.isCut && this.#other(groups)) || groups.count < PART_GROUPS_MIN)) return;
    this.#parts(
      groups,
      { isCut: groups.isCut, begins: (group) => groups.beginsLine(group) || groups.beginsColumn(group) },
      (line, isCut) => {
        if (!isCut && line.count < groups.count && this.#other(line)) return;
        this.#parts(line, { isCut, begins: startsInRow(line) }, (part, isPartCut) => {
          if (!isPartCut && part.count < line.count) this.#other(part);
        });
      },
    );
  }

  /** Reads the groups part by part. The last part may continue when the groups were cut off. */
  #parts(
    groups: DigitGroups,
    { isCut, begins }: { readonly isCut: boolean; readonly begins: (group: number) => boolean },
    read: (part: DigitGroups, isCut: boolean) => void,
  ): void {
    let first = 0;
    let digits = 0;
    for (let group = 0; group < groups.count; group += 1) {
      digits += groups.sizeOf(group);
      const isLast = group === groups.count - 1;
      if (!isLast && !begins(group + 1)) continue;
      if (digits >= OTHER_DIGITS_MIN && (group > first || hasMark(this.#text, groups.startOf(group)))) {
        const isWhole = first === 0 && isLast;
        this.#work.spend(isWhole ? STEPS_PER_READ : STEPS_PER_PART);
        read(isWhole ? groups : groups.part(first, group), isLast && isCut);
      }
      first = group + 1;
      digits = 0;
    }
  }

  #other(groups: DigitGroups): boolean {
    if (groups.digits > OTHER_DIGITS_MAX) return false;
    const found = findFormatted(this.#text, groups) ?? this.#phone(groups);
    if (found !== undefined) this.#report(found);
    return found !== undefined;
  }

  #phone(groups: DigitGroups): PiiFinding | undefined {
    const text = this.#text;
    const { start, end, count } = groups;
    if (!hasMark(text, start) && (count < 2 || !isSeparate(text, start, end))) return undefined;
    if (isA(text, end, LETTER)) return undefined;
    return findPhone({ text, groups, work: this.#work });
  }

  /**
   * Reads digits after letters: an IBAN, which starts with its country code, or a long number directly after a word or an escape.
   */
  #afterLetter(at: number, end: number): number {
    const text = this.#text;
    if (end - at >= 2 && isA(text, at - 2, LETTER)) {
      this.#work.spend(STEPS_PER_ACCOUNT);
      const iban = findIban(text, at - 2);
      if (iban !== undefined) {
        this.#report(iban);
        return iban.end;
      }
    }
    const isEscape = text.charCodeAt(at - 2) === BACKSLASH;
    const isLong = end - at >= 12 && !isA(text, end, LETTER) && (isEscape || isA(text, at - 3, LETTER));
    if (!isLong && !(isEscape && isOneOf(text, at - 1, "nrt"))) return runEnd(text, end, ALPHANUMERIC);
    this.#groups.read(at);
    this.#work.spend(STEPS_PER_READ + this.#groups.count * STEPS_PER_GROUP);
    // Digits after the first run do not belong to the word and are read separately.
    return this.#cards().find(({ start }) => start === at)?.end ?? end;
  }
}

const FULL_STOPS_MAX = 2;

/**
 * Returns whether decimal fractions come before. Four coordinates of a drawing, written compactly, can look like an address:
 * `1.52-.87 2.83-2.12 3.51.98.32`.
 */
function followsFractions(groups: DigitGroups, group: number): boolean {
  return groups.separators(0, group).split(".").length - 1 > FULL_STOPS_MAX;
}

/** Returns whether a `+` or an opening bracket is before the number: a telephone number may start here. */
function hasMark(text: string, at: number): boolean {
  const before = text.charCodeAt(at - 1);
  return before === PLUS || before === OPENING;
}

/**
 * Returns a function that decides at which group a number in a row may start: at an opening bracket when any group has one,
 * otherwise after a space.
 */
function startsInRow(groups: DigitGroups): (group: number) => boolean {
  let hasBracket = false;
  for (let group = 1; group < groups.count; group += 1) if (groups.opensAt(group)) hasBracket = true;
  return (group) => (hasBracket ? groups.opensAt(group) : groups.isSpacedAt(group));
}

/** Finds numbers that are recognized by their punctuation: `123-45-6789`, `123.456.789-09`. */
function findFormatted(text: string, groups: DigitGroups): PiiFinding | undefined {
  const { start, end, digits, count } = groups;
  const isSsn = digits === 9 && count === 3 && groups.sizeOf(0) === 3 && groups.sizeOf(1) === 2;
  const isLikeCpf = digits === 11 && count === 4 && groups.sizeOf(0) === 3 && groups.sizeOf(3) === 2;
  if ((!isSsn && !isLikeCpf) || !isSeparate(text, start, end)) return undefined;
  const separators = groups.separators();
  const all = groups.digitsOf(0, count - 1);
  if (isSsn) {
    const isReal = separators === "--" && isSocialSecurityNumber(all);
    return isReal ? { rule: "US_SSN", start, end, confidence: CERTAIN } : undefined;
  }
  const isReal = groups.sizeOf(1) === 3 && separators === "..-" && isCpf(all);
  return isReal ? { rule: "BR_CPF", start, end, confidence: CERTAIN } : undefined;
}

const PARTS = "-_/.";

/**
 * Returns whether the number is not part of a longer word. A full stop may end its sentence; a dash at the start of a line
 * belongs to a diff or a list.
 */
function isSeparate(text: string, start: number, end: number): boolean {
  const isSign = isOneOf(text, start - 1, "-") && beginsLine(text, start - 1);
  return (
    (isSign || !PARTS.includes(text[start - 1] ?? " ")) &&
    !isA(text, start - 1, ALPHANUMERIC) &&
    !(PARTS.includes(text[end] ?? " ") && (isA(text, end + 1, ALPHANUMERIC) || isOneOf(text, end, "/"))) &&
    !isA(text, end, ALPHANUMERIC)
  );
}
