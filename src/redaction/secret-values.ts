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
} from "./characters.ts";
import { type SecretKind, secretKind } from "./secret-names.ts";

/**
 * How a value was written beside its name. `assigned`: `NAME=value`; `quoted`: in quotes or as a tree's own string;
 * `line`: all that follows `name: ` on a line of its own; `loose`: a word of the text.
 */
export type ValueStyle = "assigned" | "quoted" | "line" | "loose";

/** No more of a value is looked at; what is longer is a secret. UTF-16 units. */
export const JUDGED_CHARS_MAX = 128;

const PASSWORD_CHARS_MIN = 3;
const TOKEN_CHARS_MIN = 6;
const KEY_CHARS_MIN = 16;
const UNBROKEN_CHARS_MIN = 16;
const UUID_CHARS = 36;
/** Longer parts between the dashes of a name are no words. */
const NAME_PART_CHARS_MAX = 12;

/** What stands where a value would, in programs, schemas, forms and error messages. */
const PLACEHOLDERS: ReadonlySet<string> = new Set([
  ...[
    "string",
    "number",
    "boolean",
    "bool",
    "str",
    "bytes",
    "any",
    "unknown",
    "object",
    "text",
    "varchar",
    "int",
    "integer",
  ],
  ...[
    "null",
    "nil",
    "none",
    "undefined",
    "true",
    "false",
    "void",
    "empty",
    "never",
    "yes",
    "no",
    "on",
    "off",
    "optional",
  ],
  ...[
    "required",
    "missing",
    "invalid",
    "incorrect",
    "wrong",
    "expired",
    "revoked",
    "unauthorized",
    "forbidden",
    "denied",
  ],
  ...["redacted", "masked", "hidden", "removed", "filtered", "omitted", "[redacted]", "changed", "reset", "rotated"],
  ...[
    "bearer",
    "basic",
    "digest",
    "negotiate",
    "token",
    "password",
    "secret",
    "key",
    "value",
    "set",
    "unset",
    "default",
  ],
  ...[
    "process",
    "config",
    "self",
    "this",
    "await",
    "async",
    "new",
    "const",
    "let",
    "var",
    "return",
    "function",
    "import",
  ],
  ...[
    "sha256",
    "sha512",
    "sha1",
    "md5",
    "hs256",
    "rs256",
    "es256",
    "opaque",
    "kubernetes",
    "kubernetes.io",
    "file",
    "vault",
  ],
  ...[
    "must",
    "is",
    "was",
    "not",
    "has",
    "cannot",
    "should",
    "the",
    "a",
    "an",
    "for",
    "to",
    "of",
    "in",
    "and",
    "or",
    "if",
  ],
  ...["valid", "verified", "ok", "failed", "success", "accepted", "rejected", "enabled", "disabled", "example", "todo"],
]);

/** A phrase with two of these is about a password and not one. */
const PROSE: ReadonlySet<string> = new Set([
  ...[
    "password",
    "passwords",
    "must",
    "your",
    "is",
    "the",
    "enter",
    "please",
    "invalid",
    "required",
    "characters",
    "user",
  ],
  ...[
    "cannot",
    "not",
    "should",
    "token",
    "secret",
    "key",
    "incorrect",
    "field",
    "for",
    "this",
    "when",
    "that",
    "with",
    "or",
  ],
]);

/** Whether a value beside a name of this kind is a secret, as far as its look tells. Only its beginning is looked at. */
export function isSecretValue(value: string, kind: SecretKind, style: ValueStyle): boolean {
  if (value === "" || isReference(value)) return false;
  if (kind === "cookie" || kind === "authorization") return value.length >= TOKEN_CHARS_MIN && !isPlaceholder(value);
  if (value.length >= JUDGED_CHARS_MAX && !value.includes(" ")) return !isUrlOrPath(value);
  if (kind === "key") return looksRandom(value);
  if (style === "assigned") return isAssigned(value, kind);
  if (kind === "password") return isPassword(value, style);
  return isToken(value, style);
}

/** A capital name with its value right behind, as in an environment: anything but a placeholder. */
function isAssigned(value: string, kind: SecretKind): boolean {
  if (isPlaceholder(value)) return false;
  return kind === "password" || !isSmallNumber(value);
}

