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
/** Maximum lengths of the parts of a resource name with and without digits. */
const NAME_PART_CHARS_MAX = 12;
const NAME_WORD_CHARS_MAX = 20;

/** Returns whether the value is base64 of `user:password`. */
export function isBasicCredentials(value: string): boolean {
  const decoded = Buffer.from(value, "base64").toString("latin1");
  for (let at = 0; at < decoded.length; at += 1) {
    const code = decoded.charCodeAt(at);
    if (code < 0x20 || code === 0x7f) return false;
  }
  return decoded.includes(":");
}

/** Returns whether the value is long and mixes digits and letters, as no word, path, version or name does. */
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

/** Returns whether the value is base64: it may begin with a slash, but mixes characters as no path does. */
function isBase64(value: string): boolean {
  return (
    value.length > KEY_CHARS_MIN &&
    isOnly(value, BASE64 | EQUALS) &&
    hasCapitals(value) &&
    (hasManyDigits(value) || isMixed(value))
  );
}

function hasCapitals(value: string): boolean {
  const seen = classesIn(value, 0, value.length);
  return (seen & UPPER) !== 0 && (seen & LOWER) !== 0;
}

/** Returns whether the value is an absolute path, as in `PWD`, or a path in the home directory. */
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

export function isGroupedNumber(value: string): boolean {
  return GROUPED.test(value);
}

/** Returns whether the value is an object identifier, an address or a version: `1.2.840.113549.1.9.7`, `10.1.2.3`, `^1.2.3`. */
export function isDottedNumber(value: string): boolean {
  if (!value.includes(".")) return false;
  if (SEMANTIC_VERSION.test(value)) return true;
  return isOnly(value, DIGIT | DOT) && value.split(".").length > 3;
}

/** Matches `1.2.3`, `^v1.2.3-beta.1`. */
const SEMANTIC_VERSION = /^[~^]?v?\d{1,5}\.\d{1,5}\.\d{1,5}(?:-[a-z]{1,8}(?:\.\d{1,5})?)?$/;

/** Matches `95.5%`, `20_000`, `0x00ff`. */
const GROUPED = /^(?:\d{1,3}(?:\.\d{1,4})?%|\d{1,3}(?:_\d{3}){1,4}|0[xX][\da-fA-F]{1,8})$/;

export function hasDigit(value: string): boolean {
  return (classesIn(value, 0, value.length) & DIGIT) !== 0;
}

export function isOnly(value: string, classes: number): boolean {
  return runEnd(value, 0, classes) === value.length;
}

const JOINERS = ["::", "?.", "!.", "->"];

/** Returns whether the value is an expression: a call, an index, a member. */
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

/** Matches `Token::Ident2`. */
const TYPE_PATH = /^[A-Z]\w{0,32}(?:::[A-Z]\w{0,32}){1,4}$/;

