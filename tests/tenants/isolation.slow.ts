import { afterAll, beforeAll, describe } from "bun:test";
import { AGENTS_SERVERS } from "../http/agents-servers.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../support/postgres.ts";
import { testIsolation } from "./isolation.ts";
import type { TablesReader } from "./tables.ts";

/** The same isolation in PostgreSQL, where the tenants share a database and its connections. */
const native = findPostgres();
let server: PostgresServer;
let database = "";
let databases = 0;

const store = async (): Promise<string> => {
  databases += 1;
  database = `isolation_${databases}`;
  return server.createDatabase(database);
};

const tables: TablesReader = async (_world, tenant) => {
  const schema = tenant === undefined ? "public" : `stc_${tenant}`;
  const named = await server.send(
    `SELECT table_name AS name FROM information_schema.tables WHERE table_schema = '${schema}' ORDER BY 1`,
    database,
  );
  const rows: [string, readonly object[]][] = [];
  for (const { name } of named) {
    rows.push([String(name), await server.send(`SELECT * FROM "${schema}"."${name}"`, database)]);
  }
  return Object.fromEntries(rows);
};

describe.skipIf(native === undefined)("PostgreSQL", () => {
  beforeAll(async () => {
    if (native !== undefined) server = await startPostgres(native);
  });
  afterAll(() => server?.end());

  for (const http of AGENTS_SERVERS) testIsolation(http, { http, store, tables });
});
