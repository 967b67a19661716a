import type { Finding } from "../finding.ts";
import type { RuleMatcher } from "../rules/rule.ts";
import {
  ALPHANUMERIC,
  BASE64URL,
  BLANK,
  beginsWord,
  classesIn,
  DASH,
  DIGIT,
  DOT,
  endBefore,
  isA,
  isOneOf,
  LETTER,
  LINE_END,
  QUOTE,
  runEnd,
  runStart,
} from "../views/characters.ts";
import { ASSESSED_CHARS_MAX, isSecretValue } from "./values.ts";

const JWT_PART_CHARS_MIN = 8;
const JWT_PARTS_MAX = 5;

/** Finds compact JWS and JWE: base64url parts, of which the first is a JSON object. */
export const matchJwt: RuleMatcher = ({ text }, start) => {
  if (!text.startsWith("eyJ", start)) return undefined;
  const header = runEnd(text, start, BASE64URL);
  if (header - start < JWT_PART_CHARS_MIN || !isOneOf(text, header, ".")) return header;
  let end = runEnd(text, header + 1, BASE64URL);
  const isObject = text.startsWith("eyJ", header + 1);
  if (end - header - 1 < JWT_PART_CHARS_MIN && !isOneOf(text, end, ".")) return header;
  let parts = 2;
  while (
    isOneOf(text, end, ".") &&
    parts < JWT_PARTS_MAX &&
    (isA(text, end + 1, BASE64URL) || isOneOf(text, end + 1, "."))
  ) {
    end = runEnd(text, end + 1, BASE64URL);
    parts += 1;
  }
  return parts > 2 || isObject ? { rule: "jwt", start, end } : header;
};

const AUTHORITY_CHARS_MAX = 512;
const SCHEME_CHARS_MAX = 24;
const HOST_CHARS_MAX = 128;

/** Finds the password in `scheme://user:password@host` and the token in `scheme://token@host`. */
export const matchUrlPassword: RuleMatcher = ({ text }, start, end) => {
  const limit = Math.min(text.length, end + AUTHORITY_CHARS_MAX);
  if (
    runStart(text, start, ALPHANUMERIC | DASH | DOT, start - SCHEME_CHARS_MAX) === start &&
    !isOneOf(text, start - 1, "+")
  )
    return undefined;
  let colon = -1;
  let slash = -1;
  let at = -1;
  for (let index = end; index < limit && (at === -1 || slash <= at); index += 1) {
    const mark = URL_MARKS[text.charCodeAt(index)] ?? 0;
    if (mark === 0) continue;
    if (mark === URL_END || (mark === COLON && text.startsWith("://", index))) break;
    if (mark === COLON && colon === -1) colon = index;
    if (mark === SLASH && slash === -1) slash = index;
    if (mark === AT && (at === -1 || slash === -1)) at = index;
  }
  if (at === -1 || isExample(text.slice(end, at + HOST_CHARS_MAX))) return undefined;
  return colon !== -1 && colon < at ? password(text, colon + 1, { at, slash }) : userToken(text, end, at);
};

/** Returns whether the URL is a placeholder: `user:password@host`. */
function isExample(authority: string): boolean {
  const [account = "", host = ""] = authority.toLowerCase().split("@", 2);
  const [user = "", password = ""] = account.split(":", 2);
  if (!EXAMPLE_USERS.has(user) || !EXAMPLE_PASSWORDS.has(password)) return false;
  return EXAMPLE_HOSTS.some((name) => host.startsWith(name)) || RESERVED_HOST.test(host);
}

const EXAMPLE_USERS: ReadonlySet<string> = new Set(["user", "username", "name"]);
const EXAMPLE_PASSWORDS: ReadonlySet<string> = new Set(["password", "pass", "passwd", "pwd", "secret"]);
const EXAMPLE_HOSTS = ["host:", "host/", "hostname:", "hostname/", "server:", "server/", "proxy.server", "example."];
/** Hosts that are reserved for examples (RFC 2606). */
const RESERVED_HOST = /^(?:[\w-]{1,63}\.){0,4}(?:example\.(?:com|org|net)|(?:example|test|invalid))(?![\w-]|\.\w)/;

const URL_END = 1;
const COLON = 2;
const SLASH = 3;
const AT = 4;

/** Delimiters of a URL by ASCII code. */
const URL_MARKS = Uint8Array.from({ length: 128 }, (_, code) => urlMark(String.fromCharCode(code)));

function urlMark(character: string): number {
  if (character <= " " || "\"'`<>\\".includes(character)) return URL_END;
  if (character === ":") return COLON;
  if (character === "@") return AT;
  return "/?#".includes(character) ? SLASH : 0;
}

