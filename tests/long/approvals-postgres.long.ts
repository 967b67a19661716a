import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import fs from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import type { OpenedApprovals } from "../../src/approvals/approvals.ts";
import type { Approvals } from "../../src/approvals/types.ts";
import { makeCertificates } from "../../src/cli/development/certificates.ts";
import { POSTGRES_STEPS, SQLITE_STEPS } from "../../src/database/schema.ts";
import { ApprovalService } from "../support/approval-service.ts";
import {
  AGENT,
  type ApprovalWorld,
  approvedBy,
  askFor,
  claimOf,
  createApprovalWorld,
  OPERATOR,
  questionOf,
} from "../support/approvals.ts";
import { childCommand, type Told } from "../support/approvals-child.ts";
import { runElsewhere } from "../support/approvals-elsewhere.ts";
import { expectKillSurvived, KILLS } from "../support/approvals-kills.ts";
import { walkIn, walks } from "../support/approvals-model.ts";
import { clockedDatabase, preparedDatabase } from "../support/approvals-postgres.ts";
import { raceClaims, raceVotes, readLines } from "../support/approvals-race.ts";
import { inTime } from "../support/in-time.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../support/postgres.ts";
import { rounds } from "../support/rounds.ts";
import { until } from "../support/until.ts";

const native = findPostgres();
let server: PostgresServer;
let world: ApprovalWorld;

/** A database whose clock stands until the test moves it. */
const clocked = () => clockedDatabase(server);

beforeAll(async () => {
  if (native !== undefined) server = await startPostgres(native);
});
afterAll(async () => {
  await server?.end();
});
beforeEach(() => {
  world = createApprovalWorld(clocked);
});
afterEach(() => world.end());

/** Each call goes to the next replica. */
function fleetOf(replicas: readonly OpenedApprovals[]): OpenedApprovals {
  let turn = 0;
  return new Proxy(replicas[0] as OpenedApprovals, {
    get(_first, method: keyof OpenedApprovals) {
      if (method === "close") return () => Promise.all(replicas.map((replica) => replica.close()));
      turn += 1;
      return replicas[turn % replicas.length]?.[method];
    },
  });
}

async function restart(how: "stop" | "kill"): Promise<void> {
  await server[how]();
  await server.start();
}

const LONG_MS = 600_000;

