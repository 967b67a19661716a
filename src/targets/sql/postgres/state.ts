/**
 * The state of the server. While it is the same, so is every digest of the catalog (`digest.ts`), because the same snapshot sees the same
 * rows: each commit changes the snapshot for good, since transactions are numbered in order and numbers are not used again. What the
 * digest has of the session and its users is part of the state. So are the database and the start of the server: a pooler may have
 * connected to other ones.
 *
 * Numbers are used again after a crash, for commits that had not waited for the disk (`synchronous_commit = off`), and the start of the
 * server stays. All its processes end then, so a state holds only for the processes in which it was read.
 *
 * On a standby, `pg_current_snapshot` does not list the transactions in progress, so that a commit may leave it as it was. The state of a
 * standby is not read, and equals none that was read: the last word of a state says whether the server is a standby.
 */
const STATE = `pg_catalog.concat_ws(' ', pg_catalog.pg_postmaster_start_time(),
pg_catalog.current_database(), pg_catalog.pg_current_snapshot(), session_user, current_user, pg_catalog.current_schemas(false),
pg_catalog.current_setting('is_superuser'), pg_catalog.current_setting('in_hot_standby'))`;

/** The number of the server's process, which is the first word of `STATE_SQL`. */
export const PROCESS_SQL = "pg_catalog.pg_backend_pid()";

/** The column that reads the process and its state; null where the state is unknown. */
export const STATE_SQL = `CASE WHEN NOT pg_catalog.pg_is_in_recovery() THEN pg_catalog.concat_ws(' ', ${PROCESS_SQL}, ${STATE}) END`;

/**
 * Returns a condition that compares the state with a parameter. It calls stable functions only, so that PostgreSQL evaluates it once for
 * a query, before the first row: `pg_is_in_recovery` is volatile.
 */
export function sameStateSql(at: number): string {
  return `${STATE} OPERATOR(pg_catalog.=) $${at}::text`;
}

/**
 * Names the running server, without an interruption since it started: transactions keep their ids only that long. After a crash, the
 * server may give an id again whose transaction it had not yet written, and so may a standby or a restored backup, which has the same
 * system identifier. A crash without a start of the main process resets the statistics.
 */
export const SERVER_SQL = `pg_catalog.concat_ws(' ', extract(epoch FROM pg_catalog.pg_postmaster_start_time()),
extract(epoch FROM pg_catalog.pg_stat_get_bgwriter_stat_reset_time()))`;

/** Digests in the same state after which the next query only compares the state: where others write all the time, it would differ. */
export const REPEATS_MIN = 8;
/** Comparisons after which the digest is read again. */
export const COMPARED_MAX = 100;

/** Most processes that are known: more than a system has connections. */
const PROCESSES_MAX = 256;

/** A state in which a digest was that of the check, and the server's processes that have read the digest. */
interface KnownState {
  readonly state: string;
  readonly processes: ReadonlySet<number>;
}

/** The state of the server in which a statement fitted its check. */
export class CheckedState {
  #state: string | undefined;
  #processes = new Set<number>();
  #repeats = 0;
  #compared = 0;

  /** Returns the state that the next query compares with its own; undefined when the digest is to be read. */
  next(): KnownState | undefined {
    if (this.#repeats < REPEATS_MIN) return undefined;
    this.#compared += 1;
    if (this.#compared > COMPARED_MAX) {
      this.#compared = 0;
      return undefined;
    }
    return this.#state === undefined ? undefined : { state: this.#state, processes: this.#processes };
  }

  /** Notes the value of `STATE_SQL` with which a digest was that of the check; undefined: it was not, or the state is unknown. */
  note(read: string | undefined): void {
    const [, process, state] = /^(\d+) (.*)$/s.exec(read ?? "") ?? [];
    if (state === undefined || state !== this.#state || this.#processes.size >= PROCESSES_MAX) this.forget();
    else this.#repeats += 1;
    this.#compared = 0;
    this.#state = state;
    if (state !== undefined) this.#processes.add(Number(process));
  }

  /** Makes the next query read the digest: the server may have been started again. */
  forget(): void {
    this.#state = undefined;
    // Queries in progress still have those of the earlier state.
    this.#processes = new Set();
    this.#repeats = 0;
  }
}
