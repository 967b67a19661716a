import {
  ALPHANUMERIC,
  BASE64,
  BASE64URL,
  BLANK,
  classesIn,
  DASH,
  DIGIT,
  DOLLAR,
  DOT,
  EQUALS,
  HEX,
  isA,
  LETTER,
  LOWER,
  NAME,
  PLUS_SLASH,
  runEnd,
  UNDERSCORE,
  UPPER,
  WORD,
  wordSet,
} from "../views/characters.ts";
import { secretKind } from "./names.ts";

const KEY_CHARS_MIN = 16;
const UUID_CHARS = 36;
/** Longer parts between the dashes of a name are no words. */
const NAME_PART_CHARS_MAX = 12;
const NAME_WORD_CHARS_MAX = 20;

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

/** `20_000`, `0x00ff`, `95.5%`: as programs and reports write numbers. */
export function isGroupedNumber(value: string): boolean {
  return (classesIn(value, 0, 1) & DIGIT) !== 0 && GROUPED.test(value);
}

/** `1.2.840.113549.1.9.7`, `10.1.2.3`, `^1.2.3`: an object identifier, an address, a version. */
export function isDottedNumber(value: string): boolean {
  if (!value.includes(".")) return false;
  if (SEMANTIC_VERSION.test(value)) return true;
  return isOnly(value, DIGIT | DOT) && value.split(".").length > 3;
}

/** `1.2.3`, `^v1.2.3-beta.1`. */
const SEMANTIC_VERSION = /^[~^]?v?\d{1,5}\.\d{1,5}\.\d{1,5}(?:-[a-z]{1,8}(?:\.\d{1,5})?)?$/;

/** `95.5%`, `20_000`, `0x00ff`. */
const GROUPED = /^(?:\d{1,3}(?:\.\d{1,4})?%|\d{1,3}(?:_\d{3}){1,4}|0[xX][\da-fA-F]{1,8})$/;

export function hasDigit(value: string): boolean {
  return (classesIn(value, 0, value.length) & DIGIT) !== 0;
}

export function isOnly(value: string, classes: number): boolean {
  return runEnd(value, 0, classes) === value.length;
}

const JOINERS = ["::", "?.", "!.", "->"];

/** A call, an index, a member: what programs write where a value would stand. */
export function isCode(value: string): boolean {
  if (isA(value, 0, UPPER) ? CMDLET.test(value) : value[0] === "q" && PERL.test(value)) return true;
  const from = runEnd(value, 0, DOLLAR, 1);
  let end = runEnd(value, from, WORD | DOT);
  let joins = 0;
  for (;;) {
    const joiner = JOINERS.find((one) => value.startsWith(one, end));
    if (joiner === undefined || end === from) break;
    joins += 1;
    end = runEnd(value, end + joiner.length, WORD | DOT);
  }
  if (end === from || !isWordy(value.slice(from, end))) return false;
  return end < value.length
    ? "([".includes(value[end] ?? "")
    : joins > 0 && (!hasDigit(value) || TYPE_PATH.test(value));
}

/** `Token::Ident2` */
const TYPE_PATH = /^[A-Z]\w{0,32}(?:::[A-Z]\w{0,32}){1,4}$/;

