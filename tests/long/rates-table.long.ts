import { afterAll, beforeAll, expect, test } from "bun:test";
import type { CallerContext } from "../../src/core/types.ts";
import { Rates } from "../../src/pipeline/limits/rates.ts";
import { openRateTable } from "../../src/pipeline/limits/rates-postgres.ts";
import { type RateTable, SharedRates } from "../../src/pipeline/limits/rates-shared.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../support/postgres.ts";
import { until } from "../support/until.ts";

const native = findPostgres();
let server: PostgresServer;

beforeAll(async () => {
  if (native !== undefined) server = await startPostgres(native);
});
afterAll(() => server?.end());

const caller = { issuer: "https://idp.test", subject: "agent" } as CallerContext;
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

test.skipIf(native === undefined)("replicas that create the table at once all count in it", async () => {
  for (let round = 0; round < 10; round += 1) {
    const url = await server.createDatabase(`at_once_${round}`);
    const tables = Array.from({ length: 4 }, () => openRateTable(url));
    const filled = await Promise.all(tables.map((table) => filledBy(table, "a")));
    expect(filled.sort()).toEqual([1, 2, 3, 4]);
    await Promise.all(tables.map((table) => table.close()));
  }
});

test.skipIf(native === undefined)("what was charged before the table could be created is counted", async () => {
  const url = await server.createDatabase("slow");
  const sql = new Bun.SQL({ url, max: 1 });
  const blocking = await sql.reserve();
  await blocking`BEGIN`;
  await blocking`CREATE TABLE call_rates (bucket text)`;
  const replica = () => {
    const now = () => performance.now();
    const off = { callerAndTool: "off", service: "off", tool: "off", tools: {} } as const;
    const rates = new Rates({ rules: { ...off, caller: { calls: 10, seconds: 86_400 } }, shared: true, now });
    const log: string[] = [];
    const shared = new SharedRates({ rates, table: openRateTable(url), now, log: (line) => log.push(line) });
    return { rates, log, shared };
  };
  const [one, other] = [replica(), replica()];
  for (let calls = 0; calls < 10; calls += 1) one.rates.takeCall(caller);
  await one.shared.share();
  expect(one.log).toEqual([expect.stringContaining("is unavailable")]);
  await blocking`ROLLBACK`;
  blocking.release();
  await until("the charges to be counted", async () => {
    await one.shared.share();
    return one.log.length === 2 ? true : undefined;
  });
  other.rates.takeCall(caller);
  await other.shared.share();
  expect(() => other.rates.takeCall(caller)).toThrow("called too often");
  await Promise.all([sql.close(), one.shared.close(), other.shared.close()]);
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
