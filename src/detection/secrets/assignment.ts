import type { Work } from "../bounds.ts";
import type { Finding } from "../finding.ts";
import type { Reading, RuleMatcher } from "../rules/rule.ts";
import {
  BLANK,
  classesIn,
  DIGIT,
  endBefore,
  isA,
  isOneOf,
  LINE_END,
  LOWER,
  NAME,
  NextPosition,
  QUOTE,
  runEnd,
  runStart,
  STOP,
  textBefore,
  UPPER,
  wordSet,
} from "../views/characters.ts";
import { isPlural, SECOND_WORDS, type SecretKind, secretKind } from "./names.ts";
import { followsLocation, type Name } from "./structures.ts";
import { type TableReader, tables } from "./tables.ts";
import { NAME_CHARS_MAX, phraseOf, QUOTED_CHARS_MAX, type Value, valueAfter, WholeEnds } from "./value-after.ts";
import { hasDigit, isIdentifier } from "./value-shapes.ts";
import { ASSESSED_CHARS_MAX, isPassphrase, isSecretValue, type ValueStyle } from "./values.ts";

/** Maximum number of names that are cached for one text. */
const NAMES_MAX = 1_024;

/** Steps for searching a value after a name, and for assessing one. */
const STEPS_PER_NAME = 700;
const STEPS_PER_NEW_NAME = 1_000;
const STEPS_PER_VALUE = 700;
/** Steps for a value of several words, which may be the name of a field. */
const STEPS_PER_PHRASE = 1_500;
const STEPS_PER_HEADER = 500;
const STEPS_PER_VALUE_CHAR = 8;

type NameRange = Pick<Name, "from" | "to">;

/** Finds values next to names of secrets: `NAME=value`, `"name": "value"`, `--name value`, `<name>value`. */
class AssignmentReader {
  readonly #text: string;
  readonly #work: Work;
  readonly #headerEnds: NextPosition;
  readonly #wholeEnds: WholeEnds;
  readonly #tables: TableReader;
  readonly #kinds = new Map<string, SecretKind | "none">();
  /** End of the last name that was read. */
  #done = 0;

  constructor(text: string, work: Work, tables: TableReader) {
    this.#text = text;
    this.#work = work;
    this.#tables = tables;
    this.#headerEnds = new NextPosition((from) => headerEnd(text, from));
    this.#wholeEnds = new WholeEnds(text);
  }

  /** Returns the value of the name around an anchor at `start`, and the values below it, when the name identifies a secret. */
  match(start: number, end: number): Finding | readonly Finding[] | undefined {
    if (start < this.#done) return undefined;
    const text = this.#text;
    const from = runStart(text, start, NAME, start - NAME_CHARS_MAX);
    const last = runEnd(text, end, NAME, end + NAME_CHARS_MAX);
    this.#done = last;
    // In `name.=`, the dot belongs to the operator.
    const to = isOneOf(text, last, "=") && isOneOf(text, last - 1, ".") ? last - 1 : last;
    if (to - from > NAME_CHARS_MAX || isPartOfName(text, { from, to })) return undefined;
    this.#work.spend(STEPS_PER_NAME + to - from);
    const name = text.slice(from, to);
    const known = this.#kinds.get(name) ?? (this.#kinds.size < NAMES_MAX ? this.#kindOf(name) : undefined);
    if (known === "none" ? !LAST_WORDS.test(name) : isPlural(name) && !hasOperator(text, to)) return undefined;
    return this.#assigned(name, { from, to }, known) ?? this.#tables.below(from, to);
  }

  #assigned(name: string, { from, to }: NameRange, known: SecretKind | "none" | undefined): Finding | undefined {
    const text = this.#text;
    const value = valueAfter(text, from, to);
    if (value === undefined || value.start === value.end) return undefined;
    this.#work.spend((value.end - value.start) * STEPS_PER_VALUE_CHAR);
    const own = known ?? this.#kindOf(name);
    const kind = own === "none" && LAST_WORDS.test(name) ? this.#kindOf(withQualifier(text, from, to)) : own;
    if (kind === "none" || repeatsName(text, name, value) || isTestResult(text, name, value)) return undefined;
    if (value.listEnd === undefined && isPlural(name)) return undefined;
    this.#work.spend(STEPS_PER_VALUE);
    const phrase = kind === "password" ? phraseOf(text, from, value) : undefined;
    if (phrase !== undefined && isPassphrase(text.slice(phrase.start, phrase.end)))
      return { rule: `${kind}-assignment`, ...phrase };
    if (kind !== "cookie" && kind !== "authorization") return this.#assess(kind, value);
    this.#work.spend(STEPS_PER_HEADER);
    const end = value.quote === "" ? this.#headerEnds.after(value.start) : this.#wholeEnds.of(value);
    return header(text, kind, { ...value, end });
  }

