import { expect, test } from "bun:test";
import { runElsewhere } from "../support/approvals-elsewhere.ts";
import { findPostgres, startPostgres } from "../support/postgres.ts";

/** Makes about 300 databases, with a schema of a tenant in each. */
test("a tenant in PostgreSQL passes the tests of the stores", async () => {
  const native = findPostgres();
  if (native === undefined) throw new Error("needs PostgreSQL");
  const server = await startPostgres(native);
  try {
    expect(runElsewhere(server, "acme")).toEqual({ code: 0, failed: [] });
  } finally {
    await server.end();
  }
}, 600_000);
