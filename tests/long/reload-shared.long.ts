import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { findPostgres, type PostgresServer, startPostgres } from "../support/postgres.ts";
import { ReloadService } from "../support/reload-service.ts";

/** Long: two services and one real PostgreSQL, which go together and part by reloads. */
const native = findPostgres();
/** Some rounds in which replicas tell each other. */
const ROUNDS_MS = 700;
let server: PostgresServer;
let services: readonly ReloadService[] = [];

beforeAll(async () => {
  if (native !== undefined) server = await startPostgres(native);
});
afterAll(() => server?.end());
afterEach(async () => {
  await Promise.all(services.map((service) => service.end()));
});

const limits = (calls: number, shared: boolean) => ({
  limits: { shared, rates: { caller: { calls, seconds: 86_400 } } },
});

/** How many calls of so many are served. */
async function served(service: ReloadService, calls: number, token: string): Promise<number> {
  let count = 0;
  for (let made = 0; made < calls; made += 1) count += (await service.says({}, token)) === "first" ? 1 : 0;
  return count;
}

test.skipIf(native === undefined)("limits that are shared after one reload and no longer after the next", async () => {
  const url = await server.createDatabase("reload_shared");
  const one = new ReloadService({ approvals: { storeUrlFile: "./url" } });
  const other = new ReloadService({ approvals: { storeUrlFile: "./url" }, jwt: { issuers: one.issuers.profiles() } });
  services = [one, other];
  const all = async (calls: number, shared: boolean): Promise<void> => {
    for (const service of services) {
      service.configure({ ...limits(calls, shared), jwt: { issuers: one.issuers.profiles() } });
      const { running } = service;
      expect((await running.reload?.("signal"))?.outcome).toBe("changed");
    }
  };
  for (const service of services) {
    service.write("url", `${url}\n`);
    service.configure({ ...limits(5, false), jwt: { issuers: one.issuers.profiles() } });
    await service.start();
  }
  const token = await one.agent();
  // Each for itself.
  expect([await served(one, 9, token), await served(other, 9, token)]).toEqual([5, 5]);
  await all(15, true);
  expect(await served(one, 4, token)).toBe(4);
  expect(await served(other, 1, token)).toBe(1);
  await Bun.sleep(ROUNDS_MS);
  // The other one hears of those four, and of no call from before.
  const after = await served(other, 20, token);
  expect(after).toBeLessThanOrEqual(9);
  expect(after).toBeGreaterThanOrEqual(5);
  await all(30, false);
  expect(await served(one, 1, token)).toBe(1);
  // It may have heard of all calls of the other one while they shared.
  const left = await served(one, 40, token);
  await Bun.sleep(ROUNDS_MS);
  // What the one uses now is no concern of the other's.
  expect(left).toBeGreaterThanOrEqual(10);
  expect(await served(other, 40, token)).toBeGreaterThanOrEqual(15);
  await all(31, true);
  server.freeze();
  expect(await served(one, 1, token)).toBe(1);
  await all(32, false);
  expect(await served(one, 1, token)).toBe(1);
  server.thaw();
});
