import {
  afterQuote,
  BLANK,
  classesIn,
  DASH,
  DIGIT,
  EQUALS,
  endBefore,
  isA,
  isOneOf,
  LINE_END,
  LOWER,
  QUOTE,
  runEnd,
  runStart,
  STOP,
  UPPER,
  words,
} from "../views/characters.ts";
import { secretKind } from "./names.ts";
import { afterIndex, afterTag, declaredValue, JOINED_VERBS, statedValue } from "./stated-value.ts";
import { afterPrefix, compoundEnd, endsString, tagEnd } from "./strings.ts";
import {
  bare,
  blockLines,
  bracketList,
  elementText,
  type Inside,
  linesBelow,
  memberValue,
  type Name,
  nextArgument,
  type Stated,
} from "./structures.ts";
import { JUDGED_CHARS_MAX, PLACEHOLDERS, type ValueStyle } from "./values.ts";

/** A longer name names nothing. UTF-16 units. */
export const NAME_CHARS_MAX = 96;

/** Between a name and its value. UTF-16 units. */
const GAP_CHARS_MAX = 64;

/** A quoted value ends here at the latest. UTF-16 units. */
export const QUOTED_CHARS_MAX = 4_096;

const HASH = 0x23;
const AMPERSAND = 0x26;
const ROUND = 0x29;
const BACKSLASH = 0x5c;
const SQUARE = 0x5d;
const CURLY = 0x7d;

/** A value without quotes ends here, or at a bracket that closes when nothing but ends follows; */
const BARE_ENDS = BLANK | LINE_END | QUOTE | STOP;
/** one of the environment ends here. */
const ASSIGNED_ENDS = BLANK | LINE_END | QUOTE;

/** The text after a name. */
export interface Value {
  readonly start: number;
  /** Of the part to be judged: a longer value goes on. */
  readonly end: number;
  readonly style: ValueStyle;
  /** What ends the value: a quote, or nothing for a bare word. */
  readonly quote: string;
  /** Of an address: the next parameter ends it. */
  readonly inQuery: boolean;
  /** Of a list: where its last element ends. Its first is judged. */
  readonly listEnd?: number;
}

/** What may follow a name that has a value, apart from spaces, line ends, quotes, `=` and what ends values. */
const FOLLOWERS = `:*?\\()[]{}${JOINED_VERBS}`;

/** Where the value of the name between `from` and `to` stands, if there is one. */
export function valueAfter(text: string, from: number, to: number): Value | undefined {
  if (to < text.length && !mayFollow(text, to)) return undefined;
  const at = afterQuote(text, to);
  const argument = nextArgument(text, { from, at });
  if (argument !== undefined) return valueInside(text, argument);
  const name = { from, to, at };
  const element = elementText(text, name);
  if (element !== undefined) return statedAs(text, element);
  const behind = afterIndex(text, name);
  const separator = separatorAfter(text, from, { name: to, at: behind });
  if (separator === undefined) return valueWithoutSign(text, name);
  const isQuoted = afterQuote(text, separator.end) > separator.end;
  return isQuoted ? quotedAfter(text, name, separator) : unquotedAfter(text, name, separator);
}

function mayFollow(text: string, to: number): boolean {
  return (
    isA(text, to, BLANK | LINE_END | QUOTE | EQUALS | STOP) ||
    isOneOf(text, to, FOLLOWERS) ||
    compoundEnd(text, to) !== -1
  );
}

function unquotedAfter(text: string, name: Name, separator: Separator): Value | undefined {
  const { end, sign } = separator;
  if (sign === "==" || (sign === ">" && isOneOf(text, name.from - 2, ":"))) return undefined;
  if (sign === "!=") return wordOrVariable(text, end);
  if (isMessage(text, name.from, end)) return undefined;
  const document = hereDocument(text, end);
  if (document !== undefined) return document;
  const inside = insideValue(text, end, name.from);
  if (inside !== undefined) return inside;
  return sign === ":" ? valueAfterColon(text, name, separator) : bareValue(text, name, separator);
}

/** `${NAME:?must be set}`, `${NAME:+set}` */
function isMessage(text: string, from: number, at: number): boolean {
  return isOneOf(text, at, "?+") && isOneOf(text, at - 1, ":") && text.startsWith("${", from - 2);
}

