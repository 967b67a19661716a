import fs from "node:fs";
import { join } from "node:path";
import { createApprovalWorld, type OtherDatabase } from "./approvals.ts";
import type { PostgresAccess } from "./postgres.ts";

let made = 0;

/**
 * A database of the server's whose clock a test sets: a file is in the place of the machine's. It is empty, or a copy of another one
 * that was made here.
 */
export async function clockedDatabase(
  server: PostgresAccess,
  tenant?: string,
  template?: string,
): Promise<OtherDatabase> {
  made += 1;
  const name = `clocked_${process.pid}_${made}`;
  const file = join(server.dir, `${name}.clock`);
  const url = await server.createDatabase(name, undefined, template);
  const clock = `clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
    AS $$ SELECT to_timestamp(pg_read_file('${server.dir}/' || current_database() || '.clock')::float8 / 1000) $$`;
  const statements: string[] = [];
  // In a tenant's search path nothing comes before the server's own functions.
  if (template === undefined)
    statements.push(`CREATE ${tenant === undefined ? "FUNCTION public" : PG_CATALOG}.${clock}`);
  if (tenant === undefined) statements.push(`ALTER DATABASE ${name} SET search_path = public, pg_catalog`);
  if (statements.length > 0) await server.send(statements.join("; "), name);
  return {
    url,
    tenant,
    setClock(now) {
      // In one step: whoever reads sees the old time or the new one.
      fs.writeFileSync(`${file}.new`, String(now), { mode: 0o644 });
      fs.renameSync(`${file}.new`, file);
    },
  };
}

const PG_CATALOG = "OR REPLACE FUNCTION pg_catalog";

/** Databases in which the product has made its tables, by server and tenant. */
const templates = new Map<string, Promise<string>>();

/** The same with the product's tables, which it makes once for all of these: to make them takes longer than most tests. */
export async function preparedDatabase(server: PostgresAccess, tenant?: string): Promise<OtherDatabase> {
  const key = `${server.port} ${tenant}`;
  const template = templates.get(key) ?? makeTemplate(server, tenant);
  templates.set(key, template);
  return clockedDatabase(server, tenant, await template);
}

async function makeTemplate(server: PostgresAccess, tenant?: string): Promise<string> {
  const database = await clockedDatabase(server, tenant);
  const world = createApprovalWorld(async () => database);
  await world.open();
  await world.end();
  return new URL(database.url).pathname.slice(1);
}