/** What PowerShell calls. */
const CMDLET = /^(?:ConvertTo|ConvertFrom|Get|New|Read|Import|Unprotect)-[A-Z][A-Za-z]{2,32}$/;
/** How Perl begins a pattern or a string. */
const PERL = /^q[qrw][{/(]/;

/** A program's name: where digits stand among capitals, each capital begins a word. */
export function isWordy(name: string): boolean {
  if (!hasDigit(name) || name.includes(".") || name.includes("_") || !hasCapitals(name)) return true;
  return (name.match(/[A-Z]+[a-z]*/g) ?? []).every((word) => word.length >= WORD_CHARS_MIN);
}

/** `config.password`, `self.token`: names joined by dots, the last of which names a secret; or one such name. */
export function isPropertyPath(value: string): boolean {
  if (!isOnly(value, WORD | DOT)) return false;
  if (hasDigit(value)) return isMember(value);
  return value.includes(".") || ABOUT_SECRETS.test(value) || secretKind(value) !== undefined;
}

/** `passwordInput`, `token_field`. */
const ABOUT_SECRETS = /^(?:[Pp]assword|[Pp]asswd|[Pp]assphrase|[Ss]ecret|[Tt]oken)(?:[A-Z]|_[a-z])/;

/** `process.env.TOKEN_V2`, `call_credentials_1.createFromCredential`: what has digits is a member of a thing that programs know, or named as a secret. */
function isMember(value: string): boolean {
  const [root = "", ...members] = value.split(".");
  const last = members.at(-1) ?? "";
  if (members.length === 0 || ![root, ...members].every((part) => isA(part, 0, LETTER | UNDERSCORE) && isWordy(part)))
    return false;
  return ROOTS.has(root) || (!hasDigit(last) && secretKind(last) !== undefined);
}

const ROOTS = wordSet(
  "process env import config self this var os settings local module data req request options opts args params props",
  "state ctx context exports Deno Bun",
);

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
  return value.split("-").every((part) => part.length <= (hasDigit(part) ? NAME_PART_CHARS_MAX : NAME_WORD_CHARS_MAX));
}

/** `projects/x/secrets/db/versions/2`: what a cloud calls a thing, of words between slashes. */
export function isResourcePath(value: string): boolean {
  const parts = value.split("/");
  return parts.length > 3 && parts.every((part, index) => (index % 2 === 0 ? KIND : THING).test(part));
}

const KIND = /^(?:[a-zA-Z]{2,32})?$/;
const THING = /^(?:[a-z][a-z\d-]{0,40}|[A-Z_]{2,40}|\d{1,6}|-|latest)?$/;

/** `#d8dee9`: a colour. */
export function isColour(value: string): boolean {
  return value[0] === "#" && COLOUR.test(value);
}

const COLOUR = /^#(?:[\da-f]{3,4}|[\da-f]{6}|[\da-f]{8})$/i;

/**
 * `Uint8Array`, `OAuth2Client`, `ed25519.Ed25519PrivateKey`: what a program's types are called, by a technical term with a number
 * among the words. Passwords have words and a number, too (`Welcome1Please`): only the term tells them apart.
 */
export function isNumberedType(value: string): boolean {
  return hasDigit(value) && NUMBERED_TYPE.test(value);
}

const TERMS = [
  "(?:U|S)?Int(?:8|16|32|64|128|256)|Uint(?:8|16|32|64|128|256)|S?Fixed(?:32|64)|Float(?:16|32|64|128)|Char(?:8|16|32)|U(?:tf|TF)(?:8|16|32)",
  "Base(?:16|32|36|58|62|64|85)|Ascii85|Md[45]|MD[45]|S(?:ha|HA)(?:1|2|3|224|256|384|512)|B(?:lake|LAKE)[23]|A(?:es|ES)(?:128|192|256)",
  "R(?:sa|SA)(?:2048|3072|4096)|[EHPR][sS](?:256|384|512)|Ed25519|Ed448|X25519|X448|X509|Curve25519|Secp256|P(?:256|384|521)",
  "Argon2|P(?:bkdf|BKDF)2|P(?:bes|BES)2|P(?:kcs|KCS)(?:1|5|7|8|9|10|11|12)|A(?:sn|SN)1|OAuth[12]|Oauth[12]|Auth0|S(?:aml|AML)2|F(?:ido|IDO)2",
  "H(?:ttp|TTP)[123]|[Ii][Pp][Vv]?[46]|S3|E(?:c|C)2|K8s|W(?:in|IN)(?:32|64)|S(?:sh|SH)2|S(?:ql|QL)ite3|D(?:b|B)2|I18n|L10n",
].join("|");

const NUMBERED_TYPE = new RegExp(
  `^(?:[a-z]\\w{0,24}\\.)?(?:[A-Z][a-z]{1,15}){0,3}(?:${TERMS})(?:[A-Z][a-z]{1,16}){0,4}$`,
);

/** `JsonWebToken2`: words that begin with a capital, and a small number after them. */
export function isNumberedName(value: string): boolean {
  return isA(value, 0, UPPER) && NUMBERED_NAME.test(value);
}

const NUMBERED_NAME = /^(?:[A-Z][a-z]{2,15}){1,6}\d{1,2}$/;

/** `SEC_ERROR_BASE`: a constant. */
export function isConstant(value: string): boolean {
  return isA(value, 0, UPPER) && CONSTANT.test(value);
}

const CONSTANT = /^[A-Z]{2,16}(?:_[A-Z]{2,16}){1,6}$/;

const WORD_CHARS_MIN = 3;

/** A longer template is text. UTF-16 units. */
const TEMPLATE_CHARS_MAX = 128;
const LABEL_CHARS_MAX = 48;

const BRACKETS: ReadonlyMap<string, string> = new Map([
  ["<", ">"],
  ["[", "]"],
  ["{", "}"],
  ["(", ")"],
]);

/** How closely a value stands between its ends: a quoted one is closed, of another a part may be cut off. */
export type Closing = "quoted" | "assigned" | "bare";

/** `$X`, `${X}`, `{{ x }}`, `<x>`, `%(x)s`, `%X%`, `@x`, `***`, a call's or list's beginning. */
export function isReference(value: string, closing: Closing): boolean {
  const first = value[0] ?? "";
  const close = BRACKETS.get(first);
  if (close !== undefined) return isOpen(value, close, closing);
  if (first === "*") return !HASH.test(value) && (closing === "bare" || value[1] === "*");
  if (first === "$") return value.length < 2 || "({".includes(value[1] ?? "") || isVariable(value);
  if (first === "%") return isFormat(value);
  if (first === "\\") return ESCAPED_TEMPLATES.some((start) => value.startsWith(start)) || isPattern(value);
  if (
    isRepeated(value) ||
    isBlanked(value) ||
    (value[1] === "*" && STARS.test(value)) ||
    isCutShort(value) ||
    isPattern(value) ||
    (first === "&" && SLICE.test(value))
  )
    return true;
  return ":@&!#".includes(first) && isNamedSecret(value);
}

/** `*6BB4837EB74329105EE4568DDA7DC67ED2CA2AD9`: as MySQL keeps a password. */
const HASH = /^\*[\dA-F]{40}$/;

/** `&[u8]` */
const SLICE = /^&\[\w{1,32}\]?\)?$/;

