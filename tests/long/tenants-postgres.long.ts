import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import type { OpenedApprovals } from "../../src/approvals/approvals.ts";
import { postgresStore } from "../../src/database/postgres-store.ts";
import type { SharedState } from "../../src/database/shared-state.ts";
import { openRateTable } from "../../src/pipeline/limits/rates-postgres.ts";
import type { RateTable } from "../../src/pipeline/limits/rates-shared.ts";
import { approvedBy, askFor, OPERATOR } from "../support/approvals.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../support/postgres.ts";
import { openState } from "../support/shared-state.ts";
import { openTenant, POSTGRES_COLUMNS, send, TENANTS, tenantTests } from "../support/tenants.ts";
import { until } from "../support/until.ts";

/** Long: tenants of one process in a real PostgreSQL. */
const native = findPostgres();
let server: PostgresServer;
let databases = 0;
const ends: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  if (native !== undefined) server = await startPostgres(native);
});
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});
afterAll(() => server?.end());

function createDatabase(): Promise<string> {
  databases += 1;
  return server.createDatabase(`tenants_${databases}`);
}

const nameOf = (url: string): string => new URL(url).pathname.slice(1);

async function backends(url: string): Promise<number> {
  const [row = {}] = await server.send(
    `SELECT count(*)::int AS count FROM pg_stat_activity WHERE datname = '${nameOf(url)}' AND state IS NOT NULL`,
  );
  return Number(row["count"]);
}

/** The connections that prepared the tables may take a moment to end at the server: then one that reads and one that listens are left. */
async function untilPrepared(url: string): Promise<void> {
  await until("the end of other connections", async () => ((await backends(url)) <= 2 ? true : undefined));
}

interface Opened {
  readonly approvals: OpenedApprovals;
  readonly state: SharedState;
  readonly rates: RateTable;
}

/** Opens everything that a tenant has in the database. */
async function open(url: string, tenant: string | undefined): Promise<Opened> {
  const approvals = await openTenant(url, tenant);
  const opened = { approvals, state: openState({ url, tenant, now: Date.now }), rates: openRateTable(url, tenant) };
  ends.push(() => close(opened));
  return opened;
}

async function close({ approvals, state, rates }: Opened): Promise<void> {
  await Promise.all([approvals.close(), state.close(), rates.close()]);
}

const charge = (bucket: string) => [{ bucket, addedMs: 3_600_000 }];
const hoursIn = (filled: readonly number[]): number => Math.round((filled[0] ?? 0) / 3_600_000);

/** Uses every kind of connection of a tenant at the same time. */
async function useAll({ approvals, state, rates }: Opened): Promise<void> {
  await Promise.all([
    approvedBy(approvals),
    ...Array.from({ length: 12 }, () => approvals.lastSeq()),
    // A slow machine refuses some that wait for one of the few connections.
    ...Array.from({ length: 3 }, () =>
      until("a write", () => state.write(async (sql) => [...(await sql`SELECT 1`)]).catch(() => undefined)),
    ),
    until("a count", () => rates.add(charge("used")).catch(() => undefined)),
  ]);
}

