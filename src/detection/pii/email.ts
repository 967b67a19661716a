import type { Work } from "../bounds.ts";
import {
  ALPHANUMERIC,
  BLANK,
  classOf,
  DASH,
  DOT,
  isA,
  isOneOf,
  LETTER,
  PERCENT,
  runEnd,
  runStart,
  UNDERSCORE,
  WORD,
  wordSet,
} from "../views/characters.ts";
import { CERTAIN, LIKELY, type PiiFinding } from "./digit-groups.ts";

const LOCAL_CHARS_MAX = 64;
const DOMAIN_CHARS_MAX = 253;
const LOCAL = ALPHANUMERIC | DOT | DASH | UNDERSCORE | PERCENT;
const DOMAIN = ALPHANUMERIC | DOT | DASH;
const FULL_STOP = 0x2e;
/** Special characters of a local part. Excludes `/|?&*{}`, which are valid but never used, and which separate other content. */
const LOCAL_MARKS = "+'!#$=^~";
/** Characters in the name of a variable or field before its value. */
const NAME = WORD | DOT;

/** Last labels of names that are not domains: files, systemd units, image sizes. */
const NO_DOMAINS = wordSet(
  "png jpg jpeg gif svg webp ico bmp js mjs cjs ts tsx jsx css scss less json yaml yml html htm xml txt log lock",
  "map exe dll jar java class go c cpp kt tgz gz tar toml conf cfg ini proto sql rb php vue lua pdf csv service",
  "socket target timer mount slice scope device path swap x latest",
);

/** Accounts of version control over SSH: `git@host:path` is a repository address. */
const ACCOUNTS: ReadonlySet<string> = new Set(["git", "hg", "svn", "gitea", "gerrit"]);

const STEPS = 40;
const STEPS_PER_CHAR = 2;
const STEPS_PER_LABEL = 500;

export function findEmail(text: string, at: number, work: Work): PiiFinding | undefined {
  const end = domainEnd(text, at + 1);
  work.spend(STEPS);
  if (end === -1) return undefined;
  const start = localStart(text, at);
  work.spend((end - start) * STEPS_PER_CHAR);
  if (start === at) return undefined;
  if (isOneOf(text, end, ":/") && ACCOUNTS.has(text.slice(start, at).toLowerCase())) return undefined;
  return { rule: "EMAIL", start, end, confidence: CERTAIN };
}

/** Returns the start of the local part; `at` when there is none. */
function localStart(text: string, at: number): number {
  if (isOneOf(text, at - 1, '"')) return quotedStart(text, at);
  let start = at;
  const limit = at - LOCAL_CHARS_MAX;
  const isUnspaced = text.charCodeAt(at - 1) >= UNSPACED;
  while (start > limit && start > 0 && isLocal(text, start - 1, isUnspaced)) start -= 1;
  const name = runEnd(text, start, NAME);
  // `user=ann@…` is a name and its value; `bounce+ann=…` is part of an address.
  if (name > start && name < at && isOneOf(text, name, "=")) start = name + 1;
  const isEscape = isOneOf(text, start - 1, "\\") && start + 1 < at && isOneOf(text, start, "nrt");
  if (isEscape) start += 1;
  while (start < at && !isA(text, start, ALPHANUMERIC | UNDERSCORE) && text.charCodeAt(start) < 0x80) start += 1;
  return start;
}

/** First code point of scripts without spaces between words; emoji follow too. */
const UNSPACED = 0x2e80;

/** @param isUnspaced - letters of such scripts may belong to the address, because its last letter is one */
function isLocal(text: string, at: number, isUnspaced: boolean): boolean {
  const code = text.charCodeAt(at);
  if (code > 0x7f) return isForeignLetter(code) && (isUnspaced || code < UNSPACED);
  return (classOf(code) & LOCAL) !== 0 || LOCAL_MARKS.includes(text[at] ?? "?");
}

function isForeignLetter(code: number): boolean {
  return code > 0xbf && (code < 0x2000 || code > 0x2bff) && (code < 0x3000 || code > 0x303f) && code < 0xff00;
}

