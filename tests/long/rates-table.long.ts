import { afterAll, beforeAll, expect, test } from "bun:test";
import { openRateTable } from "../../src/pipeline/limits/rates-postgres.ts";
import type { RateTable } from "../../src/pipeline/limits/rates-shared.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../support/postgres.ts";

const native = findPostgres();
let server: PostgresServer;

beforeAll(async () => {
  if (native !== undefined) server = await startPostgres(native);
});
afterAll(() => server?.end());

const HOUR_MS = 3_600_000;
const charge = (bucket: string) => [{ bucket, addedMs: HOUR_MS }];
/** In hours, to the next whole one: some milliseconds have drained. */
const filledBy = async (table: RateTable, bucket: string): Promise<number> =>
  Math.round(((await table.add(charge(bucket)))[0] ?? 0) / HOUR_MS);

test.skipIf(native === undefined)("a dropped table is created again, as after a restore", async () => {
  const table = openRateTable(await server.createDatabase("gone"));
  expect([await filledBy(table, "a"), await filledBy(table, "a")]).toEqual([1, 2]);
  await server.send("DROP TABLE call_rates", "gone");
  await expect(table.add(charge("a"))).rejects.toThrow("call_rates");
  // What failed is closed, as the rounds of replicas do it.
  await table.close();
  expect(await filledBy(table, "a")).toBe(1);
  await table.close();
});

test.skipIf(native === undefined)("a role without the right to create tables uses the existing one", async () => {
  const url = new URL(await server.createDatabase("lowly"));
  const owner = openRateTable(url.href);
  expect(await filledBy(owner, "a")).toBe(1);
  await server.send("CREATE ROLE lowly LOGIN PASSWORD 'lowly'", "lowly");
  await server.send("REVOKE CREATE ON SCHEMA public FROM PUBLIC", "lowly");
  await server.send("GRANT SELECT, INSERT, UPDATE, DELETE ON call_rates TO lowly", "lowly");
  url.username = "lowly";
  url.password = "lowly";
  const table = openRateTable(url.href);
  expect(await filledBy(table, "a")).toBe(2);
  await Promise.all([owner.close(), table.close()]);
});
