import type { Finding } from "../finding.ts";
import { BLANK, classesIn, DIGIT, isA, isOneOf, LINE_END, NAME, QUOTE, runEnd } from "../views/characters.ts";
import { QUOTED_CHARS_MAX, type Value } from "./beside-name/value-after.ts";
import type { SecretKind } from "./names.ts";
import { hasDigit } from "./value-shapes.ts";
import { isSecretValue, JUDGED_CHARS_MAX, type ValueStyle } from "./values.ts";
import { wordSet } from "./words.ts";

/** UTF-16 units. */
const PARAMETER_CHARS_MAX = 512;
const HEADER_CHARS_MIN = 6;

/** Where the line ends in which the header's value at `from` stands; the text's length when nowhere. */
export function headerEnd(text: string, from: number): number {
  let at = from;
  while (at < text.length && !isA(text, at, LINE_END)) {
    if (isA(text, at, QUOTE)) {
      const close = parameterEnd(text, at);
      if (close === -1) break;
      at = close;
    }
    at += 1;
  }
  return at;
}

/** A header's parameter in quotation marks (`Digest username="ann"`) ends at the second one; -1 when the first at `at` begins none. */
function parameterEnd(text: string, at: number): number {
  const before = isOneOf(text, at - 1, "\\") ? at - 2 : at - 1;
  if (!isOneOf(text, before, "=")) return -1;
  for (let end = at + 1; end < at + PARAMETER_CHARS_MAX && !isA(text, end, LINE_END); end += 1) {
    if (text[end] === text[at]) return end;
  }
  return -1;
}

/** In these only what surely is a header's value is one. */
const DOUBTFUL: ReadonlySet<ValueStyle> = new Set(["told", "listed", "paired"]);
/** `sid=a1b2c3`. */
const COOKIE = /^[\w.-]{1,64}=[^;\s]{6,}/;

/** A header's value is the rest of its line; of an authorization the scheme may stay. */
export function header(text: string, kind: SecretKind, value: Value): Finding | undefined {
  return isOneOf(text, value.start, "[") ? listedHeader(text, kind, value) : plainHeader(text, kind, value);
}

/** `["a=b; Path=/"]`, `[Bearer …]`: the first of a list. */
function listedHeader(text: string, kind: SecretKind, { start }: Value): Finding | undefined {
  const isQuoted = isA(text, start + 1, QUOTE);
  const from = start + (isQuoted ? 2 : 1);
  const mark = isQuoted ? text.charCodeAt(start + 1) : CLOSE;
  let end = from;
  while (
    end < from + PARAMETER_CHARS_MAX &&
    text.charCodeAt(end) !== mark &&
    !isA(text, end, LINE_END) &&
    end < text.length
  )
    end += 1;
  const style = isQuoted ? "quoted" : "told";
  return plainHeader(text, kind, { start: from, end, style, quote: isQuoted ? '"' : "]", inQuery: false });
}

const CLOSE = 0x5d;

function plainHeader(text: string, kind: SecretKind, { start, quote, end, style }: Value): Finding | undefined {
  const lineEnd = Math.min(end, start + QUOTED_CHARS_MAX);
  if (style === "assigned" || lineEnd - start < HEADER_CHARS_MIN) return undefined;
  const from = kind === "authorization" ? afterScheme(text, start, lineEnd) : start;
  const value = text.slice(from, Math.min(lineEnd, from + JUDGED_CHARS_MAX));
  if (quote === "" && "?=|&;,.)".includes(value[0] ?? "?")) return undefined;
  const isDoubtful = DOUBTFUL.has(style);
  const written = { isDoubtful, hasScheme: from > start, isQuoted: quote !== "" };
  if (kind === "cookie" ? !isCookie(value, written) : !isCredentials(value, written)) return undefined;
  if (!isSecretValue(value, kind, isDoubtful ? "quoted" : style)) return undefined;
  return { rule: kind === "cookie" ? "cookie" : "authorization-header", start: from, end };
}

interface Written {
  readonly isDoubtful: boolean;
  readonly hasScheme: boolean;
  readonly isQuoted: boolean;
}

/** `name=value`, first or behind others. Blanks around the sign are a program's. */
const CRUMB = /(?:^|[;,] ?)[^\s=;,]{1,128}=/;

function isCookie(value: string, { isDoubtful }: Written): boolean {
  return isDoubtful ? COOKIE.test(value) && hasDigit(value) : CRUMB.test(value);
}

function isCredentials(value: string, { isDoubtful, hasScheme, isQuoted }: Written): boolean {
  if (SCHEME_ALONE.test(value)) return false;
  return isDoubtful
    ? hasScheme && (isOnePiece(value) || PARAMETER.test(value))
    : hasScheme || isQuoted || isOnePiece(value);
}

/** `"Api-Token " + token` */
const SCHEME_ALONE = /^[A-Za-z][A-Za-z-]{0,40} {1,4}$/;

/** Credentials without a scheme and without quotation marks: no words, no call, and a digit. */
function isOnePiece(value: string): boolean {
  return !value.includes(" ") && !value.includes("(") && (classesIn(value, 0, value.length) & DIGIT) !== 0;
}

const SCHEMES = wordSet(
  "bearer basic digest token apikey api-key key negotiate ntlm hawk dpop mac jwt aws4-hmac-sha256 sharedkey",
  "sharedaccesssignature geniekey splunk bot oauth scram-sha-256 googlelogin x-auth snowflake vapid signature s3cmd",
  "ssws pve eg1-hmac-sha256 discogs",
);

/** Where the credentials begin: behind a scheme that is known, or behind any word that only credentials follow. */
function afterScheme(text: string, start: number, limit: number): number {
  const scheme = runEnd(text, start, NAME, limit);
  const next = runEnd(text, scheme, BLANK, limit);
  if (next === scheme || next >= limit) return start;
  const isKnown = SCHEMES.has(text.slice(start, scheme).toLowerCase());
  return isKnown || followsAnyScheme(text.slice(next, Math.min(limit, next + JUDGED_CHARS_MAX)).trimEnd())
    ? next
    : start;
}

const ANY_SCHEME_CHARS_MIN = 12;
const PARAMETER = /^[\w-]{1,32}="?[^\s,"]{8}/;

/** One piece that looks like a token, or parameters. */
function followsAnyScheme(value: string): boolean {
  if (PARAMETER.test(value)) return hasDigit(value);
  return value.length >= ANY_SCHEME_CHARS_MIN && isOnePiece(value) && isSecretValue(value, "token", "line");
}