function password(text: string, from: number, { at, slash }: { at: number; slash: number }): Finding | undefined {
  // `[user[:password]@]` is a grammar.
  if (isOneOf(text, from - 2, "[") || isOneOf(text, at + 1, "]")) return undefined;
  if (from === at || isFormat(text.slice(from, Math.min(at, from + FORMAT_CHARS_MAX)))) return undefined;
  // In `http://host:8080/a@b`, the text before the slash is a port.
  const digits = runEnd(text, from, DIGIT);
  if (digits > from && ((slash !== -1 && slash < at && digits === slash) || isOneOf(text, digits, ";")))
    return undefined;
  const first = text[from] ?? "";
  if ("$<{*[".includes(first) && (first === "*" || "}>])".includes(text[at - 1] ?? "") || first === "$"))
    return undefined;
  return { rule: "url-password", start: from, end: at };
}

const FORMAT_CHARS_MAX = 8;

function isFormat(value: string): boolean {
  return /^%[a-z]$/.test(value) || value === "…" || value === "...";
}

const URL_TOKEN_CHARS_MIN = 20;

function userToken(text: string, from: number, at: number): Finding | undefined {
  const isOne = runEnd(text, from, BASE64URL) === at && at - from >= URL_TOKEN_CHARS_MIN;
  const hasBoth = (classesIn(text, from, at) & DIGIT) !== 0 && (classesIn(text, from, at) & LETTER) !== 0;
  return isOne && hasBoth ? { rule: "url-token", start: from, end: at } : undefined;
}

/** Maximum length of the text after the announcing word. UTF-16 units. */
const CODES_CHARS_MAX = 1_024;
const CODES_MAX = 32;
/** Minimum length of a code without dashes. */
const PLAIN_CHARS_MIN = 6;

/** Matches the text before the first code: `s`, a quote, `:`, `=` or `is`, line ends, and a list marker. */
const START = /^s?["']?(?: (?:is|are)(?= )|\s{0,4}[:=])?[\s[(>"'|]{0,16}(?:(?:[-*•]|\d{1,2}[.)]) {1,4})?["'`]?/;
/** Matches `ab3d5-x8k2p`, `1234 5678`, `12345678`. */
const CODE = /^(?:[A-Za-z\d]{4,8}(?:-[A-Za-z\d]{4,8}){1,10}|\d{4} \d{4}|[A-Za-z\d]{6,16})(?![\w-])/;
const NEXT = /^["'`]?[,;]?[\s"'`]{1,16}(?:(?:[-*•]|\d{1,2}[.)]) {1,4})?["'`]?|^["'`],["'`]/;

/** Finds recovery codes and keys, each with a digit. */
export const matchCodes: RuleMatcher = ({ text }, start, end) => {
  if (!beginsWord(text, start)) return undefined;
  const rest = text.slice(end, end + CODES_CHARS_MAX);
  const opening = START.exec(rest)?.[0].length ?? 0;
  if (opening === 0 || !/[:=\s]/.test(rest.slice(0, opening))) return undefined;
  let at = opening;
  let last = -1;
  for (let count = 0; count < CODES_MAX; count += 1) {
    const code = CODE.exec(rest.slice(at))?.[0];
    if (code === undefined || !isCode(code, last !== -1)) break;
    last = at + code.length;
    const gap = NEXT.exec(rest.slice(last))?.[0];
    if (gap === undefined) break;
    at = last + gap.length;
  }
  return last === -1 ? undefined : { rule: "recovery-code", start: end + opening, end: end + last };
};

/** Further codes may contain no digit when they have dashes. */
function isCode(code: string, isFurther: boolean): boolean {
  if (/\d/.test(code)) return code.length >= PLAIN_CHARS_MIN;
  return isFurther && code.includes("-");
}

/** Maximum length of a manifest around its kind. UTF-16 units. */
const MANIFEST_CHARS_MAX = 4_096;
const MANIFEST_STEPS = 2_000;
const STEPS_PER_CHAR = 6;
const PARTS_MAX = 3;
const VALUES_MAX = 256;

/** Finds the values below `data` and `stringData` of a `kind: Secret` document, before or after its kind. */
export const matchManifest: RuleMatcher = ({ text, work }, start, end) => {
  if (isA(text, end, KIND_CONTINUES) || text.slice(end - SECRET.length, end) !== SECRET) return undefined;
  work.spend(MANIFEST_STEPS);
  const before = text.slice(Math.max(0, start - MANIFEST_CHARS_MAX), start);
  const after = text.slice(end, end + MANIFEST_CHARS_MAX);
  const from = before.length - Math.min(before.length, distance(before));
  const to = BOUNDARY.exec(after)?.index ?? after.length;
  work.spend((before.length - from + to) * STEPS_PER_CHAR);
  const found = [...valuesIn(text, start - before.length + from, start), ...valuesIn(text, end, end + to)];
  return found.length === 0 ? undefined : found;
};

