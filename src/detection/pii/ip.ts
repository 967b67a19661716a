import type { Work } from "../bounds.ts";
import {
  ALPHANUMERIC,
  beginsLine,
  DIGIT,
  DOT,
  HEX,
  isA,
  isOneOf,
  runEnd,
  runStart,
  textBefore,
} from "../views/characters.ts";
import { CERTAIN, type PiiFinding, POSSIBLE } from "./digit-groups.ts";

const COLON = 0x3a;
const FULL_STOP = 0x2e;
const IPV6_CHARS_MAX = 45;
const IPV6_GROUPS = 8;

/** Steps for reading an address that has enough colons. */
const STEPS_PER_IPV6 = 150;

/** Words before a version of four parts. */
const VERSION_WORDS = ["version", "release", "build", "ver ", "ver:", ">= ", "=="];
const BEFORE_CHARS_MAX = 16;

/** Words before an address. Without one of them, four small parts are more likely a version. */
const ADDRESS_WORDS = ["ip", "client", "host", "addr", "from", "remote", "peer", "src", "dst", "forwarded", "connect"];

/** Returns the address whose first digit is at `start`. */
export function findIpv4(text: string, start: number): PiiFinding | undefined {
  const address = readIpv4(text, start);
  if (address === undefined) return undefined;
  const { parts, end } = address;
  if (isA(text, end, ALPHANUMERIC) || isOneOf(text, end, "-") || (isOneOf(text, end, ".") && isA(text, end + 1, DIGIT)))
    return undefined;
  const confidence = confidenceOfIpv4(parts);
  if (confidence === 0 || isVersion(text, start)) return undefined;
  const isSmall = parts.every((part) => part < 10) && new Set(parts).size > 1;
  const isLikelyVersion = isSmall && !hasWordBefore(text, start, ADDRESS_WORDS);
  return { rule: "IP", start, end, confidence: isLikelyVersion ? POSSIBLE : confidence };
}

interface Ipv4 {
  readonly parts: readonly number[];
  readonly end: number;
}

function readIpv4(text: string, start: number): Ipv4 | undefined {
  const parts: number[] = [];
  let at = start;
  while (parts.length < 4) {
    const end = runEnd(text, at, DIGIT);
    if (end === at || end - at > 3 || (end - at > 1 && isOneOf(text, at, "0"))) return undefined;
    const value = Number(text.slice(at, end));
    if (value > 255 || (parts.length < 3 && text.charCodeAt(end) !== FULL_STOP)) return undefined;
    parts.push(value);
    at = end + 1;
  }
  return { parts, end: at - 1 };
}

/** Returns whether the number is a version: `Chrome/120.0.6099.71`, `version 1.2.3.4`, `v1.2.3.4`, `lib-1.2.3.4`. */
function isVersion(text: string, start: number): boolean {
  const before = text[start - 1] ?? " ";
  if (before === "/" && isA(text, start - 2, ALPHANUMERIC)) return true;
  // A dash at the start of a line belongs to a diff or a list.
  if (before === "-" && beginsLine(text, start - 1)) return false;
  if (before === "." || before === "-" || before === "_" || isA(text, start - 1, ALPHANUMERIC)) return true;
  return hasWordBefore(text, start, VERSION_WORDS);
}

function hasWordBefore(text: string, start: number, words: readonly string[]): boolean {
  const before = textBefore(text, start, BEFORE_CHARS_MAX).toLowerCase();
  return words.some((word) => before.includes(word));
}

/**
 * Returns the confidence by address range: certain for public addresses; possible for private, link-local, shared and protocol
 * addresses; 0 for unspecified, loopback, multicast and reserved addresses.
 */
function confidenceOfIpv4([first = 0, second = 0, third = 0]: readonly number[]): number {
  if (first === 0 || first === 127 || first >= 224) return 0;
  const isPrivate = first === 10 || (first === 192 && second === 168) || (first === 172 && second >= 16 && second < 32);
  const isLocal = (first === 169 && second === 254) || (first === 100 && second >= 64 && second < 128);
  const isForProtocols = (first === 192 && second === 0 && third === 0) || (first === 198 && (second & 254) === 18);
  return isPrivate || isLocal || isForProtocols ? POSSIBLE : CERTAIN;
}

/** Returns the address around the colon at `at`, and the offset to continue from. */
export function findIpv6(text: string, at: number, work: Work): { readonly end: number; readonly found?: PiiFinding } {
  const start = runStart(text, at, HEX, at - 5);
  const limit = start + IPV6_CHARS_MAX + 1;
  let end = at;
  let colons = 0;
  let isShortened = false;
  for (; end < limit; end += 1) {
    if (text.charCodeAt(end) === COLON) {
      colons += 1;
      if (text.charCodeAt(end + 1) === COLON) isShortened = true;
    } else if (!isA(text, end, HEX | DOT)) break;
  }
  // Most colons do not belong to an address: `01:43:21`, `key:a`.
  if (end === limit || (!isShortened && colons < IPV6_GROUPS - 1)) return { end };
  if (isA(text, start - 1, ALPHANUMERIC) || continuesBefore(text, start) || isA(text, end, ALPHANUMERIC))
    return { end };
  work.spend(STEPS_PER_IPV6);
  let stop = end;
  while (stop > start && isA(text, stop - 1, DOT)) stop -= 1;
  if (isOneOf(text, stop - 1, ":") && !isOneOf(text, stop - 2, ":")) stop -= 1;
  const confidence = confidenceOfIpv6(text.slice(start, stop));
  return confidence === 0 ? { end } : { end, found: { rule: "IP", start, end: stop, confidence } };
}

/** Returns whether the colon before `start` belongs to the address. A colon after a word (`host:2001:…`) does not. */
function continuesBefore(text: string, start: number): boolean {
  if (!isOneOf(text, start - 1, ":")) return false;
  const word = runStart(text, start - 1, ALPHANUMERIC, start - 6);
  return word === start - 1 || (start - 1 - word < 5 && runEnd(text, word, HEX) === start - 1);
}

function confidenceOfIpv6(address: string): number {
  const { groups, isShortened, isWhole, first } = readIpv6(address);
  const isFull = isShortened ? groups < IPV6_GROUPS : groups === IPV6_GROUPS;
  if (!isWhole || !isFull || groups < 2 || first === -1) return 0;
  if (first >= 0x2000 && first <= 0x3fff) return CERTAIN;
  return first >= 0xfc00 ? POSSIBLE : 0;
}

interface Ipv6 {
  readonly groups: number;
  readonly isShortened: boolean;
  /** True when all groups have one to four digits and there is at most one `::`. */
  readonly isWhole: boolean;
  /** The first group; -1 when the address starts with `::`. */
  readonly first: number;
}

function readIpv6(address: string): Ipv6 {
  let groups = 0;
  let shortenings = 0;
  let first = -1;
  let at = 0;
  while (at < address.length) {
    const end = runEnd(address, at, HEX, at + 5);
    if (end - at > 4 || (end < address.length && address.charCodeAt(end) !== COLON)) return NO_ADDRESS;
    if (end > at) {
      if (at === 0) first = Number.parseInt(address.slice(0, end), 16);
      groups += 1;
    } else if (end < address.length) shortenings += 1;
    at = end + 1;
  }
  // A leading `::` counts as two empty groups.
  const isWhole = shortenings <= (address.startsWith("::") ? 2 : 1) && !(address[0] === ":" && address[1] !== ":");
  return { groups, isShortened: shortenings > 0, isWhole, first };
}

const NO_ADDRESS: Ipv6 = { groups: 0, isShortened: false, isWhole: false, first: -1 };
