import type { Work } from "../bounds.ts";
import type { Finding } from "../finding.ts";
import type { Reading } from "../rules/rule.ts";
import {
  BLANK,
  beginsLine,
  isA,
  isOneOf,
  LINE_END,
  nextRow,
  QUOTE,
  ROW_CHARS_MAX,
  rowEnd,
  runEnd,
  runStart,
  startAfter,
  type TextRange,
  wordSet,
} from "../views/characters.ts";
import { type SecretKind, secretKind } from "./names.ts";
import { isCode, looksRandom } from "./value-shapes.ts";
import { ASSESSED_CHARS_MAX, isSecretValue } from "./values.ts";

/** Longer cells are not names of columns. UTF-16 units. */
const NAME_CHARS_MAX = 48;
const GAP_CHARS_MAX = 64;

/** Maximum number of consecutive rows with another number of cells than the header. */
const ODD_ROWS_MAX = 3;

const STEPS_PER_CHAR = 8;
const STEPS_PER_CELL = 700;
/** Steps for a cell of several words. */
const STEPS_PER_PHRASE = 5_000;
const STEPS_PER_HEADER = 2_200;

/** Matches `password`, `#user`, `Last login (UTC)`. */
const COLUMN = /^#?[\p{L}_][\p{L}\p{N}_. /()-]*$/u;
/** Maximum number of words in a column's name; sentences have more. */
const WORDS_MAX = 4;

/** Matches a ruler line of hyphens and column marks. */
const RULE = /^[-+|:=─┼│├┤ \t]+$/;

/** Columns that show that a row describes an account. */
const ACCOUNTS = wordSet(
  "user username login email mail account host hostname server url uri site name id rolname usename uid domain ip",
  "address",
);
/** Columns that show that a column `pass` contains passwords. */
const PEOPLE = wordSet("user username login email mail account");

/** Layout of a table. */
interface Table {
  readonly columns: readonly { readonly index: number; readonly kind: SecretKind }[];
  readonly names: readonly string[];
  readonly divider: Divider;
  /** True when any word may be a password; otherwise the value must look like one. */
  readonly isOfAccounts: boolean;
}

/** Finds values below names of secret columns: CSV, Markdown, output of database clients. Queries in text order read each line once. */
export class TableReader {
  readonly #text: string;
  readonly #work: Work;
  /** End of the last line that was read. */
  #done = 0;
  #line: TextRange = { start: 0, end: -1 };

  constructor(text: string, work: Work) {
    this.#text = text;
    this.#work = work;
  }

  get done(): number {
    return this.#done;
  }

