import {
  afterQuote,
  BLANK,
  classesIn,
  DIGIT,
  EQUALS,
  endBefore,
  endsLine,
  isA,
  isOneOf,
  LINE_END,
  LOWER,
  lineEnd,
  NextPosition,
  QUOTE,
  runEnd,
  runStart,
  STOP,
  type TextRange,
  textBefore,
  UPPER,
  words,
} from "../views/characters.ts";
import { secretKind } from "./names.ts";
import { afterIndex, afterTag, declaredValue, JOINED_VERBS, statedValue } from "./stated-value.ts";
import { afterPrefix, compoundEnd, endsString, tagEnd } from "./strings.ts";
import {
  bareWord,
  beginsEntry,
  blockLines,
  bracketList,
  elementText,
  followsLocation,
  type Inside,
  linesBelow,
  memberValue,
  type Name,
  nextArgument,
  type Stated,
} from "./structures.ts";
import { ASSESSED_CHARS_MAX, PASSPHRASE_CHARS_MAX, PLACEHOLDERS, type ValueStyle } from "./values.ts";

/** Longer names are ignored. UTF-16 units. */
export const NAME_CHARS_MAX = 96;

/** Maximum distance between a name and its value. UTF-16 units. */
const GAP_CHARS_MAX = 64;

/** Maximum length of a quoted value that is assessed. UTF-16 units. */
export const QUOTED_CHARS_MAX = 4_096;

const HASH = 0x23;
const AMPERSAND = 0x26;
const ROUND = 0x29;
const BACKSLASH = 0x5c;
const SQUARE = 0x5d;
const CURLY = 0x7d;

/** Characters that end an unquoted value. A closing bracket before one of them ends it too. */
const BARE_ENDS = BLANK | LINE_END | QUOTE | STOP;
/** Characters that end the value of an environment variable. */
const ASSIGNED_ENDS = BLANK | LINE_END | QUOTE;

/** The text after a name. */
export interface Value {
  readonly start: number;
  /** End of the part that is assessed; a longer value continues. */
  readonly end: number;
  readonly style: ValueStyle;
  /** The character that ends the value; empty for an unquoted word. */
  readonly quote: string;
  /** True in a URL, where the next parameter ends the value. */
  readonly inQuery: boolean;
  /** End of a list's last element. The first element is assessed. */
  readonly listEnd?: number | undefined;
}

/** Characters that may follow a name with a value, in addition to whitespace, quotes, `=` and `STOP`. */
const FOLLOWERS = `:*?\\()[]{}${JOINED_VERBS}`;

export function valueAfter(text: string, from: number, to: number): Value | undefined {
  if (to < text.length && !mayFollow(text, to)) return undefined;
  const at = afterQuote(text, to);
  const argument = nextArgument(text, { from, at });
  if (argument !== undefined) return valueInside(text, argument);
  const name = { from, to, at };
  const element = elementText(text, name);
  if (element !== undefined) return toValue(text, element);
  const end = afterIndex(text, name);
  const separator = separatorAfter(text, from, { name: to, at: end });
  if (separator === undefined) return valueWithoutOperator(text, name);
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
  const { end, operator } = separator;
  if (operator === "==" || (operator === ">" && isPlaceholder(text, name.from, end))) return undefined;
  if (operator === "!=") return wordOrVariable(text, end);
  if (isMessage(text, name.from, end)) return undefined;
  const document = hereDocument(text, end);
  if (document !== undefined) return document;
  const inside = insideValue(text, end, name.from);
  if (inside !== undefined) return inside;
  return operator === ":" ? valueAfterColon(text, name, separator) : bareValue(text, name, separator);
}

/** Returns whether a name in angle brackets is a placeholder or a type instead of a tag: `Map::<Token>::new`, `postgres://<user>:<password>@host`. */
function isPlaceholder(text: string, from: number, end: number): boolean {
  if (text.startsWith("::", from - 3)) return true;
  return isOneOf(text, from - 2, ":") && isOneOf(text, end, "@:") && !followsLocation(text, from - 1);
}

