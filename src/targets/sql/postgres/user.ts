import type { RunContext } from "../../../core/types.ts";
import type {
  AskedChange,
  AskedStatement,
  Changed,
  DatabaseUser,
  Outcome,
  PreparedStatement,
  RecordedTransaction,
  ResultLimits,
  SqlAnswer,
  Texts,
} from "../engine.ts";
import { type CallerSettings, emptySettings, settingsOf } from "./caller.ts";
import { makeSettings, type SqlDatabase, type StatementLimits } from "./database.ts";
import { describe, type PostgresDescription } from "./description.ts";
import { failureOf } from "./failures.ts";
import { CheckedQuery, rowOf } from "./query.ts";
import { countQuery, wrappedChange } from "./statement.ts";

interface UserOptions {
  readonly name: string;
  readonly database: SqlDatabase;
  readonly limits: ResultLimits & StatementLimits;
  /** Settings that transactions get from the caller; undefined: none. */
  readonly caller: CallerSettings | undefined;
  readonly areFunctionsChecked: boolean;
  /** Returns names for temporary objects in the database. */
  readonly newName: () => string;
}

/** A user of a PostgreSQL database. */
export class PostgresUser implements DatabaseUser {
  readonly name: string;
  readonly #options: UserOptions;

  constructor(options: UserOptions) {
    this.name = options.name;
    this.#options = options;
  }

  get hasAnswered(): boolean {
    return this.#options.database.hasAnswered;
  }

  async prepare(asked: AskedStatement, signal: AbortSignal): Promise<PreparedStatement> {
    const { statement, use, parameters } = asked;
    const { database, limits, caller, areFunctionsChecked, newName } = this.#options;
    const at = parameters.length + 1;
    const changeOf = (described: Pick<PostgresDescription, "columns" | "digestSql">): string =>
      wrappedChange(statement, described, limits, at);
    const checked = {
      statement,
      change: use === "change" ? changeOf : undefined,
      name: newName(),
      parameterCount: parameters.length,
      areFunctionsChecked,
      settings: use === "count" ? [] : emptySettings(caller),
      hasCallerRole: caller?.role !== undefined,
    };
    try {
      const description = await database.look(signal, (transaction) => describe(transaction, checked));
      const text = use === "count" ? countQuery(statement) : changeOf(description);
      return new PostgresStatement(this.#options, asked, description, text);
    } catch (error) {
      throw failureOf(error);
    }
  }

  async unknownColumns(keys: readonly string[], signal: AbortSignal): Promise<readonly string[]> {
    try {
      const rows = await this.#options.database.read(signal, (transaction) =>
        transaction.query(UNKNOWN_COLUMNS, [JSON.stringify(keys)]),
      );
      return rows.map(([key]) => String(key));
    } catch (error) {
      throw failureOf(error);
    }
  }

  outcomeOf(transaction: RecordedTransaction, signal: AbortSignal): Promise<Outcome | undefined> {
    return this.#options.database.outcomeOf(transaction, signal);
  }
}

const UNKNOWN_COLUMNS = `SELECT key FROM jsonb_array_elements_text($1::text::jsonb) AS keys(key) WHERE lower(key) NOT IN (
SELECT lower(concat_ws('.', place, name)) FROM pg_catalog.pg_attribute JOIN pg_catalog.pg_class c ON c.oid = attrelid
JOIN pg_catalog.pg_namespace n ON n.oid = relnamespace, LATERAL (VALUES (relname::text), (concat_ws('.', nspname, relname))) AS places(place),
LATERAL (VALUES (attname::text), ('*')) AS names(name) WHERE relkind IN ('r', 'p', 'v', 'm', 'f') AND attnum > 0 AND NOT attisdropped)
ORDER BY key`;

class PostgresStatement implements PreparedStatement {
  readonly description: PostgresDescription;
  readonly #user: UserOptions;
  /** The text of a change or a count. */
  readonly #text: string;
  readonly #query: CheckedQuery;

  constructor(
    user: UserOptions,
    { statement, parameters }: AskedStatement,
    description: PostgresDescription,
    text: string,
  ) {
    this.#user = user;
    this.description = description;
    this.#text = text;
    this.#query = new CheckedQuery({ statement, description, limits: user.limits, parameterCount: parameters.length });
  }

  async query(parameters: Texts, rows: number, { signal, caller }: RunContext): Promise<SqlAnswer> {
    const { database, caller: wanted } = this.#user;
    const settings = settingsOf(wanted, caller);
    try {
      return await database.read(signal, async (transaction) => {
        await makeSettings(transaction, settings);
        return this.#query.run(transaction, parameters, rows);
      });
    } catch (error) {
      this.#query.forget();
      throw failureOf(error);
    }
  }

  async count(parameters: Texts, signal: AbortSignal): Promise<number | undefined> {
    try {
      const [[counted] = []] = await this.#user.database.read(signal, (transaction) =>
        transaction.query(this.#text, parameters),
      );
      return typeof counted === "string" ? Number(counted) : undefined;
    } catch (error) {
      throw failureOf(error);
    }
  }

  async change<T>({ parameters, rows, context }: AskedChange, accept: (changed: Changed) => Promise<T>): Promise<T> {
    const { database, caller } = this.#user;
    const settings = settingsOf(caller, context.caller);
    let refused: { readonly error: unknown } | undefined;
    try {
      return await database.change(context.signal, async (transaction) => {
        await makeSettings(transaction, settings);
        const sent = await transaction.query(this.#text, [...parameters, String(rows)]);
        const [digest, id, server, changed] = sent[0] ?? [];
        try {
          return await accept({
            isCurrent: digest === this.description.digest,
            transaction: String(id),
            server: String(server),
            changed: Number(changed),
            rows: Number(changed) === 0 ? [] : sent.map((row) => rowOf(row, 4)),
          });
        } catch (error) {
          refused = { error };
          throw error;
        }
      });
    } catch (error) {
      if (refused !== undefined) throw refused.error;
      throw failureOf(error);
    }
  }

  outcomeOf(transaction: RecordedTransaction, signal: AbortSignal): Promise<Outcome | undefined> {
    return this.#user.database.outcomeOf(transaction, signal);
  }
}
