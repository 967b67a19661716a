import {
  afterLineEnd,
  afterQuote,
  BLANK,
  beginsLine,
  classesIn,
  DASH,
  DIGIT,
  endBefore,
  endsLine,
  isA,
  isOneOf,
  LINE_END,
  lineEnd,
  NAME,
  PLUS_SLASH,
  QUOTE,
  runEnd,
  runStart,
  STOP,
  startAfter,
  type TextRange,
  textBefore,
  WORD,
  wordSet,
} from "../views/characters.ts";
import type { ValueStyle } from "./values.ts";

/** Maximum lengths in UTF-16 units. */
const WORD_GAP_CHARS_MAX = 16;
const VALUE_CHARS_MAX = 128;

/** A value next to its name without `=` or `:` between them. */
export interface Stated {
  readonly start: number;
  /** Undefined for a quoted value: its quote ends it. */
  readonly end?: number;
  readonly style: ValueStyle;
}

export interface Name {
  readonly from: number;
  readonly to: number;
  /** Offset after the name's closing quote; `to` without one. */
  readonly at: number;
}

/** Returns the unquoted word at `start`, in prose without final punctuation. */
export function bareWord(text: string, start: number, style: ValueStyle): Stated | undefined {
  const end = endBefore(text, start, BLANK | LINE_END | QUOTE | STOP, start + VALUE_CHARS_MAX);
  const isEnd = style === "prose" && isOneOf(text, end - 1, ".!?)");
  const last = isEnd ? end - 1 : end;
  return last > start ? { start, end: last, style } : undefined;
}

export function spacesEnd(text: string, at: number): number {
  return runEnd(text, at, BLANK, at + WORD_GAP_CHARS_MAX);
}

/**
 * Matches what `grep` and similar programs print before a line: `a.yml:`, `a.yml:12:`, `12:`, `a.yml:12:5:`. RE2 syntax, to follow
 * `^`. Linear in a backtracking engine too.
 */
export const LOCATION = String.raw`(?:(?:[A-Za-z]:)?[^\s:./]*[./][^\s:]*:(?:\d{1,7}:){0,2}|(?:[^\s:./]+:)?\d{1,7}:(?:\d{1,5}:)?)`;

/** Also matches `a.yml-12-` of lines around a match, `12` with a tab, and the line's indentation. One space begins a message. */
const BEFORE_LINE = new RegExp(
  String.raw`^(?:${LOCATION}|(?:[^\s:]*-)?\d{1,7}-| {0,8}\d{1,7}\t)(?:(?:[ \t]{2}|\t|-)[ \t-]*)?$`,
);
const BEFORE_LINE_CHARS_MAX = 160;

/** Returns whether only the path of the line's file or the line's number is before this offset on its line. */
export function followsLocation(text: string, at: number): boolean {
  const end = runStart(text, at, BLANK | DASH, at - BEFORE_LINE_CHARS_MAX);
  if (!isOneOf(text, end - 1, ":") && !isA(text, end - 1, DIGIT)) return false;
  const start = startAfter(text, end, LINE_END, at - BEFORE_LINE_CHARS_MAX);
  return beginsLine(text, start) && BEFORE_LINE.test(text.slice(start, at));
}

/** Returns whether the offset is the first of its line, after dashes, a diff's `+` or the line's location. */
export function beginsEntry(text: string, at: number): boolean {
  const start = runStart(text, at, BLANK | DASH, at - GAP_CHARS_MAX);
  if (beginsLine(text, start) || (isOneOf(text, start - 1, "+") && beginsLine(text, start - 1))) return true;
  return followsLocation(text, at);
}

/** Maximum lengths of an object and of a list. UTF-16 units. */
const OBJECT_CHARS_MAX = 256;
const LIST_CHARS_MAX = 4_096;
const ELEMENTS_MAX = 64;
const GAP_CHARS_MAX = 64;
const NAME_CHARS_MAX = 96;

/** A value in a list or an object. */
export interface Inside extends TextRange {
  /** `prose` for a word that only its characters distinguish from a word of a sentence. */
  readonly style: "quoted" | "line" | "prose";
  readonly listEnd?: number;
}