/** `<<-EOT` and lines below, up to the one that says `EOT`. */
function hereDocument(text: string, at: number): Value | undefined {
  if (!isOneOf(text, at, "<$")) return undefined;
  const [head, , tag] = HERE.exec(text.slice(at, at + HERE_CHARS_MAX)) ?? [];
  if (head === undefined) return undefined;
  const start = runEnd(text, at + head.length, BLANK | LINE_END, at + head.length + GAP_CHARS_MAX);
  const close = new RegExp(`[\\r\\n][ \\t]*${tag}(?!\\w)`).exec(text.slice(start, start + QUOTED_CHARS_MAX));
  return close === null ? undefined : { start, end: start + close.index, style: "quoted", quote: "\n", inQuery: false };
}

const HERE = /^(?:\$\(cat )?<<[-~]?(["']?)([A-Za-z_]\w{0,31})\1(?!\w)[^\n]{0,32}\n/;
const HERE_CHARS_MAX = 96;

/** `!= …`, `<- …`: a word that is no variable's name, such as `password2`. */
function wordOrVariable(text: string, at: number): Value | undefined {
  const word = bare(text, at, "told");
  if (word === undefined || secretKind(text.slice(at, word.end).replace(/\d{1,2}$/, "")) !== undefined)
    return undefined;
  return statedAs(text, word);
}

/** `name: string = "…"`, `name: !!str "…"`, `name: |` and lines below, `name: value`. */
function valueAfterColon(text: string, name: Name, separator: Separator): Value | undefined {
  const declared = declaredValue(text, separator.end, ":");
  if (declared !== -1) return quotedValue(text, declared + 1, "quoted");
  const end = afterTag(text, separator.end);
  const quote = end > separator.end ? afterQuote(text, end) : end;
  if (quote > end) return quotedValue(text, quote, "quoted");
  const lines = blockLines(text, name.from, end);
  if (lines !== undefined) return { ...lines, style: "line", quote: "\n", inQuery: false };
  return bareValue(text, name, { ...separator, end });
}

/** Beside a secret of another kind its name stands: `secret "web-tls" not found`. */
const PASSWORD = /pass|pwd|psk/i;

/** Shells run what stands in backticks; sentences put names of things there. */
function quotedAfter(text: string, { from, to, at }: Name, { end, sign, spaced }: Separator): Value | undefined {
  const opening = afterQuote(text, end);
  const threefold = threefoldValue(text, opening);
  if (threefold !== undefined) return threefold;
  if (at === to && endsString(text, opening - 1, from)) return undefined;
  const isBacktick = isOneOf(text, opening - 1, "`");
  if (sign === " " && (isBacktick || !PASSWORD.test(text.slice(from, to)))) return quotedValue(text, opening, "told");
  const isAssigned = sign === "=" && !spaced && isOfEnvironment(text, from, to);
  const value = quotedValue(text, opening, isAssigned ? "assigned" : "quoted");
  const isCommand = isBacktick && isAssigned && text.slice(value.start, value.end).includes(" ");
  return isCommand ? { ...value, end: value.start } : value;
}

/** `"""…"""`, which may have several lines. */
function threefoldValue(text: string, opening: number): Value | undefined {
  const mark = text[opening - 1] ?? "";
  if (text[opening] !== mark || text[opening + 1] !== mark || !isA(mark, 0, QUOTE)) return undefined;
  const start = runEnd(text, opening + 2, BLANK | LINE_END, opening + GAP_CHARS_MAX);
  const close = text.slice(start, start + QUOTED_CHARS_MAX).indexOf(mark.repeat(THREE));
  const end = close === -1 ? start : runStart(text, start + close, BLANK | LINE_END, start);
  return end > start ? { start, end, style: "quoted", quote: "\n", inQuery: false } : undefined;
}

const THREE = 3;

/** `Some("…")`, `[]byte("…")`, `{"…"}`: what only gives a text another type. */
function wrapped(text: string, at: number): Value | undefined {
  if (!isOneOf(text, at, WRAPPERS_FIRST)) return undefined;
  const wrapper = WRAPPERS.find((start) => text.startsWith(start, at));
  const quote = at + (wrapper ?? "").length;
  if (wrapper === undefined || !isA(text, quote, QUOTE)) return undefined;
  const value = quotedValue(text, quote + 1, "told");
  return wrapper !== "{" || isOneOf(text, value.end + 1, "}") ? value : undefined;
}

const WRAPPERS_FIRST = "SJ[sbBn{cmMpPE";
const WRAPPERS = [
  ...words(
    "Some( Just( []byte( String( String::from( str( bytes( Buffer.from( SecretStr( crypt( md5( MD5( sha1( SHA1(",
  ),
  ...words("sha2( SHA2( PASSWORD( password( ENCRYPT( Secret( Secret::new( SecretString::from( {"),
  ...["new String(", "new SecureString("],
];

/** Of a value that is a list, or an object with the value in it. */
function insideValue(text: string, at: number, from: number): Value | undefined {
  const alone = wrapped(text, at);
  if (alone !== undefined) return alone;
  const inside = isOneOf(text, at, "{") ? memberValue(text, at) : (bracketList(text, at) ?? linesBelow(text, at, from));
  return inside === undefined ? undefined : valueInside(text, inside);
}

function valueInside(text: string, { start, end, isQuoted, listEnd, isWordOfText }: Inside): Value {
  const style = isQuoted ? "quoted" : "line";
  const value: Value = { start, end, inQuery: false, quote: isQuoted ? (text[start - 1] ?? "") : "\n", style };
  const read: Value = isWordOfText === true ? { ...value, style: "told" } : value;
  return listEnd === undefined ? read : { ...read, listEnd };
}

function valueWithoutSign(text: string, name: Name): Value | undefined {
  const declared = name.at === name.to ? declaredValue(text, name.to, "blank") : -1;
  if (declared !== -1) return quotedValue(text, declared + 1, "quoted");
  const stated = statedValue(text, name);
  if (stated === undefined) {
    const block = name.at > name.to ? blankEnd(text, name.at) : name.at;
    const member = isOneOf(text, block, "{") ? memberValue(text, block) : undefined;
    return member === undefined ? undefined : valueInside(text, member);
  }
  return statedAs(text, stated);
}

function statedAs(text: string, { start, end, style }: Stated): Value {
  return end === undefined ? quotedValue(text, start, style) : { start, end, style, quote: " ", inQuery: false };
}

function blankEnd(text: string, at: number): number {
  return runEnd(text, at, BLANK, at + GAP_CHARS_MAX);
}

/** `NAME=`, `export name=`: of a shell's or a process's environment, where nothing but a value follows. */
function isOfEnvironment(text: string, from: number, to: number): boolean {
  if (isOneOf(text, from - 1, "?&")) return false;
  const seen = classesIn(text, from, to);
  return (
    ((seen & UPPER) !== 0 && (seen & LOWER) === 0) ||
    ENVIRONMENT_WORDS.some((word) => text.startsWith(word, from - word.length))
  );
}

const ENVIRONMENT_WORDS = ["export ", "setenv ", "declare -x "];

function quotedValue(text: string, start: number, style: ValueStyle): Value {
  const quote = text[start - 1] ?? "";
  const limit = Math.min(text.length, start + QUOTED_CHARS_MAX);
  let end = start;
  while (end < limit && text[end] !== quote && !isA(text, end, LINE_END)) {
    const isEscaped = isOneOf(text, end, "\\") && !isOneOf(text, start - 2, "\\") && end + 1 < limit;
    end += isEscaped ? 2 : 1;
  }
  while (end > start && isOneOf(text, end - 1, "\\")) end -= 1;
  return { start, end: Math.min(end, text.length), style, quote, inQuery: false };
}

function bareValue(text: string, { from, to: name }: Name, { end, sign, spaced }: Separator): Value | undefined {
  if (isOneOf(text, end, BARE_OPENINGS) || (sign === "=" && spaced && isFieldNumber(text, from, end))) return undefined;
  const inBraces = isOneOf(text, from - 1, ";") ? braced(text, end) : undefined;
  if (inBraces !== undefined) return inBraces;
  const inQuery = isOneOf(text, from - 1, "?&");
  const style = sign === "=" && !spaced && isOfEnvironment(text, from, name) ? "assigned" : "loose";
  const to = bareEnd(text, end, { style, inQuery, limit: end + JUDGED_CHARS_MAX });
  const value = { start: end, end: to, quote: "", inQuery };
  if (style === "assigned") return { ...value, style };
  const onLine = sign === "" || sign === ">" || sign === "--" || (sign === "=" && !spaced) || isAlone(text, from, to);
  return { ...value, style: onLine ? "line" : "loose" };
}

/** `;password={…};` of a connection's settings. */
function braced(text: string, at: number): Value | undefined {
  if (!isOneOf(text, at, "{")) return undefined;
  const end = endBefore(text, at + 1, BLANK | LINE_END | QUOTE | STOP, at + JUDGED_CHARS_MAX);
  const close = text.slice(at, end).lastIndexOf("}");
  return close < 1 ? undefined : { start: at + 1, end: at + close, style: "told", quote: "}", inQuery: false };
}

/** Of a regular expression, or what ends an expression. */
const BARE_OPENINGS = "|)";

/** `string password = 102;`: what a message's fields have. */
function isFieldNumber(text: string, from: number, at: number): boolean {
  return (
    isOneOf(text, runEnd(text, at, DIGIT, at + 8), ";") &&
    /\b(?:string|bytes) $/.test(text.slice(Math.max(0, from - 8), from))
  );
}

/** Name and value have a line for themselves. */
function isAlone(text: string, from: number, to: number): boolean {
  return runStart(text, from, BLANK | DASH, from - GAP_CHARS_MAX) === lineStart(text, from) && endsLine(text, to);
}

/** A diff's sign may stand first in a line. */
function lineStart(text: string, at: number): number {
  const start = runStart(text, at, BLANK | DASH, at - GAP_CHARS_MAX);
  if (start === 0 || isA(text, start - 1, LINE_END)) return start;
  return isOneOf(text, start - 1, "+") && (start === 1 || isA(text, start - 2, LINE_END)) ? start : -1;
}

/** A comment may follow. */
function endsLine(text: string, at: number): boolean {
  const end = runEnd(text, at, BLANK, at + GAP_CHARS_MAX);
  return end >= text.length || isA(text, end, LINE_END) || (end > at && text.charCodeAt(end) === HASH);
}

/** Where something ends, asked in a text's order: what several values share is read once. */
export class NextEnd {
  readonly #find: (from: number) => number;
  #from = 0;
  #at = -1;

  constructor(find: (from: number) => number) {
    this.#find = find;
  }

  /** At `from` or later. */
  after(from: number): number {
    if (from < this.#from || from > this.#at) this.#at = this.#find(from);
    this.#from = from;
    return this.#at;
  }
}

/** Where values end of which only the beginning was judged. */
export class WholeEnds {
  readonly #text: string;
  readonly #ends = new Map<string, NextEnd>();

  constructor(text: string) {
    this.#text = text;
  }

  of(value: Value): number {
    const { start, end, quote, style, inQuery, listEnd } = value;
    const text = this.#text;
    if (listEnd !== undefined) return listEnd;
    if (quote === "") {
      const read = (from: number) => bareEnd(text, from, { style, inQuery, limit: text.length });
      return this.#next(`${style === "assigned"} ${inQuery}`, read).after(start);
    }
    if (!isA(quote, 0, QUOTE) || end - start < QUOTED_CHARS_MAX - TRAILING_CHARS_MAX)
      return changedEnd(text, end, quote);
    const isEscaped = isOneOf(text, start - 2, "\\");
    return this.#next(`${quote} ${isEscaped}`, (from) => quoteEnd(text, from, { quote, isEscaped })).after(end);
  }

  #next(key: string, find: (from: number) => number): NextEnd {
    const known = this.#ends.get(key);
    if (known !== undefined) return known;
    const made = new NextEnd(find);
    this.#ends.set(key, made);
    return made;
  }
}

/** Backslashes before the quote belong to it. */
const TRAILING_CHARS_MAX = 16;

/** Where a quoted value ends: at its quote or with its line. */
function quoteEnd(text: string, from: number, { quote, isEscaped }: { quote: string; isEscaped: boolean }): number {
  let at = from;
  while (at < text.length && !isA(text, at, LINE_END)) {
    if (text[at] === quote && (isEscaped || text[at - 1] !== "\\")) break;
    at += 1;
  }
  return at;
}

/** `"…" -> "…"`: of a plan, what the value was and what it will be. */
function changedEnd(text: string, end: number, quote: string): number {
  const next = end + quote.length + ARROW.length;
  if (quote.length !== 1 || !text.startsWith(ARROW, end + quote.length) || text[next] !== quote) return end;
  return quotedValue(text, next + 1, "quoted").end;
}

const ARROW = " -> ";

interface Bareness {
  readonly style: ValueStyle;
  readonly inQuery: boolean;
  readonly limit: number;
}

function bareEnd(text: string, start: number, { style, inQuery, limit }: Bareness): number {
  const ends = style === "assigned" ? ASSIGNED_ENDS : BARE_ENDS;
  let at = start;
  while (at < limit && at < text.length && !isA(text, at, ends) && !isMark(text, at, inQuery)) at += 1;
  return at;
}

/** The next parameter of an address, an escaped line end or quote, a bracket that closes at the value's end. */
function isMark(text: string, at: number, inQuery: boolean): boolean {
  switch (text.charCodeAt(at)) {
    case AMPERSAND:
    case HASH:
      return inQuery;
    case BACKSLASH:
      return isOneOf(text, at + 1, "nrt\"'\\");
    case ROUND:
    case SQUARE:
    case CURLY:
      return at + 1 >= text.length || isA(text, at + 1, BARE_ENDS) || isOneOf(text, at + 1, ")]}");
    default:
      return false;
  }
}

/** Between a name and its value, and between a name and `value:` on the next line. UTF-16 units. */

export interface Separator {
  /** Where the value or its quote stands. */
  readonly end: number;
  /** `!=` stands for all after which a variable is as likely as a value. */
  readonly sign: string;
  readonly spaced: boolean;
}

export function separatorAfter(
  text: string,
  from: number,
  { name, at }: { name: number; at: number },
): Separator | undefined {
  const sign = afterRemark(text, runEnd(text, afterStars(text, at), BLANK, at + GAP_CHARS_MAX));
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

/** `Password (temporary): …`: after the bracket, unless it says of what type it is. */
function afterRemark(text: string, at: number): number {
  const remark = isOneOf(text, at, "(") ? REMARK.exec(text.slice(at, at + 20)) : null;
  if (remark === null || PLACEHOLDERS.has((remark[1] ?? "").toLowerCase())) return at;
  return runEnd(text, at + remark[0].length, BLANK, at + GAP_CHARS_MAX);
}

/** Pass "x" to the function. */
function isVerb(text: string, from: number, to: number): boolean {
  return to - from === 4 && text.slice(from, to).toLowerCase() === "pass";
}

/** `**Password:** …`, `*password*: …`: two stars at most, and what stands after them. */
function afterStars(text: string, at: number): number {
  let end = at;
  while (isOneOf(text, end, "*") && end < at + 2) end += 1;
  return isA(text, end, BLANK) || isOneOf(text, end, ":") ? end : at;
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
  return { end: afterPrefix(text, value), sign: isDoubtful ? "!=" : "=", spaced: value > end || sign > at };
}

/** `=`, `:`, `:=`, `==`, `=>`, with spaces. */
function signed(text: string, at: number, from: number): Separator | undefined {
  // LDIF writes two colons before base64.
  let end = at === from && isOneOf(text, at + 1, ":") && isA(text, at + 2, BLANK) ? at + 2 : at + 1;
  while (end < at + 3 && isOneOf(text, end, "=>")) end += 1;
  if (text.startsWith("://", at) || (end === at + 1 && text.startsWith("::", at))) return undefined;
  const value = runEnd(text, isOneOf(text, end, "*") ? afterStars(text, end) : end, BLANK, end + GAP_CHARS_MAX);
  if (text.startsWith("</", value)) return { end: afterTags(text, value), sign: ":", spaced: true };
  const sign = text.startsWith("==", at) ? "==" : (text[at] ?? "");
  return { end: afterPrefix(text, afterDump(text, value)), sign, spaced: value > end || at > from };
}

const DUMPED = /^\s{0,32}string\(\d{1,5}\) (?=")/;

/** PHP's `["password"]=>`, and `string(9) "…"` below. */
function afterDump(text: string, at: number): number {
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
  const word = afterQuote(text, next);
  const key = isOneOf(text, word, "vVP")
    ? VALUE_KEY.exec(text.slice(word, word + VALUE_KEY_CHARS_MAX))?.[0]
    : undefined;
  if (key === undefined) return undefined;
  const sign = runEnd(text, afterQuote(text, word + key.length), BLANK, word + GAP_CHARS_MAX);
  return isOneOf(text, sign, ":=")
    ? { end: runEnd(text, sign + 1, BLANK, sign + GAP_CHARS_MAX), sign: "", spaced: true }
    : undefined;
}

/** `<b>Password:</b> …`, `<dt>Password:</dt><dd>…`: the tag that closes, and one that opens. */
function afterTags(text: string, at: number): number {
  const close = tagEnd(text, at);
  if (close === -1) return at;
  const next = runEnd(text, close, BLANK | LINE_END, close + GAP_CHARS_MAX);
  const open = isOneOf(text, next + 1, "/") ? -1 : tagEnd(text, next);
  return open === -1 ? next : open;
}
