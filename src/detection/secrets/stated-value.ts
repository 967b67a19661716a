import {
  BLANK,
  classesIn,
  DASH,
  DIGIT,
  endBefore,
  endsLine,
  isA,
  isOneOf,
  LETTER,
  LINE_END,
  LOWER,
  QUOTE,
  runEnd,
  runStart,
  startAfter,
  type TextRange,
  textBefore,
  UPPER,
  WORD,
  wordSet,
} from "../views/characters.ts";
import { afterPrefix, compoundEnd, endsString, stringEnd, tagEnd } from "./strings.ts";
import { bareWord, beginsEntry, formPart, isSettingPair, type Name, type Stated, spacesEnd } from "./structures.ts";
import { isWordy } from "./value-shapes.ts";
import type { ValueStyle } from "./values.ts";

/** Maximum lengths in UTF-16 units. */
const GAP_CHARS_MAX = 16;
const TYPE_CHARS_MAX = 48;
const USER_CHARS_MAX = 64;
const VALUE_CHARS_MAX = 128;
const CLOSERS_MAX = 2;

/** Operators before a default value: `process.env.PASSWORD || "…"`. */
const DEFAULTS = ["||", "??", "?:", "| default ", "|default "];
/** An operator after a bracket; elsewhere `or` is a word of a sentence. */
const OR = "or ";

/** Reads a value without `=` or `:`: `get("NAME", "…")`, `NAME ?? "…"`, `setPassword("…")`, `| NAME | … |`, `NAME is …`. */
export function statedValue(text: string, name: Name): Stated | undefined {
  return (
    formPart(text, name) ??
    valueBefore(text, name) ??
    tupleValue(text, name) ??
    defaultValue(text, name) ??
    argument(text, name) ??
    column(text, name) ??
    wordAfterVerb(text, name) ??
    directive(text, name) ??
    afterAccount(text, name)
  );
}

/** Reads an Erlang tuple: `{password, "…"}`, `{password, <<"…">>}`. */
function tupleValue(text: string, { from, to, at }: Name): Stated | undefined {
  if (at !== to || !isOneOf(text, from - 1, "{") || !isOneOf(text, to, ",")) return undefined;
  const value = spacesEnd(text, to + 1);
  const quote = text.startsWith("<<", value) ? value + 2 : value;
  return isOneOf(text, quote, '"') ? { start: quote + 1, style: "quoted" } : undefined;
}

function defaultValue(text: string, { from, to, at }: Name): Stated | undefined {
  let close = at;
  while (close < at + CLOSERS_MAX && isOneOf(text, close, ")]")) close += 1;
  const next = spacesEnd(text, close);
  const operator = operatorAt(text, next, close > at);
  const isListed = operator === undefined && at > to && isOneOf(text, at, ",");
  if (operator === undefined && !isListed) return undefined;
  const quote = afterPrefix(text, spacesEnd(text, isListed ? at + 1 : next + (operator ?? "").length));
  if (!isA(text, quote, QUOTE)) return undefined;
  const name = { from, to, at };
  if (!isListed || isLookedUp(text, name, quote)) return { start: quote + 1, style: "quoted" };
  return { start: quote + 1, style: isPair(text, name, quote) ? "paired" : "listed" };
}

/** Returns whether the brackets contain only two strings: `["x-api-key", "…"]`, `("name", "…")`. */
function isPair(text: string, { from }: Name, quote: number): boolean {
  const opening = isOneOf(text, from - 2, "bBuUrN") ? from - 3 : from - 2;
  if (!isOneOf(text, runStart(text, opening + 1, BLANK, opening - GAP_CHARS_MAX) - 1, "[(")) return false;
  const end = stringEnd(text, quote, { ends: LINE_END, limit: quote + VALUE_CHARS_MAX });
  return text[end] === text[quote] && isOneOf(text, spacesEnd(text, end + 1), "])");
}

function operatorAt(text: string, at: number, isAfterBracket: boolean): string | undefined {
  if (isOneOf(text, at, "|?")) return DEFAULTS.find((one) => text.startsWith(one, at));
  return isAfterBracket && text.startsWith(OR, at) ? OR : undefined;
}

