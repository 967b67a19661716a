import type { Work } from "../bounds.ts";
import type { Finding } from "../finding.ts";
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
} from "../views/characters.ts";
import { NAME_CHARS_MAX, QUOTED_CHARS_MAX, type Value, valueAfter, wholeEnd } from "./assigned-value.ts";
import { type SecretKind, secretKind } from "./names.ts";
import { isIdentifier } from "./value-shapes.ts";
import { isSecretValue, JUDGED_CHARS_MAX, type ValueStyle } from "./values.ts";

/** Names remembered while one text is read. */
const NAMES_MAX = 1_024;

/** Of looking for a value behind a name, and of judging one. */
const STEPS_PER_NAME = 300;
const STEPS_PER_NEW_NAME = 1_000;
const STEPS_PER_VALUE = 700;
const STEPS_PER_VALUE_CHAR = 8;

/** UTF-16 units. */
const PARAMETER_CHARS_MAX = 512;

/** Where a header's line ends next. Asked in a text's order it reads the text once. */
class NextHeaderEnd {
  readonly #text: string;
  #from = 0;
  #at = -1;

  constructor(text: string) {
    this.#text = text;
  }

  /** At `from` or later; the text's length when nowhere. */
  after(from: number): number {
    if (from < this.#from || from > this.#at) {
      let at = from;
      while (at < this.#text.length && !isA(this.#text, at, LINE_END)) {
        if (isA(this.#text, at, QUOTE)) {
          const close = parameterEnd(this.#text, at);
          if (close === -1) break;
          at = close;
        }
        at += 1;
      }
      this.#at = at;
    }
    this.#from = from;
    return this.#at;
  }
}

/** A header's parameter in quotation marks (`Digest username="ann"`) ends at the second one; -1 when the first at `at` begins none. */
function parameterEnd(text: string, at: number): number {
  const before = isOneOf(text, at - 1, "\\") ? at - 2 : at - 1;
  if (!isOneOf(text, before, "=")) return -1;
  for (let end = at + 1; end < at + PARAMETER_CHARS_MAX && !isA(text, end, LINE_END); end += 1) {
    if (text[end] === text[at]) return end;
  }
  return -1;
}

/** Finds values beside names that announce a secret: `NAME=value`, `"name": "value"`, `--name value`, `<name>value`. */
export class AssignmentReader {
  readonly #text: string;
  readonly #work: Work;
  readonly #ends: NextHeaderEnd;
  readonly #kinds = new Map<string, SecretKind | "none">();
  /** Names that end before here have been looked at. */
  #done = 0;

  constructor(text: string, work: Work) {
    this.#text = text;
    this.#work = work;
    this.#ends = new NextHeaderEnd(text);
  }

  /** Whether a part of a name that stands at `start` belongs to an assignment of a secret. */
  match(start: number, end: number): Finding | undefined {
    if (start < this.#done) return undefined;
    const text = this.#text;
    const from = runStart(text, start, NAME, start - NAME_CHARS_MAX);
    const to = runEnd(text, end, NAME, end + NAME_CHARS_MAX);
    this.#done = to;
    if (to - from > NAME_CHARS_MAX) return undefined;
    this.#work.spend(STEPS_PER_NAME + to - from);
    const name = text.slice(from, to);
    const known = this.#kinds.get(name) ?? (this.#kinds.size < NAMES_MAX ? this.#judged(name) : undefined);
    if (known === "none" && !KEY.test(name)) return undefined;
    const value = valueAfter(text, from, to);
    if (value === undefined || value.start === value.end) return undefined;
    this.#work.spend((value.end - value.start) * STEPS_PER_VALUE_CHAR);
    const alone = known ?? this.#judged(name);
    const kind = alone === "none" && KEY.test(name) ? this.#kindOf(withQualifier(text, from, to)) : alone;
    if (kind === "none" || isNameAgain(text, name, value)) return undefined;
    this.#work.spend(STEPS_PER_VALUE);
    if (kind !== "cookie" && kind !== "authorization") return judge(text, kind, value);
    return header(text, kind, value.quote === "" ? { ...value, end: this.#ends.after(value.start) } : value);
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

const KEY = /^keys?$/i;

/** `API key`, `secret access key`: the word before belongs to the name. */
function withQualifier(text: string, from: number, to: number): string {
  if (!isA(text, from - 1, BLANK)) return "";
  return text.slice(runStart(text, from - 1, NAME, from - PARAMETER_CHARS_MAX), to);
}

/** `exports.hashPassword = hashPassword`, `PrivateKey = PrivateKey_1` */
function isNameAgain(text: string, name: string, { start, end }: Value): boolean {
  if (end - start < NAME_AGAIN_CHARS_MIN || end - start > name.length + 2) return false;
  const value = text.slice(start, end);
  if (name.endsWith(value)) return true;
  const isIdentifier = (classesIn(name, 0, name.length) & (UPPER | LOWER)) === (UPPER | LOWER);
  return isIdentifier && /_\d$/.test(value) && name.endsWith(value.slice(0, -2));
}

const NAME_AGAIN_CHARS_MIN = 4;

function judge(text: string, kind: SecretKind, value: Value): Finding | undefined {
  const judged = text.slice(value.start, Math.min(value.end, value.start + JUDGED_CHARS_MAX));
  if (!isSecretValue(judged, kind, value.style) || isVariable(text, judged, value)) return undefined;
  return { rule: `${kind}-assignment`, start: value.start, end: wholeEnd(text, value) };
}

/** `connect(password=given_password)`: of a call's named arguments a name. */
function isVariable(text: string, judged: string, { style, end }: Value): boolean {
  return style === "line" && isOneOf(text, end, "),") && judged.includes("_") && isIdentifier(judged);
}

const NO_HEADERS: ReadonlySet<ValueStyle> = new Set(["assigned", "told", "listed"]);

/** A header's value is the rest of its line; of an authorization the scheme may stay. */
function header(text: string, kind: SecretKind, { start, quote, end, style }: Value): Finding | undefined {
  const lineEnd = Math.min(end, start + QUOTED_CHARS_MAX);
  if (NO_HEADERS.has(style) || lineEnd - start < 6) return undefined;
  const from = kind === "authorization" ? afterScheme(text, start, lineEnd) : start;
  const value = text.slice(from, Math.min(lineEnd, from + JUDGED_CHARS_MAX));
  if (kind === "cookie" && !value.includes("=")) return undefined;
  if (kind === "authorization" && quote === "" && from === start && !isOnePiece(value)) return undefined;
  if (quote === "" && "?=|&;,.)".includes(value[0] ?? "?")) return undefined;
  if (!isSecretValue(value, kind, style)) return undefined;
  return { rule: kind === "cookie" ? "cookie" : "authorization-header", start: from, end: lineEnd };
}

/** Credentials without a scheme and without quotation marks: no words, no call, and a digit. */
function isOnePiece(value: string): boolean {
  return !value.includes(" ") && !value.includes("(") && (classesIn(value, 0, value.length) & DIGIT) !== 0;
}

const SCHEMES: ReadonlySet<string> = new Set([
  ...[
    "bearer",
    "basic",
    "digest",
    "token",
    "apikey",
    "api-key",
    "key",
    "negotiate",
    "ntlm",
    "hawk",
    "dpop",
    "mac",
    "jwt",
  ],
  ...["aws4-hmac-sha256", "sharedkey", "sharedaccesssignature", "geniekey", "splunk", "bot", "oauth", "scram-sha-256"],
  ...["googlelogin", "x-auth", "snowflake", "vapid", "signature", "s3cmd", "ssws", "pve", "eg1-hmac-sha256", "discogs"],
]);

/** Where the credentials begin: behind a scheme that is known. */
function afterScheme(text: string, start: number, limit: number): number {
  const scheme = runEnd(text, start, NAME, limit);
  const next = runEnd(text, scheme, BLANK, limit);
  const isKnown = next > scheme && next < limit && SCHEMES.has(text.slice(start, scheme).toLowerCase());
  return isKnown ? next : start;
}
