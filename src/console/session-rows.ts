import type { Row, Sql } from "../database/dialect.ts";
import { integer, text } from "../database/rows.ts";
import type { SharedState } from "../database/shared-state.ts";

/** The rows of sessions and sign-ins: in the approvals' database, for all replicas, or in the memory of this process. */

const SESSIONS_MAX = 1_024;
const SESSIONS_PER_OPERATOR_MAX = 16;
/** Sign-ins at a provider that were used and could be used again. */
const USED_MAX = 10_000;
/** SQLite has no OFFSET without a LIMIT. */
const ALL = 1_000_000;

export interface SessionRow {
  /** Hash of the cookie's value, which nobody can derive from it. */
  readonly idHash: string;
  readonly issuer: string;
  readonly subject: string;
  /** The tenant of the operator; undefined: the service itself. An issuer may have an operator of the same name in each. */
  readonly tenant: string | undefined;
  /** Encrypted with a key from the cookie's value. */
  readonly sealed: string;
  readonly endsAt: number;
  /** Time from which the token is renewed; a renewal under way moves it. */
  readonly renewAt: number;
}

export class SessionRows {
  readonly #state: SharedState;

  constructor(state: SharedState) {
    this.#state = state;
  }

  /**
   * Adds a session. Removes the one that it replaces and the oldest that are in its way, and returns them. Those of the tenant with
   * the most are in the way first: a tenant whose issuer invents operators signs out nobody of another tenant.
   */
  add(row: SessionRow, replaced?: string): Promise<readonly SessionRow[]> {
    const { idHash, issuer, subject, tenant = "", sealed, endsAt, renewAt } = row;
    return this.#state.write(async (sql, now) => {
      const [newest = {}] = await sql`SELECT coalesce(max(opened_at), 0) AS opened_at FROM console_sessions`;
      // Sessions of one moment have an order, too.
      const openedAt = Math.max(now, integer(newest, "opened_at") + 1);
      await sql`
        INSERT INTO console_sessions (id_hash, issuer, subject, tenant, sealed, opened_at, ends_at, renew_at)
        VALUES (${idHash}, ${issuer}, ${subject}, ${tenant}, ${sealed}, ${openedAt}, ${endsAt}, ${renewAt})`;
      const before = await sql`DELETE FROM console_sessions WHERE id_hash = ${replaced ?? ""} RETURNING *`;
      const own = await sql`
        DELETE FROM console_sessions WHERE id_hash IN (
          SELECT id_hash FROM console_sessions WHERE issuer = ${issuer} AND subject = ${subject} AND tenant = ${tenant}
          ORDER BY opened_at DESC, id_hash LIMIT ${ALL} OFFSET ${SESSIONS_PER_OPERATOR_MAX})
        RETURNING *`;
      const others = await sql`
        DELETE FROM console_sessions WHERE id_hash IN (
          SELECT id_hash FROM (
            SELECT id_hash, row_number() OVER (PARTITION BY tenant ORDER BY opened_at DESC, id_hash) AS of_tenant
            FROM console_sessions) AS ranked
          ORDER BY of_tenant, id_hash LIMIT ${ALL} OFFSET ${SESSIONS_MAX})
        RETURNING *`;
      return [...before, ...own, ...others].map(toRow);
    });
  }

  find(idHash: string): Promise<SessionRow | undefined> {
    return this.#state.read(async (sql) => one(await sql`SELECT * FROM console_sessions WHERE id_hash = ${idHash}`));
  }

  count(): Promise<number> {
    return this.#state.read(async (sql, now) => {
      const [row = {}] = await sql`SELECT count(*) AS sessions FROM console_sessions WHERE ends_at > ${now}`;
      return integer(row, "sessions");
    });
  }

  /** Returns the row, with the lease as `renewAt`, when this process renews the token now: until then, no other one does. */
  claimRenewal({ idHash, renewAt }: SessionRow, leaseUntil: number): Promise<SessionRow | undefined> {
    return this.#state.write(async (sql) =>
      one(
        await sql`
          UPDATE console_sessions SET renew_at = ${leaseUntil} WHERE id_hash = ${idHash} AND renew_at = ${renewAt}
          RETURNING *`,
      ),
    );
  }

  /** Stores another token. Returns false when the session has ended, or its content is not the one before. */
  replace({ idHash, sealed, renewAt }: SessionRow, before: string): Promise<boolean> {
    return this.#changes(
      (sql) => sql`
        UPDATE console_sessions SET sealed = ${sealed}, renew_at = ${renewAt}
        WHERE id_hash = ${idHash} AND sealed = ${before} RETURNING *`,
    );
  }

  /** Gives a lease back. Returns false when the session has ended, or the lease is another process's. */
  postponeRenewal({ idHash, renewAt: lease }: SessionRow, until: number): Promise<boolean> {
    return this.#changes(
      (sql) => sql`
        UPDATE console_sessions SET renew_at = ${until} WHERE id_hash = ${idHash} AND renew_at = ${lease} RETURNING *`,
    );
  }

  /** Removes a session. Returns it to one caller only. */
  remove(idHash: string): Promise<SessionRow | undefined> {
    return this.#state.write(async (sql) =>
      one(await sql`DELETE FROM console_sessions WHERE id_hash = ${idHash} RETURNING *`),
    );
  }

  /** Removes what has expired, and returns the sessions of that. */
  removeExpired(): Promise<readonly SessionRow[]> {
    return this.#state.write(async (sql, now) => {
      await sql`DELETE FROM console_used_sign_ins WHERE until <= ${now}`;
      return (await sql`DELETE FROM console_sessions WHERE ends_at <= ${now} RETURNING *`).map(toRow);
    });
  }

  /** Returns true for the first use of a sign-in's state. */
  useSignIn(stateHash: string, until: number): Promise<boolean> {
    return this.#state.write(async (sql, now) => {
      await sql`DELETE FROM console_used_sign_ins WHERE until <= ${now}`;
      await sql`
        DELETE FROM console_used_sign_ins WHERE state_hash IN (
          SELECT state_hash FROM console_used_sign_ins ORDER BY until DESC, state_hash LIMIT ${ALL} OFFSET ${USED_MAX - 1})`;
      const added = await sql`
        INSERT INTO console_used_sign_ins (state_hash, until) VALUES (${stateHash}, ${until})
        ON CONFLICT (state_hash) DO NOTHING RETURNING state_hash`;
      return added.length === 1;
    });
  }

  /** Returns the secret by which a sign-in that began at one replica ends at another; the first caller's becomes everybody's. */
  secret(proposed: string): Promise<string> {
    return this.#state.write(async (sql) => {
      await sql`INSERT INTO console_secret (id, secret) VALUES (1, ${proposed}) ON CONFLICT (id) DO NOTHING`;
      const [row = {}] = await sql`SELECT secret FROM console_secret WHERE id = 1`;
      return text(row, "secret");
    });
  }

  #changes(change: (sql: Sql) => PromiseLike<readonly Row[]>): Promise<boolean> {
    return this.#state.write(async (sql) => (await change(sql)).length === 1);
  }
}

function one([row]: readonly Row[]): SessionRow | undefined {
  return row && toRow(row);
}

function toRow(row: Row): SessionRow {
  const [idHash, issuer, subject, sealed] = [
    text(row, "id_hash"),
    text(row, "issuer"),
    text(row, "subject"),
    text(row, "sealed"),
  ];
  const tenant = text(row, "tenant") || undefined;
  return {
    idHash,
    issuer,
    subject,
    tenant,
    sealed,
    endsAt: integer(row, "ends_at"),
    renewAt: integer(row, "renew_at"),
  };
}