/** Reads a member's value in the object at `at`: `{"type": "string", "value": "…"}`, `{ default = "…" }`. */
export function memberValue(text: string, at: number): Inside | undefined {
  const limit = Math.min(text.length, at + OBJECT_CHARS_MAX);
  for (let from = at + 1; from < limit && !isOneOf(text, from, "{}"); from += 1) {
    const member = MEMBERS.find((word) => text.startsWith(word, from) && !isA(text, from - 1, WORD));
    if (member === undefined) continue;
    const operator = runEnd(text, afterQuote(text, from + member.length), BLANK, limit);
    if (!isOneOf(text, operator, ":=")) continue;
    return elementAt(text, runEnd(text, operator + 1, BLANK, limit));
  }
  return undefined;
}

const MEMBERS = ["value", "Value", "default", "stringValue"];

/** Reads a list that contains only words: `["…", "…"]`. */
export function bracketList(text: string, at: number): Inside | undefined {
  if (!isOneOf(text, at, "[")) return undefined;
  let next = runEnd(text, at + 1, BLANK | LINE_END, at + GAP_CHARS_MAX);
  let first: Inside | undefined;
  for (let count = 0; count < ELEMENTS_MAX && next < at + LIST_CHARS_MAX; count += 1) {
    const element = elementAt(text, next, LIST_WORD_ENDS);
    if (element === undefined || !isWord(text, element)) return undefined;
    if (element.style === "line" && isOneOf(text, element.end, NESTED)) return undefined;
    first ??= element.style === "line" ? { ...element, style: "prose" } : element;
    const operator = runEnd(text, afterQuote(text, element.end), BLANK | LINE_END, element.end + GAP_CHARS_MAX);
    const after = isOneOf(text, operator, ",")
      ? runEnd(text, operator + 1, BLANK | LINE_END, operator + GAP_CHARS_MAX)
      : operator;
    if (isOneOf(text, after, "]")) return { ...first, listEnd: element.end };
    if (after === operator) return undefined;
    next = after;
  }
  return undefined;
}

/** Characters that no word of a list contains: another list, a member. */
const NESTED = "[:";
const LIST_WORD_ENDS = `]}${NESTED}`;

/** Reads the lines below a name: a YAML list, `value: …`, or one word. */
export function linesBelow(text: string, at: number, from: number): Inside | undefined {
  if (!isA(text, at, LINE_END)) return undefined;
  const before = runStart(text, from, BLANK | QUOTE, from - NAME_CHARS_MAX);
  const next = afterLineEnd(text, at);
  const line = isDiffMarker(text, before - 1) && text[next] === text[before - 1] ? next + 1 : next;
  const start = runEnd(text, line, BLANK, line + GAP_CHARS_MAX);
  if (start - line < from - before) return undefined;
  if (isOneOf(text, start, "-") && isA(text, start + 1, BLANK)) return dashedList(text, next, start);
  const member = MEMBERS.find((word) => text.startsWith(`${word}:`, start));
  if (member === undefined) return wordOfLine(text, start);
  if (start - line === from - before) return undefined;
  return elementAt(text, runEnd(text, start + member.length + 1, BLANK, start + GAP_CHARS_MAX));
}

function isDiffMarker(text: string, at: number): boolean {
  return isOneOf(text, at, "+-") && beginsLine(text, at);
}

function wordOfLine(text: string, start: number): Inside | undefined {
  const element = elementAt(text, start);
  if (element?.style !== "line" || text.slice(start, element.end).includes(":")) return undefined;
  const next = runEnd(text, element.end, BLANK, element.end + GAP_CHARS_MAX);
  return endsLine(text, next) ? { ...element, style: "prose" } : undefined;
}

function dashedList(text: string, line: number, dash: number): Inside | undefined {
  const mark = text.slice(line, dash + 1);
  let first: Inside | undefined;
  let last: Inside | undefined;
  let from = line;
  for (let count = 0; count < ELEMENTS_MAX && text.startsWith(mark, from); count += 1) {
    const element = elementAt(text, runEnd(text, from + mark.length, BLANK, from + mark.length + GAP_CHARS_MAX));
    if (element === undefined || !isWord(text, element)) break;
    first ??= element;
    last = element;
    from = runEnd(text, afterQuote(text, element.end), BLANK, element.end + GAP_CHARS_MAX);
    if (!isA(text, from, LINE_END)) break;
    from = afterLineEnd(text, from);
  }
  return first === undefined || last === undefined ? undefined : { ...first, listEnd: last.end };
}

