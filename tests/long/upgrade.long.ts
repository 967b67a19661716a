import { afterAll, afterEach, beforeAll, describe, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { findPostgres, type PostgresServer, startPostgres } from "../support/postgres.ts";
import { expectRefusesContracted, expectUpgraded, expectWorksOnRaised } from "../upgrade/expect-upgrade.ts";
import { copyStore, type StoredCopy, VERSIONS } from "../upgrade/stored-copy.ts";

const native = findPostgres();
let server: PostgresServer;
let copy: StoredCopy | undefined;
let databases = 0;
beforeAll(async () => {
  if (native !== undefined) server = await startPostgres(native);
});
afterAll(() => server?.end());
afterEach(() => copy?.end());

/** A database with what `version` left, whose clock is that of the copy's service. */
async function restore(version: string): Promise<StoredCopy> {
  const restored = copyStore(version, "postgres");
  databases += 1;
  const name = `upgraded_${databases}`;
  const url = await server.createDatabase(name);
  await server.send(readFileSync(join(restored.folder, "dump.sql"), "utf8"), name);
  await server.send(
    `CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
       AS $$ SELECT pg_catalog.clock_timestamp() - interval '${restored.behindMs} milliseconds' $$;
     ALTER DATABASE ${name} SET search_path = public, pg_catalog`,
    name,
  );
  writeFileSync(join(restored.folder, "url"), `${url}\n`, { mode: 0o600 });
  return restored;
}

describe.skipIf(native === undefined).each(VERSIONS)(
  "what version %s left in PostgreSQL and an audit folder",
  (version) => {
    test("continues: approvals, sessions, keys, policies, and a signed audit that verifies", async () => {
      copy = await restore(version);
      await expectUpgraded(copy, version);
    });
  },
);

describe.skipIf(native === undefined)("a PostgreSQL database that the next version has changed", () => {
  const raise = (step: string) => server.send(step, `upgraded_${databases}`);

  test("can be used by this version, while it is changed and after a restart, when columns and tables were added", async () => {
    copy = await restore("before-0.2.0");
    await expectWorksOnRaised(copy, raise);
  });

  test("is refused by this version when the change needs code that knows it", async () => {
    copy = await restore("before-0.2.0");
    await expectRefusesContracted(copy, raise);
  });
});