  /** Returns the secrets below the name between `from` and `to`, and below other names on its line. */
  below(from: number, to: number): readonly Finding[] | undefined {
    if (from < this.#done) return undefined;
    const divider = dividerAt(this.#text, from, to);
    if (divider === undefined) return undefined;
    const line = this.#lineOf(from);
    this.#done = line.end;
    if (line.start === -1 || this.#text.startsWith("#define", line.start) || nextRow(this.#text, line.end) === line.end)
      return undefined;
    this.#work.spend((line.end - line.start) * STEPS_PER_CHAR);
    const table = headerOf(this.#text, line, { divider, work: this.#work });
    return table === undefined ? undefined : this.rows(table, nextRow(this.#text, line.end));
  }

  /** Returns the secrets of a table's rows from `start` on, when the first line has as many cells as the header. */
  rows(table: Table, start: number): readonly Finding[] | undefined {
    const found: Finding[] = [];
    const text = this.#text;
    let isFirst = true;
    let odd = 0;
    for (let from = start; from < text.length && odd <= ODD_ROWS_MAX; ) {
      const line = { start: from, end: rowEnd(text, from) };
      this.#work.spend((line.end - from) * STEPS_PER_CHAR + table.columns.length * STEPS_PER_CELL);
      if (runEnd(text, from, BLANK, line.end) === line.end || line.end - from >= ROW_CHARS_MAX) break;
      if (!isRule(text, line, table.divider)) {
        const cells = cellsOf(text, line, table.divider);
        const isRow = cells.length === table.names.length;
        if (isFirst && (!isRow || repeats(text, cells, table))) break;
        isFirst = false;
        odd = isRow ? 0 : odd + 1;
        if (isRow) found.push(...this.#secretsOf(cells, table));
      }
      this.#done = line.end;
      const next = nextRow(text, line.end);
      if (next === line.end) break;
      from = next;
    }
    return found.length === 0 ? undefined : found;
  }

  #secretsOf(cells: readonly TextRange[], table: Table): readonly Finding[] {
    return table.columns.flatMap(({ index, kind }) => {
      const cell = cells[index];
      if (cell === undefined || cell.end <= cell.start) return [];
      const value = this.#text.slice(cell.start, Math.min(cell.end, cell.start + ASSESSED_CHARS_MAX));
      if (value.includes(" ")) this.#work.spend(STEPS_PER_PHRASE);
      return isSecretCell(value, kind, table) ? [{ rule: `${kind}-column`, start: cell.start, end: cell.end }] : [];
    });
  }

  /** Returns the line around `at`; its start is -1 when it is too far before `at`. */
  #lineOf(at: number): TextRange {
    if (at >= this.#line.start && at <= this.#line.end) return { start: -1, end: this.#line.end };
    const limit = Math.max(this.#done, at - ROW_CHARS_MAX);
    const start = startAfter(this.#text, at, LINE_END, limit);
    const written = this.#text.slice(start, at).lastIndexOf("\\n");
    const end = rowEnd(this.#text, at);
    this.#work.spend(end - start);
    this.#line = { start, end };
    if (written !== -1) return { start: start + written + 2, end };
    if (beginsLine(this.#text, start)) return { start: afterOpening(this.#text, this.#line, at), end };
    return { start: start === limit && this.#done === limit ? nextRow(this.#text, start) : -1, end };
  }
}

/** Returns the reader of a text's tables. */
export const tables = ({ text, work }: Reading): TableReader => new TableReader(text, work);

/** Returns the start of the text inside a quoted string that contains escaped lines. */
function afterOpening(text: string, { start, end }: TextRange, at: number): number {
  if (!isOneOf(text, end, "\\")) return start;
  const before = text.slice(start, at);
  const opening = /^.*[:=(] ?"(?!,)/s.exec(before)?.[0] ?? "";
  return start + opening.length;
}

function isRule(text: string, { start, end }: TextRange, divider: Divider): boolean {
  return (
    (divider === "|" || divider === "  ") &&
    isOneOf(text, runEnd(text, start, BLANK, end), "-+|:=─├") &&
    RULE.test(text.slice(start, end))
  );
}

/** Returns the divider after the name, or before it when the name is the last on its line. */
function dividerAt(text: string, from: number, to: number): Divider | undefined {
  let after = to;
  while (after < to + 2 && (isA(text, after, QUOTE) || isOneOf(text, after, "\\")) && !isOneOf(text, after + 1, "nr"))
    after += 1;
  const next = runEnd(text, after, BLANK, after + GAP_CHARS_MAX);
  if (isOneOf(text, next, "|")) return "|";
  const divider = ONE_CHARACTER.find((character) => text.startsWith(character, after));
  if (divider !== undefined) return divider;
  const isLast = nextRow(text, next) > next;
  if (!isLast) return next - after > 1 ? "  " : undefined;
  return dividerBefore(text, from);
}

const ONE_CHARACTER = ["\t", ",", ";"] as const;

function dividerBefore(text: string, from: number): Divider | undefined {
  for (let at = from - 1; at > from - NAME_CHARS_MAX; at -= 1) {
    const character = text[at] ?? "\n";
    const divider = character === "|" ? "|" : ONE_CHARACTER.find((one) => one === character);
    if (divider !== undefined) return divider;
    if (character === " " && isOneOf(text, at - 1, " "))
      return text
        .slice(at - NAME_CHARS_MAX, at)
        .trimEnd()
        .endsWith("|")
        ? "|"
        : "  ";
    if (isA(text, at, LINE_END)) return undefined;
  }
  return undefined;
}

function headerOf(
  text: string,
  line: TextRange,
  { divider, work }: { readonly divider: Divider; readonly work: Work },
): Table | undefined {
  const spans = cellsOf(text, line, divider);
  const cells = spans.map(({ start, end }) => text.slice(start, Math.min(end, start + NAME_CHARS_MAX)));
  if (cells.length < 2 || !cells.every(isColumnName)) return undefined;
  work.spend(STEPS_PER_HEADER);
  const table = tableOf(cells, divider);
  const isProse = (divider === "," || divider === ";") && /[,;] /.test(text.slice(line.start, line.end));
  return table !== undefined && isProse ? { ...table, isOfAccounts: false } : table;
}

/** Returns a table with these columns; undefined when none of them is secret. */
export function tableOf(names: readonly string[], divider: Divider): Table | undefined {
  const words = names.flatMap((name) => name.toLowerCase().split(/[^\p{L}]+/u));
  const hasPeople = words.some((word) => PEOPLE.has(word));
  const columns = names.flatMap((name, index) => {
    const kind = secretKind(name);
    if (kind === undefined || (name.toLowerCase() === "pass" && !hasPeople)) return [];
    return [{ index, kind }];
  });
  if (columns.length === 0) return undefined;
  return { columns, divider, names, isOfAccounts: words.some((word) => ACCOUNTS.has(word)) };
}

function isColumnName(cell: string): boolean {
  return cell.length < NAME_CHARS_MAX && COLUMN.test(cell) && cell.split(" ").length <= WORDS_MAX;
}

/** Returns whether the line repeats words of the header, as lists do. */
function repeats(text: string, cells: readonly TextRange[], { names }: Table): boolean {
  return cells.some(({ start, end }, index) => end > start + 1 && text.slice(start, end) === names[index]);
}

function isSecretCell(value: string, kind: SecretKind, { isOfAccounts }: Table): boolean {
  if (kind !== "password") return looksRandom(value) || (isOfAccounts && isSecretValue(value, kind, "listed"));
  if (isSecretValue(value, kind, "prose")) return true;
  return isOfAccounts && !isCode(value) && HAS_LETTERS.test(value) && isSecretValue(value, kind, "quoted");
}

/** Matches a letter or four digits; a cell without them is not a password. */
const HAS_LETTERS = /[A-Za-z]|\d{4}/;

/** Divider between cells: a character, or at least two spaces. */
type Divider = "|" | "\t" | "," | ";" | "  ";

const CELLS_MAX = 64;

/** Returns the cells of a line without surrounding spaces and quotes; empty when there are too many. */
function cellsOf(text: string, line: TextRange, divider: Divider): readonly TextRange[] {
  const cells: TextRange[] = [];
  let from = line.start;
  while (from <= line.end) {
    const end = cellEnd(text, { start: from, end: line.end }, divider);
    cells.push(trimmed(text, { start: from, end }));
    if (cells.length > CELLS_MAX) return [];
    if (end >= line.end) break;
    from = divider === "  " ? runEnd(text, end, BLANK, line.end) : end + 1;
    if (divider === "  " && from >= line.end) break;
  }
  return divider === "|" ? withoutEdges(cells) : cells;
}

function cellEnd(text: string, { start, end }: TextRange, divider: Divider): number {
  const from = divider === "  " || divider === "|" ? start : afterQuoted(text, { start, end });
  const at = text.slice(from, end).indexOf(divider);
  return at === -1 ? end : from + at;
}

/** Skips a quoted cell, in which the divider has no meaning. */
function afterQuoted(text: string, { start, end }: TextRange): number {
  const mark = isOneOf(text, start, "\\") ? '\\"' : '"';
  if (!text.startsWith(mark, start)) return start;
  const line = text.slice(start, end);
  for (let close = mark.length; ; ) {
    const next = line.indexOf(mark, close);
    if (next === -1) return start;
    if (!line.startsWith(mark, next + mark.length)) return start + next + mark.length;
    close = next + mark.length * 2;
  }
}

/** Maximum number of quotes and backslashes around a cell. */
const MARKS_MAX = 3;

function trimmed(text: string, { start, end }: TextRange): TextRange {
  const first = runEnd(text, start, BLANK, end);
  const last = runStart(text, end, BLANK, first);
  let from = first;
  while (from < last && from < first + MARKS_MAX && (isA(text, from, QUOTE) || isOneOf(text, from, "\\"))) from += 1;
  if (from === first) return { start: first, end: last };
  let to = last;
  while (to > from && to > last - MARKS_MAX && (isA(text, to - 1, QUOTE) || isOneOf(text, to - 1, "\\"))) to -= 1;
  return { start: from, end: to };
}

/** Drops the empty cells before the first and after the last `|`. */
function withoutEdges(cells: readonly TextRange[]): readonly TextRange[] {
  const isEmpty = (cell: TextRange | undefined) => cell !== undefined && cell.start >= cell.end;
  return cells.slice(Number(isEmpty(cells[0])), isEmpty(cells.at(-1)) ? -1 : undefined);
}
