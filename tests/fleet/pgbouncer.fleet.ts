import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { findPgBouncer, startPgBouncer } from "../support/pgbouncer.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../support/postgres.ts";
import { ReplicasWorld } from "../support/replicas-world.ts";

let server: PostgresServer;
let pooler: Awaited<ReturnType<typeof startPgBouncer>> | undefined;
let world: ReplicasWorld | undefined;

/** Two replicas whose database is behind a real PgBouncer in transaction mode. Needs `apt-get install pgbouncer`. */
beforeAll(async () => {
  const [native, program] = [findPostgres(), findPgBouncer()];
  if (native === undefined || program === undefined) {
    throw new Error("needs PostgreSQL and PgBouncer: apt-get install pgbouncer");
  }
  server = await startPostgres(native);
  pooler = await startPgBouncer(program, await server.createDatabase("pooled"));
});
afterEach(async () => {
  await world?.end();
  world = undefined;
});
afterAll(async () => {
  await pooler?.end();
  await server?.end();
});

test("behind PgBouncer in transaction mode, a rolling upgrade fails no call, and no change is lost or repeated", async () => {
  world = await ReplicasWorld.start(pooler?.url ?? "", { triesAgain: false });
  for (const replica of world.replicas) {
    expect((await replica.end("SIGTERM")).code).toBe(0);
    await world.comeBack(replica);
  }
  await world.expectExact();
  expect(world.load.failed).toEqual({ read: [], kept: [], new: [], approvals: [] });
});

test("behind PgBouncer, a replica that is killed and a database that starts again lose and repeat no change", async () => {
  world = await ReplicasWorld.start(pooler?.url ?? "", { triesAgain: true });
  const [replica] = world.replicas;
  await replica?.end("SIGKILL");
  await world.moreCalls();
  if (replica !== undefined) await world.comeBack(replica);
  await server.kill();
  await server.start();
  await world.moreCalls();
  await world.expectExact();
});
