const COLUMNS_MAX = 256;

/** A column's name ends where two spaces begin. */
const NAME = /\S+(?: \S+)*/g;

interface Column {
  readonly name: string;
  readonly start: number;
  readonly end: number | undefined;
}

/**
 * Reads a table whose first line names the columns, such as that of `kubectl get` or `docker ps`: a column begins where its name
 * begins, at least two spaces after the name before it. Each row has all columns; a cell without text is empty.
 *
 * @throws {SyntaxError} when a cell extends into the next column, and when two columns have the same name
 */
export function parseTable(text: string): readonly Readonly<Record<string, string>>[] {
  const [header, ...rows] = text.split("\n").filter((line) => line.trim() !== "");
  if (header === undefined) return [];
  const columns = columnsOf(header);
  return rows.map((row) => {
    // Programs align columns by characters, some of which have two UTF-16 units.
    const characters = [...row];
    return Object.fromEntries(columns.map((column) => [column.name, cellOf(characters, column)]));
  });
}

function columnsOf(header: string): readonly Column[] {
  const names = [...header.matchAll(NAME)];
  if (names.length > COLUMNS_MAX) throw new SyntaxError(`the table has more than ${COLUMNS_MAX} columns`);
  if (new Set(names.map(([name]) => name)).size < names.length)
    throw new SyntaxError("two columns of the table have the same name");
  const starts = names.map(({ index }, at) => (at === 0 ? 0 : [...header.slice(0, index)].length));
  return names.map(([name], at) => ({ name, start: starts[at] ?? 0, end: starts[at + 1] }));
}

function cellOf(row: readonly string[], { start, end }: Column): string {
  if (start > 0 && (row[start - 1] ?? " ") !== " ")
    throw new SyntaxError("a cell of the table extends into the next column");
  return row.slice(start, end).join("").trim();
}
