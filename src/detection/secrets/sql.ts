import type { Work } from "../bounds.ts";
import type { Finding } from "../finding.ts";
import type { Reading, RuleMatcher } from "../rules/rule.ts";
import {
  BLANK,
  beginsWord,
  endBefore,
  isA,
  isOneOf,
  LINE_END,
  NAME,
  nextRow,
  QUOTE,
  rowEnd,
  STOP,
  type TextRange,
} from "../views/characters.ts";
import { type SecretKind, secretKind } from "./names.ts";
import { type TableReader, tableOf, tables } from "./tables.ts";
import { ASSESSED_CHARS_MAX, isSecretValue } from "./values.ts";

const TABLE_CHARS_MAX = 128;
const COLUMNS_CHARS_MAX = 2_048;
const WORDS_CHARS_MAX = 96;
const TUPLE_CHARS_MAX = 8_192;
const CALL_CHARS_MAX = 64;

const STEPS_PER_CHAR = 6;
const STEPS_PER_COLUMN_CHAR = 20;
const STEPS_PER_VALUE = 700;

interface Columns {
  readonly names: readonly string[];
  /** Offset after the closing bracket. */
  readonly end: number;
}

/** Finds values in secret columns of SQL statements. Queries in text order read each statement once. */
class InsertReader {
  readonly #text: string;
  readonly #work: Work;
  readonly #tables: TableReader;
  readonly #created: CreatedTables;
  #done = 0;

  constructor(text: string, work: Work, { tables, created }: { tables: TableReader; created: CreatedTables }) {
    this.#text = text;
    this.#work = work;
    this.#tables = tables;
    this.#created = created;
  }

