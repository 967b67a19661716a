import { BLANK, isA, isOneOf, LINE_END, QUOTE, runEnd, runStart } from "../../views/characters.ts";
import { type Stretch, startBehind } from "../stretches.ts";
import { isWordy } from "../value-shapes.ts";
import { wordSet } from "../words.ts";
import { bare, type Name, type Stated } from "./bare-word.ts";
import { lastOfClause } from "./in-sentence.ts";

/** Between two words, and of one. UTF-16 units. */
const GAP_CHARS_MAX = 16;
const LOGIN_WORD_CHARS_MAX = 64;
const LOGIN_PAIRS_MAX = 4;
const LOGIN_KEYWORDS = wordSet("login account port user");

const PASSWORD_KEYWORDS = wordSet("password passwd");

/** `machine h login b password X`, in one line or in several. */
export function behindAccount(text: string, { from, to, at }: Name): Stated | undefined {
  const value = runEnd(text, to, BLANK | LINE_END, to + GAP_CHARS_MAX);
  if (at !== to || value === to) return undefined;
  const style = loginStyle(text, from, to);
  if (style === undefined)
    return isBesideAccount(text, from) ? lastOfClause(text, value) : mixedWord(text, from, value);
  return isA(text, value, QUOTE) ? { start: value + 1, style: "quoted" } : bare(text, value, style);
}

/** How the value of `password` is written in a `.netrc`: by pairs of words from `machine` on, or from `default` on, which sentences have, too. */
function loginStyle(text: string, from: number, to: number): "line" | "told" | undefined {
  if ((to - from !== 8 && to - from !== 6) || !PASSWORD_KEYWORDS.has(text.slice(from, to))) return undefined;
  let end = from;
  for (let pair = 0; pair < LOGIN_PAIRS_MAX; pair += 1) {
    const value = wordBefore(text, end);
    const keyword = wordBefore(text, value.start);
    if (isWord(text, value, "default")) return "told";
    if (isWord(text, keyword, "machine")) return "line";
    if (keyword.end - keyword.start > 7 || !LOGIN_KEYWORDS.has(text.slice(keyword.start, keyword.end)))
      return undefined;
    end = keyword.start;
  }
  return undefined;
}

/** `with password Tr0ub4dor3 today`: letters of both cases and digits, as no word of a sentence has them. */
function mixedWord(text: string, from: number, at: number): Stated | undefined {
  if (!isOneOf(text, from - 1, " ") || !isOneOf(text, from - 2, "hHgGeEaA")) return undefined;
  if (!WITH.test(text.slice(Math.max(0, from - GAP_CHARS_MAX), from))) return undefined;
  const stated = bare(text, at, "listed");
  return stated?.end === undefined || isWordy(text.slice(at, stated.end)) ? undefined : stated;
}

const WITH = /\b(?:with|using) (?:the |a )?$/i;

function wordBefore(text: string, at: number): Stretch {
  const end = runStart(text, at, BLANK | LINE_END, at - GAP_CHARS_MAX);
  return { start: startBehind(text, end, BLANK | LINE_END, end - LOGIN_WORD_CHARS_MAX), end };
}

function isWord(text: string, { start, end }: Stretch, word: string): boolean {
  return end - start === word.length && text.startsWith(word, start);
}

/** `user bob and `, `login=bob, `, `as bob with the `. */
const ACCOUNT =
  /\b(?:user(?:name)?|login|account|as)[ :=]{1,3}[^\s:=,;]{1,64}[,;]?(?: (?:and|with|using))?(?: (?:the|a))? $/i;
const ACCOUNT_CHARS_MAX = 112;

/** `user bob and password …`, `as bob with password …`: what stands right before the name. */
function isBesideAccount(text: string, from: number): boolean {
  return isOneOf(text, from - 1, " ") && ACCOUNT.test(text.slice(Math.max(0, from - ACCOUNT_CHARS_MAX), from));
}
