import { constants, Database, type Statement as Prepared, type SQLQueryBindings } from "bun:sqlite";
import type { Row, Sql } from "./dialect.ts";

interface OpenOptions {
  /** Creates the file when there is none. */
  readonly create: boolean;
  /**
   * Only reads: next to other connections (`shared`), or a file that nobody has open (`alone`), of which SQLite then makes no
   * write-ahead log.
   */
  readonly reads?: "shared" | "alone";
}

const URI_PATH_ESCAPES = /[%?#]/g;

/**
 * A connection to a SQLite file, whose transactions take turns. `Bun.SQL` has the same interface, but prepares each statement
 * again, which takes most of the time of a short transaction.
 */
export class SqliteConnection {
  readonly #database: Database;
  /** Prepared statements by their text. Texts are written in the code, so that there are few. */
  readonly #statements = new Map<string, Prepared<Row, SQLQueryBindings[]>>();
  #last: Promise<unknown> = Promise.resolve();

  /** @throws {Error} with a `code` of SQLite when the file cannot be opened */
  constructor(path: string, { create, reads }: OpenOptions) {
    this.#database =
      reads === undefined ? new Database(path, { readwrite: true, create }) : new Database(...readOnly(path, reads));
  }

  /** Reads or sets a setting of the connection, such as `synchronous = FULL`. */
  pragma(setting: string): Promise<readonly Row[]> {
    return this.#inTurn(async () => this.#run(`PRAGMA ${setting}`, []));
  }

  /**
   * Runs `work` in a transaction. Its statements are not accepted any more when the transaction has ended. `script` runs several
   * statements without values.
   */
  begin<T>(mode: "DEFERRED" | "IMMEDIATE", work: (sql: Sql, script: (text: string) => void) => Promise<T>): Promise<T> {
    return this.#inTurn(async () => {
      this.#run(`BEGIN ${mode}`, []);
      let isOpen = true;
      const run = (text: string, values: readonly unknown[]): readonly Row[] => {
        if (!isOpen) throw new Error("the transaction has ended");
        return this.#run(text, values);
      };
      try {
        const result = await work(
          (strings, ...values) => new Statement(strings, values, run),
          (text) => void this.#database.run(text),
        );
        this.#run("COMMIT", []);
        return result;
      } catch (error) {
        // SQLite ends the transaction itself after some errors.
        if (this.#database.inTransaction) this.#run("ROLLBACK", []);
        throw error;
      } finally {
        isOpen = false;
      }
    });
  }

  /** Closes the file after the transactions that have begun. */
  close(): Promise<void> {
    return this.#inTurn(async () => {
      for (const statement of this.#statements.values()) statement.finalize();
      this.#statements.clear();
      this.#database.close();
    });
  }

  #inTurn<T>(act: () => Promise<T>): Promise<T> {
    const done = this.#last.then(act);
    this.#last = done.catch(() => undefined);
    return done;
  }

  #run(text: string, values: readonly unknown[]): readonly Row[] {
    let statement = this.#statements.get(text);
    if (statement === undefined) {
      statement = this.#database.prepare<Row, SQLQueryBindings[]>(text);
      this.#statements.set(text, statement);
    }
    return statement.all(...values.map(bound));
  }
}

function readOnly(path: string, reads: "shared" | "alone"): [path: string, flags: number] {
  if (reads === "shared") return [path, constants.SQLITE_OPEN_READONLY];
  const uri = `file:${path.replace(URI_PATH_ESCAPES, encodeURIComponent)}?immutable=1`;
  return [uri, constants.SQLITE_OPEN_READONLY | constants.SQLITE_OPEN_URI];
}

/** A statement that runs when it is awaited, or becomes a part of another one. */
class Statement implements PromiseLike<readonly Row[]> {
  readonly #strings: TemplateStringsArray;
  readonly #values: readonly unknown[];
  readonly #run: (text: string, values: readonly unknown[]) => readonly Row[];

  constructor(
    strings: TemplateStringsArray,
    values: readonly unknown[],
    run: (text: string, values: readonly unknown[]) => readonly Row[],
  ) {
    this.#strings = strings;
    this.#values = values;
    this.#run = run;
  }

  then<A = readonly Row[], B = never>(
    fulfilled?: ((rows: readonly Row[]) => A | PromiseLike<A>) | null,
    rejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    return new Promise<readonly Row[]>((resolve) => {
      const values: unknown[] = [];
      const text = this.#flatten(values);
      resolve(this.#run(text, values));
    }).then(fulfilled, rejected);
  }

  #flatten(values: unknown[]): string {
    const [first = "", ...others] = this.#strings;
    return others.reduce((text, part, index) => {
      const value = this.#values[index];
      if (value instanceof Statement) return `${text}${value.#flatten(values)}${part}`;
      values.push(value);
      return `${text}?${part}`;
    }, first);
  }
}

function bound(value: unknown): SQLQueryBindings {
  if (value === undefined || value === null) return null;
  if (typeof value === "string" || typeof value === "number" || typeof value === "boolean") return value;
  if (typeof value === "bigint" || value instanceof Uint8Array) return value;
  throw new TypeError("a value of this type cannot be stored");
}
