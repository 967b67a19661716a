import type { ListedTable, Request, StatementFacts } from "../protocol.ts";
import { effectsOf } from "./bytecode.ts";
import { acceptedChange, acceptedQuery } from "./checks.ts";
import type { OpenDatabase } from "./database.ts";
import { listedTables } from "./listing.ts";
import { SchemaCopy } from "./schema-copy.ts";
import { countOf, wrapped } from "./statement.ts";

type Asked = Extract<Request, { do: "describe" }>;

/** Describes statements and tables of a database, and refuses statements that no tool can have. Runs none of them. */
export class Describer {
  readonly #database: OpenDatabase;
  #copy: { readonly digest: string; readonly schema: SchemaCopy } | undefined;

  constructor(database: OpenDatabase) {
    this.#database = database;
  }

  /** @throws {Refused} */
  describe(asked: Asked): StatementFacts {
    return this.#database.rolledBack("BEGIN", () => this.#factsOf(asked));
  }

  /** Returns the tables and views. */
  tables(): readonly ListedTable[] {
    return this.#database.rolledBack("BEGIN", () =>
      listedTables(this.#database.connection, this.#schemaAt(this.#database.digest())),
    );
  }

  #factsOf(asked: Asked): StatementFacts {
    const { statement, use } = asked;
    const { connection } = this.#database;
    const digest = this.#database.digest();
    const schema = this.#schemaAt(digest);
    const isChange = use === "change";
    const text = isChange ? statement : `SELECT * FROM (${statement}\n) LIMIT 0`;
    const accepted = isChange ? acceptedChange(connection, asked) : acceptedQuery(connection, asked, text);
    const { prepared, instructions } = accepted;
    const names = prepared.columnNames;
    // This form differs from the one above: text that closes one form early does not fit the other.
    if (use === "query") connection.prepare(wrapped(statement, names.length)).finalize();
    if (use === "count") connection.prepare(countOf(statement)).finalize();
    const parameters = prepared.paramsCount;
    prepared.finalize();
    return {
      parameters,
      columns: schema.columnsOf(statement, text, names),
      views: schema.views,
      effects: effectsOf(connection, instructions),
      digest,
    };
  }

  #schemaAt(digest: string): SchemaCopy {
    if (this.#copy?.digest !== digest) {
      this.#copy?.schema.close();
      this.#copy = { digest, schema: new SchemaCopy(this.#database.connection) };
    }
    return this.#copy.schema;
  }
}
