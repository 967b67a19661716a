import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { type ApprovalWorld, createApprovalWorld } from "../support/approvals.ts";
import { openState, type StateWorld, stateTests } from "../support/shared-state.ts";

let world: ApprovalWorld;
beforeEach(() => {
  world = createApprovalWorld();
});
afterEach(() => world.end());

describe("the shared state in a file", () => {
  stateTests({
    scope: "shared",
    async make(): Promise<StateWorld> {
      await world.open();
      return {
        open: () => openState({ url: world.url, now: () => world.now }),
        advance: (ms) => {
          world.now += ms;
        },
      };
    },
  });

  test("a state waits for a writer of the approvals, and gives up after a second", async () => {
    const store = await world.open();
    const state = openState({ url: world.url, now: () => world.now });
    const { promise: held, resolve: release } = Promise.withResolvers<void>();
    world.journal = () => held;
    const opening = store.openSession({ issuer: "i", subject: "s" });
    const rejected = state.write(async (sql) => {
      await sql`SELECT 1 AS one`;
      return "written";
    });
    expect(await rejected.catch((error: Error) => error.message)).toContain("locked");
    // Readers wait for nobody.
    expect(await state.read(async () => "read")).toBe("read");
    const waiting = state.write(async () => "written");
    release();
    expect(await waiting).toBe("written");
    await opening;
    await state.close();
  });

  test("a state is not kept out by approvals that change without a pause", async () => {
    const store = await world.open();
    const state = openState({ url: world.url, now: () => world.now });
    world.journal = () => new Promise((resolve) => setTimeout(resolve, 3));
    let isDone = false;
    const changing = Promise.all(
      Array.from({ length: 8 }, async (_, worker) => {
        for (let round = 0; !isDone; round += 1)
          await store.openSession({ issuer: "i", subject: `${worker}/${round}` });
      }),
    );
    try {
      for (let round = 0; round < 20; round += 1) expect(await state.write(async () => round)).toBe(round);
    } finally {
      isDone = true;
      await changing;
      await state.close();
    }
  });
});

describe("the shared state in this process", () => {
  stateTests({
    scope: "process",
    async make(): Promise<StateWorld> {
      const state = openState({ now: () => world.now });
      // One state for all: nobody else sees it.
      return {
        open: () => ({ ...state, close: async () => {} }),
        advance: (ms) => {
          world.now += ms;
        },
      };
    },
  });

  test("has no rows of another state's", async () => {
    const [one, other] = [openState({ now: Date.now }), openState({ now: Date.now })];
    await one.write(async (sql) => {
      await sql`INSERT INTO approval_counters (name, value) VALUES ('mine', 1)`;
    });
    const rows = await other.read(async (sql) => [
      ...(await sql`SELECT value FROM approval_counters WHERE name = 'mine'`),
    ]);
    expect(rows).toEqual([]);
    await Promise.all([one.close(), other.close()]);
  });
});
