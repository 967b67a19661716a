/**
 * The column that reads the state of the server, null where the state is unknown. While it is the same, so is every digest of the
 * catalog (`digest.ts`), because the same snapshot sees the same rows: each commit changes the snapshot for good, since transactions are
 * numbered in order and numbers are not used again. What the digest has of the session and its users is part of the state. So are the
 * database and the start of the server: a pooler may have connected to other ones.
 *
 * On a standby, `pg_current_snapshot` does not list the transactions in progress, so that a commit may leave it as it was.
 */
export const STATE_SQL = `CASE WHEN NOT pg_catalog.pg_is_in_recovery() THEN pg_catalog.concat_ws(' ', pg_catalog.pg_postmaster_start_time(),
pg_catalog.current_database(), pg_catalog.pg_current_snapshot(), session_user, current_user, pg_catalog.current_schemas(false),
pg_catalog.current_setting('is_superuser')) END`;

/** Digests in the same state after which the next query only compares the state: where others write all the time, it would differ. */
export const REPEATS_MIN = 8;
/** Comparisons after which the digest is read again. */
export const COMPARED_MAX = 100;

/** The state of the server in which a statement fitted its check. */
export class CheckedState {
  #state: string | undefined;
  #repeats = 0;
  #compared = 0;

  /** Returns the state to compare with; undefined when the digest is to be read. */
  next(): string | undefined {
    if (this.#repeats < REPEATS_MIN) return undefined;
    this.#compared += 1;
    if (this.#compared > COMPARED_MAX) this.forget();
    return this.#state;
  }

  /** Notes the state in which a digest was that of the check; undefined: it was not, or the state is unknown. */
  note(state: string | undefined): void {
    this.#repeats = state !== undefined && state === this.#state ? this.#repeats + 1 : 0;
    this.#compared = 0;
    this.#state = state;
  }

  /** Has the next query read the digest: the state differs, or the server may have been started again. */
  forget(): void {
    this.#state = undefined;
    this.#repeats = 0;
  }
}
