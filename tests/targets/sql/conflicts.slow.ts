import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { findPostgres } from "../../support/postgres.ts";
import { until } from "../../support/until.ts";
import { ask, loaded, PostgresShop, refusal, sqlTool } from "./support.ts";

const native = findPostgres();
const classification = "write";

/**
 * `paused` and `gated` wait for an advisory lock of the test, so that the order of locks does not depend on time. `fails` raises the
 * SQLSTATE of its row in `faults`, when a row is changed or at COMMIT, the first `times` times that it is called.
 */
const TABLES = `CREATE ROLE reader LOGIN; CREATE ROLE writer LOGIN;
ALTER ROLE reader SET default_transaction_isolation = serializable; ALTER ROLE writer SET default_transaction_isolation = serializable;
ALTER ROLE reader SET deadlock_timeout = '10ms'; ALTER ROLE writer SET deadlock_timeout = '10ms';
CREATE TABLE counters (id int PRIMARY KEY, n int NOT NULL); CREATE TABLE other (id int PRIMARY KEY);
CREATE TABLE faults (state text, at text, times int); CREATE SEQUENCE calls;
CREATE FUNCTION gated(id int) RETURNS boolean LANGUAGE plpgsql AS
  'BEGIN IF id = 2 THEN PERFORM pg_advisory_xact_lock_shared(7); END IF; RETURN true; END';
CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS 'DECLARE f faults; BEGIN
  FOR f IN SELECT * FROM faults WHERE at = TG_ARGV[0] LOOP
    IF nextval(''calls'') <= f.times THEN RAISE EXCEPTION ''canary'' USING ERRCODE = f.state; END IF;
  END LOOP; RETURN NULL; END';
CREATE TRIGGER fails AFTER UPDATE ON counters FOR EACH ROW EXECUTE FUNCTION fails('once');
CREATE CONSTRAINT TRIGGER fails_late AFTER UPDATE ON counters DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fails('commit');
CREATE FUNCTION paused() RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER AS
  'DECLARE n bigint; BEGIN PERFORM pg_advisory_xact_lock_shared(7); SELECT count(*) INTO n FROM other; RETURN n; END';
CREATE FUNCTION broken(state text) RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''canary'' USING ERRCODE = state; END';
GRANT SELECT ON counters TO reader; GRANT SELECT, UPDATE ON counters TO writer;`;

const ADD = "update counters set n = n + 1 where id <= $1::int4 and gated(id) returning id, n";
const input = { id: z.int() };
const columns = { id: z.int(), n: z.int() };
const add = sqlTool({ classification, statement: ADD, input, columns, rows: { changes: 2 } });
const functions = ["public.gated"];
const STATES = ["40001", "40P01"] as const;

const shop = new PostgresShop();

const counters = async (): Promise<readonly unknown[]> =>
  (await shop.server.send("SELECT n FROM counters ORDER BY id", "shop")).map(({ n }) => n);
const attempts = async (): Promise<unknown> =>
  (await shop.server.send("SELECT last_value::int AS n FROM calls WHERE is_called", "shop"))[0]?.["n"];

/** Returns how many deadlocks the server has ended. */
function deadlocks(): number {
  return readFileSync(join(shop.server.dir, "log"), "utf8").split("deadlock detected").length - 1;
}

/** A session of another program. */
class Session {
  readonly sql = new Bun.SQL({ url: `postgres://tester@127.0.0.1:${shop.server.port}/shop?sslmode=disable`, max: 1 });

  /** Sent at once: the driver sends a query only when somebody waits for it. */
  async send(statement: string): Promise<unknown> {
    return await this.sql.unsafe(statement).simple();
  }

  close(): Promise<void> {
    return this.sql.close({ timeout: 0 });
  }
}

/**
 * Brings a call into a deadlock, of which it is the victim: `held` is locked by another program, which then waits for `wanted`, which
 * the call has locked, before the call may go on and wait for `held`.
 */
async function deadlocked<T>(
  locks: { readonly held: string; readonly wanted: string },
  call: () => Promise<T>,
): Promise<T> {
  const [gate, program] = [new Session(), new Session()];
  try {
    await gate.send("SELECT pg_advisory_lock(7)");
    await program.send(`SET deadlock_timeout = '100s'; BEGIN; ${locks.held}`);
    const called = call();
    await until("the call to wait", async () => {
      const found = await shop.server.send("SELECT 1 FROM pg_locks WHERE NOT granted AND locktype = 'advisory'");
      return found.length > 0 || undefined;
    });
    const wanted = program.send(`${locks.wanted}; COMMIT`);
    await until("a deadlock", async () => {
      const found = await shop.server.send(
        "SELECT 1 FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE NOT granted AND usename = 'tester'",
      );
      return found.length > 0 || undefined;
    });
    await gate.close();
    await wanted;
    return await called;
  } finally {
    await Promise.all([gate.close(), program.close()]);
  }
}

