import type { Work } from "../bounds.ts";
import type { Finding } from "../finding.ts";
import type { Reading, RuleMatcher } from "../rules/rule.ts";
import {
  BLANK,
  classesIn,
  DIGIT,
  isA,
  isOneOf,
  LINE_END,
  LOWER,
  NAME,
  QUOTE,
  runEnd,
  runStart,
  UPPER,
  wordSet,
} from "../views/characters.ts";
import { isOfSeveral, SECOND_WORDS, type SecretKind, secretKind } from "./names.ts";
import { type TableReader, tables } from "./tables.ts";
import { NAME_CHARS_MAX, NextEnd, QUOTED_CHARS_MAX, type Value, valueAfter, WholeEnds } from "./value-after.ts";
import { hasDigit, isIdentifier } from "./value-shapes.ts";
import { isSecretValue, JUDGED_CHARS_MAX, type ValueStyle } from "./values.ts";

/** Names remembered while one text is read. */
const NAMES_MAX = 1_024;

/** Of looking for a value after a name, and of judging one. */
const STEPS_PER_NAME = 500;
const STEPS_PER_NEW_NAME = 1_000;
const STEPS_PER_VALUE = 700;
/** Of several words, which may be a field's name. */
const STEPS_PER_PHRASE = 1_500;
const STEPS_PER_HEADER = 500;
const STEPS_PER_VALUE_CHAR = 8;

/** Finds values beside names that announce a secret: `NAME=value`, `"name": "value"`, `--name value`, `<name>value`. */
class AssignmentReader {
  readonly #text: string;
  readonly #work: Work;
  readonly #headerEnds: NextEnd;
  readonly #wholeEnds: WholeEnds;
  readonly #tables: TableReader;
  readonly #kinds = new Map<string, SecretKind | "none">();
  /** Names that end before here have been looked at. */
  #done = 0;

  constructor(text: string, work: Work, tables: TableReader) {
    this.#text = text;
    this.#work = work;
    this.#tables = tables;
    this.#headerEnds = new NextEnd((from) => headerEnd(text, from));
    this.#wholeEnds = new WholeEnds(text);
  }

  /** Returns whether a part of a name that stands at `start` belongs to an assignment of a secret. */
  match(start: number, end: number): Finding | readonly Finding[] | undefined {
    if (start < this.#done) return undefined;
    const text = this.#text;
    const from = runStart(text, start, NAME, start - NAME_CHARS_MAX);
    const last = runEnd(text, end, NAME, end + NAME_CHARS_MAX);
    this.#done = last;
    // Of `name.=` the dot belongs to the operator.
    const to = isOneOf(text, last, "=") && isOneOf(text, last - 1, ".") ? last - 1 : last;
    if (to - from > NAME_CHARS_MAX || isPartOfName(text, { from, to })) return undefined;
    this.#work.spend(STEPS_PER_NAME + to - from);
    const name = text.slice(from, to);
    const known = this.#kinds.get(name) ?? (this.#kinds.size < NAMES_MAX ? this.#judged(name) : undefined);
    if (known === "none" ? !LAST_WORDS.test(name) : isOfSeveral(name) && !hasSign(text, to)) return undefined;
    return this.#assigned(name, { from, to }, known) ?? this.#tables.below(from, to);
  }

  #assigned(name: string, { from, to }: Extent, known: SecretKind | "none" | undefined): Finding | undefined {
    const text = this.#text;
    const value = valueAfter(text, from, to);
    if (value === undefined || value.start === value.end) return undefined;
    this.#work.spend((value.end - value.start) * STEPS_PER_VALUE_CHAR);
    const alone = known ?? this.#judged(name);
    const kind = alone === "none" && LAST_WORDS.test(name) ? this.#kindOf(withQualifier(text, from, to)) : alone;
    if (kind === "none" || isNameAgain(text, name, value) || isVerdict(text, name, value)) return undefined;
    if (value.listEnd === undefined && isOfSeveral(name)) return undefined;
    this.#work.spend(STEPS_PER_VALUE);
    if (kind !== "cookie" && kind !== "authorization") return this.#judge(kind, value);
    this.#work.spend(STEPS_PER_HEADER);
    const end = value.quote === "" ? this.#headerEnds.after(value.start) : this.#wholeEnds.of(value);
    return header(text, kind, { ...value, end });
  }

  #judge(kind: SecretKind, value: Value): Finding | undefined {
    const text = this.#text;
    const judged = text.slice(value.start, Math.min(value.end, value.start + JUDGED_CHARS_MAX));
    if (kind === "password" && judged.includes(" ")) this.#work.spend(STEPS_PER_PHRASE);
    if (!isSecretValue(judged, kind, value.style) || isVariable(text, judged, value)) return undefined;
    return { rule: `${kind}-assignment`, start: value.start, end: this.#wholeEnds.of(value) };
  }

