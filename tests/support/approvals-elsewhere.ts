import { keepApprovalsIn } from "./approvals.ts";
import { clockedDatabase } from "./approvals-postgres.ts";
import { accessPostgres, type PostgresAccess } from "./postgres.ts";

const VARIABLE = "STC_TEST_POSTGRES";

/** Runs test files that know SQLite alone, with every world of theirs in a database of the server's, or of a tenant there. */
export function runElsewhere({ dir, port }: PostgresAccess, files: readonly string[], tenant?: string) {
  return Bun.spawnSync([process.execPath, "test", "--preload", import.meta.path, "--timeout", "30000", ...files], {
    env: { ...process.env, [VARIABLE]: JSON.stringify({ dir, port, tenant }) },
    stdout: "pipe",
    stderr: "pipe",
  });
}

const place = process.env[VARIABLE];
if (place !== undefined) {
  const { tenant, ...access } = JSON.parse(place) as PostgresAccess & { readonly tenant?: string };
  const server = accessPostgres(access);
  keepApprovalsIn(() => clockedDatabase(server, tenant));
}
