import { BLANK, classesIn, isA, isOneOf, LINE_END, LOWER, QUOTE, runEnd } from "../../views/characters.ts";
import { PLACEHOLDERS } from "../placeholders.ts";
import { behindQuote } from "../stretches.ts";
import { behindPrefix, tagEnd } from "./string-ends.ts";

/** Between a name and its value, and between a name and `value:` on the next line. UTF-16 units. */
const GAP_CHARS_MAX = 64;

export interface Separator {
  /** Where the value or its quotation mark stands. */
  readonly end: number;
  /** `!=` stands for all behind which a variable is as likely as a value. */
  readonly sign: string;
  readonly spaced: boolean;
}

export function separatorAfter(
  text: string,
  from: number,
  { name, at }: { name: number; at: number },
): Separator | undefined {
  const sign = behindRemark(text, runEnd(text, behindStars(text, at), BLANK, at + GAP_CHARS_MAX));
  const character = text[sign] ?? "";
  const compound = compoundEnd(text, sign);
  if (compound !== -1) return compoundSigned(text, { from, name, at, sign, end: compound });
  if (character === "=" || character === ":") return signed(text, sign, at);
  if (character === ">" && isOneOf(text, from - 1, "<") && sign === name)
    return {
      end: text.startsWith(VALUE_TAG, sign + 1) ? sign + 1 + VALUE_TAG.length : sign + 1,
      sign: ">",
      spaced: false,
    };
  if (text.startsWith("--", from) && sign > name) return { end: sign, sign: "--", spaced: true };
  if (sign > at && isA(text, sign, QUOTE) && !isVerb(text, from, name)) return { end: sign, sign: " ", spaced: true };
  return valueLine(text, at);
}

const VALUE_TAG = "<Value>";

const REMARK = /^\(([a-z-]{1,16})\)(?= ?:)/i;

/** `Password (temporary): …`: behind the bracket, unless it says of what type it is. */
function behindRemark(text: string, at: number): number {
  const remark = isOneOf(text, at, "(") ? REMARK.exec(text.slice(at, at + 20)) : null;
  if (remark === null || PLACEHOLDERS.has((remark[1] ?? "").toLowerCase())) return at;
  return runEnd(text, at + remark[0].length, BLANK, at + GAP_CHARS_MAX);
}

/** Pass "x" to the function. */
function isVerb(text: string, from: number, to: number): boolean {
  return to - from === 4 && text.slice(from, to).toLowerCase() === "pass";
}

/** `**Password:** …`, `*password*: …`: two stars at most, and what stands behind them. */
function behindStars(text: string, at: number): number {
  let end = at;
  while (isOneOf(text, end, "*") && end < at + 2) end += 1;
  return isA(text, end, BLANK) || isOneOf(text, end, ":") ? end : at;
}

const COMPOUND_FIRST = "?+|&.!:/<";
/** An operator that ends with `=` assigns or compares, unless it calculates or orders (`-=`, `*=`, `<=`); R assigns with an arrow. */
const COMPOUND = /^(?:[?+|&.!]{1,2}==?|\/\/=|::?:=|<<?-)(?![=>-])/;
const COMPOUND_CHARS_MAX = 5;

/** Behind an operator such as `?=`, `||=`, `::=` or `<-` at `at`; -1 when none stands there. */
export function compoundEnd(text: string, at: number): number {
  if (!isOneOf(text, at, COMPOUND_FIRST)) return -1;
  const operator = COMPOUND.exec(text.slice(at, at + COMPOUND_CHARS_MAX));
  return operator === null ? -1 : at + operator[0].length;
}

interface Compound {
  readonly from: number;
  readonly name: number;
  readonly at: number;
  readonly sign: number;
  readonly end: number;
}

