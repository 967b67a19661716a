import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import fc from "fast-check";
import { once } from "../../src/hub/once.ts";
import { createApprovalWorld } from "../support/approvals.ts";
import { failedIn, runByHub, UNMODELLED_OTHERWISE, UNMODELLED_STORE_TESTS } from "../support/approvals-by-hub.ts";
import { walkIn, walks } from "../support/approvals-model.ts";
import { clockedDatabase, preparedDatabase } from "../support/approvals-postgres.ts";
import { byHub } from "../support/hub-approvals.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../support/postgres.ts";
import { openState } from "../support/shared-state.ts";

const native = findPostgres();
let server: PostgresServer;
const clocked = () => clockedDatabase(server);

beforeAll(async () => {
  if (native !== undefined) server = await startPostgres(native);
});
afterAll(async () => {
  await server?.end();
});

const LONG_MS = 600_000;

describe.skipIf(native === undefined)("a member of two hubs with one PostgreSQL", () => {
  test(
    "APR-50: agrees with the model, also when the server restarts",
    async () => {
      let restarts = 0;
      const property = fc.asyncProperty(walks, async (steps) => {
        const world = createApprovalWorld(() => preparedDatabase(server), byHub);
        let sweeps = 0;
        try {
          await walkIn(world, steps, async ({ kind }) => {
            if (kind !== "sweep") return;
            sweeps += 1;
            if (sweeps !== 2) return;
            restarts += 1;
            await server[restarts % 2 === 0 ? "kill" : "stop"]();
            await server.start();
          });
        } finally {
          await world.end();
        }
      });
      await fc.assert(property, { numRuns: 12, endOnFailure: true });
      expect(restarts).toBeGreaterThan(1);
    },
    LONG_MS,
  );

  test(
    "passes the tests of keys and tasks, which the model does not have",
    () => {
      expect(failedIn(runByHub(UNMODELLED_STORE_TESTS, server))).toEqual(UNMODELLED_OTHERWISE);
    },
    LONG_MS,
  );

  test("a write that two hubs run at the same time runs once, and both get its answer", async () => {
    const world = createApprovalWorld(clocked);
    await world.open();
    const states = [1, 2].map(() => openState({ url: world.url, now: () => 0 }));
    try {
      let runs = 0;
      const started = Promise.withResolvers<void>();
      const mayEnd = Promise.withResolvers<void>();
      const write = (index: number) =>
        states[index]?.write((sql, now) =>
          once({ sql, now }, { member: "crm", id: "request-of-a-test", digest: "d" }, async () => {
            runs += 1;
            started.resolve();
            await mayEnd.promise;
            return { run: runs, bytes: new Uint8Array([1, 2]) };
          }),
        );
      const first = write(0);
      await started.promise;
      const second = write(1);
      // The second one waits for the first one's row.
      await Bun.sleep(100);
      mayEnd.resolve();
      const answer = { run: 1, bytes: new Uint8Array([1, 2]) };
      expect([await first, await second, await write(1), runs]).toEqual([answer, answer, answer, 1]);
    } finally {
      await Promise.all(states.map((state) => state.close()));
      await world.end();
    }
  });
});
