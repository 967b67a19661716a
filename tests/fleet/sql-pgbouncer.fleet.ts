import { afterAll, beforeAll, expect, test } from "bun:test";
import { z } from "zod";
import type { Databases } from "../../src/targets/sql/databases.ts";
import { findPgBouncer, startPgBouncer } from "../support/pgbouncer.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../support/postgres.ts";
import { ask, databaseAt, loaded, refusal, sqlTool } from "../targets/sql/support.ts";

/** Tools of a database behind a real PgBouncer in transaction mode, with fewer connections than the service has. */
const CALLS = 400;
const AT_ONCE = 60;
const TENANTS = ["a", "b", "c", "d"];
const TABLES = `CREATE ROLE shopper LOGIN;
CREATE TABLE orders (id bigint PRIMARY KEY, tenant text NOT NULL, total bigint NOT NULL);
INSERT INTO orders SELECT n, chr(96 + n), 0 FROM generate_series(1, ${TENANTS.length}) AS n;
ALTER TABLE orders ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON orders USING (tenant = current_setting('app.tenant', true));
GRANT SELECT, UPDATE ON orders TO shopper;`;

let server: PostgresServer;
let pooler: Awaited<ReturnType<typeof startPgBouncer>> | undefined;
let databases: Databases;

beforeAll(async () => {
  const [native, program] = [findPostgres(), findPgBouncer()];
  if (native === undefined || program === undefined) {
    throw new Error("needs PostgreSQL and PgBouncer: apt-get install pgbouncer");
  }
  server = await startPostgres(native);
  const url = new URL(await server.createDatabase("shop"));
  await server.send(TABLES, "shop");
  await server.trust();
  url.username = "shopper";
  pooler = await startPgBouncer(program, url.href);
  databases = await databaseAt(Number(new URL(pooler.url).port), {
    read: { user: "shopper" },
    write: { user: "shopper" },
    connections: 32,
    caller: { settings: { "app.tenant": "claims.tenant" } },
  });
});
afterAll(async () => {
  await databases?.close();
  await pooler?.end();
  await server?.end();
});

const as = (tenant: string) => ({
  caller: {
    issuer: "https://idp.test",
    subject: "agent-7",
    permissions: [],
    actors: [],
    expiresAt: 0,
    claims: { tenant },
  },
});
/** Makes all calls, as many at once as a system allows. */
async function calls(call: (number: number) => Promise<unknown>): Promise<readonly unknown[]> {
  const answers: unknown[] = [];
  let next = 0;
  const lane = async (): Promise<void> => {
    for (let number = next++; number < CALLS; number = next++) answers[number] = await call(number);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
  return answers;
}

const tenantOf = (call: number): string => TENANTS[call % TENANTS.length] ?? "";

test("each caller gets its own rows, whatever connection its transaction has", async () => {
  const statement = "select tenant as x from orders";
  const binding = await loaded(databases, sqlTool({ statement, columns: { x: z.string() } }));
  const answers = await calls((call) => ask(binding, {}, undefined, as(tenantOf(call))));
  expect(answers).toEqual(Array.from({ length: CALLS }, (_, call) => ({ rows: [{ x: tenantOf(call) }] })));
});

test("changes are made once each, and none is left open", async () => {
  const statement = "update orders set total = total + 1 where id > $1::int8 returning tenant as x";
  const tool = sqlTool({
    classification: "write",
    statement,
    input: { above: z.int() },
    columns: { x: z.string() },
    rows: { changes: 1 },
  });
  const binding = await loaded(databases, tool);
  const answers = await calls((call) => ask(binding, { above: 0 }, undefined, as(tenantOf(call))));
  expect(answers).toEqual(Array.from({ length: CALLS }, (_, call) => ({ rows: [{ x: tenantOf(call) }], changed: 1 })));
  const totals = await server.send("SELECT DISTINCT total::int FROM orders", "shop");
  expect(totals).toEqual([{ total: CALLS / TENANTS.length }]);
});

test("a statement that its caller has left is cancelled, and the next one is not", async () => {
  const slow = sqlTool({ statement: "select count(*) as x from generate_series(1, 1e9)", columns: { x: z.string() } });
  const binding = await loaded(databases, slow);
  const quick = await loaded(databases, sqlTool({ statement: "select 1 as x", columns: { x: z.int() } }));
  const left = AbortSignal.timeout(500);
  expect((await refusal(ask(binding, {}, left, as("a")))).code).toBe("DEADLINE_EXCEEDED");
  const answers = await calls(() => ask(quick, {}, undefined, as("a")));
  expect(answers).toEqual(Array.from({ length: CALLS }, () => ({ rows: [{ x: 1 }] })));
  const running = await server.send(
    "SELECT count(*)::int AS n FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%generate_series%' AND pid <> pg_backend_pid()",
    "shop",
  );
  expect(running).toEqual([{ n: 0 }]);
});