describe.skipIf(native === undefined)("approvals in PostgreSQL", () => {
  test(
    "APR-50: three replicas and a restarted server agree with the model",
    async () => {
      let restarts = 0;
      const property = fc.asyncProperty(walks, async (steps) => {
        const walked = createApprovalWorld(() => preparedDatabase(server));
        const openOne = walked.open;
        walked.open = async (limits) => fleetOf(await Promise.all([openOne(limits), openOne(limits), openOne(limits)]));
        let sweeps = 0;
        try {
          await walkIn(walked, steps, async ({ kind }) => {
            if (kind !== "sweep") return;
            sweeps += 1;
            if (sweeps !== 2) return;
            restarts += 1;
            // While the replicas are connected.
            await restart(restarts % 2 === 0 ? "kill" : "stop");
          });
        } finally {
          await walked.end();
        }
      });
      // Each walk has dozens of steps; the quick suite walks as often in SQLite.
      await fc.assert(property, { numRuns: rounds({ few: 25, many: 60 }), endOnFailure: true });
      expect(restarts).toBeGreaterThan(2);
    },
    LONG_MS,
  );

  test(
    "PostgreSQL passes the same tests as SQLite",
    () => expect(runElsewhere(server)).toEqual({ code: 0, failed: [] }),
    LONG_MS,
  );

  test(
    "APR-50: 4 processes claim 500 approvals, each once",
    async () => {
      const claimed = await raceClaims(4, 500, clocked);
      expect(claimed.reduce((sum, count) => sum + count, 0)).toBe(500);
      expect(claimed.filter((count) => count > 0).length).toBeGreaterThan(1);
    },
    LONG_MS,
  );

  test(
    "APR-50: 4 processes vote on 200 approval requests with the same names: each gets exactly its approvals",
    () => raceVotes({ processes: 4, approvals: 200, count: 3 }, clocked),
    LONG_MS,
  );

  test.each(KILLS)("kill -9 in %s, %s, leaves the state before or the state after", (act, when) =>
    expectKillSurvived(world, act, when),
  );

  test(
    "APR-50: four processes and a server that dies: no double run, no run without an approval, no lost approval",
    async () => {
      await (await world.open()).close();
      await server.send(`ALTER DATABASE ${nameOf(world.url)} RESET search_path`);
      const children = Array.from({ length: 4 }, () =>
        Bun.spawn(childCommand(world, 0, { kind: "meet others" }), {
          stdin: "pipe",
          stdout: "pipe",
          stderr: "inherit",
        }),
      );
      const told: Told[] = [];
      const reading = children.map(async ({ stdout }) => {
        for await (const line of readLines(stdout)) told.push(JSON.parse(line) as Told);
      });
      const count = (wanted: Told["act"]) => told.filter(({ act }) => act === wanted).length;
      const claims = () => count("claimed");
      await until("all of them", () => (count("opened") === children.length ? true : undefined));
      for (const how of ["stop", "kill", "kill", "stop", "kill"] as const) {
        const before = claims();
        await until("more claims", () => (claims() > before + 20 ? true : undefined));
        await restart(how);
      }
      const last = claims();
      await until("claims after the last restart", () => (claims() > last + 20 ? true : undefined));
      for (const { stdin } of children) stdin.end();
      await Promise.all([...reading, ...children.map(({ exited }) => exited)]);
      expect(children.map(({ exitCode }) => exitCode)).toEqual([0, 0, 0, 0]);
      await expectConsistent(told);
    },
    LONG_MS,
  );

  async function expectConsistent(told: readonly Told[]): Promise<void> {
    const ids = (act: Told["act"]) => told.flatMap((line) => (line.act === act && "id" in line ? [line.id] : []));
    const claimed = ids("claimed");
    expect(new Set(claimed).size).toBe(claimed.length);
    const voted = told.flatMap((line) =>
      line.act === "journal" && line.type === "approval.voted" && line.decision === "approve" ? [line.id] : [],
    );
    expect(claimed.filter((id) => !voted.includes(id))).toEqual([]);
    expect(claimed.filter((id) => ids("denied").includes(id))).toEqual([]);
    const faults = told.filter(({ act }) => act === "fault").length;
    expect(faults).toBeGreaterThan(0);
    const store = await world.open();
    const after = new Map<string, string | undefined>();
    for (const id of new Set([...claimed, ...ids("approved"), ...ids("denied")])) {
      after.set(id, (await store.get(id))?.state);
    }
    expect(claimed.filter((id) => after.get(id) !== "claimed")).toEqual([]);
    expect(ids("approved").filter((id) => !["approved", "claimed"].includes(after.get(id) ?? ""))).toEqual([]);
    expect(ids("denied").filter((id) => after.get(id) !== "denied")).toEqual([]);
    // Who was told nothing claimed at most what failed: none more than there were faults.
    const rows = await server.send("SELECT id FROM approvals WHERE state = 'claimed'", nameOf(world.url));
    expect(rows.length - claimed.length).toBeLessThanOrEqual(faults);
    const [events = {}] = await server.send(
      "SELECT count(*)::int AS count, max(seq)::int AS last, (SELECT value FROM approval_counters WHERE name = 'events')::int AS value FROM approval_events",
      nameOf(world.url),
    );
    expect(events).toEqual({ count: events["value"], last: events["value"], value: events["value"] });
  }
});

function nameOf(url: string): string {
  return new URL(url).pathname.slice(1);
}