  /** Reads `INSERT INTO users (name, password) VALUES ('bob', '…'), (…)`, from the end of `into`. */
  match(start: number, end: number): readonly Finding[] | undefined {
    if (start < this.#done) return undefined;
    const columns = this.#columnsAt(start, end);
    if (columns === undefined) return this.#rowsOf(end);
    this.#done = columns.end;
    this.#work.spend(columns.end - start + columns.names.length * STEPS_PER_VALUE);
    const kinds = columns.names.map(columnKind);
    if (kinds.every((kind) => kind === undefined)) return undefined;
    const head = VALUES.exec(this.#text.slice(columns.end, columns.end + WORDS_CHARS_MAX));
    return head === null ? undefined : this.#tuples(columns.end + head[0].length, kinds);
  }

  /** Reads `INSERT INTO users VALUES (…)` for a table that was created before, from the end of `into`. */
  #rowsOf(end: number): readonly Finding[] | undefined {
    const [head = "", table = ""] = PLAIN_INSERT.exec(this.#text.slice(end, end + TABLE_CHARS_MAX)) ?? [];
    const kinds = head === "" ? undefined : this.#created.kindsOf(table);
    return kinds?.some((kind) => kind !== undefined) === true ? this.#tuples(end + head.length, kinds) : undefined;
  }

  /** Reads `COPY users (name, password) FROM stdin;` and the rows below, from the end of `copy`. */
  matchCopy(start: number, end: number): readonly Finding[] | undefined {
    const columns = start < this.#done ? undefined : this.#columnsAt(start, end);
    if (columns === undefined || !FROM_STDIN.test(this.#text.slice(columns.end, columns.end + WORDS_CHARS_MAX)))
      return undefined;
    const table = tableOf(columns.names, "\t");
    this.#done = columns.end;
    if (table === undefined) return undefined;
    const first = nextRow(this.#text, rowEnd(this.#text, columns.end));
    const found = this.#tables.rows({ ...table, isOfAccounts: true }, first);
    this.#done = Math.max(first, this.#tables.done);
    return found;
  }

  #columnsAt(start: number, end: number): Columns | undefined {
    return beginsWord(this.#text, start) ? columnsAt(this.#text, end, this.#work) : undefined;
  }

  #tuples(from: number, kinds: readonly (SecretKind | undefined)[]): readonly Finding[] | undefined {
    const found: Finding[] = [];
    for (let at = from; ; ) {
      const open = isOneOf(this.#text, at, "(") ? at + 1 : at;
      const { elements, end } = elementsOf(this.#text, open);
      this.#work.spend((end - at) * STEPS_PER_CHAR + kinds.length * STEPS_PER_VALUE);
      this.#done = end;
      elements.slice(0, kinds.length).forEach((element, index) => {
        const kind = kinds[index];
        const secret = kind === undefined ? undefined : literalOf(this.#text, element, kind);
        if (secret !== undefined) found.push(secret);
      });
      const comma = isOneOf(this.#text, end, ")") ? gapEnd(this.#text, end + 1) : end;
      const next = isOneOf(this.#text, comma, ",") ? gapEnd(this.#text, comma + 1) : comma;
      if (next === comma || !isOneOf(this.#text, next, "(")) return found.length === 0 ? undefined : found;
      at = next;
    }
  }
}

const VALUES = /^(?:\s|\\[nrt])*(?:[a-z_.]{1,16}(?:\s|\\[nrt])+){0,3}(?:values?|select)(?:\s|\\[nrt])*/i;
/** Matches an insertion without names of columns. */
const PLAIN_INSERT = /^([\w.$"'`[\]-]{1,96}) values\s{0,8}(?=\()/i;
const FROM_STDIN = /^\s+from\s+stdin\b/i;

/** Reads `users (a, b)`, with quotes and brackets of all kinds. */
function columnsAt(text: string, from: number, work: Work): Columns | undefined {
  const name = gapEnd(text, from);
  let open = name;
  while (open < name + TABLE_CHARS_MAX && (isA(text, open, NAME | QUOTE) || isOneOf(text, open, "[]\\"))) open += 1;
  const bracket = gapEnd(text, open);
  if (open === name || !isOneOf(text, bracket, "(")) return undefined;
  const inside = text.slice(bracket + 1, bracket + 1 + COLUMNS_CHARS_MAX);
  const close = inside.indexOf(")");
  work.spend(STEPS_PER_COLUMN_CHAR * (close === -1 ? COLUMNS_CHARS_MAX : close));
  if (close === -1) return undefined;
  const names = inside
    .slice(0, close)
    .split(",")
    .map((one) => one.replace(/\\[nrt]|[\s"'`[\]\\]/g, ""));
  return names.every((one) => COLUMN.test(one)) ? { names, end: bracket + close + 2 } : undefined;
}

const COLUMN = /^[\p{L}_][\p{L}\p{N}_$.]*$/u;

/** Skips whitespace and line ends, literal or escaped. */
function gapEnd(text: string, from: number): number {
  let at = from;
  while (at < from + WORDS_CHARS_MAX) {
    if (isA(text, at, BLANK | LINE_END)) at += 1;
    else if (isOneOf(text, at, "\\") && isOneOf(text, at + 1, "nrt")) at += 2;
    else return at;
  }
  return at;
}

/** Returns the parts between commas, up to the closing bracket. Skips strings and comments. */
function elementsOf(text: string, from: number): { readonly elements: readonly TextRange[]; readonly end: number } {
  const elements: TextRange[] = [];
  const limit = Math.min(text.length, from + TUPLE_CHARS_MAX);
  let depth = 0;
  let start = from;
  let at = from;
  for (; at < limit; at += 1) {
    if (isA(text, at, QUOTE)) at = stringEnd(text, at, limit);
    else if (text.startsWith("--", at)) at = rowEnd(text, at, limit) - 1;
    else if (isOneOf(text, at, "(")) depth += 1;
    else if (isOneOf(text, at, ",") && depth === 0) {
      elements.push({ start, end: at });
      start = at + 1;
    } else if (isOneOf(text, at, ";")) break;
    else if (isOneOf(text, at, ")")) {
      if (depth === 0) break;
      depth -= 1;
    }
  }
  elements.push({ start, end: Math.min(at, limit) });
  return { elements, end: Math.min(at, limit) };
}

/** Returns the closing quote of the string at `at`; a doubled or escaped quote is one of its characters. */
function stringEnd(text: string, at: number, limit: number): number {
  const isEscaped = isOneOf(text, at - 1, "\\");
  for (let end = at + 1; end < limit; end += 1) {
    if (text[end] !== text[at]) {
      if (!isEscaped && isOneOf(text, end, "\\")) end += 1;
      continue;
    }
    if (isEscaped && !isOneOf(text, end - 1, "\\")) return end;
    if (text[end + 1] !== text[at]) return end;
    end += 1;
  }
  return limit;
}

/** Returns the secret in an element: `'…'`, `N'…'`, `md5('…')`. */
function literalOf(text: string, { start, end }: TextRange, kind: SecretKind): Finding | undefined {
  const quote = endBefore(text, start, QUOTE | STOP, Math.min(end, start + CALL_CHARS_MAX));
  if (!isA(text, quote, QUOTE)) return undefined;
  const close = stringEnd(text, quote, end);
  const to = isOneOf(text, close - 1, "\\") ? close - 1 : close;
  const value = text.slice(quote + 1, Math.min(to, quote + 1 + ASSESSED_CHARS_MAX));
  return isSecretValue(value, kind, "quoted") ? { rule: `${kind}-column`, start: quote + 1, end: to } : undefined;
}

const HEAD_CHARS_MAX = 192;
const COLUMNS_MAX = 128;
const COLUMN_CHARS_MAX = 256;
/** Maximum number of tables that are cached for one text. */
const TABLES_MAX = 512;

const STEPS_PER_DEFINITION_CHAR = 8;
const STEPS_PER_COLUMN = 700;

const NOT_KINDS: ReadonlySet<SecretKind> = new Set(["cookie", "authorization", "basic"]);

function columnKind(name: string): SecretKind | undefined {
  const kind = secretKind(name);
  return kind === undefined || NOT_KINDS.has(kind) ? undefined : kind;
}

const HEAD = /^(?:if not exists )?([\w.$"'`[\]-]{1,128})\s{0,8}\(/i;
/** Matches the name at the start of a column's definition. */
const COLUMN_NAME = /^(?:\s|\\[nrt]|--.{0,128}?(?:[\r\n]|\\[nr]))*\\?["'`[]?([\w.$-]{1,128})/;
/** First words of elements that are not columns. */
const CONSTRAINTS = /^(?:primary|unique|foreign|constraint|key|index|check|fulltext)$/i;

/** Columns of the tables that the text creates: later rows may not name them. */
class CreatedTables {
  readonly #text: string;
  readonly #work: Work;
  readonly #kinds = new Map<string, readonly (SecretKind | undefined)[]>();
  #done = 0;

  constructor(text: string, work: Work) {
    this.#text = text;
    this.#work = work;
  }

  /** Reads a definition from the end of `create table`. */
  read(start: number, end: number): void {
    if (start < this.#done || this.#kinds.size >= TABLES_MAX) return;
    const head = HEAD.exec(this.#text.slice(end, end + HEAD_CHARS_MAX));
    if (head === null) return;
    const from = end + head[0].length;
    const { elements, end: close } = elementsOf(this.#text, from);
    const names = elements.slice(0, COLUMNS_MAX).flatMap(({ start: at }) => {
      const name = COLUMN_NAME.exec(this.#text.slice(at, at + COLUMN_CHARS_MAX))?.[1] ?? "";
      return CONSTRAINTS.test(name) ? [] : [name];
    });
    this.#done = close;
    this.#work.spend((close - from) * STEPS_PER_DEFINITION_CHAR + names.length * STEPS_PER_COLUMN);
    this.#kinds.set(plain(head[1] ?? ""), names.map(columnKind));
  }

  kindsOf(table: string): readonly (SecretKind | undefined)[] | undefined {
    return this.#kinds.get(plain(table));
  }
}

/** Returns the name of a table without its schema and quotes. */
function plain(table: string): string {
  return (table.split(".").at(-1) ?? "").replace(/["'`[\]\\]/g, "").toLowerCase();
}

const created = ({ text, work }: Reading): CreatedTables => new CreatedTables(text, work);

const inserts = (reading: Reading): InsertReader =>
  new InsertReader(reading.text, reading.work, { tables: reading.state(tables), created: reading.state(created) });

export const matchInsert: RuleMatcher = (reading, start, end) => reading.state(inserts).match(start, end);

export const matchCopy: RuleMatcher = (reading, start, end) => reading.state(inserts).matchCopy(start, end);

/** Remembers the columns of a table, because the rows of an `INSERT` may not name them. Finds nothing itself. */
export const readCreatedTable: RuleMatcher = (reading, start, end) => {
  reading.state(created).read(start, end);
  return undefined;
};
