import type { Work } from "../bounds.ts";
import type { Finding } from "../finding.ts";
import {
  BLANK,
  classesIn,
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
import { NAME_CHARS_MAX, NextEnd, type Value, valueAfter, WholeEnds } from "./beside-name/value-after.ts";
import { SECOND_WORDS } from "./foreign-names.ts";
import { header, headerEnd } from "./header-value.ts";
import { isOfSeveral, type SecretKind, secretKind } from "./names.ts";
import type { TableReader } from "./tables.ts";
import { isIdentifier } from "./value-shapes.ts";
import { isSecretValue, JUDGED_CHARS_MAX } from "./values.ts";

/** Names remembered while one text is read. */
const NAMES_MAX = 1_024;

/** Of looking for a value behind a name, and of judging one. */
const STEPS_PER_NAME = 500;
const STEPS_PER_NEW_NAME = 1_000;
const STEPS_PER_VALUE = 700;
/** Of several words, which may be a field's name. */
const STEPS_PER_PHRASE = 1_500;
const STEPS_PER_HEADER = 500;
const STEPS_PER_VALUE_CHAR = 8;

/** Finds values beside names that announce a secret: `NAME=value`, `"name": "value"`, `--name value`, `<name>value`. */
export class AssignmentReader {
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

  /** Whether a part of a name that stands at `start` belongs to an assignment of a secret. */
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

interface Extent {
  readonly from: number;
  readonly to: number;
}

const LAST_WORDS = new RegExp(`^(?:keys?|${SECOND_WORDS.join("|")})$`, "i");

/** Behind the name and its quotation mark. */
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