/** Matches a PowerShell command. */
const CMDLET = /^(?:ConvertTo|ConvertFrom|Get|New|Read|Import|Unprotect)-[A-Z][A-Za-z]{2,32}$/;
/** Matches the start of a Perl pattern or string. */
const PERL = /^q[qrw][{/(]/;

/** Returns whether a name consists of words: when it mixes digits and capitals, each capital begins a word. */
export function isWordy(name: string): boolean {
  if (!hasDigit(name) || name.includes(".") || name.includes("_") || !hasCapitals(name)) return true;
  return (name.match(/[A-Z]+[a-z]*/g) ?? []).every((word) => word.length >= WORD_CHARS_MIN);
}

/** Returns whether the value is a member (`config.password`, `self.token`) or the name of a secret. */
export function isPropertyPath(value: string): boolean {
  if (!isOnly(value, WORD | DOT)) return false;
  if (hasDigit(value)) return isMember(value);
  return value.includes(".") || ABOUT_SECRETS.test(value) || secretKind(value) !== undefined;
}

/** Matches `passwordInput`, `token_field`. */
const ABOUT_SECRETS = /^(?:[Pp]assword|[Pp]asswd|[Pp]assphrase|[Ss]ecret|[Tt]oken)(?:[A-Z]|_[a-z])/;

/** Returns whether a path with digits is a member of a known object, or ends in the name of a secret: `process.env.TOKEN_V2`. */
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

/** Returns whether the value is one name in camel, snake or upper case, without digits. */
export function isIdentifier(value: string): boolean {
  return isOnly(value, LETTER | (WORD & ~ALPHANUMERIC)) && !isMixed(value);
}

/** Returns whether upper and lower case alternate more often than in words. */
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

/** Returns whether the value is a resource name: `db-credentials`, `web-tls-2024`. */
export function isResourceName(value: string): boolean {
  if (!value.includes("-") || !isOnly(value, LOWER | DIGIT | DASH | DOT)) return false;
  return value.split("-").every((part) => part.length <= (hasDigit(part) ? NAME_PART_CHARS_MAX : NAME_WORD_CHARS_MAX));
}

/** Returns whether the value is a cloud resource path: `projects/x/secrets/db/versions/2`. */
export function isResourcePath(value: string): boolean {
  const parts = value.split("/");
  return parts.length > 3 && parts.every((part, index) => (index % 2 === 0 ? KIND : THING).test(part));
}

const KIND = /^(?:[a-zA-Z]{2,32})?$/;
const THING = /^(?:[a-z][a-z\d-]{0,40}|[A-Z_]{2,40}|\d{1,6}|-|latest)?$/;

export function isColour(value: string): boolean {
  return COLOUR.test(value);
}

const COLOUR = /^#(?:[\da-f]{3,4}|[\da-f]{6}|[\da-f]{8})$/i;

/**
 * Returns whether the value is a type's name with a numbered technical term: `Uint8Array`, `OAuth2Client`,
 * `ed25519.Ed25519PrivateKey`. Passwords also combine words and numbers (`Welcome1Please`): only the term distinguishes them.
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

/** Returns whether the value is capitalized words and a small number: `JsonWebToken2`. */
export function isNumberedName(value: string): boolean {
  return NUMBERED_NAME.test(value);
}

const NUMBERED_NAME = /^(?:[A-Z][a-z]{2,15}){1,6}\d{1,2}$/;

/** Returns whether the value is a constant's name: `SEC_ERROR_BASE`. */
export function isConstant(value: string): boolean {
  return CONSTANT.test(value);
}

const CONSTANT = /^[A-Z]{2,16}(?:_[A-Z]{2,16}){1,6}$/;

const WORD_CHARS_MIN = 3;

/** Longer values are text, not templates. UTF-16 units. */
const TEMPLATE_CHARS_MAX = 128;
const LABEL_CHARS_MAX = 48;

const BRACKETS: ReadonlyMap<string, string> = new Map([
  ["<", ">"],
  ["[", "]"],
  ["{", "}"],
  ["(", ")"],
]);

/** The delimiters of a value. A quoted value is complete; others may be cut off. */
type Closing = "quoted" | "assigned" | "bare";

/** Returns whether the value refers to another: `$X`, `${X}`, `{{ x }}`, `<x>`, `%(x)s`, `%X%`, `@x`, `***`, a call or list. */
export function isReference(value: string, closing: Closing): boolean {
  const first = value[0] ?? "";
  const close = BRACKETS.get(first);
  if (close !== undefined) return isOpen(value, close, closing);
  if (first === "*") return !HASH.test(value) && (closing === "bare" || value[1] === "*");
  if (first === "$") return value.length < 2 || "({".includes(value[1] ?? "") || isVariable(value);
  if (first === "%") return isFormat(value);
  if (first === "\\") return ESCAPED_TEMPLATES.some((start) => value.startsWith(start)) || isPattern(value);
  return REFERENCES.some((is) => is(value)) || (":@&!#".includes(first) && isNamedSecret(value));
}

const REFERENCES: readonly ((value: string) => boolean)[] = [
  isRepeated,
  isMasked,
  (value) => STARS.test(value),
  isCutShort,
  isPattern,
  (value) => SLICE.test(value),
];

/** Matches MySQL's password hash: `*6BB4837EB74329105EE4568DDA7DC67ED2CA2AD9`. */
const HASH = /^\*[\dA-F]{40}$/;

/** Matches `&[u8]`. */
const SLICE = /^&\[\w{1,32}\]?\)?$/;

/** Returns whether a value that begins with a bracket is a reference. In a complete value, only punctuation follows the closing bracket. */
function isOpen(value: string, close: string, closing: Closing): boolean {
  if (closing === "bare" || value.length >= TEMPLATE_CHARS_MAX) return true;
  const end = value.lastIndexOf(close);
  if (end === -1) return closing === "assigned" && (close === ">" || close === "]" || value === "{{" || value === "{%");
  return " +*?:.)$/@,|".includes(value[end + 1] ?? " ") && !isDense(value);
}

/** Returns whether symbols, digits and both cases occur, as in a password and rarely in a name in brackets. */
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

/** Returns whether the value is a variable: `$TOKEN`, `$user.password`, `$this->password`, `$env:TOKEN`, `$_POST["password"]`. */
function isVariable(value: string): boolean {
  if (!isA(value, 1, LETTER | UNDERSCORE)) return value.length === 2 && !isA(value, 1, PLUS_SLASH);
  const end = runEnd(value, 1, WORD);
  if (end === value.length || value.startsWith("->", end) || value.slice(end) === "-") return true;
  if (value[end] === "[" || value.startsWith("::", end)) return true;
  if (value[end] === ":") return value.slice(1, end).toLowerCase() === "env";
  return value[end] === "." && runEnd(value, end, LETTER | UNDERSCORE | DOT) === value.length;
}

/** Returns whether the value is a format: `%s`, `%(x)s`, `%{x}`, `%TOKEN%`. */
function isFormat(value: string): boolean {
  if (value[1] === "(" || value[1] === "{" || FORMAT.test(value)) return true;
  const end = runEnd(value, 1, WORD);
  return end > 2 && value[end] === "%" && end === value.length - 1;
}

/** Matches directives, with punctuation between them. */
const FORMAT = /^(?:%[sdvq]|[:;,@/ &=.-]|\\[rnt])+$/;

/** Returns whether the value is a parameter: `:password`, `@token`, `&secret`. */
function isNamedSecret(value: string): boolean {
  const name = value.slice(1);
  return runEnd(name, 0, LETTER | UNDERSCORE) === name.length && secretKind(name) !== undefined;
}

/** Returns whether one masking character is repeated: `xxxxxxxx`, `xxxx-xxxx`, `........`, `••••`, `…`. */
function isRepeated(value: string): boolean {
  const first = value[0] ?? "";
  for (let at = 0; at < value.length; at += 1) {
    const character = value[at] ?? "";
    if (character !== first && !("xX".includes(first) && "xX-_".includes(character))) return false;
  }
  return "xX.-_?#•●▪█·…".includes(first);
}

function isMasked(value: string): boolean {
  return (value.includes("xxx") || value.includes("XXX")) && MASKED.test(value) && value.length <= TEMPLATE_CHARS_MAX;
}

/** Matches `sk-xxxx`, `ghp_abc_XXXX`, `xxx/yy`. */
const MASKED = /^[a-zA-Z]{1,12}[-_](?:[a-z]{1,12}[-_])?[xX]{4}[xX_-]*$|^[xX]{3,32}\/[a-z]{0,2}$/;

/** Matches asterisks with at most one other character before and after: `:****`, `"***"`. */
const STARS = /^[^\w\s*]?\*{3,64}[^\w\s*]?$/;

const ELLIPSES = ["...", "…"];

/** Returns whether the value is a token's prefix with an ellipsis: `sk-…`, `ghp_...`. */
function isCutShort(value: string): boolean {
  const ellipsis = ELLIPSES.find((mark) => value.endsWith(mark));
  if (ellipsis === undefined) return false;
  const head = value.slice(0, -ellipsis.length);
  return runEnd(head, 0, LETTER | UNDERSCORE | DASH) === head.length && "-_".includes(head.at(-1) ?? "-");
}

/** Returns whether the value is a regular expression: `\S+`, `.*`, `.{8,}`. */
function isPattern(value: string): boolean {
  if (value.startsWith("/^")) return true;
  const atom = value[0] === "\\" && "SsWwDdb".includes(value[1] ?? " ") ? 2 : Number(value[0] === ".");
  return atom > 0 && "+*?{".includes(value[atom] ?? " ") && ")$/|?&\\]123456789 ".includes(value[atom + 1] ?? " ");
}

const EXPRESSIONS: readonly (readonly [open: string, close: string])[] = [
  ["\x24{", "}"],
  ["{{", "}}"],
  ["#{", "}"],
  ["$(", ")"],
  ["<%", "%>"],
];
const LABEL_CHARACTERS = ":;,&@()[?$}'";

/** Returns whether the value is a template whose literal parts are only words: `Authorization: Bearer ${token}`, `session={{ id }}`. */
export function isTemplate(value: string): boolean {
  if (!value.includes("{") && !value.includes("$(") && !value.includes("<%")) return false;
  const text = value.slice(0, TEMPLATE_CHARS_MAX);
  let rest = "";
  let expressions = 0;
  for (let at = 0; at < text.length; ) {
    const expression = EXPRESSIONS.find(([open]) => text.startsWith(open, at));
    if (expression === undefined) rest += text[at];
    else expressions += 1;
    at = expression === undefined ? at + 1 : expressionEnd(text, at, expression);
  }
  return expressions > 0 && rest.length <= LABEL_CHARS_MAX && isLabel(rest);
}

function expressionEnd(text: string, at: number, [open, close]: readonly [string, string]): number {
  const end = text.indexOf(close, at + open.length);
  return end === -1 ? at + open.length : end + close.length;
}

function isLabel(rest: string): boolean {
  for (let at = 0; at < rest.length; at += 1) {
    if (isA(rest, at, DIGIT)) return false;
    if (!isA(rest, at, NAME | BLANK | EQUALS | PLUS_SLASH) && !LABEL_CHARACTERS.includes(rest[at] ?? "")) return false;
  }
  return true;
}
