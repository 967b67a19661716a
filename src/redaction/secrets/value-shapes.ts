import {
  ALPHANUMERIC,
  BASE64,
  BASE64URL,
  classesIn,
  DASH,
  DIGIT,
  DOT,
  EQUALS,
  HEX,
  LETTER,
  LOWER,
  runEnd,
  UPPER,
  WORD,
} from "../views/characters.ts";
import { secretKind } from "./names.ts";

const KEY_CHARS_MIN = 16;
const UUID_CHARS = 36;
/** Longer parts between the dashes of a name are no words. */
const NAME_PART_CHARS_MAX = 12;

/** Base64 of `user:password`. */
export function isBasicCredentials(value: string): boolean {
  const decoded = Buffer.from(value, "base64").toString("latin1");
  for (let at = 0; at < decoded.length; at += 1) {
    const code = decoded.charCodeAt(at);
    if (code < 0x20 || code === 0x7f) return false;
  }
  return decoded.includes(":");
}

/** Long, of one piece, with digits and letters well mixed: no word, path, version or name. */
export function looksRandom(value: string): boolean {
  if (value.length < KEY_CHARS_MIN || isResourceName(value) || isUrlOrPath(value) || isUuid(value)) return false;
  if (!isOnly(value, BASE64 | BASE64URL | EQUALS)) return false;
  return hasManyDigits(value);
}

function hasManyDigits(value: string): boolean {
  let digits = 0;
  for (let at = 0; at < value.length; at += 1) if ((classesIn(value, at, at + 1) & DIGIT) !== 0) digits += 1;
  return digits * 12 >= value.length && digits < value.length;
}

/** `$X`, `${X}`, `{{ x }}`, `<x>`, `%(x)s`, `***`, a call's or list's beginning. */
export function isReference(value: string): boolean {
  const first = value[0] ?? "";
  if ("<[{(*".includes(first)) return true;
  if (first === "$") return value.length < 2 || isA(value, 1) || "({".includes(value[1] ?? "");
  if (first === "%") return value[1] === "(" || value[1] === "{" || value === "%s" || value === "%v" || value === "%q";
  return isRepeated(value);
}

/** A shell variable's name begins here. */
function isA(value: string, at: number): boolean {
  return runEnd(value, at, LETTER, at + 1) > at && runEnd(value, at, WORD) === value.length;
}

/** `xxxxxxxx`, `........`, `--------`. */
function isRepeated(value: string): boolean {
  const first = value[0] ?? "";
  for (let at = 1; at < value.length; at += 1) if (value[at] !== first) return false;
  return "xX.-_?#".includes(first);
}

export function isUrlOrPath(value: string): boolean {
  if (value.startsWith("./") || value.startsWith("../") || value.startsWith("~/") || value.includes("://")) return true;
  if (!value.startsWith("/")) return false;
  const second = value.indexOf("/", 1);
  return second > 1 && runEnd(value, 1, BASE64URL | DOT) >= second && !isBase64(value);
}

/** Base64 may begin with a slash and hold more of them; a path has no such mixture. */
function isBase64(value: string): boolean {
  return (
    value.length > KEY_CHARS_MIN &&
    isOnly(value, BASE64 | EQUALS) &&
    hasCapitals(value) &&
    (hasManyDigits(value) || isMixed(value))
  );
}

/** Small letters, and capitals too. */
function hasCapitals(value: string): boolean {
  const seen = classesIn(value, 0, value.length);
  return (seen & UPPER) !== 0 && (seen & LOWER) !== 0;
}

/** An absolute path or none but a root, as `PWD` holds it: words between slashes. */
export function isPlainPath(value: string): boolean {
  if (!value.startsWith("/") && !value.startsWith("~/")) return false;
  return (
    isOnly(value.slice(1), BASE64URL | DOT | BASE64) && !value.includes("+") && !isBase64(value) && !hasMixedPart(value)
  );
}

function hasMixedPart(path: string): boolean {
  return path.split("/").some((part) => hasCapitals(part) && hasDigit(part));
}

export function isSmallNumber(value: string): boolean {
  return isOnly(value, DIGIT) && value.length < 12;
}

export function hasDigit(value: string): boolean {
  return (classesIn(value, 0, value.length) & DIGIT) !== 0;
}

export function isOnly(value: string, classes: number): boolean {
  return runEnd(value, 0, classes) === value.length;
}

/** A call, an index, a template: what programs write where a value would stand. */
export function isCode(value: string): boolean {
  const call = runEnd(value, 0, WORD | DOT);
  return call > 0 && call < value.length && "([".includes(value[call] ?? "");
}

/** `config.password`, `self.token`: names joined by dots, the last of which names a secret; or one such name. */
export function isPropertyPath(value: string): boolean {
  if (hasDigit(value) || !isOnly(value, WORD | DOT)) return false;
  return value.includes(".") || secretKind(value) !== undefined;
}

/** One word in camel, snake or capital case, without digits. */
export function isIdentifier(value: string): boolean {
  return isOnly(value, LETTER | (WORD & ~ALPHANUMERIC)) && !isMixed(value);
}

/** Capitals and small letters change more often than words would make them. */
function isMixed(value: string): boolean {
  let changes = 0;
  for (let at = 1; at < value.length; at += 1) {
    const isUpper = (classesIn(value, at, at + 1) & UPPER) !== 0;
    const wasUpper = (classesIn(value, at - 1, at) & UPPER) !== 0;
    if (isUpper !== wasUpper) changes += 1;
  }
  return changes * 2.5 > value.length;
}

export function isUuid(value: string): boolean {
  if (value.length !== UUID_CHARS || !isOnly(value, HEX | DASH)) return false;
  return [8, 13, 18, 23].every((at) => value[at] === "-");
}

/** `db-credentials`, `web-tls-2024`: small letters and digits in short parts, joined by dashes. */
export function isResourceName(value: string): boolean {
  if (!value.includes("-") || !isOnly(value, LOWER | DIGIT | DASH | DOT)) return false;
  return value.split("-").every((part) => part.length <= NAME_PART_CHARS_MAX);
}

const TYPE_DIGITS_MAX = 3;
const WORD_CHARS_MIN = 3;

/** `Uint8Array`, `Base64String`, `Int64`: words that begin with a capital, with one small number among them. */
export function isTypeName(value: string): boolean {
  const first = capitalizedEnd(value, 0);
  const digits = runEnd(value, first, DIGIT);
  if (first === 0 || digits === first || digits - first > TYPE_DIGITS_MAX) return false;
  return capitalizedEnd(value, digits) === value.length;
}

/** Where the words end that begin at `from`, each a capital and small letters. */
function capitalizedEnd(value: string, from: number): number {
  let at = from;
  for (;;) {
    const capital = runEnd(value, at, UPPER, at + 1);
    const end = runEnd(value, capital, LOWER);
    if (capital === at || end - at < WORD_CHARS_MIN) return at;
    at = end;
  }
}
