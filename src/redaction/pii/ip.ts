import { ALPHANUMERIC, DIGIT, DOT, HEX, isA, runEnd, runStart } from "../views/characters.ts";
import { CERTAIN, type PiiFinding, POSSIBLE } from "./finding.ts";

const COLON = 0x3a;
const IPV6_CHARS_MAX = 45;
const IPV6_GROUPS = 8;

/** Four parts behind these words are a version. */
const VERSION_WORDS = ["version", "release", "build", "ver ", "ver:", ">= ", "=="];
const BEFORE_CHARS_MAX = 16;

/** Four small parts are an address behind these words, else likelier a version. */
const ADDRESS_WORDS = ["ip", "client", "host", "addr", "from", "remote", "peer", "src", "dst", "forwarded", "connect"];

/** The address whose first digit stands at `start`. */
export function findIpv4(text: string, start: number): PiiFinding | undefined {
  const parts: number[] = [];
  let at = start;
  for (let part = 0; part < 4; part += 1) {
    const end = runEnd(text, at, DIGIT, at + 4);
    const value = Number(text.slice(at, end));
    if (end === at || end - at > 3 || value > 255 || (end - at > 1 && text[at] === "0")) return undefined;
    parts.push(value);
    if (part < 3 && text[end] !== ".") return undefined;
    at = part < 3 ? end + 1 : end;
  }
  if (isA(text, at, ALPHANUMERIC) || (text[at] === "." && isA(text, at + 1, DIGIT)) || text[at] === "-")
    return undefined;
  if (isVersion(text, start)) return undefined;
  const isSmall = parts.every((part) => part < 10) && new Set(parts).size > 1;
  const confidence = isSmall && !hasWordBefore(text, start, ADDRESS_WORDS) ? POSSIBLE : reachOfIpv4(parts);
  return confidence === 0 ? undefined : { rule: "IP", start, end: at, confidence };
}

/** `Chrome/120.0.6099.71`, `version 1.2.3.4`, `v1.2.3.4`, `lib-1.2.3.4`. */
function isVersion(text: string, start: number): boolean {
  const before = text[start - 1] ?? " ";
  if (before === "/" && isA(text, start - 2, ALPHANUMERIC)) return true;
  if (before === "." || before === "-" || before === "_" || isA(text, start - 1, ALPHANUMERIC)) return true;
  return hasWordBefore(text, start, VERSION_WORDS);
}

function hasWordBefore(text: string, start: number, words: readonly string[]): boolean {
  const before = text.slice(Math.max(0, start - BEFORE_CHARS_MAX), start).toLowerCase();
  return words.some((word) => before.includes(word));
}

/** Anybody's on the network: certain. A private network's: possible. This machine's, groups', nobody's: none. */
function reachOfIpv4([first = 0, second = 0]: readonly number[]): number {
  if (first === 0 || first === 127 || first >= 224) return 0;
  const isPrivate = first === 10 || (first === 192 && second === 168) || (first === 172 && second >= 16 && second < 32);
  const isLocal = (first === 169 && second === 254) || (first === 100 && second >= 64 && second < 128);
  return isPrivate || isLocal ? POSSIBLE : CERTAIN;
}

/** The address around the colon at `at`, and where to look on. */
export function findIpv6(text: string, at: number): { readonly end: number; readonly found?: PiiFinding } {
  const start = runStart(text, at, HEX, at - 5);
  let end = at;
  const limit = start + IPV6_CHARS_MAX + 1;
  while (end < limit && (text.charCodeAt(end) === COLON || isA(text, end, HEX | DOT))) end += 1;
  let stop = end;
  while (stop > start && isA(text, stop - 1, DOT)) stop -= 1;
  if (text[stop - 1] === ":" && text[stop - 2] !== ":") stop -= 1;
  const isApart = !isA(text, start - 1, ALPHANUMERIC) && text[start - 1] !== ":" && !isA(text, end, ALPHANUMERIC);
  const confidence = isApart && end < limit ? reachOfIpv6(text.slice(start, stop)) : 0;
  return confidence === 0 ? { end } : { end, found: { rule: "IP", start, end: stop, confidence } };
}

function reachOfIpv6(address: string): number {
  const [head = "", tail, more] = address.split("::");
  if (more !== undefined) return 0;
  const groups = [...groupsOf(head), ...groupsOf(tail ?? "")];
  const isFull = tail === undefined ? groups.length === IPV6_GROUPS : groups.length < IPV6_GROUPS;
  if (
    !isFull ||
    groups.length < 2 ||
    !groups.every((group) => runEnd(group, 0, HEX) === group.length && group.length < 5)
  )
    return 0;
  const first = Number.parseInt(groups[0] ?? "", 16);
  if (head !== "" && first >= 0x2000 && first <= 0x3fff) return CERTAIN;
  return head !== "" && first >= 0xfc00 && groups[0]?.length === 4 ? POSSIBLE : 0;
}

function groupsOf(part: string): readonly string[] {
  return part === "" ? [] : part.split(":");
}