function compoundSigned(text: string, { from, name, at, sign, end }: Compound): Separator {
  const value = runEnd(text, end, BLANK, end + GAP_CHARS_MAX);
  const isOfProgram = (classesIn(text, from, name) & LOWER) !== 0;
  const isDoubtful = isOneOf(text, sign, isOfProgram ? "!<+.&|" : "!<");
  return { end: behindPrefix(text, value), sign: isDoubtful ? "!=" : "=", spaced: value > end || sign > at };
}

/** `=`, `:`, `:=`, `==`, `=>`, with blanks. */
function signed(text: string, at: number, from: number): Separator | undefined {
  // LDIF writes two colons before base64.
  let end = at === from && isOneOf(text, at + 1, ":") && isA(text, at + 2, BLANK) ? at + 2 : at + 1;
  while (end < at + 3 && isOneOf(text, end, "=>")) end += 1;
  if (text.startsWith("://", at) || (end === at + 1 && text.startsWith("::", at))) return undefined;
  const value = runEnd(text, isOneOf(text, end, "*") ? behindStars(text, end) : end, BLANK, end + GAP_CHARS_MAX);
  if (text.startsWith("</", value)) return { end: behindTags(text, value), sign: ":", spaced: true };
  const sign = text.startsWith("==", at) ? "==" : (text[at] ?? "");
  return { end: behindPrefix(text, behindDump(text, value)), sign, spaced: value > end || at > from };
}

const DUMPED = /^\s{0,32}string\(\d{1,5}\) (?=")/;

/** PHP's `["password"]=>`, and `string(9) "…"` below. */
function behindDump(text: string, at: number): number {
  if (!text.startsWith("=>", at - 2)) return at;
  return at + (DUMPED.exec(text.slice(at, at + GAP_CHARS_MAX))?.[0].length ?? 0);
}

/** Of an element: others, and its value. */
const ATTRIBUTES = /^(?: [a-zA-Z-]{1,16}="[^"<>]{0,48}"){1,4} (?:value|content)=(?=")|^ content=(?=")/;
const ATTRIBUTES_CHARS_MAX = 256;

/** `ParameterValue`, too. */
const VALUE_KEY = /^(?:Parameter)?value/i;
const VALUE_KEY_CHARS_MAX = 14;

/** `- name: DB_PASSWORD`, and `value: …` on the next line. */
function valueLine(text: string, at: number): Separator | undefined {
  const attributes = ATTRIBUTES.exec(isOneOf(text, at, " ") ? text.slice(at, at + ATTRIBUTES_CHARS_MAX) : "")?.[0];
  if (attributes !== undefined) return { end: at + attributes.length, sign: "", spaced: true };
  const gap = runEnd(text, isOneOf(text, at, ",") ? at + 1 : at, BLANK | LINE_END, at + GAP_CHARS_MAX);
  if (gap === at) return undefined;
  // A plan's or a diff's sign may stand first in a line.
  const next = isOneOf(text, gap, "+-~") ? runEnd(text, gap + 1, BLANK, gap + GAP_CHARS_MAX) : gap;
  const word = behindQuote(text, next);
  const key = isOneOf(text, word, "vVP")
    ? VALUE_KEY.exec(text.slice(word, word + VALUE_KEY_CHARS_MAX))?.[0]
    : undefined;
  if (key === undefined) return undefined;
  const sign = runEnd(text, behindQuote(text, word + key.length), BLANK, word + GAP_CHARS_MAX);
  return isOneOf(text, sign, ":=")
    ? { end: runEnd(text, sign + 1, BLANK, sign + GAP_CHARS_MAX), sign: "", spaced: true }
    : undefined;
}

/** `<b>Password:</b> …`, `<dt>Password:</dt><dd>…`: the tag that closes, and one that opens. */
function behindTags(text: string, at: number): number {
  const close = tagEnd(text, at);
  if (close === -1) return at;
  const next = runEnd(text, close, BLANK | LINE_END, close + GAP_CHARS_MAX);
  const open = isOneOf(text, next + 1, "/") ? -1 : tagEnd(text, next);
  return open === -1 ? next : open;
}