const SECRET = "Secret";
const KIND_CONTINUES = 0xffff & ~(BLANK | LINE_END | QUOTE);
/** Start of another document or of another object's kind. */
const BOUNDARY = /apiVersion|^---|kind"?:/m;

/** Returns the distance back to the start of the document: its version, or the previous document's kind. */
function distance(before: string): number {
  const kind = before.lastIndexOf("kind");
  // Usually the nearest kind is another document's: then only the text after it is searched.
  const from = KINDS.some((word) => before.startsWith(word, kind)) ? kind : 0;
  const own = before.slice(from);
  const found = Math.max(...BOUNDARIES.map((word) => own.lastIndexOf(word)));
  const at = found === -1 ? -1 : from + found;
  return at === -1 ? before.length : before.length - at;
}

const KINDS = ["kind:", 'kind":'];
const BOUNDARIES = ["apiVersion", "\n---", ...KINDS];

const DATA = /(?:^|[\s,{"])(?:stringData|data)"?:[ \t]*/g;

function valuesIn(text: string, from: number, to: number): readonly Finding[] {
  const part = text.slice(from, to);
  return [...part.matchAll(DATA)].slice(0, PARTS_MAX).flatMap((data) => {
    const at = from + data.index + data[0].length;
    return isOneOf(text, at, "{") ? membersOf(text, at, to) : linesOf(text, at, to);
  });
}

const MEMBER = /"[^"]{1,253}"\s{0,32}:\s{0,32}"((?:[^"\\]|\\.){1,4096}?)"/g;

function membersOf(text: string, at: number, to: number): readonly Finding[] {
  const inside = text.slice(at, to);
  const close = inside.indexOf("}");
  return [...inside.slice(0, close === -1 ? undefined : close).matchAll(MEMBER)]
    .slice(0, VALUES_MAX)
    .flatMap((member) => {
      const value = member[1] ?? "";
      const start = at + member.index + member[0].length - value.length - 1;
      return declared(text, start, start + value.length);
    });
}

const LINE = /^([ \t]+)[\w.-]{1,253}:[ \t]+(\S.*)$/;

/** Reads the lines below, up to the first line that is indented less. */
function linesOf(text: string, at: number, to: number): readonly Finding[] {
  const found: Finding[] = [];
  let indent = -1;
  let from = runEnd(text, at, LINE_END, at + 2);
  while (from < to && found.length < VALUES_MAX && from > at) {
    const [line = ""] = text.slice(from, to).split(/[\r\n]/, 1);
    const own = runEnd(text, from, BLANK, from + line.length) - from;
    if (own === 0 || own < indent) break;
    const [, , value = ""] = LINE.exec(line) ?? [];
    if (indent === -1) indent = own;
    const isDeeper = own > indent;
    const start = isDeeper ? from + own : from + line.length - value.length;
    if (isDeeper || !"|>".includes(value[0] ?? "|")) found.push(...declared(text, start, from + line.length));
    from = runEnd(text, from + line.length, LINE_END, from + line.length + 2);
  }
  return found;
}

function declared(text: string, start: number, end: number): readonly Finding[] {
  const from = isA(text, start, QUOTE) ? start + 1 : start;
  const to = isA(text, end - 1, QUOTE) ? end - 1 : end;
  const value = text.slice(from, Math.min(to, from + ASSESSED_CHARS_MAX));
  return to > from && isSecretValue(value, "password", "quoted") ? [{ rule: "secret-data", start: from, end: to }] : [];
}

/** Matches a line that announces a password: `the following password to proceed`. */
const ANNOUNCEMENT = /\b(?:password|passphrase|passcode)\b (?![^\r\n]*[:=.])[^\r\n]{1,80}$/i;
const LINE_CHARS_MAX = 128;
const WORD_CHARS_MIN = 12;
const ONE_PIECE = /^[a-z\d]{16,128}$/i;

/** Finds a password alone on a line below a line that announces it and ends in a colon. */
export const matchBelow: RuleMatcher = ({ text }, start, end) => {
  const from = runEnd(text, end, BLANK | LINE_END, end + GAP_CHARS_MAX);
  const to = endBefore(text, from, BLANK | LINE_END | QUOTE, from + LINE_CHARS_MAX);
  if (to - from < WORD_CHARS_MIN || (to < text.length && !isA(text, to, LINE_END | BLANK))) return undefined;
  const word = text.slice(from, to);
  if (!ANNOUNCEMENT.test(text.slice(Math.max(0, start - LINE_CHARS_MAX), start))) return undefined;
  const isSecret = isSecretValue(word, "password", ONE_PIECE.test(word) ? "prose" : "listed");
  return isSecret ? { rule: "password-below", start: from, end: to } : undefined;
};

const GAP_CHARS_MAX = 24;