describe.skipIf(native === undefined)("replicas", () => {
  let stores: readonly Approvals[];
  beforeEach(async () => {
    stores = await Promise.all(Array.from({ length: 6 }, () => world.open({ pendingPerSessionMax: 20 })));
  });

  test("that start at once on an empty database create its tables once", async () => {
    expect(await server.send("SELECT version FROM approval_schema", nameOf(world.url))).toEqual([
      { version: String(POSTGRES_STEPS.length) },
    ]);
    await Promise.all(stores.map((store) => store.lastSeq()));
  });

  test("ask the same at once: one approval request; and no more than the limit", async () => {
    const same = await Promise.all(stores.map((store) => askFor(store)));
    expect(new Set(same.map(({ id }) => id)).size).toBe(1);
    const asked = await Promise.all(
      Array.from({ length: 60 }, (_, index) => stores[index % 6]?.ask(questionOf({ planDigest: `${index}` }))),
    );
    expect(asked.filter((answer) => answer?.outcome === "asked")).toHaveLength(19);
    expect(asked.filter((answer) => answer?.outcome === "backlog")).toHaveLength(41);
  });

  test("NUL, which this database cannot store, is refused and not cut off", async () => {
    const [store] = stores as [Approvals];
    const subject = "agent-1\0";
    await expect(store.ask(questionOf({ requester: { ...AGENT, subject } }))).rejects.toThrow("0x00");
    await expect(store.findGrant({ ...AGENT, subject }, "key")).rejects.toThrow("0x00");
    await askFor(store);
  });

  test("decide, claim and use a key at once: one of them succeeds", async () => {
    const { id } = await askFor(stores[0] as Approvals);
    const decided = await Promise.all(
      stores.map((store, index) => store.decide({ id, by: OPERATOR, decision: index % 2 === 0 ? "approve" : "deny" })),
    );
    expect(decided.filter(({ outcome }) => outcome === "decided")).toHaveLength(1);
    const approval = await approvedBy(stores[1] as Approvals, { planDigest: "another" });
    const claimed = await Promise.all(stores.map((store) => store.claim(claimOf(approval))));
    expect(claimed.filter(({ outcome }) => outcome === "claimed")).toHaveLength(1);
    const use = { issuer: "i", subject: "s", tool: "t", keyHash: "k", argsHash: "a" };
    const begun = await Promise.all(stores.map((store) => store.beginKey(use)));
    expect(begun.map(({ outcome }) => outcome).toSorted()).toEqual(["begin", ...Array(5).fill("running")]);
    const answer = { result: { of: "the first" }, filteredFields: [], outputHash: "h" };
    await stores[2]?.endKey(use, answer);
    expect(await stores[3]?.beginKey(use)).toEqual({ outcome: "answered", answer });
  });

  test("continue when a newer release adds a column", async () => {
    const [first, second] = stores as [Approvals, Approvals];
    const { id } = await askFor(first);
    for (const store of stores) await Promise.all(Array.from({ length: 8 }, () => store.get(id)));
    await server.send("ALTER TABLE approvals ADD COLUMN of_later TEXT", nameOf(world.url));
    for (const store of stores) await Promise.all(Array.from({ length: 8 }, () => store.get(id)));
    await second.decide({ id, by: OPERATOR, decision: "approve" });
    expect((await first.claim({ id, requester: AGENT, planDigest: questionOf().planDigest })).outcome).toBe("claimed");
  });

  test("share grants, sessions and modes", async () => {
    const [first, second, third] = stores as [Approvals, Approvals, Approvals];
    const session = await first.openSession(AGENT);
    const requester = { ...AGENT, session: session.id };
    const { id } = await askFor(second, { requester });
    await third.decide({ id, by: OPERATOR, decision: "approve", scope: "session" });
    const grant = await first.findGrant(requester, questionOf().grantKey ?? "");
    expect(grant).toMatchObject({ approvalId: id, session: session.id });
    await first.setMode({ id: session.id, mode: "yolo", until: world.now + 60_000, by: OPERATOR });
    expect(await second.findSession(session.id, AGENT)).toMatchObject({ mode: "yolo", modeUntil: world.now + 60_000 });
    await third.endSession(session.id, OPERATOR);
    expect(await first.findGrant(requester, questionOf().grantKey ?? "")).toBeUndefined();
    expect(await second.findSession(session.id, AGENT)).toBeUndefined();
  });

  test("number events in commit order: a follower misses none", async () => {
    const seen: number[] = [];
    let isDone = false;
    const following = (async () => {
      while (!isDone || seen.length < 60) {
        for (const { seq } of (await stores[0]?.eventsAfter(seen.at(-1) ?? 0, 7)) ?? []) seen.push(seq);
      }
    })();
    await Promise.all(
      Array.from({ length: 20 }, async (_, index) => {
        const store = stores[index % 6] as Approvals;
        await store.claim(claimOf(await approvedBy(store, { planDigest: `${index}` })));
      }),
    );
    isDone = true;
    await following;
    expect(seen).toEqual(Array.from({ length: 60 }, (_, index) => index + 1));
  });

  test("notify each other within a second", async () => {
    const [first, second] = stores as [Approvals, Approvals];
    let rounds = 0;
    await inTime(10, 900, async () => {
      rounds += 1;
      const { id } = await askFor(first, { planDigest: `${rounds}` });
      const waited = first.wait(id, { timeoutMs: 60_000 });
      // What is asked later is answered later: the wait looks, and waits.
      await look(first, id);
      const from = performance.now();
      await second.decide({ id, by: OPERATOR, decision: "approve" });
      expect(await waited).toMatchObject({ state: "approved" });
      return performance.now() - from;
    });
  });

  test("one that stops during a change delays the others for seconds, not permanently", async () => {
    const [first, second] = stores as [Approvals, Approvals];
    const hung = Promise.withResolvers<void>();
    world.journal = () => hung.promise;
    const stuck = first.ask(questionOf()).catch(String);
    await until("the journal", async () => ((await blocked(second)) ? true : undefined));
    world.journal = undefined;
    expect(await stuck).toMatch(/PostgreSQL does not answer|idle-in-transaction|closed|terminat/i);
    hung.resolve();
    await askFor(second);
    await askFor(first, { planDigest: "another" });
    expect((await first.list({ limit: 10 })).approvals).toHaveLength(2);
  });

  /** Whether another holds the right to write. */
  async function blocked(store: Approvals): Promise<boolean> {
    return store.sweep().then(
      () => false,
      () => true,
    );
  }
});

