import { afterAll, beforeAll, expect, test } from "bun:test";
import { openRateTable } from "../../src/pipeline/limits/rates-postgres.ts";
import { approvedBy } from "../support/approvals.ts";
import { findPgBouncer, startPgBouncer } from "../support/pgbouncer.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../support/postgres.ts";
import { openState } from "../support/shared-state.ts";
import { openTenant, POSTGRES_COLUMNS, send, TENANTS, tenantTests } from "../support/tenants.ts";

let server: PostgresServer;
const poolers: Awaited<ReturnType<typeof startPgBouncer>>[] = [];

/** Tenants whose database is behind a real PgBouncer in transaction mode. Needs `apt-get install pgbouncer`. */
beforeAll(async () => {
  const native = findPostgres();
  if (native === undefined || findPgBouncer() === undefined) {
    throw new Error("needs PostgreSQL and PgBouncer: apt-get install pgbouncer");
  }
  server = await startPostgres(native);
});
afterAll(async () => {
  for (const pooler of poolers) await pooler.end();
  await server?.end();
});

async function pooledDatabase(): Promise<string> {
  const pooler = await startPgBouncer(
    findPgBouncer() ?? "",
    await server.createDatabase(`pooled_${poolers.length}`),
    // Every transaction may get the connection of any other.
    2,
  );
  poolers.push(pooler);
  return pooler.url;
}

tenantTests(async () => ({ url: await pooledDatabase(), columns: POSTGRES_COLUMNS }));

test("transactions of all tenants on the same two connections find the rows of their tenant, and leave no setting", async () => {
  const url = await pooledDatabase();
  const opened = await Promise.all(
    TENANTS.map(async (tenant) => ({
      approvals: await openTenant(url, tenant),
      state: openState({ url, tenant, now: Date.now }),
      rates: openRateTable(url, tenant),
    })),
  );
  try {
    for (const [index, { state }] of opened.entries()) {
      await state.write((sql) => send(sql, "INSERT INTO approval_counters (name, value) VALUES ('mine', ?)", [index]));
    }
    for (let turn = 0; turn < 40; turn += 1) {
      const mine = await Promise.all(
        opened.map(({ state }) =>
          state.read(async (sql) => (await send(sql, "SELECT value FROM approval_counters WHERE name = 'mine'"))[0]),
        ),
      );
      expect(mine).toEqual([{ value: "0" }, { value: "1" }, { value: "2" }]);
      await Promise.all(opened.map(({ rates }) => rates.add([{ bucket: "same", addedMs: 1 }])));
    }
    expect(await Promise.all(opened.map(async ({ approvals }) => (await approvedBy(approvals)).state))).toEqual(
      TENANTS.map(() => "approved"),
    );
    const service = opened[0]?.state;
    for (let turn = 0; turn < 10; turn += 1) {
      expect(await service?.read((sql) => send(sql, "SHOW search_path"))).toEqual([{ search_path: '"$user", public' }]);
    }
  } finally {
    await Promise.all(
      opened.flatMap(({ approvals, state, rates }) => [approvals.close(), state.close(), rates.close()]),
    );
  }
});
