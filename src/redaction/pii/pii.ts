import { Anchors } from "../anchors.ts";
import { ALPHANUMERIC, BLANK, classOf, HEX, isA, LETTER, runEnd } from "../views/characters.ts";
import { ANNOUNCEMENTS, NextDigit } from "./announced.ts";
import { findCards } from "./card.ts";
import { countDigits, type DigitGroups, digitsEnd, digitsOf, readGroups, separatorsOf } from "./digit-groups.ts";
import { findEmails } from "./email.ts";
import { CERTAIN, type PiiFinding } from "./finding.ts";
import { findIban } from "./iban.ts";
import { findIpv4, findIpv6 } from "./ip.ts";
import { isCpf, isSocialSecurityNumber, US_SSN } from "./national-id.ts";
import { findPhone, PHONE_CHECKS_MAX, type PhoneBudget } from "./phone.ts";

const ANCHORS = new Anchors(ANNOUNCEMENTS.map(({ word }) => word));

/** A card written digit by digit. */
const CARD_GROUPS_MAX = 19;

/** Fewer digits are nothing. */
const DIGITS_MIN = 7;

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
  const counted = countDigits(text, at, DIGITS_MIN);
  if (counted < 0) return -counted;
  const groups = readGroups(text, at);
  const stop = groups.ends.at(-1) ?? end;
  const cards = findCards(text, groups);
  for (const card of cards) sink.found.push(card);
  if (!groups.isCut) {
    const other = findFormatted(text, groups) ?? phoneApart(text, groups, sink.budget);
    if (other !== undefined) sink.found.push(other);
    return stop;
  }
  // A card may go on behind the cut: of its groups, those that no finding holds are read again.
  return Math.max(groups.starts.at(-CARD_GROUPS_MAX) ?? stop, cards.at(-1)?.end ?? 0);
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
  const { starts, ends, digits } = groups;
  if (digits !== 9 && digits !== 11) return undefined;
  const sizes = starts.map((start, index) => (ends[index] ?? 0) - start).join(",");
  const at = { start: starts[0] ?? 0, end: ends.at(-1) ?? 0 };
  if (!isApart(text, at.start, at.end)) return undefined;
  const separators = separatorsOf(text, groups);
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
