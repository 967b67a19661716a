import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { appendFileSync } from "node:fs";
import { join } from "node:path";
import { parsePostgresUrl } from "../../../src/database/postgres-url.ts";
import { SqlDatabase, type Transaction } from "../../../src/targets/sql/postgres/database.ts";
import { describe as described } from "../../../src/targets/sql/postgres/description.ts";
import { CheckedQuery } from "../../../src/targets/sql/postgres/query.ts";
import { COMPARED_MAX, REPEATS_MIN } from "../../../src/targets/sql/postgres/state.ts";
import { findPostgres } from "../../support/postgres.ts";
import { until } from "../../support/until.ts";
import { PostgresShop } from "./support.ts";

const native = findPostgres();
const STATEMENT = "select name from people where id = $1::text::int";
const LIMITS = { cellChars: 1_000, bytes: 100_000 };
const signal = new AbortController().signal;

const shop = new PostgresShop();

function databaseOn(port: number, name = "shop"): SqlDatabase {
  const url = `postgres://reader@127.0.0.1:${port}/${name}`;
  return shop.keep(
    new SqlDatabase({
      name,
      connections: 1,
      address: () => ({ ...parsePostgresUrl(url), sslMode: "disable" }),
      statementMs: 10_000,
      lockMs: 5_000,
    }),
  );
}

