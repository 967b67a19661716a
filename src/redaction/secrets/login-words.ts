import { BLANK, isA, isOneOf, LINE_END, runStart } from "../views/characters.ts";

/** Between two words, and of one. UTF-16 units. */
const GAP_CHARS_MAX = 16;
const LOGIN_WORD_CHARS_MAX = 64;
const LOGIN_PAIRS_MAX = 4;
const LOGIN_KEYWORDS: ReadonlySet<string> = new Set(["login", "account", "port", "user"]);

const PASSWORD_KEYWORDS: ReadonlySet<string> = new Set(["password", "passwd"]);

/** How the value of `password` is written in a `.netrc`: by pairs of words from `machine` on, or from `default` on, which sentences have, too. */
export function loginStyle(text: string, from: number, to: number): "line" | "told" | undefined {
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

interface Span {
  readonly start: number;
  readonly end: number;
}

function wordBefore(text: string, at: number): Span {
  const end = runStart(text, at, BLANK | LINE_END, at - GAP_CHARS_MAX);
  const limit = Math.max(0, end - LOGIN_WORD_CHARS_MAX);
  let start = end;
  while (start > limit && !isA(text, start - 1, BLANK | LINE_END)) start -= 1;
  return { start, end };
}

function isWord(text: string, { start, end }: Span, word: string): boolean {
  return end - start === word.length && text.startsWith(word, start);
}

const ACCOUNT =
  /\b(?:user(?:name)?|login|account|as)[ :=]{1,3}[^\s:=,;]{1,64}[,;]?(?: (?:and|with|using))?(?: (?:the|a))? $/i;
const ACCOUNT_CHARS_MAX = 112;

/** `user bob and password …`, `as bob with password …`: what stands right before the name. */
export function isBesideAccount(text: string, from: number): boolean {
  return isOneOf(text, from - 1, " ") && ACCOUNT.test(text.slice(Math.max(0, from - ACCOUNT_CHARS_MAX), from));
}