  #kindOf(name: string): SecretKind | "none" {
    return this.#kinds.get(name) ?? this.#judged(name);
  }

  #judged(name: string): SecretKind | "none" {
    this.#work.spend(STEPS_PER_NEW_NAME);
    const kind = secretKind(name) ?? "none";
    if (this.#kinds.size < NAMES_MAX) this.#kinds.set(name, kind);
    return kind;
  }
}

const assignments = (reading: Reading): AssignmentReader =>
  new AssignmentReader(reading.text, reading.work, reading.state(tables));

/** Finds the values beside a name, and those in the column below it. */
export const matchAssignment: RuleMatcher = (reading, start, end) => reading.state(assignments).match(start, end);

interface Extent {
  readonly from: number;
  readonly to: number;
}

const LAST_WORDS = new RegExp(`^(?:keys?|${SECOND_WORDS.join("|")})$`, "i");

/** After the name and its quote. */
function hasSign(text: string, to: number): boolean {
  return isOneOf(text, runEnd(text, to, BLANK | QUOTE, to + GAP_CHARS_MAX), ":=");
}

const GAP_CHARS_MAX = 16;

/** `API key`, `secret access key`, `mot de passe`: the word before belongs to the name. */
function withQualifier(text: string, from: number, to: number): string {
  if (!isA(text, from - 1, BLANK)) return "";
  return text.slice(runStart(text, from - 1, NAME, from - NAME_CHARS_MAX), to);
}

/** `PASS tests/a.test.ts`, `--- PASS: TestLogin2`: what is called so in capitals is mostly a test's end, and protocols' are read elsewhere. */
function isVerdict(text: string, name: string, { start, style }: Value): boolean {
  return name === "PASS" && (style === "told" || TEST.test(text.slice(start, start + 4)));
}

/** `"Test2::Event::Pass" => "1.3"`: a class. `user:password:uid:shell`: what stands in a line, and in which order. */
function isPartOfName(text: string, { from, to }: Extent): boolean {
  if (!isOneOf(text, from - 1, ":") || from < 2) return false;
  if (isOneOf(text, from - 2, ":")) return text.slice(from, to).toLowerCase() === "pass";
  return isOneOf(text, to, ":") && !isA(text, from - 2, BLANK | LINE_END | QUOTE) && !isOneOf(text, from - 2, "{[(");
}

const TEST = /^test/i;

/** `exports.hashPassword = hashPassword`, `PrivateKey = PrivateKey_1` */
function isNameAgain(text: string, name: string, { start, end }: Value): boolean {
  if (end - start < NAME_AGAIN_CHARS_MIN || end - start > name.length + 2) return false;
  const value = text.slice(start, end);
  if (name.endsWith(value)) return true;
  const isIdentifier = (classesIn(name, 0, name.length) & (UPPER | LOWER)) === (UPPER | LOWER);
  return isIdentifier && /_\d$/.test(value) && name.endsWith(value.slice(0, -2));
}

const NAME_AGAIN_CHARS_MIN = 4;

/** `connect(password=given_password)`: of a call's named arguments a name. */
function isVariable(text: string, judged: string, { style, end }: Value): boolean {
  return style === "line" && isOneOf(text, end, "),") && judged.includes("_") && isIdentifier(judged);
}

/** UTF-16 units. */
const PARAMETER_CHARS_MAX = 512;
const HEADER_CHARS_MIN = 6;