/** On every connection, and longer than it takes who waits to look: then they wait. */
async function look(store: Approvals, id: string): Promise<void> {
  for (let reads = 0; reads < 30; reads += 1) await Promise.all(Array.from({ length: 8 }, () => store.get(id)));
}

const WAYS = [
  ["stopped", () => server.stop(), () => server.start()],
  ["killed", () => server.kill(), () => server.start()],
  ["frozen", async () => server.freeze(), async () => server.thaw()],
] as const;

describe.skipIf(native === undefined)("while the server is unavailable", () => {
  test.each(WAYS)(
    "%s: nothing is allowed, nothing is lost, waiting calls keep waiting, and all recovers when it is back",
    async (_title, away, back) => {
      const store = await world.open();
      const pending = await askFor(store, { planDigest: "pending" });
      const approved = await approvedBy(store, { planDigest: "approved" });
      const session = await askFor(store, { planDigest: "granted" });
      await store.decide({ id: session.id, by: OPERATOR, decision: "approve", scope: "session" });
      const waiting = store.wait(pending.id, { timeoutMs: 120_000 });
      const short = store.wait(pending.id, { timeoutMs: 2_000 });
      await look(store, pending.id);
      await away();
      const tried = await Promise.allSettled([
        store.ask(questionOf({ planDigest: "new" })),
        store.decide({ id: pending.id, by: OPERATOR, decision: "approve" }),
        store.claim(claimOf(approved)),
        store.findGrant(AGENT, questionOf().grantKey ?? ""),
        store.findSession("sid-1", AGENT),
        store.get(pending.id),
      ]);
      expect(tried.map(({ status }) => status)).toEqual(Array(6).fill("rejected"));
      expect(await short).toMatchObject({ id: pending.id, state: "pending" });
      await back();
      await until("the store", () =>
        store.get(pending.id).then(
          () => true,
          () => undefined,
        ),
      );
      expect(await store.get(pending.id)).toMatchObject({ state: "pending" });
      expect(await store.findGrant(AGENT, questionOf().grantKey ?? "")).toMatchObject({ approvalId: session.id });
      expect((await store.claim(claimOf(approved))).outcome).toBe("claimed");
      const other = await world.open();
      await other.decide({ id: pending.id, by: OPERATOR, decision: "deny" });
      expect(await waiting).toMatchObject({ state: "denied" });
    },
  );

  test("a store does not open, and the error contains no password", async () => {
    await world.open();
    await server.stop();
    const failed = world.open();
    await expect(failed).rejects.toThrow(
      /^approvals store postgres:\/\/127\.0\.0\.1:\d+\/clocked_\d+_\d+: cannot be reached/,
    );
    await expect(failed).rejects.not.toThrow("secret");
    await server.start();
    await world.open();
  });
});

