import type { Schema } from "../../../core/schema/walk.ts";
import type { RunContext } from "../../../core/types.ts";
import type {
  AskedChange,
  AskedStatement,
  Changed,
  ColumnRule,
  DatabaseUser,
  Description,
  Outcome,
  PreparedStatement,
  RecordedTransaction,
  ResultLimits,
  SqlAnswer,
  Texts,
} from "../engine.ts";
import { ANY_TYPE, StatementRefused } from "../engine.ts";
import { SqlFailure } from "../failures.ts";
import { columnForm, type ParameterType } from "../values.ts";
import { failureOf, isStale, unavailable } from "./failures.ts";
import type { DatabaseProcess, DatabaseProcesses } from "./processes.ts";
import type { BoundValue, Request, SentChange, SentRows, StatementFacts } from "./protocol.ts";

/** Time limit for COMMIT and ROLLBACK, in milliseconds. It holds also after the caller's deadline. */
const END_MS_MAX = 5_000;

interface UserOptions {
  readonly processes: DatabaseProcesses;
  /** Rolls back the unfinished change of a killed process; undefined where the system may not change the database. */
  readonly recover: ((signal: AbortSignal) => Promise<void>) | undefined;
  readonly limits: ResultLimits;
  readonly columns: Readonly<Record<string, ColumnRule>>;
  /** Returns a marker of the database's last commit. */
  readonly lastCommit: () => string;
}

/** A database that is open for reading, or for changing. */
export class SqliteUser implements DatabaseUser {
  readonly name = undefined;
  readonly #options: UserOptions;
  #hasAnswered = false;

  constructor(options: UserOptions) {
    this.#options = options;
  }

  get hasAnswered(): boolean {
    return this.#hasAnswered;
  }

  get options(): UserOptions {
    return this.#options;
  }

  async prepare({ statement, use, parameters }: AskedStatement, signal: AbortSignal): Promise<PreparedStatement> {
    const facts = await this.ask<StatementFacts>(
      { do: "describe", statement, use, parameters: parameters.length },
      signal,
    );
    const views = facts.views.map((view) => view.toLowerCase());
    const ruled = Object.keys(this.#options.columns).filter((key) =>
      views.includes(key.split(".")[0]?.toLowerCase() ?? ""),
    );
    if (ruled.length > 0) {
      const message = `cannot be checked: the system's columns name the view of ${ruled.join(", ")}, instead of the table behind it`;
      throw new StatementRefused([message]);
    }
    return new SqliteStatement(this, statement, descriptionOf(facts, parameters), facts.digest);
  }

  /** Sends a request to a process; repeats it with another process when the first one has outdated files open. */
  async ask<T>(request: Request, signal: AbortSignal): Promise<T> {
    return this.attempt(signal, (database) => this.answerOf<T>(database, request, signal));
  }

  /** Runs work with a process; runs it again with another one when the first one has outdated files open. */
  async attempt<T>(signal: AbortSignal, work: (database: DatabaseProcess) => Promise<T>): Promise<T> {
    const { processes, recover } = this.#options;
    const once = (): Promise<T> =>
      processes.use(signal, async (database) => {
        try {
          return await work(database);
        } catch (error) {
          if (isStale(error)) await Promise.all([database.end(), processes.endIdle()]);
          throw error;
        }
      });
    try {
      return await once();
    } catch (error) {
      if (!isStale(error) || signal.aborted) throw error;
      await recover?.(signal);
      return once();
    }
  }

  async answerOf<T>(database: DatabaseProcess, request: Request, signal: AbortSignal, timeoutMs?: number): Promise<T> {
    try {
      const response = await database.ask(request, signal, timeoutMs);
      this.#hasAnswered = true;
      if ("refused" in response) throw new StatementRefused(response.refused);
      if ("error" in response) throw failureOf(response.error);
      return response.answer as T;
    } catch (error) {
      if (error instanceof SqlFailure && error.isUnavailable) this.#hasAnswered = false;
      throw error;
    }
  }
}

class SqliteStatement implements PreparedStatement {
  readonly description: Description;
  readonly #user: SqliteUser;
  readonly #statement: string;
  readonly #digest: string;

  constructor(user: SqliteUser, statement: string, description: Description, digest: string) {
    this.#user = user;
    this.#statement = statement;
    this.description = description;
    this.#digest = digest;
  }

