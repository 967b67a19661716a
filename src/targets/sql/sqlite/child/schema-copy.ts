import { Database } from "bun:sqlite";
import type { ColumnFacts } from "../protocol.ts";
import { mayCopyInto } from "./copies.ts";

/**
 * Finds the origins of columns. SQLite's driver returns only a column's declared type. So the tables are created a second time, empty
 * and in memory, with a type of its own for each column: the declared type of a statement's column is then its origin, through
 * aliases, joins, subqueries and views. For an expression, SQLite returns none.
 */
export class SchemaCopy {
  readonly #copy = new Database(":memory:");
  readonly #columns: ColumnFacts[] = [];
  readonly #views: readonly (readonly [name: string, sql: string])[];

  constructor(database: Database) {
    const rows = database.query("SELECT type, name, sql FROM sqlite_schema").values() as [
      string,
      string,
      string | null,
    ][];
    const named = (wanted: string): readonly (readonly [string, string])[] =>
      rows.filter(([type]) => type === wanted).map(([, name, sql]) => [name, sql ?? ""] as const);
    this.#views = named("view");
    for (const [name, sql] of named("table")) if (!/^\s*create\s+virtual\b/i.test(sql)) this.#addTable(database, name);
    // A table that cannot be copied is unknown, and so are the columns of statements that use it.
    for (const [, sql] of [...named("index"), ...this.#views]) this.#tryToRun(sql);
  }

  get views(): readonly string[] {
    return this.#views.map(([name]) => name);
  }

  /** Returns the facts about the columns of a statement. `prepared`: the text of which they are the columns. */
  columnsOf(statement: string, prepared: string, names: readonly string[]): readonly ColumnFacts[] {
    const types = this.#isCompound(statement) ? [] : this.#typesOf(prepared);
    return names.map((name, index) => {
      const at = /^stc_(\d+)$/.exec(types[index] ?? "")?.[1];
      const facts = at === undefined ? undefined : this.#columns[Number(at)];
      const isCopy = facts !== undefined && mayCopyInto(statement, facts.place?.[1] ?? "");
      return { name, place: isCopy ? undefined : facts?.place, isGenerated: facts?.isGenerated === true };
    });
  }

  close(): void {
    this.#copy.close();
  }

  #typesOf(prepared: string): readonly (string | null)[] {
    try {
      const statement = this.#copy.prepare(prepared);
      const types = statement.declaredTypes;
      statement.finalize();
      return types;
    } catch {
      return [];
    }
  }

  /**
   * Returns whether the statement, or a view that it may read, has a part with several SELECTs: SQLite declares the types of only one
   * of them. Words in texts and comments count, too.
   */
  #isCompound(statement: string): boolean {
    const texts = [plain(statement)];
    for (const text of texts) {
      const read = this.#views.filter(([name]) => text.includes(plain(name)));
      for (const [, sql] of read) if (!texts.includes(plain(sql))) texts.push(plain(sql));
    }
    return texts.some((text) => /\b(?:union|intersect|except)\b/.test(text) || hasRowsOfValues(text));
  }

  #addTable(database: Database, name: string): void {
    const found = database.query("SELECT name, pk, hidden FROM pragma_table_xinfo($table)").values({ table: name }) as [
      string,
      bigint,
      bigint,
    ][];
    const columns = found.map(([column, , hidden]) => {
      this.#columns.push({ name: column, place: [name, column], isGenerated: hidden > 1n });
      return `${quoted(column)} stc_${this.#columns.length - 1}`;
    });
    const key = found.filter(([, pk]) => pk > 0n).sort(([, one], [, other]) => Number(one - other));
    const unique = (
      database.query("SELECT name FROM pragma_index_list($table) WHERE origin = 'u'").values({ table: name }) as [
        string,
      ][]
    ).map(([index]) => database.query("SELECT name FROM pragma_index_info($index)").values({ index }) as [string][]);
    const constraints = [
      ...(key.length > 0 ? [`PRIMARY KEY (${key.map(([column]) => quoted(column)).join(", ")})`] : []),
      ...unique.map((members) => `UNIQUE (${members.map(([column]) => quoted(column)).join(", ")})`),
    ];
    this.#tryToRun(`CREATE TABLE ${quoted(name)} (${[...columns, ...constraints].join(", ")})`);
  }

  #tryToRun(sql: string): void {
    try {
      this.#copy.run(sql);
    } catch {
      // The table stays unknown; the caller explains the effect.
    }
  }
}

/** Returns whether there may be `VALUES` other than that of an INSERT: its rows are a statement with several parts, too. */
function hasRowsOfValues(text: string): boolean {
  const found = text.match(/\bvalues\b/g)?.length ?? 0;
  if (found === 0) return false;
  const isInsert = /^\s*(?:insert|replace)\b/.test(text);
  return !isInsert || found > 1 || /\(\s*values\b/.test(text) || /--|\/\*/.test(text);
}

/** Returns a text in which a name is found however it is quoted. As SQLite, it knows upper and lower case of English letters only. */
function plain(text: string): string {
  return text.replaceAll(/["'`[\]]/g, "").replaceAll(/[A-Z]/g, (letter) => letter.toLowerCase());
}

export function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}