/** Returns whether the shell's expansion contains an error text, not a value: `${NAME:?must be set}`, `${NAME:+set}`. */
function isMessage(text: string, from: number, at: number): boolean {
  return isOneOf(text, at, "?+") && isOneOf(text, at - 1, ":") && text.startsWith("${", from - 2);
}

/** Reads a here document: the lines after `<<-EOT`, up to the line `EOT`. */
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

/** Reads the word after `!=` or `<-`, unless it is a variable's name, such as `password2`. */
function wordOrVariable(text: string, at: number): Value | undefined {
  const word = bareWord(text, at, "prose");
  if (word === undefined || secretKind(text.slice(at, word.end).replace(/\d{1,2}$/, "")) !== undefined)
    return undefined;
  return toValue(text, word);
}

/** Reads `name: string = "…"`, `name: !!str "…"`, `name: |` with lines below, `name: value`. */
function valueAfterColon(text: string, name: Name, separator: Separator): Value | undefined {
  const declared = declaredValue(text, separator.end, "colon");
  if (declared !== -1) return quotedValue(text, declared + 1, "quoted");
  const end = afterTag(text, separator.end);
  const quote = end > separator.end ? afterQuote(text, end) : end;
  if (quote > end) return quotedValue(text, quote, "quoted");
  const lines = blockLines(text, name.from, end);
  if (lines !== undefined) return { ...lines, style: "line", quote: "\n", inQuery: false };
  return bareValue(text, name, { ...separator, end });
}

/** Matches names of passwords. After other names, a quoted word is the name of a secret: `secret "web-tls" not found`. */
const PASSWORD = /pass|pwd|psk/i;

/** Reads a quoted value. Backticks contain a command in shells and a name in sentences. */
function quotedAfter(text: string, { from, to, at }: Name, { end, operator, spaced }: Separator): Value | undefined {
  const opening = afterQuote(text, end);
  const tripleQuoted = tripleQuotedValue(text, opening);
  if (tripleQuoted !== undefined) return tripleQuoted;
  if (at === to && endsString(text, opening - 1, from)) return undefined;
  const isBacktick = isOneOf(text, opening - 1, "`");
  if (operator === " " && (isBacktick || !PASSWORD.test(text.slice(from, to))))
    return quotedValue(text, opening, "prose");
  const isAssigned = operator === "=" && !spaced && isEnvironmentVariable(text, from, to);
  const value = quotedValue(text, opening, isAssigned ? "assigned" : "quoted");
  const isCommand = isBacktick && isAssigned && text.slice(value.start, value.end).includes(" ");
  return isCommand ? { ...value, end: value.start } : value;
}

/** Reads `"""…"""`, which may have several lines. */
function tripleQuotedValue(text: string, opening: number): Value | undefined {
  const mark = text[opening - 1] ?? "";
  if (text[opening] !== mark || text[opening + 1] !== mark || !isA(mark, 0, QUOTE)) return undefined;
  const start = runEnd(text, opening + 2, BLANK | LINE_END, opening + GAP_CHARS_MAX);
  const close = text.slice(start, start + QUOTED_CHARS_MAX).indexOf(mark.repeat(QUOTES));
  const end = close === -1 ? start : runStart(text, start + close, BLANK | LINE_END, start);
  return end > start ? { start, end, style: "quoted", quote: "\n", inQuery: false } : undefined;
}

const QUOTES = 3;