  async query(parameters: Texts, rows: number, { signal }: RunContext): Promise<SqlAnswer> {
    const columns = this.description.columns.length;
    const request = {
      do: "query",
      columns,
      rows,
      limits: this.#user.options.limits,
      ...this.#bound(parameters),
    } as const;
    return this.#answer(await this.#user.ask<SentRows>(request, signal));
  }

  async count(parameters: Texts, signal: AbortSignal): Promise<number | undefined> {
    const counted = await this.#user.ask<string | null>({ do: "count", ...this.#bound(parameters) }, signal);
    return counted === null ? undefined : Number(counted);
  }

  change<T>({ parameters, rows, context }: AskedChange, accept: (changed: Changed) => Promise<T>): Promise<T> {
    const user = this.#user;
    const { limits, lastCommit } = user.options;
    const request = { do: "change", rows, limits, ...this.#bound(parameters) } as const;
    return user.attempt(context.signal, async (database) => {
      const sent = await user.answerOf<SentChange>(database, request, context.signal);
      let accepted: T;
      try {
        accepted = await accept({ ...this.#answer(sent), changed: sent.changed, transaction: lastCommit() });
      } catch (error) {
        const ended = user.answerOf(database, { do: "rollback" }, AbortSignal.timeout(END_MS_MAX), END_MS_MAX);
        await ended.catch(() => database.kill());
        throw error;
      }
      try {
        // The journal has the change: it is not given up half-way because the caller's time is over.
        await user.answerOf(database, { do: "commit" }, AbortSignal.timeout(END_MS_MAX), END_MS_MAX);
      } catch (error) {
        if (!isStale(error)) throw error;
        // Files that fail during COMMIT may have the change: it is neither repeated, nor said not to have happened.
        await database.kill();
        throw unavailable(error instanceof SqlFailure ? error.message : "its files cannot be used");
      }
      return accepted;
    });
  }

  /** Can only show that nothing was committed: after another commit, the marker does not show whose commit it was. */
  async outcomeOf({ transaction }: RecordedTransaction, signal: AbortSignal): Promise<Outcome | undefined> {
    await this.#user.ask({ do: "recover" }, signal);
    return this.#user.options.lastCommit() === transaction ? "aborted" : undefined;
  }

  #bound(parameters: Texts) {
    const values = parameters.map((text, index) => sentValue(text, this.description.parameters[index]?.name));
    return { statement: this.#statement, values };
  }

  #answer({ digest, rows }: SentRows): SqlAnswer {
    return { isCurrent: digest === this.#digest, rows: rows.map((row) => row ?? undefined) };
  }
}

function descriptionOf(facts: StatementFacts, schemas: readonly (Schema | undefined)[]): Description {
  return {
    parameters: Array.from({ length: facts.parameters }, (_, index) => typeOf(schemas[index])),
    columns: facts.columns.map(({ name, place, isGenerated }) => ({
      name,
      type: ANY_TYPE,
      isList: false,
      origin: place === undefined || isGenerated ? undefined : place.join("."),
      places: place === undefined ? [] : [["", ...place] as const],
    })),
    functions: undefined,
    user: { isSuperuser: false, bypassesRowSecurity: false, changes: undefined },
    effects: facts.effects,
  };
}

/** SQLite's parameters have no types: the input schema says what a value is. */
function typeOf(schema: Schema | undefined): ParameterType {
  const form = schema === undefined ? "text" : columnForm(schema);
  const names = { text: "text", number: "double precision", boolean: "boolean", json: "jsonb", list: "jsonb" } as const;
  return { name: names[form ?? "text"], isList: false, isEnum: false };
}

function sentValue(text: string | null, type: string | undefined): BoundValue {
  if (text === null) return null;
  if (type === "boolean") return { integer: text === "true" ? "1" : "0" };
  if (type !== "double precision") return text;
  return /^-?\d{1,18}$/.test(text) ? { integer: text } : { real: Number(text) };
}

/** Returns a function that rolls back a killed process's unfinished change, as the user that may change the database. */
export function recovery(user: SqliteUser): (signal: AbortSignal) => Promise<void> {
  return async (signal) => {
    await user.ask({ do: "recover" }, signal).catch((error) => {
      throw error instanceof SqlFailure ? error : unavailable("the database cannot be recovered");
    });
  };
}
