import fs from "node:fs";
import { join } from "node:path";
import type { OtherDatabase } from "./approvals.ts";
import type { PostgresAccess } from "./postgres.ts";

let made = 0;

/** A database of the server's whose clock a test sets: a file is in the place of the machine's. */
export async function clockedDatabase(server: PostgresAccess, tenant?: string): Promise<OtherDatabase> {
  made += 1;
  const name = `clocked_${process.pid}_${made}`;
  const file = join(server.dir, `${name}.clock`);
  const url = await server.createDatabase(name);
  const clock = `clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
    AS $$ SELECT to_timestamp(pg_read_file('${file}')::float8 / 1000) $$`;
  // In a tenant's search path nothing comes before the server's own functions.
  await server.send(
    tenant === undefined
      ? `CREATE FUNCTION public.${clock}; ALTER DATABASE ${name} SET search_path = public, pg_catalog`
      : `CREATE OR REPLACE FUNCTION pg_catalog.${clock}`,
    name,
  );
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
