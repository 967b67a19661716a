import {
  ALPHANUMERIC,
  BASE64,
  BASE64URL,
  BLANK,
  classesIn,
  DIGIT,
  DOT,
  EQUALS,
  HEX,
  LETTER,
  LINE_END,
  LOWER,
  NAME,
  runEnd,
  UPPER,
  WORD,
} from "../views/characters.ts";
import { FOREIGN_ENDINGS, FOREIGN_PASSWORDS } from "./foreign-names.ts";
import { type SecretKind, secretKind } from "./names.ts";
import { PLACEHOLDERS } from "./placeholders.ts";
import { type Closing, isReference, isTemplate } from "./references.ts";
import {
  hasDigit,
  isBasicCredentials,
  isCode,
  isColour,
  isConstant,
  isDottedNumber,
  isGroupedNumber,
  isIdentifier,
  isNumberedName,
  isNumberedType,
  isOnly,
  isPlainPath,
  isPropertyPath,
  isResourceName,
  isResourcePath,
  isSmallNumber,
  isUrlOrPath,
  isUuid,
  looksRandom,
} from "./value-shapes.ts";
import { wordSet } from "./words.ts";

/**
 * How a value was written beside its name. `assigned`: `NAME=value`; `quoted`: in quotes or as a tree's own string;
 * `line`: all that follows `name: ` on a line of its own; `loose`: a word of the text; `told`: a word that follows the name
 * without a sign; `listed`: what follows the name in a list; `paired`: in a list of two.
 */
export type ValueStyle = "assigned" | "quoted" | "line" | "loose" | "told" | "listed" | "paired";

/** No more of a value is looked at; what is longer is a secret. UTF-16 units. */
export const JUDGED_CHARS_MAX = 128;

const PASSWORD_CHARS_MIN = 3;
/** A shorter number beside a name is a count, or a constant's. */
const BARE_DIGITS_MIN = 4;
const TOKEN_CHARS_MIN = 6;
const UNBROKEN_CHARS_MIN = 16;
const BASIC_CHARS_MIN = 8;

/** A phrase with two of these is about a password and not one. */
const PROSE = wordSet(
  "password passwords must your is the enter please invalid required characters user cannot not should token secret",
  "key incorrect field for this when that with or",
);

/** Whether a value beside a name of this kind is a secret, as far as its look tells. Only its beginning is looked at. */
export function isSecretValue(written: string, kind: SecretKind, style: ValueStyle): boolean {
  const value = IN_PROGRAMS.has(style) ? withoutClosers(written) : written;
  if (isBlank(value) || isReference(value, closingOf(style)) || isTemplate(value)) return false;
  if (KEY_FILE.test(value) || RULES.test(value)) return false;
  if (kind === "cookie" || kind === "authorization") return value.length >= TOKEN_CHARS_MIN && !isPlaceholder(value);
  if (value.length >= JUDGED_CHARS_MAX && !value.includes(" ")) return !isUrlOrPath(value);
  if (kind === "basic")
    return value.length >= BASIC_CHARS_MIN && isOnly(value, BASE64 | EQUALS) && isBasicCredentials(value);
  if (kind === "key") return looksRandom(value) && !isNumberedType(value);
  if (style === "told" || style === "paired") return isTold(value);
  if (style === "listed") return isListed(value);
  if (style === "assigned") return isAssigned(value, kind);
  if (isGroupedNumber(value) || isDottedNumber(value)) return false;
  if (kind === "password") return isPassword(value, style);
  return isToken(value, style);
}

/** `certs/server2.key` */
const KEY_FILE = /^(?:[\w.-]{1,64}\/){1,8}[\w.-]{1,64}\.(?:pem|key|crt|cer|der|p12|pfx|jks|ppk)$/;
/** `required|string|min:8`: what a form's field must be. */
const RULES = /^(?:required|nullable|sometimes)(?:\|[a-z_]{2,32}(?::[\w,.-]{1,32})?){1,8}$/;

function closingOf(style: ValueStyle): Closing {
  if (style === "assigned" || style === "quoted") return style;
  return "bare";
}

const IN_PROGRAMS: ReadonlySet<ValueStyle> = new Set(["line", "loose"]);

/** `string):` is `string`: brackets that close what was opened before the name, and what follows them. */
function withoutClosers(value: string): string {
  const start = value[0] === "&" || value[0] === "*" ? 1 : 0;
  const end = runEnd(value, start, WORD | DOT);
  if (end === start || (start === 0 && end === value.length)) return value;
  const head = value.slice(start, end);
  if (end === value.length) return PLACEHOLDERS.has(head.toLowerCase()) ? head : value;
  const rest = value.slice(end);
  if (start === 0 && /^[)\]}][)\]}:.?!*]*$/.test(rest)) return head;
  const isType = PLACEHOLDERS.has(head.toLowerCase()) || PLACEHOLDERS.has(head.split(".").at(-1)?.toLowerCase() ?? "");
  return isType && /^(?:[)\]}?!*&:]+$|[)\]}]+:|\[\]|\?=|\?\))/.test(rest) ? head : value;
}

/** Nothing but blanks and line ends: no secret, however it is called. */
function isBlank(value: string): boolean {
  return isOnly(value, BLANK | LINE_END);
}

/** A capital name with its value right behind, as in an environment: anything but a placeholder. */
function isAssigned(value: string, kind: SecretKind): boolean {
  if (isPlaceholder(value) || isProse(value)) return false;
  return kind === "password" ? !isPlainPath(value) : !isSmallNumber(value);
}

