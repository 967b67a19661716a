import type { AnsweredRow, ResultLimits, SqlAnswer, Texts } from "../engine.ts";
import type { SentRow, Transaction } from "./database.ts";
import type { PostgresDescription } from "./description.ts";
import { CheckedState } from "./state.ts";
import { type ProvenQuery, type Queries, queriesOf, STATE_QUERY } from "./statement.ts";

interface QueryOptions {
  readonly statement: string;
  readonly description: PostgresDescription;
  readonly limits: ResultLimits;
  readonly parameterCount: number;
}

/** A checked query. In a state of the server in which its digest has been read, it compares the state only. */
export class CheckedQuery {
  readonly #options: QueryOptions;
  readonly #state = new CheckedState();
  /** The forms for the number of rows that was asked for last: a tool always asks for the same number. */
  #queries: Queries | undefined;

  constructor(options: QueryOptions) {
    this.#options = options;
  }

  /** Returns the rows of the short form when every cell is short. */
  async run(transaction: Transaction, parameters: Texts, rows: number): Promise<SqlAnswer> {
    const { short, long } = this.#queriesFor(rows);
    if (short !== undefined) {
      const found = await this.#proven(transaction, short, parameters);
      if (areShort(found.rows, short.share, this.#options.limits.bytes)) return found;
    }
    return this.#proven(transaction, long, parameters);
  }

  #queriesFor(rows: number): Queries {
    if (this.#queries?.rows === rows) return this.#queries;
    const { description, ...options } = this.#options;
    const { columns, digestSql } = description;
    this.#queries = queriesOf({ ...options, columns, digestSql, rows });
    return this.#queries;
  }

  /** Makes the next query read the digest: another server may answer it. */
  forget(): void {
    this.#state.forget();
  }

  async #proven(transaction: Transaction, query: ProvenQuery, values: Texts): Promise<SqlAnswer> {
    const known = this.#state.next();
    if (known !== undefined) {
      const rows = await transaction.query(query.withState, [...values, known.state]);
      // Without a row, the state is compared after the query: while the snapshot is the same, nothing was committed in between.
      const proofs = rows.length > 0 ? rows : await transaction.query(STATE_QUERY, [known.state]);
      const isCurrent = proofs.length > 0 && proofs.every(([process]) => known.processes.has(Number(process)));
      if (isCurrent) return { isCurrent, rows: rows.map((row) => rowOf(row, 1)) };
    }
    const rows = await transaction.query(query.withDigest, values);
    const [[read] = []] = rows;
    const isCurrent =
      rows.length > 0 && rows.every(([at, digest]) => at === read && digest === this.#options.description.digest);
    this.#state.note(isCurrent && typeof read === "string" ? read : undefined);
    const found = rows.filter((row) => row[PROOF_COLUMNS] !== null);
    return { isCurrent, rows: found.map((row) => rowOf(row, PROOF_COLUMNS)) };
  }
}

/** Number of columns before those of a row, with a digest. */
const PROOF_COLUMNS = 2;

/** Reads whether a row exceeds the limit of all rows, and its columns. `from`: number of columns before them. */
export function rowOf(row: SentRow, from: number): AnsweredRow {
  // Every column is text.
  return row[from] === true ? undefined : (row.slice(from + 1) as readonly (string | null)[]);
}

/** Returns whether no cell is longer than its share, and all together have no more bytes than a result may have. */
function areShort(rows: readonly AnsweredRow[], share: number, bytesMax: number): boolean {
  let characters = 0;
  for (const row of rows) {
    for (const cell of row ?? []) {
      if (cell === null) continue;
      if (cell.length > share) return false;
      characters += cell.length;
    }
  }
  // A UTF-16 unit has at most three bytes in UTF-8.
  if (characters * 3 <= bytesMax) return true;
  const cells = rows.flatMap((row) => row ?? []);
  return cells.reduce((bytes, cell) => bytes + Buffer.byteLength(cell ?? ""), 0) <= bytesMax;
}