/** Returns whether a variable is looked up with a default: `getenv("DB_PASSWORD", "…")`. */
function isLookedUp(text: string, { from, to }: Name, quote: number): boolean {
  if (
    !isOneOf(text, runStart(text, from - 1, BLANK, from - GAP_CHARS_MAX) - 1, "(") ||
    (classesIn(text, from, to) & LOWER) !== 0
  )
    return false;
  const end = endBefore(text, quote + 1, BLANK | LINE_END | QUOTE, quote + VALUE_CHARS_MAX);
  return text[end] === text[quote];
}

/** Reads the argument of a setter: `setPassword("…")`, `.password("…")`, `password{"…"}`. */
function argument(text: string, { from, to, at }: Name): Stated | undefined {
  if (at !== to || !isOneOf(text, to, "({") || !isA(text, to + 1, QUOTE)) return undefined;
  const method = text.slice(from, to).split(".").at(-1) ?? "";
  if (!/^(?:set|with)_?[A-Za-z]|^[a-z]+$|^PASSWORD$/.test(method) || method === "pass") return undefined;
  const start = to + 2;
  const end = stringEnd(text, to + 1, { ends: BLANK | LINE_END, limit: start + VALUE_CHARS_MAX });
  return text[end] === text[to + 1] && isOneOf(text, end + 1, ")}") ? { start, style: "quoted" } : undefined;
}

/** Commands that set an environment variable in Dockerfiles, Windows, csh, fish and web servers. */
const SETTERS =
  /(?:\b(?:ENV|ARG|setx|SETX|setenv|SetEnv|(?:fastcgi|uwsgi|scgi)_param|passenger_env_var)|\bset -[a-zA-Z]{1,3}) {1,4}$/;
const SETTER_CHARS_MAX = 24;

/** Reads the value after a setting command or in the next cell of a table. */
function column(text: string, { from, to, at }: Name): Stated | undefined {
  const seen = classesIn(text, from, to);
  const gap = spacesEnd(text, to);
  if (gap > to && isOneOf(text, from - 1, " :") && CONFIGURES.test(textBefore(text, from, CONFIGURES_CHARS_MAX)))
    return word(text, gap, directiveStyle(text, from, to));
  if (isOneOf(text, gap, "|") && CELL.test(textBefore(text, from, CELL_CHARS_MAX)))
    return word(text, spacesEnd(text, gap + 1));
  if (text.startsWith("</", to)) return cell(text, to);
  if (isOneOf(text, gap, "|") && beginsSetting(text, from)) return lastWord(text, spacesEnd(text, gap + 1), "prose");
  if (at !== to || (seen & UPPER) === 0 || (seen & LOWER) !== 0) return undefined;
  if (gap > to && SETTERS.test(textBefore(text, from, SETTER_CHARS_MAX)))
    return isA(text, gap, QUOTE) ? { start: gap + 1, style: "assigned" } : bareWord(text, gap, "assigned");
  if (isOneOf(text, to, ",")) return bareWord(text, to + 1, "listed");
  if (isOneOf(text, gap, "|")) return bareWord(text, spacesEnd(text, gap + 1), "prose");
  return isOneOf(text, to, "\t") ? bareWord(text, gap, "prose") : undefined;
}

function lastWord(text: string, at: number, style: ValueStyle): Stated | undefined {
  const stated = bareWord(text, at, style);
  return stated?.end !== undefined && endsLine(text, spacesEnd(text, stated.end)) ? stated : undefined;
}