/** Letters and digits mixed as no word, name or version has them. */
function isTold(value: string): boolean {
  if (value.length < TOKEN_CHARS_MIN || value.includes(" ") || isPlaceholder(value) || isUrlOrPath(value)) return false;
  const seen = classesIn(value, 0, value.length);
  if ((seen & DIGIT) === 0 || (seen & LOWER) === 0 || VERSION.test(value) || isGroupedNumber(value)) return false;
  return !isResourceName(value) && !isNumberedType(value) && !isCode(value);
}

/** `v1beta1` */
const VERSION = /^v\d/;
const RANDOM_CHARS_MIN = 32;

/** In a list names stand, too: a value has more kinds of characters. */
function isListed(value: string): boolean {
  if (isGroupedNumber(value) || HOST_AND_PORT.test(value)) return false;
  return isTold(value) ? kindsIn(value) > 2 : kindsIn(value) > 3 && value.length >= RANDOM_CHARS_MIN;
}

/** `db.example:5432`. */
const HOST_AND_PORT = /^[a-z][a-z\d.-]*:\d{2,5}$/;

/** Of small letters, capitals, digits, and signs that names have not: how many occur. */
function kindsIn(value: string): number {
  const seen = classesIn(value, 0, value.length);
  const hasSign = runEnd(value, 0, NAME | BLANK) < value.length;
  return [seen & LOWER, seen & UPPER, seen & DIGIT, Number(hasSign)].filter((one) => one !== 0).length;
}

function isProse(value: string): boolean {
  return value.includes(" ") && value.split(" ").filter((word) => PROSE.has(word.toLowerCase())).length >= 2;
}

function isPassword(value: string, style: ValueStyle): boolean {
  if (value.length < PASSWORD_CHARS_MIN || isPlaceholder(value) || isPlainPath(value)) return false;
  if (value.includes(" ")) return !isProse(value) && !isPrompt(value) && !isLabel(value);
  if (style === "quoted")
    return (secretKind(value) === undefined || hasDigit(value)) && !isForeignWord(value) && !isLabel(value);
  if (isCode(value) || isForeignWord(value) || isConstant(value) || isNumberedType(value)) return false;
  if (value.length < BARE_DIGITS_MIN && isOnly(value, DIGIT)) return false;
  return style === "line" || !isOnlyLetters(value) ? !isPropertyPath(value) : false;
}

/** Of scripts that nobody types a password in. */
const IDEOGRAPHS = /[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0eff\u0590-\u06ff]/;

function isForeignWord(value: string): boolean {
  return IDEOGRAPHS.test(value) && (classesIn(value, 0, value.length) & ALPHANUMERIC) === 0;
}

const LETTERS = /^\p{L}+$/u;

function isOnlyLetters(value: string): boolean {
  return isOnly(value, LETTER) || LETTERS.test(value);
}

function isToken(value: string, style: ValueStyle): boolean {
  if (value.length < TOKEN_CHARS_MIN || value.includes(" ") || isPlaceholder(value) || isUrlOrPath(value)) return false;
  if (isUuid(value)) return true;
  if (isColour(value) || isResourcePath(value)) return false;
  if (isResourceName(value) || isPropertyPath(value) || isSmallNumber(value)) return false;
  if (style !== "quoted" && (isCode(value) || isNumberedType(value))) return false;
  if (style === "loose" && isNumberedName(value)) return false;
  const seen = classesIn(value, 0, value.length);
  if ((seen & DIGIT) !== 0 && (seen & LETTER) !== 0) return true;
  if (isOnly(value, HEX) || (seen & EQUALS) !== 0) return value.length >= UNBROKEN_CHARS_MIN / 2;
  return isOnly(value, BASE64URL | BASE64) && value.length >= UNBROKEN_CHARS_MIN && !isIdentifier(value);
}

function isPlaceholder(value: string): boolean {
  const word = value.trimEnd().toLowerCase();
  if (PLACEHOLDERS.has(word) || (INSTRUCTION.test(value) && !hasDigit(value))) return true;
  const sign = value.indexOf("=");
  if (sign < 1 || sign !== runEnd(value, 0, NAME)) return false;
  const after = value.slice(sign + 1);
  if (ELLIPSIS.test(after)) return true;
  return after.length > 2 && (PLACEHOLDERS.has(after.toLowerCase()) || isReference(after, "quoted"));
}

const ELLIPSIS = /^(?:…|\.\.\.)$/;

/** `your-api-key-here`, `REPLACE_ME`, `TOKEN_HERE`. */
const INSTRUCTION = /^(?:your|insert|enter|replace|example|sample|dummy|fake|placeholder)[-_ ]|[-_]here$/i;

/** `New password`, `Mot de passe`, `请输入密码`: the name of a field. */
function isLabel(value: string): boolean {
  if (hasDigit(value)) return false;
  const own = value.toLowerCase().split(WORD_ENDS);
  if (own.some((word) => LABEL_WORDS.has(word))) return true;
  if (IDEOGRAPHS.test(value) && SCRIPT_WORDS.some((word) => value.includes(word))) return true;
  return secretKind(value) === "password" || secretKind(value.replaceAll(" ", "")) === "password";
}

const SCRIPT_WORDS: readonly string[] = FOREIGN_ENDINGS.filter(isForeignWord);
const LABEL_WORDS: ReadonlySet<string> = new Set(FOREIGN_PASSWORDS);
const WORD_ENDS = /[ .,:;!?'-]/;

/** `Password: `, `New password?` */
function isPrompt(value: string): boolean {
  return ":?".includes(value.trimEnd().at(-1) ?? " ");
}
