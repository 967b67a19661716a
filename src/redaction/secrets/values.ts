import { BASE64, BASE64URL, BLANK, classesIn, DIGIT, EQUALS, HEX, LETTER, LINE_END } from "../views/characters.ts";
import { type SecretKind, secretKind } from "./names.ts";
import {
  hasDigit,
  isCode,
  isIdentifier,
  isOnly,
  isPropertyPath,
  isReference,
  isResourceName,
  isSmallNumber,
  isTypeName,
  isUrlOrPath,
  isUuid,
  looksRandom,
} from "./value-shapes.ts";

/**
 * How a value was written beside its name. `assigned`: `NAME=value`; `quoted`: in quotes or as a tree's own string;
 * `line`: all that follows `name: ` on a line of its own; `loose`: a word of the text.
 */
export type ValueStyle = "assigned" | "quoted" | "line" | "loose";

/** No more of a value is looked at; what is longer is a secret. UTF-16 units. */
export const JUDGED_CHARS_MAX = 128;

const PASSWORD_CHARS_MIN = 3;
const TOKEN_CHARS_MIN = 6;
const UNBROKEN_CHARS_MIN = 16;

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
  if (isBlank(value) || isReference(value)) return false;
  if (kind === "cookie" || kind === "authorization") return value.length >= TOKEN_CHARS_MIN && !isPlaceholder(value);
  if (value.length >= JUDGED_CHARS_MAX && !value.includes(" ")) return !isUrlOrPath(value);
  if (kind === "key") return looksRandom(value);
  if (style === "assigned") return isAssigned(value, kind);
  if (kind === "password") return isPassword(value, style);
  return isToken(value, style);
}

/** Nothing but blanks and line ends: no secret, however it is called. */
function isBlank(value: string): boolean {
  return isOnly(value, BLANK | LINE_END);
}

/** A capital name with its value right behind, as in an environment: anything but a placeholder. */
function isAssigned(value: string, kind: SecretKind): boolean {
  if (isPlaceholder(value) || isProse(value)) return false;
  return kind === "password" || !isSmallNumber(value);
}

function isProse(value: string): boolean {
  return value.includes(" ") && value.split(" ").filter((word) => PROSE.has(word.toLowerCase())).length >= 2;
}

function isPassword(value: string, style: ValueStyle): boolean {
  if (value.length < PASSWORD_CHARS_MIN || isPlaceholder(value)) return false;
  if (value.includes(" ")) return !isProse(value);
  if (style === "quoted") return secretKind(value) === undefined || hasDigit(value);
  if (isCode(value)) return false;
  return style === "line" || !isOnly(value, LETTER) ? !isPropertyPath(value) : false;
}

function isToken(value: string, style: ValueStyle): boolean {
  if (value.length < TOKEN_CHARS_MIN || value.includes(" ") || isPlaceholder(value) || isUrlOrPath(value)) return false;
  if (isUuid(value)) return true;
  if (isResourceName(value) || isPropertyPath(value) || isSmallNumber(value)) return false;
  if (style !== "quoted" && isCode(value)) return false;
  if (style === "loose" && isTypeName(value)) return false;
  const seen = classesIn(value, 0, value.length);
  if ((seen & DIGIT) !== 0 && (seen & LETTER) !== 0) return true;
  if (isOnly(value, HEX) || (seen & EQUALS) !== 0) return value.length >= UNBROKEN_CHARS_MIN / 2;
  return isOnly(value, BASE64URL | BASE64) && value.length >= UNBROKEN_CHARS_MIN && !isIdentifier(value);
}

function isPlaceholder(value: string): boolean {
  return PLACEHOLDERS.has(value.toLowerCase());
}
