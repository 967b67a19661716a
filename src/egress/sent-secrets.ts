import { AmbiguousValue } from "../core/ambiguous-value.ts";
import { isTable } from "../core/json.ts";
import type { Json } from "../core/types.ts";

/** Finds the secrets that were sent to a system in its answers: some systems show the request in errors or in debug output. */

const REDACTED = "[REDACTED]";
/** Shorter values are not searched for: ordinary text may contain them. */
const SECRET_CHARACTERS_MIN = 8;
/** Deeper values of an answer that shows a secret are redacted whole. */
const DEPTH_MAX = 64;

/** Returns the values that are searched for, the longest first, without the padding of Base64, which is often lost. */
export function secretsAmong(values: readonly string[]): readonly string[] {
  const texts = new Set(values.map((value) => value.replace(/=+$/, "")));
  return [...texts]
    .filter(({ length }) => length >= SECRET_CHARACTERS_MIN)
    .sort((one, other) => other.length - one.length);
}

/** Returns the secrets in values of headers: tokens without their scheme, and of basic authentication also the password. */
export function secretsInHeaders(headers: readonly string[]): readonly string[] {
  const values = headers.flatMap((header) => {
    const [, pair] = /^Basic (.+)$/.exec(header) ?? [];
    if (pair === undefined) return [header.slice(header.lastIndexOf(" ") + 1)];
    const plain = Buffer.from(pair, "base64").toString("utf8");
    return [pair, plain, plain.slice(plain.indexOf(":") + 1)];
  });
  return secretsAmong(values);
}

/** Returns the text with `[REDACTED]` in place of the secrets, however their characters are escaped in JSON. */
export function textWithout(text: string, secrets: readonly string[]): string {
  const shown = secrets.reduce((rest, secret) => rest.replaceAll(secret, REDACTED), text);
  if (!isEscapedIn(shown, secrets)) return shown;
  return secrets.reduce(withoutEscaped, shown);
}

/** Returns the bytes of a text without the secrets; the same bytes when none is in them. */
export function bytesWithout(bytes: Buffer, secrets: readonly string[]): Buffer {
  if (!bytes.includes("\\") && !secrets.some((secret) => bytes.includes(secret))) return bytes;
  // One character for each byte: bytes that are not UTF-8 stay as they are.
  const text = bytes.toString("latin1");
  const searched = secrets.map((secret) => Buffer.from(secret, "utf8").toString("latin1"));
  const shown = textWithout(text, searched);
  return shown === text ? bytes : Buffer.from(shown, "latin1");
}

/** Returns a value of JSON without the secrets, in keys too; the same value when `text`, from which it was read, holds none. */
export function jsonWithout(value: unknown, text: string, secrets: readonly string[]): unknown {
  const holdsSecret = secrets.some((secret) => text.includes(secret)) || isEscapedIn(text, secrets);
  return holdsSecret ? redacted(value, secrets, 0) : value;
}

function redacted(value: unknown, secrets: readonly string[], depth: number): unknown {
  if (typeof value === "string") return textWithout(value, secrets);
  if (typeof value === "number") return secrets.includes(String(value)) ? REDACTED : value;
  const inside = (inner: unknown): unknown => redacted(inner, secrets, depth + 1);
  if (AmbiguousValue.is(value)) {
    const { digits, reading } = AmbiguousValue.factsOf(value);
    if (digits !== undefined) return secrets.includes(digits) ? REDACTED : value;
    return AmbiguousValue.with(value, { reading: inside(reading) as Json });
  }
  if (Array.isArray(value)) return depth < DEPTH_MAX ? value.map(inside) : REDACTED;
  if (!isTable(value)) return value;
  const members = Object.entries(value).map(([key, inner]) => [textWithout(key, secrets), inside(inner)]);
  return depth < DEPTH_MAX ? Object.fromEntries(members) : REDACTED;
}

/** Secrets with these characters can have escapes other than `\u0020` to `\u007e`, which any secret can have. */
const ESCAPED = /[^\x20-\x7e]|["\\/]/;
const ASCII_ESCAPE = /\\u00[2-7]/i;
/** The backslashes of an escape, and its code, at any level: JSON may be a string in JSON. */
const ESCAPE = /\\(?:\\|u005c){0,64}(?:u([0-9a-f]{4}))?/gi;

/** Returns whether a text holds one of the secrets with escapes. Most texts with escapes, such as line ends, are not read again. */
function isEscapedIn(text: string, secrets: readonly string[]): boolean {
  if (!text.includes("\\") || secrets.length === 0) return false;
  const hasCodes = ASCII_ESCAPE.test(text);
  if (!hasCodes && !secrets.some((secret) => ESCAPED.test(secret))) return false;
  const plain =
    hasCodes || /\\u/.test(text) ? text.replace(ESCAPE, (_, code) => decoded(code)) : text.replaceAll("\\", "");
  return secrets.some((secret) => plain.includes(unescaped(secret)));
}

/** Redacts a secret that is in the text with escapes. */
function withoutEscaped(text: string, secret: string): string {
  const searched = unescaped(secret);
  const pieces: string[] = [];
  /** Where each character that was read ends in the text. */
  const ends: number[] = [];
  let at = 0;
  const keep = (until: number): void => {
    pieces.push(text.slice(at, until));
    while (at < until) ends.push(++at);
  };
  for (const { 0: escaped, 1: code, index } of text.matchAll(ESCAPE)) {
    keep(index);
    at += escaped.length;
    if (code !== undefined) ends.push(at);
    pieces.push(decoded(code));
  }
  keep(text.length);
  const plain = pieces.join("");
  let shown = "";
  let from = 0;
  at = 0;
  for (let found = plain.indexOf(searched); found !== -1; found = plain.indexOf(searched, from)) {
    from = found + searched.length;
    shown += text.slice(at, ends[found - 1] ?? 0) + REDACTED;
    at = ends[from - 1] ?? text.length;
  }
  return shown + text.slice(at);
}

function decoded(code: string | undefined): string {
  return code === undefined ? "" : String.fromCharCode(Number.parseInt(code, 16));
}

const LETTERS: Readonly<Record<string, string>> = { "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t", "\\": "" };

/** Returns what is left of a secret's characters when backslashes and codes are read. */
function unescaped(secret: string): string {
  return secret.replace(/[\b\f\n\r\t\\]/g, (character) => LETTERS[character] ?? "");
}
