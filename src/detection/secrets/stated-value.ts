import {
  BLANK,
  classesIn,
  DASH,
  DIGIT,
  endBefore,
  isA,
  isOneOf,
  LETTER,
  LINE_END,
  LOWER,
  QUOTE,
  runEnd,
  runStart,
  type Stretch,
  startAfter,
  UPPER,
  WORD,
  wordSet,
} from "../views/characters.ts";
import { afterPrefix, compoundEnd, tagEnd } from "./strings.ts";
import { bare, formPart, isSettingPair, type Name, type Stated, spacesEnd } from "./structures.ts";
import { isWordy } from "./value-shapes.ts";
import type { ValueStyle } from "./values.ts";

/** UTF-16 units. */
const GAP_CHARS_MAX = 16;
const TYPE_CHARS_MAX = 48;
const USER_CHARS_MAX = 64;
const VALUE_CHARS_MAX = 128;
const CLOSERS_MAX = 2;

/** What takes the place of a value that is missing: `process.env.PASSWORD || "…"`. */
const DEFAULTS = ["||", "??", "?:", "| default ", "|default "];
/** Only after a bracket: elsewhere it is a word. */
const OR = "or ";

/** `get("NAME", "…")`, `NAME ?? "…"`, `setPassword("…")`, `| NAME | … |`, `NAME is …`, `requirepass …`. */
export function statedValue(text: string, name: Name): Stated | undefined {
  return (
    formPart(text, name) ??
    valueBefore(text, name) ??
    tupleValue(text, name) ??
    defaultValue(text, name) ??
    argument(text, name) ??
    column(text, name) ??
    told(text, name) ??
    directive(text, name) ??
    afterAccount(text, name)
  );
}

/** `{password, "…"}`, `{password, <<"…">>}`: Erlang's. */
function tupleValue(text: string, { from, to, at }: Name): Stated | undefined {
  if (at !== to || !isOneOf(text, from - 1, "{") || !isOneOf(text, to, ",")) return undefined;
  const value = spacesEnd(text, to + 1);
  const quote = text.startsWith("<<", value) ? value + 2 : value;
  return isOneOf(text, quote, '"') ? { start: quote + 1, style: "quoted" } : undefined;
}

function defaultValue(text: string, { from, to, at }: Name): Stated | undefined {
  let close = at;
  while (close < at + CLOSERS_MAX && isOneOf(text, close, ")]")) close += 1;
  const sign = spacesEnd(text, close);
  const operator = operatorAt(text, sign, close > at);
  const isListed = operator === undefined && at > to && isOneOf(text, at, ",");
  if (operator === undefined && !isListed) return undefined;
  const quote = afterPrefix(text, spacesEnd(text, isListed ? at + 1 : sign + (operator ?? "").length));
  if (!isA(text, quote, QUOTE)) return undefined;
  const name = { from, to, at };
  if (!isListed || isLookedUp(text, name, quote)) return { start: quote + 1, style: "quoted" };
  return { start: quote + 1, style: isPair(text, name, quote) ? "paired" : "listed" };
}

/** `["x-api-key", "…"]`, `("name", "…")`: two strings, and nothing else between brackets. */
function isPair(text: string, { from }: Name, quote: number): boolean {
  const opening = isOneOf(text, from - 2, "bBuUrN") ? from - 3 : from - 2;
  if (!isOneOf(text, runStart(text, opening + 1, BLANK, opening - GAP_CHARS_MAX) - 1, "[(")) return false;
  let end = quote + 1;
  while (end < quote + VALUE_CHARS_MAX && text[end] !== text[quote] && !isA(text, end, LINE_END)) end += 1;
  return text[end] === text[quote] && isOneOf(text, spacesEnd(text, end + 1), "])");
}

function operatorAt(text: string, sign: number, isBehindBracket: boolean): string | undefined {
  if (isOneOf(text, sign, "|?")) return DEFAULTS.find((one) => text.startsWith(one, sign));
  return isBehindBracket && text.startsWith(OR, sign) ? OR : undefined;
}

/** `getenv("DB_PASSWORD", "…")`: a variable's name, and one word after it. */
function isLookedUp(text: string, { from, to }: Name, quote: number): boolean {
  if (
    !isOneOf(text, runStart(text, from - 1, BLANK, from - GAP_CHARS_MAX) - 1, "(") ||
    (classesIn(text, from, to) & LOWER) !== 0
  )
    return false;
  const end = endBefore(text, quote + 1, BLANK | LINE_END | QUOTE, quote + VALUE_CHARS_MAX);
  return text[end] === text[quote];
}