/** Returns the start of a quoted local part: `"john doe"@example.com`. */
function quotedStart(text: string, at: number): number {
  for (let start = at - 2; start >= 0 && start > at - LOCAL_CHARS_MAX; start -= 1) {
    if (isOneOf(text, start, '"')) return start;
    if (isOneOf(text, start, "\n@")) return at;
  }
  return at;
}

/** Returns the end of the domain; -1 when no domain starts here. */
function domainEnd(text: string, from: number): number {
  const limit = from + DOMAIN_CHARS_MAX;
  let end = from;
  let label = from;
  let labels = 1;
  for (; end < limit; end += 1) {
    const code = text.charCodeAt(end);
    if (code === FULL_STOP) {
      // An empty label ends the domain: `a@b..c`.
      if (end === label) break;
      labels += 1;
      label = end + 1;
    } else if ((classOf(code) & DOMAIN) === 0 && !isForeignLetter(code)) break;
  }
  while (end > from && isA(text, end - 1, DOT | DASH)) {
    end -= 1;
    if (text.charCodeAt(end) === FULL_STOP) labels -= 1;
  }
  if (labels < 2) return -1;
  const last = text.lastIndexOf(".", end - 1) + 1;
  if (isTopLevel(text, last, end)) return end;
  // The address may be followed directly by a script without spaces: `ann@example.com` and then text.
  const ascii = runEnd(text, last, LETTER, end);
  return text.charCodeAt(ascii) >= UNSPACED && isTopLevel(text, last, ascii) ? ascii : -1;
}

function isTopLevel(text: string, from: number, to: number): boolean {
  if (to - from < 2) return false;
  if (!isA(text, from, LETTER)) return text.charCodeAt(from) > 0x7f;
  const name = text.slice(from, to).toLowerCase();
  return name.startsWith("xn--") || (hasOnlyLetters(name) && !NO_DOMAINS.has(name));
}

/** Returns whether the label consists of letters, including look-alike letters of other alphabets: `cоm` with a Cyrillic `о`. */
function hasOnlyLetters(name: string): boolean {
  for (let at = 0; at < name.length; at += 1) {
    const code = name.charCodeAt(at);
    if (!isA(name, at, LETTER) && !(code < UNSPACED && isForeignLetter(code))) return false;
  }
  return true;
}

const DOTS = ["[dot]", "(dot)", "{dot}", " dot "];
/** First characters of a written dot, and of one after a space. */
const DOTS_FIRST = "[({ dD";

/** Finds `john [at] example [dot] com`; the word for `@` is from `start` to `end`. */
export function findSpelledEmail(text: string, start: number, end: number, work: Work): PiiFinding | undefined {
  const before = runStart(text, start, BLANK, start - 3);
  const from = runStart(text, before, LOCAL, before - LOCAL_CHARS_MAX);
  if (from === before) return undefined;
  let at = runEnd(text, end, BLANK, end + 3);
  let dots = 0;
  for (;;) {
    work.spend(STEPS_PER_LABEL);
    const label = runEnd(text, at, DOMAIN, at + LOCAL_CHARS_MAX);
    if (label === at || !isA(text, at, ALPHANUMERIC)) return undefined;
    if (text.slice(at, label - 1).includes(".")) dots += 1;
    const next = dotEnd(text, label);
    if (next === -1 || dots > 8)
      return dots > 0 ? { rule: "EMAIL", start: from, end: label, confidence: LIKELY } : undefined;
    dots += 1;
    at = next;
  }
}

function dotEnd(text: string, from: number): number {
  const at = runEnd(text, from, BLANK, from + 3);
  if (!isOneOf(text, at, DOTS_FIRST)) return -1;
  const word = DOTS.find((dot) => text.slice(at, at + dot.length).toLowerCase() === dot);
  const spaced = DOTS.find((dot) => text.slice(from, from + dot.length).toLowerCase() === dot);
  if (word !== undefined) return runEnd(text, at + word.length, BLANK, at + word.length + 3);
  return spaced === undefined ? -1 : from + spaced.length;
}