describe.skipIf(native === undefined)("tenants in PostgreSQL", () => {
  tenantTests(async () => ({ url: await createDatabase(), columns: POSTGRES_COLUMNS }));

  test("calls of each tenant are counted apart", async () => {
    const url = await createDatabase();
    const tables = TENANTS.map((tenant) => openRateTable(url, tenant));
    // The schemas are made with the approvals' tables.
    for (const tenant of TENANTS) await (await open(url, tenant)).approvals.lastSeq();
    for (const [index, table] of tables.entries()) {
      for (let count = 0; count < index; count += 1) await table.add(charge("same"));
    }
    expect(await Promise.all(tables.map(async (table) => hoursIn(await table.add(charge("same")))))).toEqual([1, 2, 3]);
    await Promise.all(tables.map((table) => table.close()));
  });

  test("a transaction of a tenant finds no table of the service or of another tenant", async () => {
    const url = await createDatabase();
    const [service, acme] = [await open(url, undefined), await open(url, "acme")];
    await server.send("CREATE TABLE public.only_here (value integer)", nameOf(url));
    expect(await service.state.read((sql) => send(sql, "SELECT * FROM only_here"))).toEqual([]);
    await expect(acme.state.read((sql) => send(sql, "SELECT * FROM only_here"))).rejects.toThrow("does not exist");
    await server.send("DROP TABLE stc_acme.approval_counters", nameOf(url));
    await expect(askFor(acme.approvals)).rejects.toThrow("does not exist");
    expect((await askFor(service.approvals)).state).toBe("pending");
    // The failed statements have left the connections as they were.
    expect(await service.state.read((sql) => send(sql, "SHOW search_path"))).toEqual([
      { search_path: '"$user", public' },
    ]);
  });

  test("a process has at most ten connections, with 1, 3 and 20 tenants", async () => {
    const most: number[] = [];
    for (const tenants of [1, 3, 20]) {
      const url = await createDatabase();
      const opened = [await open(url, undefined)];
      for (let index = 1; index <= tenants; index += 1) opened.push(await open(url, `tenant-${index}`));
      await untilPrepared(url);
      const seen: number[] = [];
      let isRunning = true;
      const watching = (async () => {
        while (isRunning) seen.push(await backends(url));
      })();
      try {
        for (let turn = 0; turn < 3; turn += 1) await Promise.all(opened.map(useAll));
      } finally {
        isRunning = false;
        await watching;
      }
      most.push(Math.max(...seen));
      await Promise.all(opened.map(close));
      await until("no connection", async () => ((await backends(url)) === 0 ? true : undefined));
    }
    expect(most.filter((count) => count > 10)).toEqual([]);
  });

  test("without tenants, a process has at most nine connections", async () => {
    const url = await createDatabase();
    const service = await open(url, undefined);
    await untilPrepared(url);
    for (let turn = 0; turn < 5; turn += 1) await useAll(service);
    expect(await backends(url)).toBeLessThanOrEqual(9);
  });

  test("two services in one process have connections of their own", async () => {
    const url = await createDatabase();
    const [one, other] = [await open(url, "acme"), await open(url, "acme")];
    const asked = await askFor(one.approvals);
    expect((await other.approvals.get(asked.id))?.state).toBe("pending");
    await close(one);
    expect((await other.approvals.get(asked.id))?.state).toBe("pending");
  });

  test("an event of a tenant wakes the processes of this tenant only", async () => {
    const url = await createDatabase();
    const [acme, globex] = [await open(url, "acme"), await open(url, "globex")];
    const elsewhere = await open(url, "acme");
    const counts = { acme: 0, globex: 0 };
    const ofAcme = await postgresStore.open(url, { tenant: "acme", now: Date.now, log: () => {} });
    const ofGlobex = await postgresStore.open(url, { tenant: "globex", now: Date.now, log: () => {} });
    ends.push(() => Promise.all([ofAcme.close(), ofGlobex.close()]));
    const listening = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    ofAcme.watch(() => {
      counts.acme += 1;
      listening[0]?.resolve();
    });
    ofGlobex.watch(() => {
      counts.globex += 1;
      listening[1]?.resolve();
    });
    // The first call says that the connection listens.
    await Promise.all(listening.map(({ promise }) => promise));
    const before = { ...counts };
    await askFor(acme.approvals);
    await until("an announcement", () => (counts.acme > before.acme ? true : undefined));
    expect(counts.globex).toBe(before.globex);
    await askFor(globex.approvals);
    await until("an announcement", () => (counts.globex > before.globex ? true : undefined));
    expect(await elsewhere.approvals.lastSeq()).toBe(1);
  });

  test("a server that restarts, or is killed, is used again by each tenant, and announces events again", async () => {
    const url = await createDatabase();
    const opened = await Promise.all(TENANTS.map((tenant) => open(url, tenant)));
    await Promise.all(opened.map(useAll));
    for (const how of ["stop", "kill"] as const) {
      await server[how]();
      await expect(opened[1]?.approvals.lastSeq()).rejects.toThrow();
      await server.start();
      await Promise.all(
        opened.map(async ({ approvals, state, rates }) => {
          const { id } = await until("an approval request", () => askFor(approvals).catch(() => undefined));
          await approvals.cancel(id, { issuer: "https://idp.example", subject: "agent-1" });
          expect(await until("a write", () => state.write(async () => how).catch(() => undefined))).toBe(how);
          expect(await until("a count", () => rates.add(charge(how)).catch(() => rates.close()))).toBeDefined();
        }),
      );
    }
  });

  test("a tenant whose writer waits for a lock keeps no other tenant from writing", async () => {
    const url = await createDatabase();
    const [acme, globex] = [await open(url, "acme"), await open(url, "globex")];
    await Promise.all([acme, globex].map(({ approvals }) => approvals.lastSeq()));
    const lock = new Bun.SQL({ url, max: 1 });
    try {
      const isHeld = Promise.withResolvers<void>();
      const mayEnd = Promise.withResolvers<void>();
      const held = lock.begin(async (sql) => {
        await sql`SELECT value FROM stc_acme.approval_counters WHERE name = 'events' FOR UPDATE`;
        isHeld.resolve();
        await mayEnd.promise;
      });
      await isHeld.promise;
      const waiting = Promise.all(
        Array.from({ length: 8 }, (_, index) => askFor(acme.approvals, { planDigest: `${index}` })),
      );
      // Resolves although all of those wait.
      expect((await askFor(globex.approvals)).state).toBe("pending");
      expect(await acme.approvals.lastSeq()).toBe(0);
      mayEnd.resolve();
      await held;
      expect(await waiting).toHaveLength(8);
    } finally {
      await lock.close({ timeout: 0 });
    }
  });

  describe("a user of the database", () => {
    async function lowly(name: string, database?: string) {
      const url = new URL(database ?? (await createDatabase()));
      await server.send(`CREATE ROLE ${name} LOGIN PASSWORD '${name}'`);
      await server.send(`GRANT CREATE ON SCHEMA public TO ${name}`, nameOf(url.href));
      url.username = name;
      url.password = name;
      return url.href;
    }
    const problem = (work: Promise<unknown>): Promise<string> =>
      work.then(
        () => "none",
        (error: Error) => error.message,
      );
    const inspect = (url: string, tenant: string) => postgresStore.inspect(url, { tenant, now: Date.now });
    const statementIn = (message: string): string => /run (.*)$/.exec(message)?.[1] ?? "";

    test("who may not create a schema is told what an administrator runs, after which the tenant starts", async () => {
      const url = await lowly("low_1");
      await open(url, undefined);
      const message = await problem(open(url, "acme-1"));
      expect(message).toContain(
        'has no schema for the tenant acme-1, and this user may not create one: run CREATE SCHEMA "stc_acme-1" AUTHORIZATION low_1',
      );
      expect(await problem(inspect(url, "acme-1"))).toContain(statementIn(message));
      await server.send(statementIn(message), nameOf(url));
      expect(await inspect(url, "acme-1")).toMatchObject({ version: 0 });
      await askFor((await open(url, "acme-1")).approvals);
      expect((await inspect(url, "acme-1")).version).toBeGreaterThan(0);
    });

    test("who may not use the schema is told what an administrator runs, after which the tenant starts", async () => {
      const url = await lowly("low_2");
      await server.send("CREATE SCHEMA stc_acme", nameOf(url));
      const message = await problem(open(url, "acme"));
      expect(message).toContain('run GRANT USAGE, CREATE ON SCHEMA "stc_acme" TO low_2');
      await server.send("GRANT USAGE ON SCHEMA stc_acme TO low_2", nameOf(url));
      expect(await problem(open(url, "acme"))).toBe(message);
      await server.send(statementIn(message), nameOf(url));
      await askFor((await open(url, "acme")).approvals);
    });

    test.each(["exists", "is missing"])(
      "whose own schema %s and is the tenant's is refused: the service would use the tenant's tables",
      async (how) => {
        const name = how === "exists" ? "stc_own" : "stc_other";
        const url = await lowly(name);
        await server.send(`GRANT CREATE ON DATABASE ${nameOf(url)} TO ${name}`);
        if (how === "exists") await server.send(`CREATE SCHEMA AUTHORIZATION ${name}`, nameOf(url));
        const refused = "in the search path of this user: set another search_path";
        expect(await problem(open(url, name.slice("stc_".length)))).toContain(refused);
        const left = await server.send(`SELECT 1 FROM pg_namespace WHERE nspname = '${name}'`, nameOf(url));
        expect(left).toHaveLength(how === "exists" ? 1 : 0);
        await askFor((await open(url, "another")).approvals);
      },
    );

    test("whose search path is the schema of another service's tenant, and a tenant whose schema another service has, are refused", async () => {
      const url = await createDatabase();
      await open(url, "acme");
      const other = new URL(await lowly("stc_globex", url));
      await server.send("GRANT USAGE ON SCHEMA stc_acme TO stc_globex", nameOf(url));
      await server.send("GRANT SELECT ON ALL TABLES IN SCHEMA stc_acme TO stc_globex", nameOf(url));
      await server.send("ALTER ROLE stc_globex SET search_path = stc_acme", nameOf(url));
      expect(await problem(open(other.href, undefined))).toContain("belongs to the tenant acme");
      await server.send("ALTER ROLE stc_globex RESET search_path", nameOf(url));
      await server.send("CREATE SCHEMA AUTHORIZATION stc_globex", nameOf(url));
      await askFor((await open(other.href, undefined)).approvals);
      expect(await problem(open(url, "globex"))).toContain("belongs to the service itself");
    });

    test("an inspection creates nothing", async () => {
      const url = await createDatabase();
      expect(await inspect(url, "acme")).toMatchObject({ version: 0, server: { isPooled: false } });
      expect(await server.send("SELECT 1 FROM pg_namespace WHERE nspname LIKE 'stc%'", nameOf(url))).toEqual([]);
    });
  });

  test("many tenants that are opened at once by several processes have the tables of each made once", async () => {
    const url = await createDatabase();
    const names = Array.from({ length: 6 }, (_, index) => `tenant-${index}`);
    const opened = await Promise.all([...names, ...names, ...names].map((name) => openTenant(url, name)));
    ends.push(() => Promise.all(opened.map((each) => each.close())));
    const { id } = await askFor(opened[0] as OpenedApprovals);
    const states = await Promise.all(opened.map(async (each) => (await each.get(id))?.state));
    expect(states.filter((state) => state === "pending")).toHaveLength(3);
    await opened[6]?.decide({ id, by: OPERATOR, decision: "approve" });
    expect((await opened[12]?.get(id))?.state).toBe("approved");
  });
});
