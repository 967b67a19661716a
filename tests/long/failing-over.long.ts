import { afterEach, describe, expect, test } from "bun:test";
import { journalEntries } from "../support/audit-files.ts";
import { EndingWorld } from "../support/ending-world.ts";
import { MovingAddress } from "../support/moving-address.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../support/postgres.ts";
import { ReplicasWorld } from "../support/replicas-world.ts";
import { until } from "../support/until.ts";

/** Long: a real PostgreSQL with a standby that streams from it, which takes its place; the address moves with it. */
const native = findPostgres();
const ends: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

function later<T>(started: T, end: (started: T) => Promise<unknown>): T {
  ends.push(() => end(started));
  return started;
}

interface Pair {
  readonly primary: PostgresServer;
  readonly standby: PostgresServer;
  /** Through which the standby follows. */
  readonly link: MovingAddress;
  /** Where the service finds the primary. */
  readonly address: MovingAddress;
  readonly url: string;
}

async function startPair(native: string, settings: readonly string[]): Promise<Pair> {
  const primary = later(await startPostgres(native), (server) => server.end());
  const link = later(await MovingAddress.start(primary.port), (moving) => moving.end());
  const standby = later(await primary.follow(link.port, settings), (server) => server.end());
  const address = later(await MovingAddress.start(primary.port), (moving) => moving.end());
  const url = new URL(await primary.createDatabase("shared"));
  url.port = String(address.port);
  return { primary, standby, link, address, url: url.href };
}

async function failOver({ primary, standby, address }: Pair): Promise<void> {
  await primary.kill();
  await standby.send("SELECT pg_promote()");
  address.target = standby.port;
}

async function caughtUp({ primary, standby }: Pair): Promise<void> {
  const [at] = await primary.send("SELECT pg_current_wal_flush_lsn()::text AS lsn");
  await until("the standby", async () => {
    const [row] = await standby.send(`SELECT pg_last_wal_replay_lsn() >= '${at?.["lsn"]}'::pg_lsn AS done`);
    return row?.["done"] === true ? true : undefined;
  });
}

describe.skipIf(native === undefined)("PostgreSQL fails over to its standby", () => {
  test("synchronous: under load, no change is lost or repeated, and calls resume without a restart", async () => {
    const pair = await startPair(native ?? "", ["synchronous_standby_names=*"]);
    const world = later(await ReplicasWorld.start(pair.url, { triesAgain: true }), (started) => started.end());
    await failOver(pair);
    await world.moreCalls();
    await world.expectExact();
    expect(world.load.failed.read).toEqual([]);
    for (const { auditDir } of world.replicas) {
      expect(journalEntries(auditDir).filter(({ type }) => type === "service.started")).toHaveLength(1);
    }
  });

  test("asynchronous: an approval that is lost with the primary is asked again, and nothing runs again without a person", async () => {
    const pair = await startPair(native ?? "", []);
    const service = later(new EndingWorld({ approvals: { storeUrlFile: "./url" } }), (started) => started.remove());
    service.world.write("url", `${pair.url}\n`);
    await service.start();
    const [used, decided] = [await ask(service, "used"), await ask(service, "decided")];
    await caughtUp(pair);
    await pair.link.end();
    for (const { id } of [used, decided]) await approve(service, id);
    expect((await claim(service, used)).status).toBe("success");

    await failOver(pair);
    const answers = await until("answers", async () => {
      const told = [await claim(service, used), await claim(service, decided)];
      return told.some(({ error }) => error?.code === "APPROVAL_UNAVAILABLE") ? undefined : told;
    });
    expect(answers.map(({ status, approval }) => [status, approval?.id])).toEqual([
      ["pending", used.id],
      ["pending", decided.id],
    ]);
    expect(journalEntries(service.auditDir).filter(({ type }) => type === "intent")).toHaveLength(1);
    await approve(service, decided.id);
    expect((await claim(service, decided)).status).toBe("success");
  });

  test("a service that was connected to a standby reaches the primary as soon as the address has moved", async () => {
    const pair = await startPair(native ?? "", []);
    const service = later(new EndingWorld({ approvals: { storeUrlFile: "./url" } }), (started) => started.remove());
    service.world.write("url", `${pair.url}\n`);
    await service.start();
    await caughtUp(pair);
    // The address names a server that is no primary yet, or any more.
    await pair.primary.stop();
    pair.address.target = pair.standby.port;
    for (let turn = 0; turn < 8; turn += 1) {
      expect((await ask(service, `turn ${turn}`)).code).toBe("APPROVAL_UNAVAILABLE");
    }
    await pair.primary.start();
    pair.address.target = pair.primary.port;
    await until("an approval request", async () => ((await ask(service, "again")).id === "" ? undefined : true));
  });
});

/** JSON of which the tests say what they expect. */
type Loose = ReturnType<typeof JSON.parse>;

interface Asked {
  readonly session: string;
  readonly id: string;
  readonly code: string | undefined;
}

async function post(service: EndingWorld, path: string, token: string, body: object): Promise<Loose> {
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  return (await fetch(service.url + path, { method: "POST", headers, body: JSON.stringify(body) })).json();
}

/** Calls that differ in their session have requests of their own. */
async function send(service: EndingWorld, session: string, more: object = {}): Promise<Loose> {
  const { issuers } = service.world;
  const token = await issuers.token({ kind: "good", sub: session, permissions: ["hello:say"] });
  return post(service, "/call", token, { tool: "asking", args: {}, ...more });
}

async function ask(service: EndingWorld, session: string): Promise<Asked> {
  const { approval, error } = await send(service, session);
  return { session, id: approval?.id ?? "", code: error?.code };
}

const claim = (service: EndingWorld, { session, id }: Asked): Promise<Loose> =>
  send(service, session, { approval: { id } });

async function approve(service: EndingWorld, id: string): Promise<void> {
  const decided = await post(service, `/approvals/${id}/decisions`, await service.world.operator(), {
    decision: "approve",
  });
  expect(decided.error).toBeUndefined();
}
