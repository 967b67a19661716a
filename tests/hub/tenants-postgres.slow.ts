import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { findPostgres, type PostgresServer, startPostgres } from "../support/postgres.ts";
import { testSidecars } from "./tenant-sidecars.ts";

const native = findPostgres();
let server: PostgresServer;

describe.skipIf(native === undefined)("PostgreSQL", () => {
  beforeAll(async () => {
    if (native !== undefined) server = await startPostgres(native);
  });
  afterAll(() => server?.end());

  testSidecars("sidecars of two tenants at one hub", async (folder) => {
    writeFileSync(join(folder, "url"), await server.createDatabase("hub"));
    return { storeUrlFile: "./url" };
  });

  test("the hub and its tenants had one set of connections", async () => {
    const [row] = await server.send("SELECT sum(sessions) AS sessions FROM pg_stat_database WHERE datname = 'hub'");
    expect(Number(row?.["sessions"])).toBeGreaterThan(0);
    expect(Number(row?.["sessions"])).toBeLessThanOrEqual(10);
  });
});