/** Reads the argument after `--password`: `["--password", "…"]`, or `- …` on the line below `- --password`. */
export function nextArgument(text: string, { from, at }: { from: number; at: number }): Inside | undefined {
  if (!text.startsWith("--", from)) return undefined;
  const quotes = at > from && isA(text, at - 1, QUOTE) ? at - 1 : -1;
  if (quotes !== -1 && isOneOf(text, at, ",")) {
    if (isOneOf(text, runStart(text, from, QUOTE, from - 1) - 1, "(")) return undefined;
    const next = runEnd(text, at + 1, BLANK | LINE_END, at + GAP_CHARS_MAX);
    const element = elementAt(text, next);
    return element?.style === "quoted" && isArgument(text, element) ? element : undefined;
  }
  return argumentBelow(text, from, at);
}

function argumentBelow(text: string, from: number, at: number): Inside | undefined {
  const lineEnd = runEnd(text, at, BLANK, at + GAP_CHARS_MAX);
  const name = runStart(text, from, QUOTE, from - 1);
  const dash = runStart(text, name, BLANK, name - GAP_CHARS_MAX);
  if (!isA(text, lineEnd, LINE_END) || dash === name || !isOneOf(text, dash - 1, "-")) return undefined;
  const line = runStart(text, dash - 1, BLANK, dash - NAME_CHARS_MAX);
  const next = afterLineEnd(text, lineEnd);
  const mark = text.slice(isDiffMarker(text, line - 1) ? line - 1 : line, name);
  if (!text.startsWith(mark, next)) return undefined;
  const element = elementAt(text, next + mark.length);
  return element !== undefined && isArgument(text, element) ? element : undefined;
}

function isArgument(text: string, element: Inside): boolean {
  return (
    isWord(text, element) &&
    !FLAG.test(text.slice(element.start, Math.min(element.end, element.start + NAME_CHARS_MAX)))
  );
}

const FLAG = /^--?[a-zA-Z][\w-]*(?:=|$)/;

function isWord(text: string, { start, end }: Inside): boolean {
  return end > start && (classesIn(text, start, end) & BLANK) === 0;
}

/** Returns a quoted text, or a word that ends at one of `marks`, at a line end, or at the end of a list's or object's element. */
function elementAt(text: string, at: number, marks = "]}"): Inside | undefined {
  const start = afterQuote(text, at);
  const isQuoted = start > at;
  const quote = text.charCodeAt(start - 1);
  const limit = Math.min(text.length, start + LIST_CHARS_MAX);
  let end = start;
  while (
    end < limit &&
    !isA(text, end, LINE_END) &&
    !(isQuoted ? text.charCodeAt(end) === quote : isA(text, end, BLANK | QUOTE | STOP) || isOneOf(text, end, marks))
  )
    end += 1;
  while (isQuoted && end > start && isOneOf(text, end - 1, "\\")) end -= 1;
  return end > start ? { start, end, style: isQuoted ? "quoted" : "line" } : undefined;
}

/** Maximum length of a block. UTF-16 units. */
const BLOCK_CHARS_MAX = 32_768;

/** Reads a YAML block (`name: |`): the lines that are indented more than the name. */
export function blockLines(text: string, from: number, at: number): TextRange | undefined {
  if (!isOneOf(text, at, "|>")) return undefined;
  const mark = runEnd(text, at + 1, DIGIT | DASH | PLUS_SLASH, at + 3);
  const headEnd = runEnd(text, mark, BLANK, mark + GAP_CHARS_MAX);
  const indent = from - runStart(text, from, BLANK | DASH | QUOTE, from - NAME_CHARS_MAX);
  const first = nextLine(text, headEnd);
  if (first === -1 || indentOf(text, first) <= indent) return undefined;
  const start = first + indentOf(text, first);
  let end = start;
  for (let line = first; line !== -1 && line < start + BLOCK_CHARS_MAX && indentOf(text, line) > indent; ) {
    end = lineEnd(text, line, line + BLOCK_CHARS_MAX);
    line = nextLine(text, end);
  }
  return { start, end };
}

/** Returns the start of the next line; -1 when there is none. */
function nextLine(text: string, at: number): number {
  const next = afterLineEnd(text, at);
  return next > at && next < text.length ? next : -1;
}

function indentOf(text: string, line: number): number {
  return runEnd(text, line, BLANK, line + GAP_CHARS_MAX) - line;
}

/** Maximum lengths in UTF-16 units. */
const TAG_CHARS_MAX = 192;
const PREFIX_CHARS_MAX = 32;
const TEXT_CHARS_MAX = 4_096;

