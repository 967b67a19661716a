import type { Work } from "../bounds.ts";
import { isA, isOneOf, NAME, QUOTE } from "../views/characters.ts";
import { type SecretKind, secretKind } from "./names.ts";

/** UTF-16 units. */
const HEAD_CHARS_MAX = 192;
const COLUMNS_CHARS_MAX = 8_192;
const COLUMNS_MAX = 128;
/** Tables remembered while one text is read. */
const TABLES_MAX = 512;

const STEPS_PER_CHAR = 8;
const STEPS_PER_COLUMN = 700;

const NOT_KINDS: ReadonlySet<SecretKind> = new Set(["cookie", "authorization", "basic"]);

/** What the name of a column says of its values. */
export function columnKind(name: string): SecretKind | undefined {
  const kind = secretKind(name);
  return kind === undefined || NOT_KINDS.has(kind) ? undefined : kind;
}

const HEAD = /^(?:if not exists )?([\w.$"'`[\]-]{1,128})\s{0,8}\(/i;
/** Where these begin an element it is no column. */
const CONSTRAINTS = /^(?:primary|unique|foreign|constraint|key|index|check|fulltext)$/i;

/** The columns of tables as the text creates them: rows that follow may not name them. */
export class CreatedTables {
  readonly #text: string;
  readonly #work: Work;
  readonly #kinds = new Map<string, readonly (SecretKind | undefined)[]>();
  #done = 0;

  constructor(text: string, work: Work) {
    this.#text = text;
    this.#work = work;
  }

  /** From behind `create table`. */
  read(start: number, end: number): void {
    if (start < this.#done || this.#kinds.size >= TABLES_MAX) return;
    const head = HEAD.exec(this.#text.slice(end, end + HEAD_CHARS_MAX));
    if (head === null) return;
    const from = end + head[0].length;
    const columns = columnsIn(this.#text.slice(from, from + COLUMNS_CHARS_MAX));
    this.#done = from + columns.length;
    this.#work.spend(columns.length * STEPS_PER_CHAR + columns.names.length * STEPS_PER_COLUMN);
    this.#kinds.set(plain(head[1] ?? ""), columns.names.map(columnKind));
  }

  kindsOf(table: string): readonly (SecretKind | undefined)[] | undefined {
    return this.#kinds.get(plain(table));
  }
}

/** Without its schema and its quotation marks. */
function plain(table: string): string {
  return (table.split(".").at(-1) ?? "").replace(/["'`[\]\\]/g, "").toLowerCase();
}

/** The first word of each part between commas, up to the bracket that closes. */
function columnsIn(inside: string): { readonly names: readonly string[]; readonly length: number } {
  const names: string[] = [];
  let depth = 0;
  let isNext = true;
  let at = 0;
  for (; at < inside.length && names.length < COLUMNS_MAX; at += 1) {
    if (isNext && (isA(inside, at, NAME) || isA(inside, at, QUOTE) || isOneOf(inside, at, "["))) {
      const word = /^["'`[]?([\w.$-]{1,128})/.exec(inside.slice(at, at + 132));
      if (word !== null && !CONSTRAINTS.test(word[1] ?? "")) names.push(word[1] ?? "");
      at += (word?.[0].length ?? 1) - 1;
      isNext = false;
    } else if (isOneOf(inside, at, "(")) depth += 1;
    else if (isOneOf(inside, at, ",") && depth === 0) isNext = true;
    else if (isOneOf(inside, at, ")")) {
      if (depth === 0) break;
      depth -= 1;
    }
  }
  return { names, length: at };
}