  #assess(kind: SecretKind, value: Value): Finding | undefined {
    const text = this.#text;
    const start = text.slice(value.start, Math.min(value.end, value.start + ASSESSED_CHARS_MAX));
    if (kind === "password" && start.includes(" ")) this.#work.spend(STEPS_PER_PHRASE);
    if (!isSecretValue(start, kind, value.style) || isVariable(text, start, value)) return undefined;
    return { rule: `${kind}-assignment`, start: value.start, end: this.#wholeEnds.of(value) };
  }

  #kindOf(name: string): SecretKind | "none" {
    const known = this.#kinds.get(name);
    if (known !== undefined) return known;
    this.#work.spend(STEPS_PER_NEW_NAME);
    const kind = secretKind(name) ?? "none";
    if (this.#kinds.size < NAMES_MAX) this.#kinds.set(name, kind);
    return kind;
  }
}

const assignments = (reading: Reading): AssignmentReader =>
  new AssignmentReader(reading.text, reading.work, reading.state(tables));

export const matchAssignment: RuleMatcher = (reading, start, end) => reading.state(assignments).match(start, end);

const LAST_WORDS = new RegExp(`^(?:keys?|${SECOND_WORDS.join("|")})$`, "i");

/** Returns whether `:` or `=` follows the name and its quote. */
function hasOperator(text: string, to: number): boolean {
  return isOneOf(text, runEnd(text, to, BLANK | QUOTE, to + GAP_CHARS_MAX), ":=");
}

const GAP_CHARS_MAX = 16;

/** Returns the name with the word before it: `API key`, `secret access key`, `mot de passe`. */
function withQualifier(text: string, from: number, to: number): string {
  if (!isA(text, from - 1, BLANK)) return "";
  return text.slice(runStart(text, from - 1, NAME, from - NAME_CHARS_MAX), to);
}

/**
 * Returns whether `PASS` is a test result: `PASS tests/a.test.ts`, `--- PASS: TestLogin2`, `"pass": "Each attribute has a name"`.
 * Protocols have rules of their own.
 */
function isTestResult(text: string, name: string, { start, end, style }: Value): boolean {
  if (style === "quoted" && name === "pass") {
    const value = text.slice(start, end);
    return RESULT.test(value) || isSentence(value);
  }
  return name === "PASS" && (style === "prose" || TEST.test(text.slice(start, start + 4)));
}

/** Returns whether several words are a sentence: it begins with a capital letter and has a word of grammar, or is not English. */
function isSentence(words: string): boolean {
  if (hasDigit(words) || !words.includes(" ")) return false;
  if (NOT_ASCII.test(words)) return true;
  return CAPITAL.test(words) && GRAMMAR.test(words) && words.split(" ").length >= SENTENCE_WORDS_MIN;
}

/** Matches a result in a word, or a count: `3/4`, `12 of 14`. */
const RESULT = /^(?:passed|failed|skipped|\d{1,6} ?(?:\/|of) ?\d{1,6})$/i;
const NOT_ASCII = /[^\0-\x7f]/;
const CAPITAL = /^'?[A-Z]/;
/** Words without which a text of four words is a passphrase: `Correct horse battery staple`. */
const GRAMMAR =
  /\b(?:an?|the|is|are|was|were|has|have|does|do|can|must|not|no|of|in|on|to|for|with|and|or|all|each|every)\b/i;
const SENTENCE_WORDS_MIN = 4;

/**
 * Returns whether the name is part of a class name (`Test2::Event::Pass`) or of a line format (`user:password:uid:shell`). After a
 * line's location or a logger, or before a space or quote, it has a value: `config.yml:3:password:x`, `INFO:root:password:x`.
 */
