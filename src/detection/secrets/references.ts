import {
  BLANK,
  DASH,
  DIGIT,
  DOT,
  EQUALS,
  isA,
  LETTER,
  NAME,
  PLUS_SLASH,
  runEnd,
  UNDERSCORE,
  WORD,
} from "../views/characters.ts";
import { secretKind } from "./names.ts";

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

/** `:****`, `"***"`: stars, and a sign before or behind them. */
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