/** `setPassword("…")`, `.password("…")`, `password{"…"}`: of what sets a value, not of what looks one up. */
function argument(text: string, { from, to, at }: Name): Stated | undefined {
  if (at !== to || !isOneOf(text, to, "({") || !isA(text, to + 1, QUOTE)) return undefined;
  const method = text.slice(from, to).split(".").at(-1) ?? "";
  if (!/^(?:set|with)_?[A-Za-z]|^[a-z]+$|^PASSWORD$/.test(method) || method === "pass") return undefined;
  const start = to + 2;
  let end = start;
  while (end < start + VALUE_CHARS_MAX && text[end] !== text[to + 1] && !isA(text, end, BLANK | LINE_END)) end += 1;
  return text[end] === text[to + 1] && isOneOf(text, end + 1, ")}") ? { start, style: "quoted" } : undefined;
}

/** Dockerfiles, Windows, csh, fish, web servers: what sets a variable of the environment. */
const SETTERS =
  /(?:\b(?:ENV|ARG|setx|SETX|setenv|SetEnv|(?:fastcgi|uwsgi|scgi)_param|passenger_env_var)|\bset -[a-zA-Z]{1,3}) {1,4}$/;
const SETTER_CHARS_MAX = 24;

/** Of a table or of Docker's `ENV NAME value`; names as in an environment. */
function column(text: string, { from, to, at }: Name): Stated | undefined {
  const seen = classesIn(text, from, to);
  const gap = spacesEnd(text, to);
  if (gap > to && CONFIGURES.test(text.slice(Math.max(0, from - CONFIGURES_CHARS_MAX), from)))
    return word(text, gap, DIRECTIVES.has(text.slice(from, to).toLowerCase()) ? "line" : "told");
  if (isOneOf(text, gap, "|") && CELL.test(text.slice(Math.max(0, from - CELL_CHARS_MAX), from)))
    return word(text, spacesEnd(text, gap + 1));
  if (text.startsWith("</", to)) return cell(text, to);
  if (isOneOf(text, gap, "|") && beginsSetting(text, from)) return lastWord(text, spacesEnd(text, gap + 1));
  if (at !== to || (seen & UPPER) === 0 || (seen & LOWER) !== 0) return undefined;
  if (gap > to && SETTERS.test(text.slice(Math.max(0, from - SETTER_CHARS_MAX), from)))
    return isA(text, gap, QUOTE) ? { start: gap + 1, style: "assigned" } : bare(text, gap, "assigned");
  if (isOneOf(text, to, ",")) return bare(text, to + 1, "listed");
  if (isOneOf(text, gap, "|")) return bare(text, spacesEnd(text, gap + 1), "told");
  return isOneOf(text, to, "\t") ? bare(text, gap, "told") : undefined;
}

/** A word with which the line ends. */
function lastWord(text: string, at: number): Stated | undefined {
  const stated = bare(text, at, "told");
  const next = stated?.end === undefined ? at : spacesEnd(text, stated.end);
  return next >= text.length || isA(text, next, LINE_END) ? stated : undefined;
}

