import type { Finding } from "../../finding.ts";
import {
  ALPHANUMERIC,
  BASE64URL,
  classesIn,
  DASH,
  DIGIT,
  DOT,
  isOneOf,
  LETTER,
  runEnd,
  runStart,
} from "../../views/characters.ts";

const AUTHORITY_CHARS_MAX = 512;
const SCHEME_CHARS_MAX = 24;
const HOST_CHARS_MAX = 128;

/** `scheme://user:password@host`: the password; `scheme://token@host`: the token. */
export function matchUrlPassword(text: string, start: number, end: number): Finding | undefined {
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
}

/** `user:password@host`: what a manual writes where an address would stand. */
function isExample(authority: string): boolean {
  const [account = "", host = ""] = authority.toLowerCase().split("@", 2);
  const [user = "", password = ""] = account.split(":", 2);
  if (!EXAMPLE_USERS.has(user) || !EXAMPLE_PASSWORDS.has(password)) return false;
  return EXAMPLE_HOSTS.some((name) => host.startsWith(name)) || RESERVED_HOST.test(host);
}

const EXAMPLE_USERS: ReadonlySet<string> = new Set(["user", "username", "name"]);
const EXAMPLE_PASSWORDS: ReadonlySet<string> = new Set(["password", "pass", "passwd", "pwd", "secret"]);
const EXAMPLE_HOSTS = ["host:", "host/", "hostname:", "hostname/", "server:", "server/", "proxy.server", "example."];
/** Hosts that nobody has (RFC 2606). */
const RESERVED_HOST = /^(?:[\w-]{1,63}\.){0,4}(?:example\.(?:com|org|net)|(?:example|test|invalid))(?![\w-]|\.\w)/;

const URL_END = 1;
const COLON = 2;
const SLASH = 3;
const AT = 4;

/** By ASCII code: what divides an address, or ends it. */
const URL_MARKS = Uint8Array.from({ length: 128 }, (_, code) => urlMark(String.fromCharCode(code)));

function urlMark(character: string): number {
  if (character <= " " || "\"'`<>\\".includes(character)) return URL_END;
  if (character === ":") return COLON;
  if (character === "@") return AT;
  return "/?#".includes(character) ? SLASH : 0;
}

function password(text: string, from: number, { at, slash }: { at: number; slash: number }): Finding | undefined {
  // `[user[:password]@]`: of a grammar.
  if (isOneOf(text, from - 2, "[") || isOneOf(text, at + 1, "]")) return undefined;
  if (from === at || isFormat(text.slice(from, Math.min(at, from + FORMAT_CHARS_MAX)))) return undefined;
  // `http://host:8080/a@b`: what stands before the slash is a port.
  const digits = runEnd(text, from, DIGIT);
  if (digits > from && ((slash !== -1 && slash < at && digits === slash) || isOneOf(text, digits, ";")))
    return undefined;
  const first = text[from] ?? "";
  if ("$<{*[".includes(first) && (first === "*" || "}>])".includes(text[at - 1] ?? "") || first === "$"))
    return undefined;
  return { rule: "url-password", start: from, end: at };
}

const FORMAT_CHARS_MAX = 8;

/** `%s`, `…` */
function isFormat(value: string): boolean {
  return /^%[a-z]$/.test(value) || value === "…" || value === "...";
}

const URL_TOKEN_CHARS_MIN = 20;

function userToken(text: string, from: number, at: number): Finding | undefined {
  const isOne = runEnd(text, from, BASE64URL) === at && at - from >= URL_TOKEN_CHARS_MIN;
  const hasBoth = (classesIn(text, from, at) & DIGIT) !== 0 && (classesIn(text, from, at) & LETTER) !== 0;
  return isOne && hasBoth ? { rule: "url-token", start: from, end: at } : undefined;
}
