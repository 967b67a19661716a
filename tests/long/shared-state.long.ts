import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import type { SharedState } from "../../src/database/shared-state.ts";
import { createApprovalWorld } from "../support/approvals.ts";
import { clockedDatabase } from "../support/approvals-postgres.ts";
import { inTime } from "../support/in-time.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../support/postgres.ts";
import { openState, stateTests } from "../support/shared-state.ts";
import { until } from "../support/until.ts";

const native = findPostgres();
let server: PostgresServer;

beforeAll(async () => {
  if (native !== undefined) server = await startPostgres(native);
});
afterAll(async () => {
  await server?.end();
});

/** A database with the tables; its clock is moved by the test. */
async function makeDatabase() {
  let now = Date.parse("2026-02-16T12:00:00.000Z");
  const database = await clockedDatabase(server);
  database.setClock(now);
  const world = createApprovalWorld(async () => database);
  await (await world.open()).close();
  await world.end();
  return {
    url: database.url,
    // The process has another clock: the server's counts.
    open: () => openState({ url: database.url, now: () => 0 }),
    advance: (ms: number) => {
      now += ms;
      database.setClock(now);
    },
  };
}

const backends = async (url: string): Promise<number> => {
  const [row = {}] = await server.send(
    `SELECT count(*)::int AS count FROM pg_stat_activity WHERE datname = '${new URL(url).pathname.slice(1)}' AND state IS NOT NULL`,
  );
  return Number(row["count"]);
};

const failure = async (work: Promise<unknown>) => {
  const from = performance.now();
  const message = await work.then(
    () => undefined,
    (error: Error) => error.message,
  );
  return { message, ms: performance.now() - from };
};

describe.skipIf(native === undefined)("the shared state in PostgreSQL", () => {
  stateTests({ scope: "shared", make: makeDatabase });

  describe("a server", () => {
    let url: string;
    let state: SharedState;
    beforeEach(async () => {
      const database = await makeDatabase();
      url = database.url;
      state = database.open();
    });
    afterEach(() => state.close());

    test("has no connection of a state that was not used, and at most two of one that is", async () => {
      // The connection of the set-up may take a moment to end at the server.
      await until("no connection", async () => ((await backends(url)) === 0 ? true : undefined));
      await Promise.all(Array.from({ length: 40 }, () => state.write(async (sql) => void (await sql`SELECT 1`))));
      expect(await backends(url)).toBeLessThanOrEqual(2);
    });

    test("that restarts, or is killed, is used again", async () => {
      await state.write(async () => undefined);
      for (const how of ["stop", "kill"] as const) {
        await server[how]();
        expect((await failure(state.write(async () => undefined))).message).toBeString();
        await server.start();
        expect(await state.write(async () => how)).toBe(how);
      }
    });

    test("that hangs makes reads and writes fail within about a second, and is used again when it answers", async () => {
      await inTime(1, 2_500, async () => {
        await state.write(async () => undefined);
        server.freeze();
        try {
          const failures = await Promise.all([
            failure(state.read(async () => undefined)),
            failure(state.write(async () => undefined)),
            failure(state.write(async () => undefined)),
            failure(state.read(async () => undefined)),
          ]);
          for (const { message } of failures) expect(message).toContain("the approvals' PostgreSQL");
          return Math.max(...failures.map(({ ms }) => ms));
        } finally {
          server.thaw();
        }
      });
      expect(await state.read(async () => "read")).toBe("read");
      expect(await state.write(async () => "written")).toBe("written");
    });

    test("keeps no settings, and no prepared statements, of a state's connections for whoever gets them next", async () => {
      const left = await state.write(async (sql) => {
        await sql`SELECT value FROM approval_counters WHERE name = ${"events"}`;
        return [...(await sql`SELECT name FROM pg_prepared_statements WHERE name <> ''`)];
      });
      expect(left).toEqual([]);
      const [timeout] = await state.read(async (sql) => [
        ...(await sql`SELECT reset_val, setting FROM pg_settings WHERE name = 'statement_timeout'`),
      ]);
      expect(timeout).toEqual({ reset_val: "0", setting: "1000" });
    });
  });
});
