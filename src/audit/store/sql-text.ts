/** A value that a statement binds. Values never become part of a statement's text. */
export type SqlValue = string | number;

/** A statement, or a part of one: `parts` are text of this codebase, with a bound value between each two. */
export class SqlText {
  readonly parts: readonly string[];
  readonly values: readonly SqlValue[];

  constructor(parts: readonly string[], values: readonly SqlValue[]) {
    this.parts = parts;
    this.values = values;
  }
}

/** A template of a statement: binds values, and puts in other parts of a statement. */
export function sql(template: TemplateStringsArray, ...inserted: readonly (SqlText | SqlValue)[]): SqlText {
  const parts = [template[0] ?? ""];
  const values: SqlValue[] = [];
  const append = (text: string): void => {
    parts[parts.length - 1] += text;
  };
  for (const [index, item] of inserted.entries()) {
    if (item instanceof SqlText) {
      append(item.parts[0] ?? "");
      parts.push(...item.parts.slice(1));
      values.push(...item.values);
    } else {
      parts.push("");
      values.push(item);
    }
    append(template[index + 1] ?? "");
  }
  return new SqlText(parts, values);
}

const IDENTIFIER = /^[a-z][a-z0-9_]{0,62}$/;

/** Returns the name of a table or a column. */
export function identifier(name: string): SqlText {
  if (!IDENTIFIER.test(name)) throw new Error(`not the name of a column: ${name}`);
  return new SqlText([name], []);
}

/** Joins parts of a statement. */
export function joined(items: readonly SqlText[], separator: " AND " | " OR " | ", "): SqlText {
  const between = new SqlText([separator], []);
  return items.reduce((before, item, at) => (at === 0 ? item : sql`${before}${between}${item}`), sql``);
}

/** SQL that differs between the databases. */
export interface SqlDialect {
  /** The table of lines, in which each line counts once. */
  readonly lines: SqlText;
  /** The table of logs, in which each log counts once. */
  readonly logs: SqlText;
  readonly checkpoints: SqlText;
  /** Returns a condition that is true when the text contains the part, compared by characters. */
  contains(text: SqlText, part: SqlValue | SqlText): SqlText;
  beginsWith(text: SqlText, part: SqlValue): SqlText;
  /** Returns the text with ASCII letters in lower case. */
  folded(text: SqlText): SqlText;
  /** Returns a condition that is true when the column `ids` holds the id. */
  hasId(id: string): SqlText;
  /** Converts a day, `YYYY-MM-DD`. */
  day(day: string): SqlText;
}

/** A row of an answer. Integers may be texts. */
export type StoreAnswer = Readonly<Record<string, unknown>>;

/** A database that holds the lines of many logs. */
export interface StoreDatabase {
  readonly dialect: SqlDialect;
  read(statement: SqlText): Promise<readonly StoreAnswer[]>;
  close(): Promise<void>;
}
