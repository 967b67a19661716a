import { expect, test } from "bun:test";
import { ConnectionPool } from "../../src/database/pool.ts";

/** A pool that never connects: `using` runs no statement. */
function pool(options: { readonly count: number; readonly countPerUser?: number }) {
  const connections = new ConnectionPool({
    ...options,
    limits: { transactionMs: 60_000, queueMs: 60_000 },
    open: () => ({ close: async () => {} }) as unknown as Bun.SQL,
  });
  const run = (user: string | undefined, work: () => Promise<unknown>): Promise<unknown> =>
    connections.run("", work, { user, using: (_connection, _mode, act) => act({} as Bun.TransactionSQL) });
  return { connections, run };
}

test("2,000 transactions of one user delay another user's by one of them", async () => {
  const { connections, run } = pool({ count: 1 });
  const ended: string[] = [];
  const mayEnd = Promise.withResolvers<void>();
  const first = run("noisy", () => mayEnd.promise);
  const noisy = Array.from({ length: 2_000 }, () => run("noisy", async () => ended.push("noisy")));
  const quiet = run("quiet", async () => ended.push("quiet"));
  mayEnd.resolve();
  await Promise.all([first, quiet, ...noisy]);
  expect([ended.indexOf("quiet"), ended.length]).toEqual([1, 2_001]);
  await connections.close();
});

test("a user whose transaction hangs leaves the other connections to others", async () => {
  const { connections, run } = pool({ count: 2, countPerUser: 1 });
  const mayEnd = Promise.withResolvers<void>();
  const hanging = [run("noisy", () => mayEnd.promise), run("noisy", async () => "second")];
  expect(await run("quiet", async () => "quiet")).toBe("quiet");
  expect(await run(undefined, async () => "the service")).toBe("the service");
  mayEnd.resolve();
  expect(await hanging[1]).toBe("second");
  await connections.close();
});

test("a user that leaves takes back the transactions that wait, and no other user's", async () => {
  const { connections, run } = pool({ count: 1 });
  const mayEnd = Promise.withResolvers<void>();
  const running = run("acme", () => mayEnd.promise);
  const waiting = run("acme", async () => "acme").catch((error: Error) => error.message);
  const other = run("globex", async () => "globex");
  connections.refuse("acme");
  expect(await waiting).toContain("has no free connection");
  mayEnd.resolve();
  await running;
  expect(await other).toBe("globex");
  await connections.close();
});