describe.skipIf(native === undefined)("two services on one database", () => {
  let services: [ApprovalService, ApprovalService];
  let databases = 0;
  beforeEach(async () => {
    databases += 1;
    const url = await server.createDatabase(`services_${databases}`);
    const [first, second] = [new ApprovalService(), new ApprovalService()];
    Object.assign(second, { issuers: first.issuers });
    services = [first, second];
    for (const service of services) {
      fs.writeFileSync(join(service.folder, "store-url"), `${url}\n`, { mode: 0o600 });
      await service.start({ store: undefined, storeUrlFile: "store-url" });
    }
  });
  afterEach(async () => {
    for (const service of services) await service.end();
  });

  test("asked at one, decided at the other, claimed at the first; and the other way round", async () => {
    const [one, two] = services;
    for (const [here, there] of [
      [one, two],
      [two, one],
    ] as const) {
      const token = await here.agent();
      const asked = await here.call("do_write", "a", { token });
      expect(asked.http).toBe(202);
      const { id } = asked.body.approval;
      expect((await there.decide(id, "approve")).http).toBe(200);
      const approval = { id };
      expect(await here.call("do_write", "a", { token, approval })).toMatchObject({
        http: 200,
        body: { status: "success" },
      });
      expect((await there.call("do_write", "a", { token, approval })).body.error.code).toBe("APPROVAL_CONSUMED");
    }
    expect([one.deeds, two.deeds]).toEqual([["a"], ["a"]]);
  });

  test("a call that waits at one runs when it is decided at the other", async () => {
    const [one, two] = services;
    await inTime(1, 1_000, async () => {
      const call = one.call("do_write", "b", { headers: { prefer: "wait=30" } });
      const id = await until("the question", async () => {
        const { body } = await two.send("GET", "/approvals?state=pending", { token: await two.person() });
        return body.approvals[0]?.id as string | undefined;
      });
      const from = performance.now();
      await two.decide(id, "approve");
      expect(await call).toMatchObject({ http: 200, body: { status: "success" } });
      return performance.now() - from;
    });
  });

  test("while the database is unavailable a call that must ask is refused, and one that need not runs", async () => {
    const [one] = services;
    await server.stop();
    const refused = await one.call("do_write", "a");
    expect([refused.http, refused.body.error.code]).toEqual([503, "APPROVAL_UNAVAILABLE"]);
    expect(refused.body.error.message).not.toContain("postgres");
    expect((await one.call("do_read", "a")).http).toBe(200);
    await server.start();
    await until("the service", async () => ((await one.call("do_write", "c")).http === 202 ? true : undefined));
    expect(one.deeds).toEqual(["a"]);
  });
});