/** Elements with an attribute that names their content. */
const SETTINGS = wordSet("property entry param setting prop option attribute constant variable item config env arg");
const NAMED_BY =
  /<(?:[\w-]{1,24}:)?([A-Za-z][\w-]{0,24})(?: [\w:-]{1,24}=["'][^"'<>]{0,64}["']){0,3} (?:name|key|id)=["']$/;

/** Reads the text of an element: `<x:password>…`, `<password type="plain">…`, `<password><![CDATA[…`, `<property name="password">…`. */
export function elementText(text: string, { from, to, at }: Name): Stated | undefined {
  const style = at > to ? attributeStyle(text, from) : tagStyle(text, from, to);
  const end = style === undefined ? -1 : openEnd(text, at);
  if (style === undefined || end === -1) return undefined;
  const start = textStart(text, end);
  let close = start;
  while (close < start + TEXT_CHARS_MAX && close < text.length && !isOneOf(text, close, "<")) close += 1;
  const last = text.startsWith("]]>", close - 3) ? close - 3 : close;
  const isClosed = isOneOf(text, close, "<") && isOneOf(text, close + 1, "/!");
  const isText = isClosed && last > start && !isA(text, start, BLANK | LINE_END);
  return isText ? { start, end: last, style } : undefined;
}

/** Excludes a plain `<password>`, which `separatorAfter` handles. */
function tagStyle(text: string, from: number, to: number): Stated["style"] | undefined {
  if (isOneOf(text, from - 1, "<")) {
    const isPlain = isOneOf(text, to, ">") && !text.startsWith(CDATA, to + 1);
    return isPlain ? undefined : "line";
  }
  if (!isOneOf(text, from - 1, ":")) return undefined;
  const prefix = runStart(text, from - 1, NAME, from - PREFIX_CHARS_MAX);
  return prefix < from - 1 && isOneOf(text, prefix - 1, "<") ? "line" : undefined;
}

/** Android's `<string>` also contains text for users. */
function attributeStyle(text: string, from: number): Stated["style"] | undefined {
  if (!isOneOf(text, from - 2, "=")) return undefined;
  const element = NAMED_BY.exec(textBefore(text, from, TAG_CHARS_MAX))?.[1];
  if (element === undefined) return undefined;
  if (SETTINGS.has(element.toLowerCase())) return "line";
  return element === "string" ? "loose" : undefined;
}

/** Returns the end of the tag around `at`; -1 when it has a `value` attribute or no end. */
function openEnd(text: string, at: number): number {
  let end = at;
  while (end < at + TAG_CHARS_MAX && end < text.length && !isOneOf(text, end, "<>")) end += 1;
  if (!isOneOf(text, end, ">") || isOneOf(text, end - 1, "/")) return -1;
  return VALUE_ATTRIBUTE.test(text.slice(at, end)) ? -1 : end + 1;
}

const VALUE_ATTRIBUTE = /\bvalue=/;
const CDATA = "<![CDATA[";
const VALUE_TAG = /^\s{0,32}<value>/i;

/** Skips `<![CDATA[` and `<value>` before the text. */
function textStart(text: string, at: number): number {
  const tag = VALUE_TAG.exec(text.slice(at, at + TAG_CHARS_MAX))?.[0].length ?? 0;
  const start = at + tag;
  return text.startsWith(CDATA, start) ? start + CDATA.length : start;
}

/** Returns whether two elements are the name and value of a setting: `<key>Password</key><string>…`, `<param-name>password</param-name><param-value>…`. */
export function isSettingPair(text: string, close: number, open: number): boolean {
  const first = text.slice(close + 2, runEnd(text, close + 2, NAME, close + TAG_CHARS_MAX));
  const second = text.slice(open + 1, runEnd(text, open + 1, NAME, open + TAG_CHARS_MAX));
  return (first === "key" && second === "string") || (first.endsWith("-name") && second.endsWith("-value"));
}

/** Reads the value of a form part: `Content-Disposition: form-data; name="password"`, an empty line, and the value. */
export function formPart(text: string, { from, to, at }: Name): Stated | undefined {
  if (at === to || !isA(text, at, LINE_END) || !text.startsWith(FORM_DATA, from - FORM_DATA.length - 1))
    return undefined;
  const start = runEnd(text, at, LINE_END, at + 4);
  const end = lineEnd(text, start, start + TEXT_CHARS_MAX);
  return start - at > 1 && end > start && !isA(text, start, QUOTE) ? { start, end, style: "line" } : undefined;
}

const FORM_DATA = "form-data; name=";
