import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { journalEntries } from "../support/audit-files.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../support/postgres.ts";
import { ReplicasWorld } from "../support/replicas-world.ts";

/** Long: replicas that are replaced, killed, or parted from their database, all under load. */
const AWAY_MS = Number(process.env["STC_ROLL_AWAY_MS"] ?? 2_000);

const native = findPostgres();
let server: PostgresServer;
let databases = 0;
let world: ReplicasWorld | undefined;

beforeAll(async () => {
  if (native !== undefined) server = await startPostgres(native);
});
afterAll(() => server?.end());
afterEach(async () => {
  await world?.end();
  world = undefined;
});

async function start(options: { readonly triesAgain: boolean }): Promise<ReplicasWorld> {
  databases += 1;
  world = await ReplicasWorld.start(await server.createDatabase(`rolling_${databases}`), options);
  return world;
}

describe.skipIf(native === undefined)("two replicas under load", () => {
  test("a rolling upgrade fails no call of clients that never try again, and loses no approval and no change", async () => {
    const rolled = await start({ triesAgain: false });
    for (const replica of rolled.replicas) {
      expect((await replica.end("SIGTERM")).code).toBe(0);
      await rolled.comeBack(replica);
    }
    await rolled.expectExact();
    expect(rolled.load.failed).toEqual({ read: [], kept: [], new: [], approvals: [] });
    expect(rolled.load.unknown.size).toBe(0);
  });

  test("a replica that is killed loses no change and repeats none; approvals continue at the other", async () => {
    const killed = await start({ triesAgain: true });
    for (const replica of killed.replicas) {
      await replica.end("SIGKILL");
      await killed.moreCalls();
      await killed.comeBack(replica);
    }
    await killed.expectExact();
    // Changes that ran at the moment of a kill: at most one of each client.
    expect(killed.load.unknown.size).toBeLessThanOrEqual(killed.replicas.length * killed.load.clients);
  });

  test.each(["stop", "kill"] as const)(
    "PostgreSQL that goes away (%s) and comes back: reads go on, changes are refused cleanly, and nothing is lost or repeated",
    async (how) => {
      const parted = await start({ triesAgain: true });
      await server[how]();
      await Bun.sleep(AWAY_MS);
      await server.start();
      await parted.moreCalls();
      await parted.expectExact();
      const { read, ...others } = parted.load.failed;
      expect(read).toEqual([]);
      const codes = new Set(Object.values(others).flat());
      expect(codes).toContain("503 APPROVAL_UNAVAILABLE");
      expect([...codes].filter((code) => !/^(?:503 APPROVAL_UNAVAILABLE|409 CALL_IN_PROGRESS)$/.test(code))).toEqual(
        [],
      );
      for (const { auditDir } of parted.replicas) {
        expect(journalEntries(auditDir).filter(({ type }) => type === "service.started")).toHaveLength(1);
      }
    },
  );
});