/** Reads a literal inside a conversion: `Some("…")`, `[]byte("…")`, `{"…"}`. */
function wrapped(text: string, at: number): Value | undefined {
  if (!isOneOf(text, at, WRAPPERS_FIRST)) return undefined;
  const wrapper = WRAPPERS.find((start) => text.startsWith(start, at));
  const quote = at + (wrapper ?? "").length;
  if (wrapper === undefined || !isA(text, quote, QUOTE)) return undefined;
  const value = quotedValue(text, quote + 1, "prose");
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

/** Reads a value in a conversion, a list or an object, or on the lines below. */
function insideValue(text: string, at: number, from: number): Value | undefined {
  const alone = wrapped(text, at);
  if (alone !== undefined) return alone;
  const inside = isOneOf(text, at, "{") ? memberValue(text, at) : (bracketList(text, at) ?? linesBelow(text, at, from));
  return inside === undefined ? undefined : valueInside(text, inside);
}

function valueInside(text: string, { start, end, style, listEnd }: Inside): Value {
  const quote = style === "quoted" ? (text[start - 1] ?? "") : "\n";
  return { start, end, style, quote, inQuery: false, listEnd };
}

function valueWithoutOperator(text: string, name: Name): Value | undefined {
  const declared = name.at === name.to ? declaredValue(text, name.to, "name") : -1;
  if (declared !== -1) return quotedValue(text, declared + 1, "quoted");
  const stated = statedValue(text, name);
  if (stated !== undefined) return toValue(text, stated);
  const block = name.at > name.to ? runEnd(text, name.at, BLANK, name.at + GAP_CHARS_MAX) : name.at;
  const member = isOneOf(text, block, "{") ? memberValue(text, block) : undefined;
  return member === undefined ? undefined : valueInside(text, member);
}

function toValue(text: string, { start, end, style }: Stated): Value {
  return end === undefined ? quotedValue(text, start, style) : { start, end, style, quote: " ", inQuery: false };
}

/** Returns whether the name is an environment variable (`NAME=`, `export name=`): whatever follows is its value. */
function isEnvironmentVariable(text: string, from: number, to: number): boolean {
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

function bareValue(text: string, { from, to: nameEnd }: Name, { end, operator, spaced }: Separator): Value | undefined {
  if (isOneOf(text, end, BARE_OPENINGS) || (operator === "=" && spaced && isFieldNumber(text, from, end)))
    return undefined;
  const inBraces = isOneOf(text, from - 1, ";") ? braced(text, end) : undefined;
  if (inBraces !== undefined) return inBraces;
  const inQuery = isOneOf(text, from - 1, "?&");
  const style = operator === "=" && !spaced && isEnvironmentVariable(text, from, nameEnd) ? "assigned" : "loose";
  const to = bareEnd(text, end, { style, inQuery, limit: end + ASSESSED_CHARS_MAX });
  const value = { start: end, end: to, quote: "", inQuery };
  if (style === "assigned") return { ...value, style };
  const onLine =
    operator === "" ||
    operator === ">" ||
    operator === "--" ||
    (operator === "=" && !spaced) ||
    isAlone(text, from, to);
  return { ...value, style: onLine ? "line" : "loose" };
}

/** Reads `;password={…};` in a connection string. */
function braced(text: string, at: number): Value | undefined {
  if (!isOneOf(text, at, "{")) return undefined;
  const end = endBefore(text, at + 1, BLANK | LINE_END | QUOTE | STOP, at + ASSESSED_CHARS_MAX);
  const close = text.slice(at, end).lastIndexOf("}");
  return close < 1 ? undefined : { start: at + 1, end: at + close, style: "prose", quote: "}", inQuery: false };
}

/** Characters with which no value starts: parts of a regular expression, or the end of an expression. */
const BARE_OPENINGS = "|)";

/** Returns whether the value is a protobuf field number: `string password = 102;`. */
function isFieldNumber(text: string, from: number, at: number): boolean {
  return isOneOf(text, runEnd(text, at, DIGIT, at + 8), ";") && /\b(?:string|bytes) $/.test(textBefore(text, from, 8));
}

/** Returns whether a line contains only the name and the value. */
function isAlone(text: string, from: number, to: number): boolean {
  const end = runEnd(text, to, BLANK, to + GAP_CHARS_MAX);
  // A comment may follow.
  const isEnd = endsLine(text, end) || (end > to && text.charCodeAt(end) === HASH);
  return isEnd && beginsEntry(text, from);
}

/** Returns the words from the value to the end of its line, without a comment, when the line contains only the name and them. */
export function phraseOf(text: string, from: number, { start, quote }: Value): TextRange | undefined {
  if (quote !== "" || !beginsEntry(text, from)) return undefined;
  const line = lineEnd(text, start, start + PASSPHRASE_CHARS_MAX + GAP_CHARS_MAX);
  if (!endsLine(text, line)) return undefined;
  const comment = text.slice(start, line).indexOf(" # ");
  const end = runStart(text, comment === -1 ? line : start + comment, BLANK, start);
  return { start, end };
}

/** Finds the ends of values of which only the beginning was assessed. */
export class WholeEnds {
  readonly #text: string;
  readonly #ends = new Map<string, NextPosition>();

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

  #next(key: string, find: (from: number) => number): NextPosition {
    const known = this.#ends.get(key);
    if (known !== undefined) return known;
    const made = new NextPosition(find);
    this.#ends.set(key, made);
    return made;
  }
}

/** Maximum number of backslashes before the closing quote. */
const TRAILING_CHARS_MAX = 16;

/** Returns the offset of the closing quote or of the line end. */
function quoteEnd(text: string, from: number, { quote, isEscaped }: { quote: string; isEscaped: boolean }): number {
  let at = from;
  while (at < text.length && !isA(text, at, LINE_END)) {
    if (text[at] === quote && (isEscaped || text[at - 1] !== "\\")) break;
    at += 1;
  }
  return at;
}

/** Returns the end of a changed value in a Terraform plan, `"…" -> "…"`, including the new value. */
function changedEnd(text: string, end: number, quote: string): number {
  const next = end + quote.length + ARROW.length;
  if (quote.length !== 1 || !text.startsWith(ARROW, end + quote.length) || text[next] !== quote) return end;
  return quotedValue(text, next + 1, "quoted").end;
}

const ARROW = " -> ";

function bareEnd(
  text: string,
  start: number,
  { style, inQuery, limit }: Pick<Value, "style" | "inQuery"> & { readonly limit: number },
): number {
  const ends = style === "assigned" ? ASSIGNED_ENDS : BARE_ENDS;
  let at = start;
  while (at < limit && at < text.length && !isA(text, at, ends) && !endsBareWord(text, at, inQuery)) at += 1;
  return at;
}

/** Returns whether the value ends here: at a URL's next parameter, an escaped line end or quote, or a closing bracket. */
function endsBareWord(text: string, at: number, inQuery: boolean): boolean {
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

interface Separator {
  /** Start of the value or of its quote. */
  readonly end: number;
  /** `!=` represents all operators after which a variable is as likely as a value. */
  readonly operator: string;
  readonly spaced: boolean;
}

function separatorAfter(text: string, from: number, { name, at }: { name: number; at: number }): Separator | undefined {
  const operator = afterRemark(text, runEnd(text, afterStars(text, at), BLANK, at + GAP_CHARS_MAX));
  const character = text[operator] ?? "";
  const compound = compoundEnd(text, operator);
  if (compound !== -1) {
    const value = runEnd(text, compound, BLANK, compound + GAP_CHARS_MAX);
    const isOfProgram = (classesIn(text, from, name) & LOWER) !== 0;
    const isDoubtful = isOneOf(text, operator, isOfProgram ? "!<+.&|~^%" : "!<~");
    return {
      end: afterPrefix(text, value),
      operator: isDoubtful ? "!=" : "=",
      spaced: value > compound || operator > at,
    };
  }
  if (character === "=" || character === ":") return plainSeparator(text, operator, at);
  if (character === ">" && isOneOf(text, from - 1, "<") && operator === name)
    return {
      end: text.startsWith(VALUE_TAG, operator + 1) ? operator + 1 + VALUE_TAG.length : operator + 1,
      operator: ">",
      spaced: false,
    };
  if (text.startsWith("--", from) && operator > name) return { end: operator, operator: "--", spaced: true };
  if (operator > at && isA(text, operator, QUOTE) && !isVerb(text, from, name))
    return { end: operator, operator: " ", spaced: true };
  return valueLine(text, at);
}

const VALUE_TAG = "<Value>";

const REMARK = /^\(([a-z-]{1,16})\)(?= ?:)/i;

/** Skips a remark that is not a type: `Password (temporary): …`. */
function afterRemark(text: string, at: number): number {
  const remark = isOneOf(text, at, "(") ? REMARK.exec(text.slice(at, at + 20)) : null;
  if (remark === null || PLACEHOLDERS.has((remark[1] ?? "").toLowerCase())) return at;
  return runEnd(text, at + remark[0].length, BLANK, at + GAP_CHARS_MAX);
}

/** Returns whether the name is the verb: `Pass "x" to the function`. */
function isVerb(text: string, from: number, to: number): boolean {
  return to - from === 4 && text.slice(from, to).toLowerCase() === "pass";
}

/** Skips up to two asterisks after the name: `**Password:** …`, `*password*: …`. */
function afterStars(text: string, at: number): number {
  let end = at;
  while (isOneOf(text, end, "*") && end < at + 2) end += 1;
  return isA(text, end, BLANK) || isOneOf(text, end, ":") ? end : at;
}

/** Reads `=`, `:`, `:=`, `==`, `=>`, with spaces. */
function plainSeparator(text: string, at: number, from: number): Separator | undefined {
  // LDIF writes two colons before base64.
  let end = at === from && isOneOf(text, at + 1, ":") && isA(text, at + 2, BLANK) ? at + 2 : at + 1;
  while (end < at + 3 && isOneOf(text, end, "=>")) end += 1;
  if (text.startsWith("://", at) || (end === at + 1 && text.startsWith("::", at))) return undefined;
  const value = runEnd(text, isOneOf(text, end, "*") ? afterStars(text, end) : end, BLANK, end + GAP_CHARS_MAX);
  if (text.startsWith("</", value)) return { end: afterTags(text, value), operator: ":", spaced: true };
  const operator = text.startsWith("==", at) ? "==" : (text[at] ?? "");
  return { end: afterPrefix(text, afterDump(text, value)), operator, spaced: value > end || at > from };
}

const DUMPED = /^\s{0,32}string\(\d{1,5}\) (?=")/;

/** Skips the type in a PHP dump: `["password"]=> string(9) "…"`. */
function afterDump(text: string, at: number): number {
  if (!text.startsWith("=>", at - 2)) return at;
  return at + (DUMPED.exec(text.slice(at, at + GAP_CHARS_MAX))?.[0].length ?? 0);
}

/** Matches the other attributes of an element, up to its value. */
const ATTRIBUTES = /^(?: [a-zA-Z-]{1,16}="[^"<>]{0,48}"){1,4} (?:value|content)=(?=")|^ content=(?=")/;
const ATTRIBUTES_CHARS_MAX = 256;

const VALUE_KEY = /^(?:Parameter)?value/i;
const VALUE_KEY_CHARS_MAX = 14;

/** Reads `value: …` on the line after `- name: DB_PASSWORD`, or the `value` attribute of the same element. */
function valueLine(text: string, at: number): Separator | undefined {
  const attributes = ATTRIBUTES.exec(isOneOf(text, at, " ") ? text.slice(at, at + ATTRIBUTES_CHARS_MAX) : "")?.[0];
  if (attributes !== undefined) return { end: at + attributes.length, operator: "", spaced: true };
  const gap = runEnd(text, isOneOf(text, at, ",") ? at + 1 : at, BLANK | LINE_END, at + GAP_CHARS_MAX);
  if (gap === at) return undefined;
  // The line may begin with the marker of a plan or a diff.
  const next = isOneOf(text, gap, "+-~") ? runEnd(text, gap + 1, BLANK, gap + GAP_CHARS_MAX) : gap;
  const word = afterQuote(text, next);
  const key = isOneOf(text, word, "vVP")
    ? VALUE_KEY.exec(text.slice(word, word + VALUE_KEY_CHARS_MAX))?.[0]
    : undefined;
  if (key === undefined) return undefined;
  const operator = runEnd(text, afterQuote(text, word + key.length), BLANK, word + GAP_CHARS_MAX);
  return isOneOf(text, operator, ":=")
    ? { end: runEnd(text, operator + 1, BLANK, operator + GAP_CHARS_MAX), operator: "", spaced: true }
    : undefined;
}

/** Skips the closing tag, and an opening one after it: `<b>Password:</b> …`, `<dt>Password:</dt><dd>…`. */
function afterTags(text: string, at: number): number {
  const close = tagEnd(text, at);
  if (close === -1) return at;
  const next = runEnd(text, close, BLANK | LINE_END, close + GAP_CHARS_MAX);
  const open = isOneOf(text, next + 1, "/") ? -1 : tagEnd(text, next);
  return open === -1 ? next : open;
}
