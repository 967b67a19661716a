import { afterEach, expect, test } from "bun:test";
import { MovingAddress } from "../support/moving-address.ts";
import { findPgBouncer, startPgBouncer } from "../support/pgbouncer.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../support/postgres.ts";
import { ReplicasWorld } from "../support/replicas-world.ts";

/** Changes of all situations together. `STC_ROLL_CALLS_PER_SECOND` says how fast they come. */
const CHANGES = Number(process.env["STC_CHANGES"] ?? 20_000);
const AWAY_MS = 2_000;
const LONG_MS = 7_200_000;

interface Stand {
  readonly world: ReplicasWorld;
  readonly server: PostgresServer;
  /** Follows the server synchronously; undefined where nothing fails over. */
  readonly standby: PostgresServer | undefined;
  /** Where the replicas find the server. */
  readonly address: MovingAddress;
}

/** What happens again and again while the changes run. */
interface Situation {
  readonly name: string;
  readonly isPooled?: true;
  readonly hasStandby?: true;
  readonly disturb: (stand: Stand, turn: number) => Promise<void>;
}

async function away({ server }: Stand, how: "stop" | "kill"): Promise<void> {
  await server[how]();
  await Bun.sleep(AWAY_MS);
  await server.start();
}

async function replace({ world }: Stand, turn: number, signal: "SIGTERM" | "SIGKILL"): Promise<void> {
  const replica = world.replicas[turn % world.replicas.length];
  if (replica === undefined) throw new Error("there is no replica");
  await replica.end(signal);
  await world.comeBack(replica);
}

/** Once: a standby takes the place of one server. */
async function failOver({ server, standby, address }: Stand, turn: number): Promise<void> {
  if (standby === undefined || turn > 0) return;
  await server.kill();
  await standby.send("SELECT pg_promote()");
  address.target = standby.port;
}

const SITUATIONS: readonly Situation[] = [
  { name: "replicas are replaced", disturb: (stand, turn) => replace(stand, turn, "SIGTERM") },
  { name: "replicas are killed", disturb: (stand, turn) => replace(stand, turn, "SIGKILL") },
  { name: "PostgreSQL is away", disturb: (stand, turn) => away(stand, turn % 2 === 0 ? "stop" : "kill") },
  { name: "PostgreSQL fails over", hasStandby: true, disturb: failOver },
  {
    name: "behind PgBouncer: both",
    isPooled: true,
    disturb: (stand, turn) => (turn % 3 === 2 ? away(stand, "kill") : replace(stand, turn, "SIGKILL")),
  },
];

const ends: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

test(
  `${CHANGES} changes: none is lost, and none runs twice`,
  async () => {
    const native = findPostgres();
    const pgbouncer = findPgBouncer();
    if (native === undefined || pgbouncer === undefined) {
      throw new Error("needs PostgreSQL and PgBouncer: apt-get install pgbouncer");
    }
    const rows: Readonly<Record<string, string | number>>[] = [];
    for (const situation of SITUATIONS) {
      rows.push(await play(situation, { native, pgbouncer, changes: Math.ceil(CHANGES / SITUATIONS.length) }));
      for (const end of ends.splice(0).reverse()) await end();
    }
    const sum = (name: string) => rows.reduce((total, row) => total + Number(row[name]), 0);
    const names = ["changes", "approved", "lost", "twice", "unknown"];
    console.table([...rows, { situation: "all", ...Object.fromEntries(names.map((name) => [name, sum(name)])) }]);
    expect(sum("changes")).toBeGreaterThanOrEqual(CHANGES);
    expect({ lost: sum("lost"), twice: sum("twice") }).toEqual({ lost: 0, twice: 0 });
  },
  LONG_MS,
);

interface Means {
  readonly native: string;
  readonly pgbouncer: string;
  readonly changes: number;
}

async function play(
  { name, isPooled, hasStandby, disturb }: Situation,
  { native, pgbouncer, changes }: Means,
): Promise<Readonly<Record<string, string | number>>> {
  const begun = performance.now();
  const server = later(await startPostgres(native), (one) => one.end());
  const address = later(await MovingAddress.start(server.port), (one) => one.end());
  const synchronous = ["synchronous_standby_names=*"];
  const standby = hasStandby && later(await server.follow(server.port, synchronous), (one) => one.end());
  const direct = await server.createDatabase("changes");
  const pooler = isPooled && later(await startPgBouncer(pgbouncer, direct), (one) => one.end());
  const moving = new URL(direct);
  moving.port = String(address.port);
  const url = pooler?.url ?? moving.href;
  const world = later(await ReplicasWorld.start(url, { triesAgain: true }), (one) => one.end());
  for (let turn = 0; world.load.done.length < changes; turn += 1) {
    await disturb({ world, server, standby, address }, turn);
    await world.moreCalls();
  }
  await world.expectExact();
  const { load } = world;
  const { ran, lost, twice } = load.exactness();
  const callsPerSecond = Math.round((1_000 * load.calls) / (performance.now() - begun));
  const counts = { changes: ran, approved: load.approved, lost: lost.length, twice: twice.length };
  return { situation: name, ...counts, unknown: load.unknown.size, callsPerSecond };
}

function later<T>(started: T, end: (started: T) => Promise<unknown>): T {
  ends.push(() => end(started));
  return started;
}
