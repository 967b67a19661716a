import fs from "node:fs";
import { join } from "node:path";
import type { OtherDatabase } from "./approvals.ts";
import type { PostgresAccess } from "./postgres.ts";

let made = 0;

/** A database of the server's whose clock a test sets: a file is in the place of the machine's. */
export async function clockedDatabase(server: PostgresAccess): Promise<OtherDatabase> {
  made += 1;
  const name = `clocked_${process.pid}_${made}`;
  const file = join(server.dir, `${name}.clock`);
  const url = await server.createDatabase(name);
  await server.send(
    `CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
       AS $$ SELECT to_timestamp(pg_read_file('${file}')::float8 / 1000) $$;
     ALTER DATABASE ${name} SET search_path = public, pg_catalog`,
    name,
  );
  return {
    url,
    setClock(now) {
      // In one step: whoever reads sees the old time or the new one.
      fs.writeFileSync(`${file}.new`, String(now), { mode: 0o644 });
      fs.renameSync(`${file}.new`, file);
    },
  };
}