describe.skipIf(native === undefined)("the digest of a checked statement", () => {
  beforeAll(async () => {
    await shop.start(
      native,
      "CREATE ROLE reader LOGIN; CREATE TABLE people (id int, name text); INSERT INTO people VALUES (1, 'Ada'); CREATE TABLE logs (n int); GRANT SELECT ON people TO reader",
    );
    await shop.server.createDatabase("copied", undefined, "shop");
  });
  afterAll(() => shop.end());

  async function checked(database = databaseOn(shop.server.port)): Promise<CheckedQuery> {
    const asked = {
      statement: STATEMENT,
      name: "checked",
      parameterCount: 1,
      areFunctionsChecked: true,
      hasCallerRole: false,
      settings: [],
    };
    const description = await database.look(signal, (transaction) => described(transaction, asked));
    return new CheckedQuery({ statement: STATEMENT, description, limits: LIMITS, parameterCount: 1 });
  }

  /** Calls once. Returns which queries were sent: `D` reads the digest, `S` compares the state; and `!` when the check is not current. */
  async function sent(
    query: CheckedQuery,
    database: SqlDatabase,
    id = "1",
    before: (queries: string) => Promise<unknown> = async () => {},
  ): Promise<string> {
    let queries = "";
    const { isCurrent } = await database.read(signal, (transaction) => {
      const noted: Transaction = {
        ...transaction,
        async query(text, parameters) {
          await before(queries);
          queries += /md5/.test(text) ? "D" : "S";
          return transaction.query(text, parameters);
        },
      };
      return query.run(noted, [id], 10);
    });
    return isCurrent ? queries : `${queries}!`;
  }

  async function times(count: number, query: CheckedQuery, database: SqlDatabase): Promise<string> {
    let all = "";
    for (let call = 0; call < count; call += 1) all += await sent(query, database);
    return all;
  }

  const UNTIL_COMPARED = "D".repeat(REPEATS_MIN + 1);

  test("is not read again while nothing is committed, except after many calls", async () => {
    const database = databaseOn(shop.server.port);
    const query = await checked(database);
    const expected = `${UNTIL_COMPARED}${"S".repeat(COMPARED_MAX)}DS`;
    expect(await times(expected.length, query, database)).toBe(expected);
  });

  test("is not read again for a query without rows", async () => {
    const database = databaseOn(shop.server.port);
    const query = await checked(database);
    await times(UNTIL_COMPARED.length, query, database);
    expect(await sent(query, database, "2")).toBe("SS");
  });

  test("is read again after a commit in any database", async () => {
    const database = databaseOn(shop.server.port);
    const query = await checked(database);
    for (const name of ["shop", "postgres"]) {
      await times(UNTIL_COMPARED.length + 1, query, database);
      await shop.server.send(`CREATE TABLE of_${name} (n int)`, name);
      expect([name, await sent(query, database)]).toEqual([name, "SSD"]);
    }
  });

  test("is read again after a failure, and in a copy of the database", async () => {
    const database = databaseOn(shop.server.port);
    const query = await checked(database);
    await times(UNTIL_COMPARED.length, query, database);
    query.forget();
    expect(await times(UNTIL_COMPARED.length + 1, query, database)).toBe(`${UNTIL_COMPARED}S`);
    expect(await sent(query, databaseOn(shop.server.port, "copied"))).toBe("SSD");
  });

  test.each([
    ["the table", "ALTER TABLE people RENAME TO persons", "ALTER TABLE persons RENAME TO people"],
    ["a column", "ALTER TABLE people RENAME name TO called", "ALTER TABLE people RENAME called TO name"],
    ["rights to the table", "REVOKE SELECT ON people FROM reader", "GRANT SELECT ON people TO reader"],
    ["rights to its schema", "REVOKE USAGE ON SCHEMA public FROM PUBLIC", "GRANT USAGE ON SCHEMA public TO PUBLIC"],
  ])("differs after a change of %s that was undone", async (_, change, undo) => {
    const database = databaseOn(shop.server.port);
    const query = await checked(database);
    await times(UNTIL_COMPARED.length + 1, query, database);
    await shop.server.send(change, "shop");
    await shop.server.send(undo, "shop");
    expect(await sent(query, database)).toBe("SSD!");
  });

  test.each([
    ["a query with rows", "", "1", "SSD!"],
    ["a query without rows", "", "2", "SSD!"],
    ["the comparison that follows a query without rows", "S", "2", "SSD!"],
  ])("differs after a change that was undone within the transaction, before %s", async (_, moment, id, expected) => {
    const database = databaseOn(shop.server.port);
    const query = await checked(database);
    await times(UNTIL_COMPARED.length + 1, query, database);
    const change = "REVOKE USAGE ON SCHEMA public FROM PUBLIC; GRANT USAGE ON SCHEMA public TO PUBLIC";
    const before = async (queries: string) => queries === moment && shop.server.send(change, "shop");
    expect(await sent(query, database, id, before)).toBe(expected);
  });

  test("is read again after a crash, which a commit that did not wait for the disk and its number do not survive", async () => {
    for (const setting of ["wal_writer_delay = '10s'", "autovacuum = off"]) {
      await shop.server.send(`ALTER SYSTEM SET ${setting}`);
    }
    await shop.server.send("SELECT pg_reload_conf()");
    const database = databaseOn(shop.server.port);
    const query = await checked(database);
    await shop.server.send("CHECKPOINT");
    const writer = new Bun.SQL({ url: `postgres://tester@127.0.0.1:${shop.server.port}/shop`, tls: false, max: 1 });
    const snapshot = async (): Promise<unknown> =>
      (await shop.server.send("SELECT pg_current_snapshot()::text AS now", "shop"))[0]?.["now"];
    await writer.unsafe("SET synchronous_commit = off; INSERT INTO logs VALUES (1)");
    await times(UNTIL_COMPARED.length + 1, query, database);
    const before = await snapshot();
    const [[pid] = []] = await writer.unsafe("SELECT pg_backend_pid()").values();
    process.kill(Number(pid), "SIGKILL");
    const after = await until("the recovery", () => snapshot().catch(() => undefined));
    expect(after).not.toBe(before);
    // One transaction, which gets the number of the lost one.
    await shop.server.send("ALTER TABLE people RENAME TO persons; ALTER TABLE persons RENAME TO people", "shop");
    try {
      expect(await snapshot()).toBe(before);
      expect(await sent(query, database)).toBe("SD!");
    } finally {
      await writer.close({ timeout: 0 });
    }
  });

  test("differs where another program has a temporary table of that name, behind the same pooler", async () => {
    const database = databaseOn(shop.server.port);
    const query = await checked(database);
    await times(UNTIL_COMPARED.length + 1, query, database);
    await database.change(signal, (transaction) =>
      transaction.command("CREATE TEMPORARY TABLE people AS SELECT 1 AS id, 'canary' AS name"),
    );
    expect(await sent(query, database)).toBe("SSD!");
    const another = databaseOn(shop.server.port);
    expect(await times(UNTIL_COMPARED.length + 1, query, another)).toBe(`${UNTIL_COMPARED}S`);
    // In this process, nothing that another one has read holds.
    expect(await sent(query, database)).toBe("SD!");
  });

  test("is always read on a standby, whose snapshots do not list the transactions in progress", async () => {
    const rules = join(shop.server.dir, "cluster/pg_hba.conf");
    appendFileSync(rules, "host replication all 127.0.0.1/32 trust\n");
    const standby = await shop.server.follow(shop.server.port, []);
    try {
      const query = await checked();
      expect(await times(UNTIL_COMPARED.length + 3, query, databaseOn(standby.port))).toBe(`${UNTIL_COMPARED}DDD`);
    } finally {
      await standby.end();
    }
  });
});