/** `git config user.password …`, `CONFIG SET requirepass …` */
const CONFIGURES = /\b(?:config(?:ure)? set|config --(?:global|local|add)|config) (?:\/\/[\w.-]{1,64}\/:)?$/i;
const CONFIGURES_CHARS_MAX = 96;
/** Start of a table's cell, with at most two words before the name. */
const CELL = /\|[ \t`]{0,16}(?:[A-Za-z]{1,16} ){0,2}$/;
const CELL_CHARS_MAX = 48;

function word(text: string, at: number, style: ValueStyle = "prose"): Stated | undefined {
  return isA(text, at, QUOTE) ? { start: at + 1, style } : bareWord(text, at, style);
}

/** Reads the text of the next element: `<td>Password</td><td>…</td>`. */
function cell(text: string, at: number): Stated | undefined {
  const close = tagEnd(text, at);
  const open = close === -1 ? -1 : runEnd(text, close, BLANK | LINE_END, close + GAP_CHARS_MAX);
  const value = open === -1 || isOneOf(text, open + 1, "/") ? -1 : tagEnd(text, open);
  return value === -1 ? undefined : bareWord(text, value, isSettingPair(text, at, open) ? "line" : "prose");
}

const DIRECTIVES = wordSet("requirepass masterauth bindpw rootpw");

function directiveStyle(text: string, from: number, to: number): ValueStyle {
  return DIRECTIVES.has(text.slice(from, to).toLowerCase()) ? "line" : "prose";
}

/** Reads a line that consists of a setting and its value. */
function directive(text: string, { from, to, at }: Name): Stated | undefined {
  const value = spacesEnd(text, to);
  if (at !== to || value === to) return undefined;
  if (isA(text, value, DIGIT) && isA(text, value + 1, BLANK))
    return beginsSetting(text, from) ? bareWord(text, spacesEnd(text, value + 1), "prose") : undefined;
  return beginsSetting(text, from) ? lastWord(text, value, directiveStyle(text, from, to)) : undefined;
}

/** Start of a network device's setting: `enable secret …`, `username ann password 7 …`. */
const DEVICE = / {0,4}(?:enable|username [^\s]{1,32}(?: privilege \d{1,2})?)$/;
const DEVICE_CHARS_MAX = 64;

/** Returns whether the line has nothing before this offset but dashes, its location, or the start of a device's setting. */
function beginsSetting(text: string, from: number): boolean {
  if (beginsEntry(text, from)) return true;
  const line = runStart(text, from, BLANK | DASH, from - USER_CHARS_MAX);
  const device = DEVICE.exec(textBefore(text, line, DEVICE_CHARS_MAX))?.[0].length ?? 0;
  return device > 0 && beginsEntry(text, line - device);
}

/** Types that are written without a colon. */
const TYPES = wordSet("string *string []byte String str text std::string varchar");
/** Length of the longest type, plus one. */
const NAMED_TYPE_CHARS_MAX = 12;

/** Returns the offset of a declaration's opening quote, after `: string = `, ` string = ` or ` As String = `; -1 when there is none. */
export function declaredValue(text: string, from: number, after: "colon" | "name"): number {
  const hasColon = after === "colon";
  const word = spacesEnd(text, from);
  if (!hasColon && word === from) return -1;
  const type = !hasColon && text.startsWith("As ", word) ? word + 3 : word;
  let end = type;
  const limit = type + (hasColon ? TYPE_CHARS_MAX : NAMED_TYPE_CHARS_MAX);
  while (end < limit && !isA(text, end, BLANK | LINE_END | QUOTE) && !isOneOf(text, end, "=")) end += 1;
  if (end === type || (!hasColon && !TYPES.has(text.slice(type, end)))) return -1;
  const equals = spacesEnd(text, end);
  if (!isOneOf(text, equals, "=") || "=>".includes(text[equals + 1] ?? "=")) return -1;
  const quote = spacesEnd(text, equals + 1);
  return isA(text, quote, QUOTE) ? quote : -1;
}

/** Skips a YAML tag (`!!str `, `!Ref `) or anchor (`&name `) and the space after it. */
export function afterTag(text: string, at: number): number {
  if (!isOneOf(text, at, "!&")) return at;
  const tag = runEnd(text, isOneOf(text, at + 1, "!") ? at + 2 : at + 1, WORD, at + GAP_CHARS_MAX);
  const value = spacesEnd(text, tag);
  return value > tag ? value : at;
}

/** Skips the end of an index or a size: `env["NAME"]`, `env[NAME] =`, `env[:name] =`, `name[32]`. */
export function afterIndex(text: string, { from, to, at }: Name): number {
  if (at > to) return isOneOf(text, at, "]") ? at + 1 : at;
  if (isOneOf(text, to, "]")) {
    const equals = spacesEnd(text, to + 1);
    const opening = isOneOf(text, from - 1, ":") ? from - 2 : from - 1;
    return isOneOf(text, opening, "[") && (isOneOf(text, equals, "=") || compoundEnd(text, equals) !== -1)
      ? to + 1
      : at;
  }
  if (!isOneOf(text, to, "[")) return at;
  const size = runEnd(text, to + 1, DIGIT, to + GAP_CHARS_MAX);
  return isOneOf(text, size, "]") ? size + 1 : at;
}

const VERBS = [
  ...["is", "was", "will be", "set to", "changed to", "reset to", "is now", "-", "–", "—", "→", "->"],
  ...["ist", "lautet", "est", "es", "é", "è"],
];
/** Verbs that follow a word directly, in scripts without spaces. */
export const JOINED_VERBS = "是为為は는은";
const VERBS_BY_FIRST = Map.groupBy(VERBS.toReversed(), (verb) => verb.charCodeAt(0));
const PASSIVE_FIRST = "hwi";
const PASSIVE = /^(?:was|has been|is now) (?:set|reset|changed) to/;
const PASSIVE_CHARS_MAX = 32;
/** Words that may follow a value in a sentence. Before any other word, the value is part of the sentence. */
const CONJUNCTIONS = wordSet("and but for on in so please thanks with or");

/** Reads `The password is hunter2.`, `Password for ann: hunter2`. */
function wordAfterVerb(text: string, { to, at }: Name): Stated | undefined {
  const word = spacesEnd(text, to);
  if (at === to && isOneOf(text, to, JOINED_VERBS)) return bareWord(text, spacesEnd(text, to + 1), "prose");
  if (at !== to || word === to) return undefined;
  const owner = isOneOf(text, word, OWNER_FIRST)
    ? OWNER.exec(text.slice(word, word + OWNER_CHARS_MAX))?.[0]
    : undefined;
  const end = owner === undefined ? verbEnd(text, word) : word + owner.length;
  const value =
    end === -1 ? end : runEnd(text, end, owner === undefined ? BLANK : BLANK | LINE_END, end + GAP_CHARS_MAX);
  if (value === -1 || value === end) return undefined;
  if (isA(text, value, QUOTE)) return endsString(text, value, to) ? undefined : { start: value + 1, style: "quoted" };
  return owner === undefined ? lastOfClause(text, value) : (lastOfLine(text, value) ?? lastOfClause(text, value));
}

/** Returns the word, with its punctuation, when the line ends after it. */
function lastOfLine(text: string, at: number): Stated | undefined {
  const end = endBefore(text, at, BLANK | LINE_END | QUOTE, at + VALUE_CHARS_MAX);
  return end > at && endsLine(text, end) ? { start: at, end, style: "prose" } : undefined;
}

/** Returns the word at `at` when its clause ends after it. */
function lastOfClause(text: string, at: number): Stated | undefined {
  const stated = bareWord(text, at, "prose");
  return stated?.end !== undefined && endsClause(text, stated.end) ? stated : undefined;
}

function verbEnd(text: string, at: number): number {
  const passive = isOneOf(text, at, PASSIVE_FIRST)
    ? PASSIVE.exec(text.slice(at, at + PASSIVE_CHARS_MAX))?.[0]
    : undefined;
  const verb = passive ?? verbAt(text, at);
  if (verb === undefined) return -1;
  const end = at + verb.length;
  return isOneOf(text, end, ":") ? end + 1 : end;
}

function verbAt(text: string, at: number): string | undefined {
  const verbs = VERBS_BY_FIRST.get(text.charCodeAt(at));
  return verbs?.find((one) => text.startsWith(one, at) && !isA(text, at + one.length, WORD));
}

/** Matches `for ann: `, `for ann is `, `is generated for root@localhost: `, `FOR 'ann'@'host' = `. */
const OWNER =
  /^(?:(?:is|was|has been) (?:generated|set|created|changed) )?for (?:the )?[^\s:=]{1,64}(?: user)?(?: \([^()\r\n]{0,64}\))?(?::| ?=| is(?= ))/i;
const OWNER_CHARS_MAX = 192;
const OWNER_FIRST = "fFiIwWhH";

function endsClause(text: string, end: number): boolean {
  const next = spacesEnd(text, end);
  if (next === end || next >= text.length || !isA(text, next, LETTER)) return true;
  return CONJUNCTIONS.has(text.slice(next, runEnd(text, next, LETTER, next + GAP_CHARS_MAX)).toLowerCase());
}

const LOGIN_WORD_CHARS_MAX = 64;
const LOGIN_PAIRS_MAX = 4;
const LOGIN_KEYWORDS = wordSet("login account port user");

const PASSWORD_KEYWORDS = wordSet("password passwd");

/** Reads `machine h login b password X`, on one line or several. */
function afterAccount(text: string, { from, to, at }: Name): Stated | undefined {
  const value = runEnd(text, to, BLANK | LINE_END, to + GAP_CHARS_MAX);
  if (at !== to || value === to) return undefined;
  const style = loginStyle(text, from, to);
  if (style === undefined) return followsAccount(text, from) ? lastOfClause(text, value) : mixedWord(text, from, value);
  return isA(text, value, QUOTE) ? { start: value + 1, style: "quoted" } : bareWord(text, value, style);
}

/** Returns the style of a `.netrc` password: after `machine`, or after `default`, which also occurs in sentences. */
function loginStyle(text: string, from: number, to: number): "line" | "prose" | undefined {
  if ((to - from !== 8 && to - from !== 6) || !PASSWORD_KEYWORDS.has(text.slice(from, to))) return undefined;
  let end = from;
  for (let pair = 0; pair < LOGIN_PAIRS_MAX; pair += 1) {
    const value = wordBefore(text, end);
    const keyword = wordBefore(text, value.start);
    if (isWord(text, value, "default")) return "prose";
    if (isWord(text, keyword, "machine")) return "line";
    if (keyword.end - keyword.start > 7 || !LOGIN_KEYWORDS.has(text.slice(keyword.start, keyword.end)))
      return undefined;
    end = keyword.start;
  }
  return undefined;
}

/** Reads `with password Tr0ub4dor3 today`: only a mixture of cases and digits distinguishes the value from a word. */
function mixedWord(text: string, from: number, at: number): Stated | undefined {
  if (!isOneOf(text, from - 1, " ") || !isOneOf(text, from - 2, "hHgGeEaA")) return undefined;
  if (!WITH.test(textBefore(text, from, GAP_CHARS_MAX))) return undefined;
  const stated = bareWord(text, at, "listed");
  return stated?.end === undefined || isWordy(text.slice(at, stated.end)) ? undefined : stated;
}

const WITH = /\b(?:with|using) (?:the |a )?$/i;

function wordBefore(text: string, at: number): TextRange {
  const end = runStart(text, at, BLANK | LINE_END, at - GAP_CHARS_MAX);
  return { start: startAfter(text, end, BLANK | LINE_END, end - LOGIN_WORD_CHARS_MAX), end };
}

function isWord(text: string, { start, end }: TextRange, word: string): boolean {
  return end - start === word.length && text.startsWith(word, start);
}

/** Matches `user bob and `, `login=bob, `, `as bob with the `. */
const ACCOUNT =
  /\b(?:user(?:name)?|login|account|as)[ :=]{1,3}[^\s:=,;]{1,64}[,;]?(?: (?:and|with|using))?(?: (?:the|a))? $/i;
const ACCOUNT_CHARS_MAX = 112;

function followsAccount(text: string, from: number): boolean {
  return isOneOf(text, from - 1, " ") && ACCOUNT.test(textBefore(text, from, ACCOUNT_CHARS_MAX));
}

/** Maximum length of a record before its name. UTF-16 units. */
const RECORD_CHARS_MAX = 640;
const KEY_CHARS_MAX = 24;
const RECORD_GAP_CHARS_MAX = 10;

const KEY = /\b(?:name|key)["']?\s{0,8}[:=]\s{0,8}["']?$/i;
/** Matches `"value": "…", "name": "`. */
const MEMBER =
  /["']?\bvalue["']?\s{0,8}[:=]\s{0,8}(["'])((?:[^"'\\\r\n{}]|\\.){3,512})\1\s{0,8},\s{0,32}["']?(?:name|key)["']?\s{0,8}[:=]\s{0,8}["']?$/i;
/** Matches `value: …` and `name: ` on the next line. */
const LINE =
  /(?:^|[\r\n])[ \t]{0,32}(?:- )?value:[ \t]{1,4}(["']?)([^\s"'#]{3,256})\1[ \t]{0,8}\r?\n[ \t]{1,32}(?:name|key):[ \t]{1,4}["']?$/;

/** Reads a value before its name: `{"value": "…", "name": "DB_PASSWORD"}`. */
function valueBefore(text: string, { from }: Name): Stated | undefined {
  if (!isOneOf(text, runStart(text, from, BLANK | QUOTE, from - RECORD_GAP_CHARS_MAX) - 1, ":=")) return undefined;
  if (!KEY.test(textBefore(text, from, KEY_CHARS_MAX))) return undefined;
  const before = textBefore(text, from, RECORD_CHARS_MAX);
  const found = MEMBER.exec(before) ?? LINE.exec(before);
  const value = found?.[2];
  if (found === null || value === undefined) return undefined;
  const start = from - before.length + found.index + found[0].indexOf(value, "value".length);
  return { start, end: start + value.length, style: found[1] === "" ? "line" : "quoted" };
}
