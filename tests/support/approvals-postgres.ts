import fs from "node:fs";
import { join } from "node:path";
import { createApprovalWorld, type OtherDatabase } from "./approvals.ts";
import type { PostgresAccess } from "./postgres.ts";

let made = 0;

/**
 * Creates a database whose clock a test sets: a file replaces the machine's clock. It is empty, or a copy of `template`, another
 * database of this function.
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
    statements.push(`CREATE ${tenant === undefined ? "FUNCTION public" : "OR REPLACE FUNCTION pg_catalog"}.${clock}`);
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

/** Databases with the product's tables, by server and tenant. */
const templates = new Map<string, Promise<string>>();

/** Creates such a database with the product's tables: as a copy, because creating the tables takes longer than most tests. */
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