describe.skipIf(native === undefined)("another transaction in the way", () => {
  beforeAll(() => shop.start(native, TABLES));
  beforeEach(async () => {
    await shop.server.send(
      "TRUNCATE counters, faults; INSERT INTO counters VALUES (1, 0), (2, 0); ALTER SEQUENCE calls RESTART",
      "shop",
    );
  });
  afterAll(() => shop.end());

  test("concurrent changes of the same rows all happen, once each, although their user would be serializable", async () => {
    const binding = await loaded(await shop.open({ functions, connections: 8 }), add);
    await Promise.all(Array.from({ length: 24 }, () => ask(binding, { id: 2 })));
    expect(await counters()).toEqual([24, 24]);
  });

  test("a change that is the victim of a deadlock is made again, and happens once", async () => {
    const binding = await loaded(await shop.open({ functions, limits: { lockMs: 60_000 } }), add);
    const transactions: string[] = [];
    const record = async (facts: unknown): Promise<void> => {
      transactions.push((facts as { readonly transaction: string }).transaction);
    };
    const locks = {
      held: "UPDATE counters SET n = 100 WHERE id = 2",
      wanted: "UPDATE counters SET n = 100 WHERE id = 1",
    };
    const result = await deadlocked(locks, () => ask(binding, { id: 2 }, undefined, { record }));
    expect(result).toEqual({ changed: 2, rows: [1, 2].map((id) => ({ id, n: 101 })) });
    expect([await counters(), transactions.length]).toEqual([[101, 101], 1]);
    expect(deadlocks()).toBe(1);
  });

  test("a query that is the victim of a deadlock is made again", async () => {
    const statement = "select n, paused()::int as id from counters where id = $1::int4";
    const tool = sqlTool({ statement, input, columns });
    const databases = await shop.open({ functions: ["public.paused"], limits: { lockMs: 60_000 } });
    const binding = await loaded(databases, tool);
    const locks = { held: "LOCK other", wanted: "LOCK counters" };
    const before = deadlocks();
    expect(await deadlocked(locks, () => ask(binding, { id: 1 }))).toEqual({ rows: [{ id: 0, n: 0 }] });
    expect(deadlocks()).toBe(before + 1);
  });

  const CONFLICT = {
    code: "TARGET_UNAVAILABLE",
    message: "Another transaction was in the way. Nothing was changed; call again.",
    retryAfterMs: 1_000,
  };

  for (const state of STATES) {
    test(`a change with ${state} three times is refused, may be made again, and has not happened`, async () => {
      const binding = await loaded(await shop.open({ functions }), add);
      await shop.server.send(`INSERT INTO faults VALUES ('${state}', 'once', 1000)`, "shop");
      const error = await refusal(ask(binding, { id: 1 }));
      const details = { status: "ABORTED", outcome: "not_run" };
      expect(error).toMatchObject({ ...CONFLICT, details });
      expect(JSON.stringify([error, error.cause])).not.toContain("canary");
      expect([await counters(), await attempts()]).toEqual([[0, 0], 3]);
      await shop.server.send("TRUNCATE faults", "shop");
      expect(await ask(binding, { id: 1 })).toMatchObject({ changed: 1 });
      expect(await counters()).toEqual([1, 0]);
    });

    test(`a change with ${state} at COMMIT is made again, each time with its transaction in the journal`, async () => {
      const binding = await loaded(await shop.open({ functions }), add);
      await shop.server.send(`INSERT INTO faults VALUES ('${state}', 'commit', 2)`, "shop");
      const transactions: string[] = [];
      const record = async (facts: unknown): Promise<void> => {
        transactions.push((facts as { readonly transaction: string }).transaction);
      };
      expect(await ask(binding, { id: 1 }, undefined, { record })).toMatchObject({ changed: 1 });
      const outcomes = await shop.server.send(
        `SELECT pg_xact_status(id::xid8) AS status FROM unnest('{${transactions.join(",")}}'::text[]) AS id`,
        "shop",
      );
      expect(outcomes.map(({ status }) => status)).toEqual(["aborted", "aborted", "committed"]);
      expect(await counters()).toEqual([1, 0]);
    });

    test(`a query with ${state} is made again, then refused`, async () => {
      const statement = `select id, broken('${state}')::int as n from counters where id = $1::int4`;
      const binding = await loaded(
        await shop.open({ functions: ["public.broken"] }),
        sqlTool({ statement, input, columns }),
      );
      expect(await refusal(ask(binding, { id: 1 }))).toMatchObject({ ...CONFLICT, details: { status: "ABORTED" } });
    });
  }

  test("conflicts do not open the circuit: the server answers", async () => {
    const databases = await shop.open({ functions });
    const binding = await loaded(databases, add);
    await shop.server.send("INSERT INTO faults VALUES ('40001', 'once', 1000)", "shop");
    for (let n = 0; n < 12; n += 1) await refusal(ask(binding, { id: 1 }));
    expect(databases.status()["shop"]?.circuit).toBe("closed");
  });
});