test.skipIf(native === undefined)("the tables have the same columns as SQLite's", async () => {
  await world.open();
  const theirs = await server.send(
    `SELECT table_name AS name, column_name AS "column" FROM information_schema.columns
     WHERE table_schema = 'public' ORDER BY table_name COLLATE "C", column_name COLLATE "C"`,
    nameOf(world.url),
  );
  const sqlite = new Bun.SQL({ adapter: "sqlite", filename: ":memory:" });
  for (const step of SQLITE_STEPS) await sqlite.unsafe(step);
  const ours = await sqlite.unsafe(
    `SELECT tables.name, columns.name AS "column" FROM sqlite_master AS tables, pragma_table_info(tables.name) AS columns
     WHERE tables.type = 'table' ORDER BY tables.name, columns.name`,
  );
  expect(theirs).toEqual([...ours]);
  await sqlite.close();
});

test.skipIf(native === undefined)("tables of the first version are migrated with their contents", async () => {
  const database = await clocked();
  database.setClock(world.now);
  const columns = "id, state, version, issuer, subject, actors, session, tool, category, classification, risk, rules";
  const more = "plan_digest, view, view_digest, summary, scopes, trace_id, created_at, decide_by";
  const row = `'old', 'pending', 1, '${AGENT.issuer}', '${AGENT.subject}', '[]', 'sid-1', 'deploy', 'write', 'write', 'low',
    '[]', 'p', '{}', 'v', 's', '["once"]', 't', ${world.now}, ${world.now + 60_000}`;
  await server.send(POSTGRES_STEPS[0] ?? "", nameOf(database.url));
  await server.send(`INSERT INTO approvals (${columns}, ${more}) VALUES (${row})`, nameOf(database.url));
  const other = createApprovalWorld(async () => database);
  const store = await other.open();
  expect(await store.get("old")).toMatchObject({ requirement: undefined, votes: [] });
  expect((await store.decide({ id: "old", by: OPERATOR, decision: "approve" })).outcome).toBe("decided");
  expect((await store.claim({ id: "old", requester: AGENT, planDigest: "p" })).outcome).toBe("claimed");
  await other.end();
});

const REFUSED: readonly (readonly [title: string, statements: string, message: string])[] = [
  ["somebody else's table", "CREATE TABLE approvals (id text)", "has a table `approvals` of another program"],
  ["a broken version", "CREATE TABLE approval_schema (version text)", "is damaged"],
  [
    "a newer version",
    "CREATE TABLE approval_schema AS SELECT 99 AS version",
    "newer version of this service (schema 99",
  ],
  ["commits that are forgotten", "ALTER ROLE tester SET synchronous_commit = off", "forgets commits when it crashes"],
];

test.skipIf(native === undefined).each(REFUSED)("%s: refused with a remedy", async (_title, statements, message) => {
  const database = await clocked();
  await server.send(statements, nameOf(database.url));
  const other = createApprovalWorld(async () => database);
  await expect(other.open()).rejects.toThrow(message);
  await server.send("ALTER ROLE tester RESET synchronous_commit");
  await other.end();
});

test.skipIf(native === undefined)("a user without the right to create tables uses existing ones", async () => {
  const store = await world.open();
  const name = nameOf(world.url);
  await server.send("CREATE ROLE limited LOGIN PASSWORD 'l'; CREATE ROLE nobody_much LOGIN PASSWORD 'l'");
  await server.send(
    "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO limited; GRANT pg_read_server_files TO limited; GRANT EXECUTE ON FUNCTION pg_read_file(text) TO limited",
    name,
  );
  const as = (user: string) => world.url.replace(/\/\/[^@]+@/, `//${user}:l@`);
  const limited = createApprovalWorld(async () => ({ url: as("limited"), setClock: () => {} }));
  const { id } = await askFor(await limited.open());
  expect(await store.get(id)).toMatchObject({ state: "pending" });
  await limited.end();
  const empty = await server.createDatabase("empty");
  for (const url of [as("nobody_much"), empty.replace(/\/\/[^@]+@/, "//nobody_much:l@")]) {
    const refused = createApprovalWorld(async () => ({ url, setClock: () => {} }));
    await expect(refused.open()).rejects.toThrow("may not be used or written by this user");
    await refused.end();
  }
  const wrong = createApprovalWorld(async () => ({ url: as("limited").replace(":l@", ":wrong@"), setClock: () => {} }));
  await expect(wrong.open()).rejects.toThrow("refuses this user or password");
  await wrong.end();
});