/** Begins with a bracket; of what is whole, the bracket is closed and nothing but punctuation follows. */
function isOpen(value: string, close: string, closing: Closing): boolean {
  if (closing === "bare" || value.length >= TEMPLATE_CHARS_MAX) return true;
  const end = value.lastIndexOf(close);
  if (end === -1) return closing === "assigned" && (close === ">" || close === "]" || value === "{{" || value === "{%");
  return " +*?:.)$/@,|".includes(value[end + 1] ?? " ") && !isDense(value);
}

/** Signs and digits among capitals and small letters, as in a password and hardly in a name between brackets. */
function isDense(value: string): boolean {
  return (
    !value.includes(" ") &&
    /\d/.test(value) &&
    /[A-Z]/.test(value) &&
    /[a-z]/.test(value) &&
    /[#%&*!~^+=?$@]/.test(value)
  );
}

const ESCAPED_TEMPLATES = ["\\${", "\\x24{", "\\u0024{"];

/** `$TOKEN`, `$user.password`, `$this->password`, `$env:TOKEN`, `$_POST["password"]`. */
function isVariable(value: string): boolean {
  if (!isA(value, 1, LETTER | UNDERSCORE)) return value.length === 2 && !isA(value, 1, PLUS_SLASH);
  const end = runEnd(value, 1, WORD);
  if (end === value.length || value.startsWith("->", end) || value.slice(end) === "-") return true;
  if (value[end] === "[" || value.startsWith("::", end)) return true;
  if (value[end] === ":") return value.slice(1, end).toLowerCase() === "env";
  return value[end] === "." && runEnd(value, end, LETTER | UNDERSCORE | DOT) === value.length;
}

/** `%s`, `%(x)s`, `%{x}`, `%TOKEN%`. */
function isFormat(value: string): boolean {
  if (value[1] === "(" || value[1] === "{" || FORMAT.test(value)) return true;
  const end = runEnd(value, 1, WORD);
  return end > 2 && value[end] === "%" && end === value.length - 1;
}

/** Nothing but directives, and signs between them. */
const FORMAT = /^(?:%[sdvq]|[:;,@/ &=.-]|\\[rnt])+$/;

/** `:password`, `@token`, `&secret`: a sign, and a secret's name. */
function isNamedSecret(value: string): boolean {
  const name = value.slice(1);
  return runEnd(name, 0, LETTER | UNDERSCORE) === name.length && secretKind(name) !== undefined;
}

/** `xxxxxxxx`, `xxxx-xxxx`, `........`, `--------`, `••••`, `…`. */
function isRepeated(value: string): boolean {
  const first = value[0] ?? "";
  for (let at = 0; at < value.length; at += 1) {
    const character = value[at] ?? "";
    if (character !== first && !("xX".includes(first) && "xX-_".includes(character))) return false;
  }
  return "xX.-_?#•●▪█·…".includes(first);
}

/** `sk-xxxx`, `ghp_XXXXXXXX` */
function isBlanked(value: string): boolean {
  return (value.includes("xxx") || value.includes("XXX")) && BLANKED.test(value) && value.length <= TEMPLATE_CHARS_MAX;
}

/** `sk-xxxx`, `ghp_abc_XXXX`, `xxx/yy`. */
const BLANKED = /^[a-zA-Z]{1,12}[-_](?:[a-z]{1,12}[-_])?[xX]{4}[xX_-]*$|^[xX]{3,32}\/[a-z]{0,2}$/;

/** `:****`, `"***"`: stars, and a sign before or after them. */
const STARS = /^[^\w\s*]?\*{3,64}[^\w\s*]?$/;

const ELLIPSES = ["...", "…"];

/** `sk-…`, `ghp_...`: a token's beginning. */
function isCutShort(value: string): boolean {
  const ellipsis = ELLIPSES.find((mark) => value.endsWith(mark));
  if (ellipsis === undefined) return false;
  const head = value.slice(0, -ellipsis.length);
  return runEnd(head, 0, LETTER | UNDERSCORE | DASH) === head.length && "-_".includes(head.at(-1) ?? "-");
}

/** `\S+`, `.*`, `.{8,}`: of a regular expression. */
function isPattern(value: string): boolean {
  if (value.startsWith("/^")) return true;
  const atom = value[0] === "\\" && "SsWwDdb".includes(value[1] ?? " ") ? 2 : Number(value[0] === ".");
  return atom > 0 && "+*?{".includes(value[atom] ?? " ") && ")$/|?&\\]123456789 ".includes(value[atom + 1] ?? " ");
}

const HOLES: readonly (readonly [open: string, close: string])[] = [
  ["\x24{", "}"],
  ["{{", "}}"],
  ["#{", "}"],
  ["$(", ")"],
  ["<%", "%>"],
];
const LABEL_SIGNS = ":;,&@()[?$}'";

/** `Authorization: Bearer ${token}`, `session={{ id }}`: a text with holes, of which nothing but words is written out. */
export function isTemplate(value: string): boolean {
  if (!value.includes("{") && !value.includes("$(") && !value.includes("<%")) return false;
  const text = value.slice(0, TEMPLATE_CHARS_MAX);
  let rest = "";
  let holes = 0;
  for (let at = 0; at < text.length; ) {
    const hole = HOLES.find(([open]) => text.startsWith(open, at));
    if (hole === undefined) rest += text[at];
    else holes += 1;
    at = hole === undefined ? at + 1 : holeEnd(text, at, hole);
  }
  return holes > 0 && rest.length <= LABEL_CHARS_MAX && isLabel(rest);
}

function holeEnd(text: string, at: number, [open, close]: readonly [string, string]): number {
  const end = text.indexOf(close, at + open.length);
  return end === -1 ? at + open.length : end + close.length;
}

function isLabel(rest: string): boolean {
  for (let at = 0; at < rest.length; at += 1) {
    if (isA(rest, at, DIGIT)) return false;
    if (!isA(rest, at, NAME | BLANK | EQUALS | PLUS_SLASH) && !LABEL_SIGNS.includes(rest[at] ?? "")) return false;
  }
  return true;
}