function isPassword(value: string, style: ValueStyle): boolean {
  if (value.length < PASSWORD_CHARS_MIN || isPlaceholder(value)) return false;
  if (value.includes(" ")) return value.split(" ").filter((word) => PROSE.has(word.toLowerCase())).length < 2;
  if (style === "quoted") return secretKind(value) === undefined || hasDigit(value);
  if (isCode(value)) return false;
  return style === "line" || !isOnly(value, LETTER) ? !isPropertyPath(value) : false;
}

function isToken(value: string, style: ValueStyle): boolean {
  if (value.length < TOKEN_CHARS_MIN || value.includes(" ") || isPlaceholder(value) || isUrlOrPath(value)) return false;
  if (isUuid(value)) return true;
  if (isResourceName(value) || isPropertyPath(value) || isSmallNumber(value)) return false;
  if (style !== "quoted" && isCode(value)) return false;
  const seen = classesIn(value, 0, value.length);
  if ((seen & DIGIT) !== 0 && (seen & LETTER) !== 0) return true;
  if (isOnly(value, HEX) || (seen & EQUALS) !== 0) return value.length >= UNBROKEN_CHARS_MIN / 2;
  return isOnly(value, BASE64URL | BASE64) && value.length >= UNBROKEN_CHARS_MIN && !isIdentifier(value);
}

/** Long, of one piece, with digits and letters well mixed: no word, path, version or name. */
function looksRandom(value: string): boolean {
  if (value.length < KEY_CHARS_MIN || isResourceName(value) || isUrlOrPath(value) || isUuid(value)) return false;
  if (!isOnly(value, BASE64 | BASE64URL | EQUALS)) return false;
  let digits = 0;
  for (let at = 0; at < value.length; at += 1) if ((classesIn(value, at, at + 1) & DIGIT) !== 0) digits += 1;
  return digits * 12 >= value.length && digits < value.length;
}

/** `$X`, `${X}`, `{{ x }}`, `<x>`, `%(x)s`, `***`, a call's or list's beginning. */
function isReference(value: string): boolean {
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

function isPlaceholder(value: string): boolean {
  return PLACEHOLDERS.has(value.toLowerCase());
}

function isUrlOrPath(value: string): boolean {
  if (value.startsWith("./") || value.startsWith("../") || value.startsWith("~/") || value.includes("://")) return true;
  if (!value.startsWith("/")) return false;
  const second = value.indexOf("/", 1);
  return second > 1 && runEnd(value, 1, BASE64URL | DOT) >= second;
}

function isSmallNumber(value: string): boolean {
  return isOnly(value, DIGIT) && value.length < 12;
}

function hasDigit(value: string): boolean {
  return (classesIn(value, 0, value.length) & DIGIT) !== 0;
}

function isOnly(value: string, classes: number): boolean {
  return runEnd(value, 0, classes) === value.length;
}

/** A call, an index, a template: what programs write where a value would stand. */
function isCode(value: string): boolean {
  const call = runEnd(value, 0, WORD | DOT);
  return call > 0 && call < value.length && "([".includes(value[call] ?? "");
}

/** `config.password`, `self.token`: names joined by dots, the last of which names a secret; or one such name. */
function isPropertyPath(value: string): boolean {
  if (hasDigit(value) || !isOnly(value, WORD | DOT)) return false;
  return value.includes(".") || secretKind(value) !== undefined;
}

/** One word in camel, snake or capital case, without digits. */
function isIdentifier(value: string): boolean {
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

function isUuid(value: string): boolean {
  if (value.length !== UUID_CHARS || !isOnly(value, HEX | DASH)) return false;
  return [8, 13, 18, 23].every((at) => value[at] === "-");
}

/** `db-credentials`, `web-tls-2024`: small letters and digits in short parts, joined by dashes. */
function isResourceName(value: string): boolean {
  if (!value.includes("-") || !isOnly(value, LOWER | DIGIT | DASH | DOT)) return false;
  return value.split("-").every((part) => part.length <= NAME_PART_CHARS_MAX);
}
