import type { ResultLimits, Texts } from "../engine.ts";
import type { SentRow, Transaction } from "./database.ts";
import type { PostgresDescription } from "./description.ts";
import { CheckedState } from "./state.ts";
import { cellShare, type ProvenQuery, queriesOf } from "./statement.ts";

interface QueryOptions {
  readonly statement: string;
  readonly description: PostgresDescription;
  readonly limits: ResultLimits;
  readonly parameterCount: number;
}

interface FoundRows {
  /** Whether tables and functions are those that the statement was checked with. */
  readonly isCurrent: boolean;
  /** Columns of the proof, then those of `wrapped`. */
  readonly rows: readonly SentRow[];
}

/** A checked query. In a state of the server in which its digest has been read, it compares the state only. */
export class CheckedQuery {
  readonly #options: QueryOptions;
  readonly #short: ProvenQuery;
  readonly #long: ProvenQuery;
  readonly #state = new CheckedState();

  constructor(options: QueryOptions) {
    const { statement, description, limits, parameterCount } = options;
    const { short, long } = queriesOf(statement, description, limits, parameterCount + 1);
    this.#options = options;
    this.#short = short;
    this.#long = long;
  }

  /** Returns the rows of the short form when every cell is short. */
  async run(transaction: Transaction, parameters: Texts, rows: number): Promise<FoundRows> {
    const { description, limits } = this.#options;
    const share = cellShare(description.columns.length, rows, limits);
    if (share !== undefined) {
      const found = await this.#proven(transaction, this.#short, [...parameters, String(rows), String(share)]);
      if (areShort(found.rows, share, limits.bytes)) return found;
    }
    return this.#proven(transaction, this.#long, [...parameters, String(rows)]);
  }

  /** Makes the next query read the digest: another server may answer it. */
  forget(): void {
    this.#state.forget();
  }

  async #proven(transaction: Transaction, query: ProvenQuery, values: Texts): Promise<FoundRows> {
    const state = this.#state.next();
    if (state !== undefined) {
      const rows = await transaction.query(query.withState, [...values, ...state]);
      if (rows.length > 0 && rows.every(([isSame]) => isSame === true)) return { isCurrent: true, rows };
    }
    const rows = await transaction.query(query.withDigest, values);
    const [[read] = []] = rows;
    const isCurrent =
      rows.length > 0 && rows.every(([at, digest]) => at === read && digest === this.#options.description.digest);
    this.#state.note(isCurrent && typeof read === "string" ? read : undefined);
    return { isCurrent, rows };
  }
}

/** Number of columns before those of a row. */
export const PROOF_COLUMNS = 2;

/** Returns whether no cell is longer than its share, and all together have no more bytes than a result may have. */
function areShort(rows: readonly SentRow[], share: number, bytesMax: number): boolean {
  let bytes = 0;
  for (const row of rows) {
    for (const cell of row.slice(PROOF_COLUMNS + 1)) {
      if (typeof cell !== "string") continue;
      if (cell.length > share) return false;
      bytes += Buffer.byteLength(cell);
    }
  }
  return bytes <= bytesMax;
}