test.skipIf(native === undefined)("TLS: the certificate is verified as the URL says", async () => {
  const now = Date.now();
  const validity = { notBefore: new Date(now - 3_600_000), notAfter: new Date(now + 86_400_000) };
  const [ours, theirs] = [await makeCertificates(validity), await makeCertificates(validity)];
  const file = (name: string, text: string | Buffer): string => {
    const path = join(server.dir, name);
    fs.writeFileSync(path, text, { mode: 0o600 });
    server.own(path);
    return path;
  };
  await server.stop();
  const key = file("tls.key", ours.server.key);
  await server.start(["ssl=on", `ssl_cert_file=${file("tls.pem", ours.server.cert)}`, `ssl_key_file=${key}`]);
  const roots = { ours: file("ours.pem", ours.rootCert), theirs: file("theirs.pem", theirs.rootCert) };
  const plain = await server.createDatabase("over_tls", "");
  const opened = async (host: string, query: string): Promise<unknown> => {
    const url = plain.replace("127.0.0.1", host) + query;
    const other = createApprovalWorld(async () => ({ url, setClock: () => {} }));
    try {
      await (await other.open()).lastSeq();
      const [row] = await server.send(
        "SELECT count(*)::int AS count FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE ssl AND datname = 'over_tls'",
      );
      return Number(row?.["count"]) > 0 ? "over TLS" : "open";
    } catch (error) {
      return String(error).includes("cannot be reached") ? "refused" : error;
    } finally {
      await other.end();
      await until("the end of its connections", async () => {
        const rows = await server.send("SELECT 1 FROM pg_stat_activity WHERE datname = 'over_tls'");
        return rows.length === 0 ? true : undefined;
      });
    }
  };
  expect(await opened("localhost", `?sslmode=verify-full&sslrootcert=${roots.ours}`)).toBe("over TLS");
  expect(await opened("localhost", `?sslmode=verify-full&sslrootcert=${roots.theirs}`)).toBe("refused");
  expect(await opened("localhost", "?sslmode=verify-full")).toBe("refused");
  expect(await opened("127.0.0.1", `?sslmode=verify-full&sslrootcert=${roots.ours}`)).toBe("refused");
  expect(await opened("127.0.0.1", `?sslmode=verify-ca&sslrootcert=${roots.ours}`)).toBe("over TLS");
  expect(await opened("localhost", `?sslmode=verify-ca&sslrootcert=${roots.theirs}`)).toBe("refused");
  expect(await opened("localhost", "?sslmode=require")).toBe("over TLS");
  expect(await opened("localhost", "?sslmode=disable")).toBe("open");
  await server.stop();
  await server.start();
  expect(await opened("localhost", "?sslmode=require")).toBe("refused");
});

test.skipIf(native === undefined)("a standby is not used: it may not know about revocations", async () => {
  const store = await world.open();
  const approval = await approvedBy(store);
  await server.stop();
  const signal = join(server.dir, "cluster", "standby.signal");
  fs.writeFileSync(signal, "");
  await server.start();
  await expect(store.get(approval.id)).rejects.toThrow("is a standby: name the primary");
  await expect(store.claim(claimOf(approval))).rejects.toThrow("during recovery");
  await expect(world.open()).rejects.toThrow("is a standby: name the primary");
  await server.stop();
  fs.rmSync(signal);
  await server.start();
  expect((await store.claim(claimOf(approval))).outcome).toBe("claimed");
});