function isPartOfName(text: string, { from, to }: NameRange): boolean {
  if (!isOneOf(text, from - 1, ":") || from < 2) return false;
  if (isOneOf(text, from - 2, ":")) return text.slice(from, to).toLowerCase() === "pass";
  if (!isOneOf(text, to, ":") || isA(text, to + 1, BLANK | QUOTE)) return false;
  return (
    !isA(text, from - 2, BLANK | LINE_END | QUOTE) &&
    !isOneOf(text, from - 2, "{[(") &&
    !followsLocation(text, from) &&
    !(
      isLastField(text, to + 1) &&
      (PASSWORD.test(text.slice(from, to)) || LOGGER.test(textBefore(text, from, LOGGER_CHARS_MAX)))
    )
  );
}

/** Returns whether no other field follows the one at `at`. A number alone is a user's id or a port. */
function isLastField(text: string, at: number): boolean {
  const end = endBefore(text, at, BLANK | LINE_END | QUOTE | STOP, at + FIELD_CHARS_MAX);
  const field = text.slice(at, end);
  return !field.includes(":") && /\D/.test(field);
}

const FIELD_CHARS_MAX = 256;
/** Matches names of passwords. After other names, fields are often ids: `arn:aws:secretsmanager:…:secret:db-a1b2c3`. */
const PASSWORD = /pass|pwd/i;
/** Matches a level and a logger before a message: `INFO:root:`, `[WARN]:`. */
const LOGGER = /\b(?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL|FATAL)\]?:(?:[\w.]{1,64}:)?$/i;
const LOGGER_CHARS_MAX = 80;

const TEST = /^test/i;

/** Returns whether the value repeats the name: `exports.hashPassword = hashPassword`, `PrivateKey = PrivateKey_1`. */
function repeatsName(text: string, name: string, { start, end }: Value): boolean {
  if (end - start < REPEATED_NAME_CHARS_MIN || end - start > name.length + 2) return false;
  const value = text.slice(start, end);
  if (name.endsWith(value)) return true;
  const isIdentifier = (classesIn(name, 0, name.length) & (UPPER | LOWER)) === (UPPER | LOWER);
  return isIdentifier && /_\d$/.test(value) && name.endsWith(value.slice(0, -2));
}

const REPEATED_NAME_CHARS_MIN = 4;

/** Returns whether a named argument is a variable: `connect(password=given_password)`. */
function isVariable(text: string, word: string, { style, end }: Value): boolean {
  return style === "line" && isOneOf(text, end, "),") && word.includes("_") && isIdentifier(word);
}

const PARAMETER_CHARS_MAX = 512;
const HEADER_CHARS_MIN = 6;

/** Returns the end of a header's value: its line end, or a quote that opens no parameter. */
function headerEnd(text: string, from: number): number {
  let at = from;
  while (at < text.length && !isA(text, at, LINE_END)) {
    if (isA(text, at, QUOTE)) {
      const close = parameterEnd(text, at);
      if (close === -1) break;
      at = close;
    }
    at += 1;
  }
  return at;
}

/** Returns the closing quote of a quoted parameter (`Digest username="ann"`); -1 when the quote at `at` opens none. */
function parameterEnd(text: string, at: number): number {
  const before = isOneOf(text, at - 1, "\\") ? at - 2 : at - 1;
  if (!isOneOf(text, before, "=")) return -1;
  for (let end = at + 1; end < at + PARAMETER_CHARS_MAX && !isA(text, end, LINE_END); end += 1) {
    if (text[end] === text[at]) return end;
  }
  return -1;
}

/** Styles in which text after a header's name is often not a header's value, so that the value must look more like one. */
const DOUBTFUL: ReadonlySet<ValueStyle> = new Set(["prose", "listed", "paired"]);
const COOKIE = /^[\w.-]{1,64}=[^;\s]{6,}/;

/** Returns the value of a header: the rest of its line, without an authorization scheme. */
function header(text: string, kind: SecretKind, value: Value): Finding | undefined {
  return isOneOf(text, value.start, "[") ? listedHeader(text, kind, value) : plainHeader(text, kind, value);
}

