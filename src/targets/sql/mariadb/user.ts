import { isDeepStrictEqual } from "node:util";
import { Refusal } from "../../../core/errors.ts";
import type { RunContext } from "../../../core/types.ts";
import {
  type AnsweredRow,
  type AskedChange,
  type AskedStatement,
  type Changed,
  type DatabaseUser,
  type PreparedStatement,
  type SqlAnswer,
  StatementRefused,
  type Texts,
} from "../engine.ts";
import { SqlFailure, tooLarge } from "../failures.ts";
import type { ServerLimits } from "../server-system.ts";
import { type ReadBounds, ResultTooLarge, type StatementAnswer } from "./connection.ts";
import type { MariaDbDatabase, MariaDbTransaction } from "./database.ts";
import { describeStatement, digestOf, effectsOf, type MariaDbDescription, shapeOf } from "./description.ts";
import { failureIn, warned } from "./failures.ts";

interface UserOptions {
  readonly name: string;
  readonly database: MariaDbDatabase;
  /** The database that connections begin in. */
  readonly schema: string;
  readonly limits: ServerLimits;
}

/** A user of a MariaDB database. */
export class MariaDbUser implements DatabaseUser {
  readonly name: string;
  readonly #options: UserOptions;

  constructor(options: UserOptions) {
    this.name = options.name;
    this.#options = options;
  }

  get hasAnswered(): boolean {
    return this.#options.database.hasAnswered;
  }

  async prepare({ statement, use }: AskedStatement, signal: AbortSignal): Promise<PreparedStatement> {
    const { database, schema } = this.#options;
    try {
      const description = await describeStatement(database, { statement, isChange: use === "change", schema, signal });
      return new MariaDbStatement(this.#options, statement, description);
    } catch (error) {
      throw error instanceof StatementRefused ? error : failureIn(signal, error);
    }
  }
}

class MariaDbStatement implements PreparedStatement {
  readonly description: MariaDbDescription;
  readonly #user: UserOptions;
  readonly #statement: string;

  constructor(user: UserOptions, statement: string, description: MariaDbDescription) {
    this.#user = user;
    this.#statement = statement;
    this.description = description;
  }

  async query(parameters: Texts, rows: number, { signal }: RunContext): Promise<SqlAnswer> {
    const { database, limits } = this.#user;
    try {
      return await database.read(
        signal,
        async (transaction) => {
          const bounds = { rows, bytes: limits.bytes };
          const { answer, isCurrent } = await this.#run(transaction, parameters, bounds);
          return { isCurrent, rows: sentRows(answer) };
        },
        rows,
      );
    } catch (error) {
      throw error instanceof ResultTooLarge ? tooLarge() : failureIn(signal, error);
    }
  }

  async count(parameters: Texts, signal: AbortSignal): Promise<number | undefined> {
    try {
      const counted = await this.#user.database.read(signal, async (transaction) => {
        // The change itself notices tables that have changed since the check.
        const { answer } = await this.#run(transaction, parameters, { rows: 1, bytes: 100 });
        return answer.rows[0]?.[0];
      });
      return typeof counted === "string" ? Number(counted) : undefined;
    } catch (error) {
      throw failureIn(signal, error);
    }
  }

  async change<T>({ parameters, rows, context }: AskedChange, accept: (changed: Changed) => Promise<T>): Promise<T> {
    const { tables, effects, columns } = this.description;
    const returns = columns.length > 0;
    let refused: { readonly error: unknown } | undefined;
    try {
      return await this.#user.database.change(context.signal, async (transaction) => {
        const { answer, isCurrent } = await this.#run(transaction, parameters, {
          ...(returns ? { rows, bytes: this.#user.limits.bytes, isCounted: true } : { rows: 0, bytes: 0 }),
        });
        const isSame = isCurrent && isDeepStrictEqual(await effectsOf(transaction, tables), effects);
        try {
          const named = `connection ${transaction.connection}`;
          return await accept({
            isCurrent: isSame,
            transaction: named,
            changed: answer.matched,
            rows: sentRows(answer),
          });
        } catch (error) {
          refused = { error };
          throw error;
        }
      });
    } catch (error) {
      if (refused !== undefined) throw refused.error;
      // Its connection has ended, and its transaction with it.
      if (error instanceof ResultTooLarge) throw tooLarge();
      throw error instanceof Refusal || error instanceof SqlFailure ? error : failureIn(context.signal, error);
    }
  }

  /** MariaDB keeps no record of transactions that a client could ask for. */
  async outcomeOf(): Promise<undefined> {
    return undefined;
  }

  /** Runs the statement. Its tables stay as they are until the transaction ends: what is asked of them afterwards holds for it. */
  async #run(
    transaction: MariaDbTransaction,
    parameters: Texts,
    bounds: ReadBounds,
  ): Promise<{ readonly answer: StatementAnswer; readonly isCurrent: boolean }> {
    const { tables, digest, shape, tellsOrigins } = this.description;
    const answer = await transaction.run(this.#statement, parameters, bounds);
    const warnings = await transaction.warnings();
    if (warnings.length > 0) throw warned(warnings);
    const isCurrent =
      shapeOf(answer.fields, tellsOrigins) === shape && (await digestOf(transaction, tables)) === digest;
    return { answer, isCurrent };
  }
}

function sentRows({ rows, isTooLarge }: StatementAnswer): readonly AnsweredRow[] {
  return isTooLarge ? [...rows, undefined] : rows;
}