/** `git config user.password …`, `CONFIG SET requirepass …` */
const CONFIGURES = /\b(?:config(?:ure)? set|config --(?:global|local|add)|config) (?:\/\/[\w.-]{1,64}\/:)?$/i;
const CONFIGURES_CHARS_MAX = 96;
/** A table's cell begins, with two words at most before the name. */
const CELL = /\|[ \t`]{0,16}(?:[A-Za-z]{1,16} ){0,2}$/;
const CELL_CHARS_MAX = 48;

/** A quoted word, or one without quotes. */
function word(text: string, at: number, style: ValueStyle = "told"): Stated | undefined {
  return isA(text, at, QUOTE) ? { start: at + 1, style } : bare(text, at, style);
}

/** `<td>Password</td><td>…</td>`: the text of the next element. */
function cell(text: string, at: number): Stated | undefined {
  const close = tagEnd(text, at);
  const open = close === -1 ? -1 : runEnd(text, close, BLANK | LINE_END, close + GAP_CHARS_MAX);
  const value = open === -1 || isOneOf(text, open + 1, "/") ? -1 : tagEnd(text, open);
  return value === -1 ? undefined : bare(text, value, isSettingPair(text, at, open) ? "line" : "told");
}

/** Settings that have nothing but a space before their value. */
const DIRECTIVES = wordSet("requirepass masterauth bindpw rootpw");

/** A line's first word and its only other one. */
function directive(text: string, { from, to, at }: Name): Stated | undefined {
  const value = spacesEnd(text, to);
  if (at !== to || value === to) return undefined;
  if (isA(text, value, DIGIT) && isA(text, value + 1, BLANK))
    return beginsSetting(text, from) ? bare(text, spacesEnd(text, value + 1), "told") : undefined;
  const stated = bare(text, value, DIRECTIVES.has(text.slice(from, to).toLowerCase()) ? "line" : "told");
  const next = stated?.end === undefined ? -1 : spacesEnd(text, stated.end);
  const isLast = next !== -1 && (next >= text.length || isA(text, next, LINE_END));
  return isLast && beginsSetting(text, from) ? stated : undefined;
}

/** `enable secret …`, `username ann password 7 …`: of a network's devices. */
const DEVICE = /(?:^|[\r\n]) {0,4}(?:enable|username [^\s]{1,32}(?: privilege \d{1,2})?)$/;
const DEVICE_CHARS_MAX = 64;

/** Returns whether nothing but dashes stands before in the line, or what names a device's setting. */
function beginsSetting(text: string, from: number): boolean {
  const line = runStart(text, from, BLANK | DASH, from - USER_CHARS_MAX);
  if (line <= 0 || isA(text, line - 1, LINE_END)) return true;
  return DEVICE.test(text.slice(Math.max(0, line - DEVICE_CHARS_MAX), line));
}

/** Types before which no colon stands. */
const TYPES = wordSet("string *string []byte String str text std::string varchar");
/** The longest of them, and one more. */
const NAMED_TYPE_CHARS_MAX = 12;

/** Where the quote of a declaration's value stands: after `: string = `, ` string = ` or ` As String = `; -1 when none does. */
export function declaredValue(text: string, from: number, behind: ":" | "blank"): number {
  const hasColon = behind === ":";
  const word = spacesEnd(text, from);
  if (!hasColon && word === from) return -1;
  const type = !hasColon && text.startsWith("As ", word) ? word + 3 : word;
  let end = type;
  const limit = type + (hasColon ? TYPE_CHARS_MAX : NAMED_TYPE_CHARS_MAX);
  while (end < limit && !isA(text, end, BLANK | LINE_END | QUOTE) && !isOneOf(text, end, "=")) end += 1;
  if (end === type || (!hasColon && !TYPES.has(text.slice(type, end)))) return -1;
  const sign = spacesEnd(text, end);
  if (!isOneOf(text, sign, "=") || "=>".includes(text[sign + 1] ?? "=")) return -1;
  const quote = spacesEnd(text, sign + 1);
  return isA(text, quote, QUOTE) ? quote : -1;
}

/** After a YAML tag (`!!str `, `!Ref `) or anchor (`&name `) and its blank. */
export function afterTag(text: string, at: number): number {
  if (!isOneOf(text, at, "!&")) return at;
  const tag = runEnd(text, isOneOf(text, at + 1, "!") ? at + 2 : at + 1, WORD, at + GAP_CHARS_MAX);
  const value = spacesEnd(text, tag);
  return value > tag ? value : at;
}

/** After what may close a name: `env["NAME"]`, `env[NAME] =`, `env[:name] =`, `name[32]`. */
export function afterIndex(text: string, { from, to, at }: Name): number {
  if (at > to) return isOneOf(text, at, "]") ? at + 1 : at;
  if (isOneOf(text, to, "]")) {
    const sign = spacesEnd(text, to + 1);
    const opening = isOneOf(text, from - 1, ":") ? from - 2 : from - 1;
    return isOneOf(text, opening, "[") && (isOneOf(text, sign, "=") || compoundEnd(text, sign) !== -1) ? to + 1 : at;
  }
  if (!isOneOf(text, to, "[")) return at;
  const size = runEnd(text, to + 1, DIGIT, to + GAP_CHARS_MAX);
  return isOneOf(text, size, "]") ? size + 1 : at;
}

/** UTF-16 units. */

const VERBS = [
  ...["is", "was", "will be", "set to", "changed to", "reset to", "is now", "-", "–", "—", "→", "->"],
  ...["ist", "lautet", "est", "es", "é", "è"],
];
/** After a word of a script without spaces. */
export const JOINED_VERBS = "是为為は는은";
const VERBS_FIRST = `h${VERBS.map((verb) => verb.charAt(0)).join("")}`;
/** `was changed to`, `has been set to` */
const PASSIVE = /^(?:was|has been|is now) (?:set|reset|changed) to/;
const PASSIVE_CHARS_MAX = 32;
/** After a value in a sentence that goes on; after others the value is one of its words. */
const CONJUNCTIONS = wordSet("and but for on in so please thanks with or");

/** `The password is hunter2.`, `Password for ann: hunter2` */
export function told(text: string, { to, at }: Name): Stated | undefined {
  const word = spacesEnd(text, to);
  if (at === to && isOneOf(text, to, JOINED_VERBS)) return bare(text, spacesEnd(text, to + 1), "told");
  if (at !== to || word === to) return undefined;
  const owner = isOneOf(text, word, OWNER_FIRST)
    ? OWNER.exec(text.slice(word, word + OWNER_CHARS_MAX))?.[0]
    : undefined;
  const end = owner === undefined ? verbEnd(text, word) : word + owner.length;
  const value =
    end === -1 ? end : runEnd(text, end, owner === undefined ? BLANK : BLANK | LINE_END, end + GAP_CHARS_MAX);
  if (value === -1 || value === end) return undefined;
  if (isA(text, value, QUOTE)) return { start: value + 1, style: "quoted" };
  return owner === undefined ? lastOfClause(text, value) : (lastOfLine(text, value) ?? lastOfClause(text, value));
}

/** A word without spaces with which the line ends: commas and the like belong to it. */
function lastOfLine(text: string, at: number): Stated | undefined {
  const end = endBefore(text, at, BLANK | LINE_END | QUOTE, at + VALUE_CHARS_MAX);
  return end > at && (end >= text.length || isA(text, end, LINE_END)) ? { start: at, end, style: "told" } : undefined;
}

/** The word at `at`, when the sentence or a part of it ends there. */
export function lastOfClause(text: string, at: number): Stated | undefined {
  const stated = bare(text, at, "told");
  return stated?.end !== undefined && endsClause(text, stated.end) ? stated : undefined;
}

function verbEnd(text: string, at: number): number {
  if (!isOneOf(text, at, VERBS_FIRST)) return -1;
  const passive = PASSIVE.exec(text.slice(at, at + PASSIVE_CHARS_MAX))?.[0];
  const verb = passive ?? VERBS.findLast((one) => text.startsWith(one, at) && !isA(text, at + one.length, WORD));
  if (verb === undefined) return -1;
  const end = at + verb.length;
  return isOneOf(text, end, ":") ? end + 1 : end;
}

/** `for ann: `, `for ann is `, `is generated for root@localhost: `, `FOR 'ann'@'host' = `. */
const OWNER =
  /^(?:(?:is|was|has been) (?:generated|set|created|changed) )?for (?:the )?[^\s:=]{1,64}(?: user)?(?: \([^()\r\n]{0,64}\))?(?::| ?=| is(?= ))/i;
const OWNER_CHARS_MAX = 192;
const OWNER_FIRST = "fFiIwWhH";

function endsClause(text: string, end: number): boolean {
  const next = spacesEnd(text, end);
  if (next === end || next >= text.length || !isA(text, next, LETTER)) return true;
  return CONJUNCTIONS.has(text.slice(next, runEnd(text, next, LETTER, next + GAP_CHARS_MAX)).toLowerCase());
}

/** Between two words, and of one. UTF-16 units. */
const LOGIN_WORD_CHARS_MAX = 64;
const LOGIN_PAIRS_MAX = 4;
const LOGIN_KEYWORDS = wordSet("login account port user");

const PASSWORD_KEYWORDS = wordSet("password passwd");

/** `machine h login b password X`, in one line or in several. */
export function afterAccount(text: string, { from, to, at }: Name): Stated | undefined {
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
  return { start: startAfter(text, end, BLANK | LINE_END, end - LOGIN_WORD_CHARS_MAX), end };
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

/** Of a record before its name. UTF-16 units. */
const RECORD_CHARS_MAX = 640;
const KEY_CHARS_MAX = 24;
const RECORD_GAP_CHARS_MAX = 10;

/** What stands right before the name. */
const KEY = /\b(?:name|key)["']?\s{0,8}[:=]\s{0,8}["']?$/i;
/** `"value": "…", "name": "`. */
const MEMBER =
  /["']?\bvalue["']?\s{0,8}[:=]\s{0,8}(["'])((?:[^"'\\\r\n{}]|\\.){3,512})\1\s{0,8},\s{0,32}["']?(?:name|key)["']?\s{0,8}[:=]\s{0,8}["']?$/i;
/** `value: …`, and `name: ` on the next line. */
const LINE =
  /(?:^|[\r\n])[ \t]{0,32}(?:- )?value:[ \t]{1,4}(["']?)([^\s"'#]{3,256})\1[ \t]{0,8}\r?\n[ \t]{1,32}(?:name|key):[ \t]{1,4}["']?$/;

/** `{"value": "…", "name": "DB_PASSWORD"}`: a value that stands before its name. */
export function valueBefore(text: string, { from }: Name): Stated | undefined {
  if (!isOneOf(text, runStart(text, from, BLANK | QUOTE, from - RECORD_GAP_CHARS_MAX) - 1, ":=")) return undefined;
  if (!KEY.test(text.slice(Math.max(0, from - KEY_CHARS_MAX), from))) return undefined;
  const before = text.slice(Math.max(0, from - RECORD_CHARS_MAX), from);
  const found = MEMBER.exec(before) ?? LINE.exec(before);
  const value = found?.[2];
  if (found === null || value === undefined) return undefined;
  const start = from - before.length + found.index + found[0].indexOf(value, "value".length);
  return { start, end: start + value.length, style: found[1] === "" ? "line" : "quoted" };
}
