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
} from "../views/characters.ts";
import { CERTAIN, LIKELY, type PiiFinding } from "./finding.ts";

const LOCAL_CHARS_MAX = 64;
const DOMAIN_CHARS_MAX = 253;
const LOCAL = ALPHANUMERIC | DOT | DASH | UNDERSCORE | PERCENT;
const DOMAIN = ALPHANUMERIC | DOT | DASH;
const FULL_STOP = 0x2e;
/** Without those that addresses may hold and never do, and that divide what texts hold: `/|?&*{}`. */
const LOCAL_MARKS = "+'!#$=^~";
/** Of a variable or field before its value. */
const NAME = WORD | DOT;

/** Last labels of names that are no domains: files, units of systemd, images' sizes. */
const NO_DOMAINS: ReadonlySet<string> = new Set([
  ...[
    "png",
    "jpg",
    "jpeg",
    "gif",
    "svg",
    "webp",
    "ico",
    "bmp",
    "js",
    "mjs",
    "cjs",
    "ts",
    "tsx",
    "jsx",
    "css",
    "scss",
    "less",
  ],
  ...[
    "json",
    "yaml",
    "yml",
    "html",
    "htm",
    "xml",
    "txt",
    "log",
    "lock",
    "map",
    "exe",
    "dll",
    "jar",
    "java",
    "class",
    "go",
    "c",
  ],
  ...[
    "cpp",
    "kt",
    "tgz",
    "gz",
    "tar",
    "toml",
    "conf",
    "cfg",
    "ini",
    "proto",
    "sql",
    "rb",
    "php",
    "vue",
    "lua",
    "pdf",
    "csv",
  ],
  ...["service", "socket", "target", "timer", "mount", "slice", "scope", "device", "path", "swap", "x", "latest"],
]);

/** Accounts of version control over SSH: `git@host:path` is an address of a repository. */
const ACCOUNTS: ReadonlySet<string> = new Set(["git", "hg", "svn", "gitea", "gerrit"]);

const STEPS = 40;
const STEPS_PER_CHAR = 2;
const STEPS_PER_LABEL = 500;

/** The address around the `@` at `at`. */
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

/** Where the local part begins; `at` when there is none. */
function localStart(text: string, at: number): number {
  if (isOneOf(text, at - 1, '"')) return quotedStart(text, at);
  let start = at;
  const limit = at - LOCAL_CHARS_MAX;
  const isUnspaced = text.charCodeAt(at - 1) >= UNSPACED;
  while (start > limit && start > 0 && isLocal(text, start - 1, isUnspaced)) start -= 1;
  const name = runEnd(text, start, NAME);
  // `user=ann@…`: a name and its value; `bounce+ann=…` is all of an address.
  if (name > start && name < at && isOneOf(text, name, "=")) start = name + 1;
  const isEscape = isOneOf(text, start - 1, "\\") && start + 1 < at && isOneOf(text, start, "nrt");
  if (isEscape) start += 1;
  while (start < at && !isA(text, start, ALPHANUMERIC | UNDERSCORE) && text.charCodeAt(start) < 0x80) start += 1;
  return start;
}

/** From here on scripts are written without blanks between words, and pictures stand. */
const UNSPACED = 0x2e80;

/** `isUnspaced`: such letters may belong to the address, as its last one does. */
function isLocal(text: string, at: number, isUnspaced: boolean): boolean {
  const code = text.charCodeAt(at);
  if (code > 0x7f) return isForeignLetter(code) && (isUnspaced || code < UNSPACED);
  return (classOf(code) & LOCAL) !== 0 || LOCAL_MARKS.includes(text[at] ?? "?");
}

function isForeignLetter(code: number): boolean {
  return code > 0xbf && (code < 0x2000 || code > 0x2bff) && (code < 0x3000 || code > 0x303f) && code < 0xff00;
}

/** `"john doe"@example.com`. */
function quotedStart(text: string, at: number): number {
  for (let start = at - 2; start >= 0 && start > at - LOCAL_CHARS_MAX; start -= 1) {
    if (isOneOf(text, start, '"')) return start;
    if (isOneOf(text, start, "\n@")) return at;
  }
  return at;
}

/** -1 when no domain begins here. */
function domainEnd(text: string, from: number): number {
  const limit = from + DOMAIN_CHARS_MAX;
  let end = from;
  let label = from;
  let labels = 1;
  for (; end < limit; end += 1) {
    const code = text.charCodeAt(end);
    if (code === FULL_STOP) {
      // An empty label ends the name: `a@b..c`.
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
  // `ann@example.com` with a script behind it that writes no blanks.
  const ascii = runEnd(text, last, LETTER, end);
  return text.charCodeAt(ascii) >= UNSPACED && isTopLevel(text, last, ascii) ? ascii : -1;
}

function isTopLevel(text: string, from: number, to: number): boolean {
  if (to - from < 2) return false;
  if (!isA(text, from, LETTER)) return text.charCodeAt(from) > 0x7f;
  const name = text.slice(from, to).toLowerCase();
  return name.startsWith("xn--") || (isOfLetters(name) && !NO_DOMAINS.has(name));
}

/** Look-alike letters of alphabets among them: `cоm` with a Cyrillic `о`. */
function isOfLetters(name: string): boolean {
  for (let at = 0; at < name.length; at += 1) {
    const code = name.charCodeAt(at);
    if (!isA(name, at, LETTER) && !(code < UNSPACED && isForeignLetter(code))) return false;
  }
  return true;
}

const DOTS = ["[dot]", "(dot)", "{dot}", " dot "];
/** Of a dot, and of one behind a blank. */
const DOTS_FIRST = "[({ dD";

/** `john [at] example [dot] com`: the word for `@` stands from `start` to `end`. */
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
