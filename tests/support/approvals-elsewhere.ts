import { keepApprovalsIn } from "./approvals.ts";
import { clockedDatabase } from "./approvals-postgres.ts";
import { accessPostgres, type PostgresAccess } from "./postgres.ts";

const VARIABLE = "STC_TEST_POSTGRES";

/** Runs test files that know SQLite alone, with every world of theirs in a database of the server's. */
export function runElsewhere({ dir, port }: PostgresAccess, files: readonly string[]) {
  return Bun.spawnSync([process.execPath, "test", "--preload", import.meta.path, "--timeout", "30000", ...files], {
    env: { ...process.env, [VARIABLE]: JSON.stringify({ dir, port }) },
    stdout: "pipe",
    stderr: "pipe",
  });
}

const place = process.env[VARIABLE];
if (place !== undefined) {
  const server = accessPostgres(JSON.parse(place) as PostgresAccess);
  keepApprovalsIn(() => clockedDatabase(server));
}
