import { BLANK, isA, isOneOf, LINE_END, NAME, QUOTE, runEnd, runStart } from "../../views/characters.ts";
import { lineEnd } from "../stretches.ts";
import { wordSet } from "../words.ts";
import type { Name, Stated } from "./bare-word.ts";

/** Of a tag, and of a prefix of names. UTF-16 units. */
const TAG_CHARS_MAX = 192;
const PREFIX_CHARS_MAX = 32;
const TEXT_CHARS_MAX = 4_096;

/** Elements whose attribute names what stands in them. */
const SETTINGS = wordSet("property entry param setting prop option attribute constant variable item config env arg");
/** Attributes that name it. */
const NAMED_BY =
  /<(?:[\w-]{1,24}:)?([A-Za-z][\w-]{0,24})(?: [\w:-]{1,24}=["'][^"'<>]{0,64}["']){0,3} (?:name|key|id)=["']$/;

/** `<x:password>…`, `<password type="plain">…`, `<password><![CDATA[…`, `<property name="password">…`: the element's text. */
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

/** A plain `<password>` is read elsewhere. */
function tagStyle(text: string, from: number, to: number): Stated["style"] | undefined {
  if (isOneOf(text, from - 1, "<")) return isPlain(text, to) ? undefined : "line";
  if (!isOneOf(text, from - 1, ":")) return undefined;
  const prefix = runStart(text, from - 1, NAME, from - PREFIX_CHARS_MAX);
  return prefix < from - 1 && isOneOf(text, prefix - 1, "<") ? "line" : undefined;
}

function isPlain(text: string, to: number): boolean {
  return isOneOf(text, to, ">") && !text.startsWith(CDATA, to + 1);
}

/** What programs show to their users stands in such elements, too. */
function attributeStyle(text: string, from: number): Stated["style"] | undefined {
  if (!isOneOf(text, from - 2, "=")) return undefined;
  const element = NAMED_BY.exec(text.slice(Math.max(0, from - TAG_CHARS_MAX), from))?.[1];
  if (element === undefined) return undefined;
  if (SETTINGS.has(element.toLowerCase())) return "line";
  return element === "string" ? "loose" : undefined;
}

/** Behind the tag in which `at` stands; -1 when it has its value in itself, or no end. */
function openEnd(text: string, at: number): number {
  let end = at;
  while (end < at + TAG_CHARS_MAX && end < text.length && !isOneOf(text, end, "<>")) end += 1;
  if (!isOneOf(text, end, ">") || isOneOf(text, end - 1, "/")) return -1;
  return VALUE_ATTRIBUTE.test(text.slice(at, end)) ? -1 : end + 1;
}

const VALUE_ATTRIBUTE = /\bvalue=/;
const CDATA = "<![CDATA[";
const VALUE_TAG = /^\s{0,32}<value>/i;

/** Behind what may open before the text: `<![CDATA[`, `<value>`. */
function textStart(text: string, at: number): number {
  const tag = VALUE_TAG.exec(text.slice(at, at + TAG_CHARS_MAX))?.[0].length ?? 0;
  const start = at + tag;
  return text.startsWith(CDATA, start) ? start + CDATA.length : start;
}

/** `<key>Password</key><string>…`, `<param-name>password</param-name><param-value>…`: pairs that hold settings. */
export function isSettingPair(text: string, close: number, open: number): boolean {
  const first = text.slice(close + 2, runEnd(text, close + 2, NAME, close + TAG_CHARS_MAX));
  const second = text.slice(open + 1, runEnd(text, open + 1, NAME, open + TAG_CHARS_MAX));
  return (first === "key" && second === "string") || (first.endsWith("-name") && second.endsWith("-value"));
}

/** `Content-Disposition: form-data; name="password"`, an empty line, and the value. */
export function formPart(text: string, { from, to, at }: Name): Stated | undefined {
  if (at === to || !isA(text, at, LINE_END) || !text.startsWith(FORM_DATA, from - FORM_DATA.length - 1))
    return undefined;
  const start = runEnd(text, at, LINE_END, at + 4);
  const end = lineEnd(text, start, start + TEXT_CHARS_MAX);
  return start - at > 1 && end > start && !isA(text, start, QUOTE) ? { start, end, style: "line" } : undefined;
}

const FORM_DATA = "form-data; name=";