/** Where the line ends in which the header's value at `from` stands; the text's length when nowhere. */
export function headerEnd(text: string, from: number): number {
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

/** A header's parameter in quotes (`Digest username="ann"`) ends at the second one; -1 when the first at `at` begins none. */
function parameterEnd(text: string, at: number): number {
  const before = isOneOf(text, at - 1, "\\") ? at - 2 : at - 1;
  if (!isOneOf(text, before, "=")) return -1;
  for (let end = at + 1; end < at + PARAMETER_CHARS_MAX && !isA(text, end, LINE_END); end += 1) {
    if (text[end] === text[at]) return end;
  }
  return -1;
}

/** In these only what surely is a header's value is one. */
const DOUBTFUL: ReadonlySet<ValueStyle> = new Set(["told", "listed", "paired"]);
/** `sid=a1b2c3`. */
const COOKIE = /^[\w.-]{1,64}=[^;\s]{6,}/;

/** A header's value is the rest of its line; of an authorization the scheme may stay. */
export function header(text: string, kind: SecretKind, value: Value): Finding | undefined {
  return isOneOf(text, value.start, "[") ? listedHeader(text, kind, value) : plainHeader(text, kind, value);
}

/** `["a=b; Path=/"]`, `[Bearer …]`: the first of a list. */
function listedHeader(text: string, kind: SecretKind, { start }: Value): Finding | undefined {
  const isQuoted = isA(text, start + 1, QUOTE);
  const from = start + (isQuoted ? 2 : 1);
  const mark = isQuoted ? text.charCodeAt(start + 1) : CLOSE;
  let end = from;
  while (
    end < from + PARAMETER_CHARS_MAX &&
    text.charCodeAt(end) !== mark &&
    !isA(text, end, LINE_END) &&
    end < text.length
  )
    end += 1;
  const style = isQuoted ? "quoted" : "told";
  return plainHeader(text, kind, { start: from, end, style, quote: isQuoted ? '"' : "]", inQuery: false });
}

const CLOSE = 0x5d;

function plainHeader(text: string, kind: SecretKind, { start, quote, end, style }: Value): Finding | undefined {
  const lineEnd = Math.min(end, start + QUOTED_CHARS_MAX);
  if (style === "assigned" || lineEnd - start < HEADER_CHARS_MIN) return undefined;
  const from = kind === "authorization" ? afterScheme(text, start, lineEnd) : start;
  const value = text.slice(from, Math.min(lineEnd, from + JUDGED_CHARS_MAX));
  if (quote === "" && "?=|&;,.)".includes(value[0] ?? "?")) return undefined;
  const isDoubtful = DOUBTFUL.has(style);
  const written = { isDoubtful, hasScheme: from > start, isQuoted: quote !== "" };
  if (kind === "cookie" ? !isCookie(value, written) : !isCredentials(value, written)) return undefined;
  if (!isSecretValue(value, kind, isDoubtful ? "quoted" : style)) return undefined;
  return { rule: kind === "cookie" ? "cookie" : "authorization-header", start: from, end };
}

interface Written {
  readonly isDoubtful: boolean;
  readonly hasScheme: boolean;
  readonly isQuoted: boolean;
}

/** `name=value`, first or after others. Blanks around the sign are a program's. */
const CRUMB = /(?:^|[;,] ?)[^\s=;,]{1,128}=/;

function isCookie(value: string, { isDoubtful }: Written): boolean {
  return isDoubtful ? COOKIE.test(value) && hasDigit(value) : CRUMB.test(value);
}

function isCredentials(value: string, { isDoubtful, hasScheme, isQuoted }: Written): boolean {
  if (SCHEME_ALONE.test(value)) return false;
  return isDoubtful
    ? hasScheme && (isOnePiece(value) || PARAMETER.test(value))
    : hasScheme || isQuoted || isOnePiece(value);
}

/** `"Api-Token " + token` */
const SCHEME_ALONE = /^[A-Za-z][A-Za-z-]{0,40} {1,4}$/;

/** Credentials without a scheme and without quotes: no words, no call, and a digit. */
function isOnePiece(value: string): boolean {
  return !value.includes(" ") && !value.includes("(") && (classesIn(value, 0, value.length) & DIGIT) !== 0;
}

const SCHEMES = wordSet(
  "bearer basic digest token apikey api-key key negotiate ntlm hawk dpop mac jwt aws4-hmac-sha256 sharedkey",
  "sharedaccesssignature geniekey splunk bot oauth scram-sha-256 googlelogin x-auth snowflake vapid signature s3cmd",
  "ssws pve eg1-hmac-sha256 discogs",
);

/** Where the credentials begin: after a scheme that is known, or after any word that only credentials follow. */
function afterScheme(text: string, start: number, limit: number): number {
  const scheme = runEnd(text, start, NAME, limit);
  const next = runEnd(text, scheme, BLANK, limit);
  if (next === scheme || next >= limit) return start;
  const isKnown = SCHEMES.has(text.slice(start, scheme).toLowerCase());
  return isKnown || followsAnyScheme(text.slice(next, Math.min(limit, next + JUDGED_CHARS_MAX)).trimEnd())
    ? next
    : start;
}

const ANY_SCHEME_CHARS_MIN = 12;
const PARAMETER = /^[\w-]{1,32}="?[^\s,"]{8}/;

/** One piece that looks like a token, or parameters. */
function followsAnyScheme(value: string): boolean {
  if (PARAMETER.test(value)) return hasDigit(value);
  return value.length >= ANY_SCHEME_CHARS_MIN && isOnePiece(value) && isSecretValue(value, "token", "line");
}
