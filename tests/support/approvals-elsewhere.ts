import { join } from "node:path";
import { keepApprovalsIn } from "./approvals.ts";
import { preparedDatabase } from "./approvals-postgres.ts";
import { accessPostgres, type PostgresAccess } from "./postgres.ts";
import { runPreloaded } from "./preloaded-tests.ts";

const VARIABLE = "STC_TEST_POSTGRES";

/** Tests of the stores, below `tests/approvals`. */
const STORE_TESTS: readonly string[] = [
  "faults",
  "attach-model",
  "store/votes",
  "notify/inbox",
  "notify/report",
  "notify/webhook",
  "store/decisions",
  "store/escalations",
  "store/grants",
  "store/keys",
  "store/requests",
  "store/sessions",
  "store/tasks",
];

/**
 * Runs the tests of the stores, which know SQLite alone, with every world of theirs in a database of the server's, or of a tenant
 * there. Returns the tests that failed.
 */
export function runElsewhere({ dir, port }: PostgresAccess, tenant?: string) {
  const files = STORE_TESTS.map((name) => join(import.meta.dir, `../approvals/${name}.test.ts`));
  const run = runPreloaded(import.meta.path, files, { variable: VARIABLE, value: { dir, port, tenant } });
  const lines = run.stderr.toString().split("\n");
  return { code: run.exitCode, failed: lines.filter((line) => line.includes("(fail)")) };
}

const place = process.env[VARIABLE];
if (place !== undefined) {
  const { tenant, ...access } = JSON.parse(place) as PostgresAccess & { readonly tenant?: string };
  const server = accessPostgres(access);
  keepApprovalsIn(() => preparedDatabase(server, tenant));
}