/** Reads the first element of a list: `["a=b; Path=/"]`, `[Bearer …]`. */
function listedHeader(text: string, kind: SecretKind, { start }: Value): Finding | undefined {
  const isQuoted = isA(text, start + 1, QUOTE);
  const from = start + (isQuoted ? 2 : 1);
  const closing = isQuoted ? text.charCodeAt(start + 1) : SQUARE_BRACKET;
  let end = from;
  while (
    end < from + PARAMETER_CHARS_MAX &&
    text.charCodeAt(end) !== closing &&
    !isA(text, end, LINE_END) &&
    end < text.length
  )
    end += 1;
  const style = isQuoted ? "quoted" : "prose";
  return plainHeader(text, kind, { start: from, end, style, quote: isQuoted ? '"' : "]", inQuery: false });
}

const SQUARE_BRACKET = 0x5d;

function plainHeader(text: string, kind: SecretKind, { start, quote, end, style }: Value): Finding | undefined {
  const lineEnd = Math.min(end, start + QUOTED_CHARS_MAX);
  if (style === "assigned" || lineEnd - start < HEADER_CHARS_MIN) return undefined;
  const from = kind === "authorization" ? afterScheme(text, start, lineEnd) : start;
  const value = text.slice(from, Math.min(lineEnd, from + ASSESSED_CHARS_MAX));
  if (quote === "" && "?=|&;,.)".includes(value[0] ?? "?")) return undefined;
  const isDoubtful = DOUBTFUL.has(style);
  const isPlausible =
    kind === "cookie"
      ? isCookie(value, isDoubtful)
      : isCredentials(value, { isDoubtful, hasScheme: from > start, isQuoted: quote !== "" });
  if (!isPlausible) return undefined;
  if (!isSecretValue(value, kind, isDoubtful ? "quoted" : style)) return undefined;
  return { rule: kind === "cookie" ? "cookie" : "authorization-header", start: from, end };
}

/** Matches `name=value`. Spaces around `=` occur only in programs. */
const PAIR = /(?:^|[;,] ?)[^\s=;,]{1,128}=/;

function isCookie(value: string, isDoubtful: boolean): boolean {
  return isDoubtful ? COOKIE.test(value) && hasDigit(value) : PAIR.test(value);
}

function isCredentials(
  value: string,
  {
    isDoubtful,
    hasScheme,
    isQuoted,
  }: { readonly isDoubtful: boolean; readonly hasScheme: boolean; readonly isQuoted: boolean },
): boolean {
  if (SCHEME_ALONE.test(value)) return false;
  return isDoubtful
    ? hasScheme && (isOnePiece(value) || PARAMETER.test(value))
    : hasScheme || isQuoted || isOnePiece(value);
}

/** Matches a scheme without credentials, as in `"Api-Token " + token`. */
const SCHEME_ALONE = /^[A-Za-z][A-Za-z-]{0,40} {1,4}$/;

/** Returns whether a value without a scheme and quotes can be credentials: no spaces, no call, and a digit. */
function isOnePiece(value: string): boolean {
  return !value.includes(" ") && !value.includes("(") && (classesIn(value, 0, value.length) & DIGIT) !== 0;
}

const SCHEMES = wordSet(
  "bearer basic digest token apikey api-key key negotiate ntlm hawk dpop mac jwt aws4-hmac-sha256 sharedkey",
  "sharedaccesssignature geniekey splunk bot oauth scram-sha-256 googlelogin x-auth snowflake vapid signature s3cmd",
  "ssws pve eg1-hmac-sha256 discogs",
);

/** Returns the start of the credentials: after a known scheme, or after any word that only credentials follow. */
function afterScheme(text: string, start: number, limit: number): number {
  const scheme = runEnd(text, start, NAME, limit);
  const next = runEnd(text, scheme, BLANK, limit);
  if (next === scheme || next >= limit) return start;
  const isKnown = SCHEMES.has(text.slice(start, scheme).toLowerCase());
  return isKnown || followsAnyScheme(text.slice(next, Math.min(limit, next + ASSESSED_CHARS_MAX)).trimEnd())
    ? next
    : start;
}

const ANY_SCHEME_CHARS_MIN = 12;
const PARAMETER = /^[\w-]{1,32}="?[^\s,"]{8}/;

/** Returns whether the value is one token or a list of parameters, so that any word before it is a scheme. */
function followsAnyScheme(value: string): boolean {
  if (PARAMETER.test(value)) return hasDigit(value);
  return value.length >= ANY_SCHEME_CHARS_MIN && isOnePiece(value) && isSecretValue(value, "token", "line");
}
