import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { EndingWorld } from "../support/ending-world.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../support/postgres.ts";
import type { ReplicaLoad } from "../support/replica-load.ts";
import { LOAD, outcome, QUOTA, RATE, TENANTS, type Tenant, TenantReplicas } from "../support/tenant-replicas.ts";
import type { TenantName } from "../support/tenant-service.ts";
import { until } from "../support/until.ts";

/** Long: two whole services with tenants, in processes of their own on one real PostgreSQL, which are killed and parted from it. */
const native = findPostgres();
let server: PostgresServer;
let both: TenantReplicas;
let a: EndingWorld;
let b: EndingWorld;

beforeAll(async () => {
  if (native === undefined) return;
  server = await startPostgres(native);
  both = new TenantReplicas(await server.createDatabase("tenants_replicas"));
  [a, b] = both.replicas;
  await both.start();
});
afterAll(async () => {
  await both?.end();
  await server?.end();
});

const PENDING = "GET /approvals?state=pending";
const CONSUMED = "409 APPROVAL_CONSUMED";
const UNAVAILABLE = "503 APPROVAL_UNAVAILABLE";
const everywhere = TENANTS.flatMap((tenant) => [0, 1].map((index) => ({ tenant, index })));

/** Returns how a call of each tenant ends at each replica: acme's, then globex's. */
async function outcomes(call: (at: EndingWorld, tenant: Tenant) => Promise<string>): Promise<readonly string[]> {
  return Promise.all(everywhere.map(({ tenant, index }) => call(both.replicas[index] as EndingWorld, tenant)));
}

const said = (tool: string) =>
  outcomes(async (at, tenant) => {
    const reply = await both.call(at, tenant, tool);
    return reply.body.result?.said ?? reply.body.error.code;
  });

const SAID = ["acme", "acme", "globex", "globex"];

async function pendingIds(at: EndingWorld, tenant: Tenant): Promise<readonly string[]> {
  const { body } = await both.asOperator(at, tenant, PENDING);
  return body.approvals.map(({ id }: { readonly id: string }) => id);
}

async function claim(at: EndingWorld, tenant: Tenant, key: string, approval: string): Promise<string> {
  return outcome(await both.call(at, tenant, "approved", { key, approval }));
}

describe.skipIf(native === undefined)(
  "two replicas with tenants: what one tenant does is known at both, to it alone",
  () => {
    test("a request is decided at the other replica, runs once at either, and does not exist for another tenant", async () => {
      for (const claimer of [a, b]) {
        const key = `asked-${claimer === a}`;
        const id = await both.ask(a, "acme", key);
        const own = await both.ask(b, "globex", key);
        for (const at of [a, b]) {
          expect([await pendingIds(at, "acme"), await pendingIds(at, "globex")]).toEqual([[id], [own]]);
          expect(outcome(await both.asOperator(at, "globex", `GET /approvals/${id}`))).toBe("404 APPROVAL_NOT_FOUND");
          expect(outcome(await both.decide(at, "globex", id))).toBe("404 APPROVAL_NOT_FOUND");
          expect(outcome(await both.asOperator(at, undefined, `GET /approvals/${id}`))).toBe("404 APPROVAL_NOT_FOUND");
        }
        expect((await both.decide(b, "acme", id)).http).toBe(200);
        for (const at of [a, b]) {
          expect(await claim(at, "globex", key, id)).toBe("404 APPROVAL_NOT_FOUND");
          expect(await claim(at, "globex", key, own)).toBe("202 pending");
        }
        expect(await claim(claimer, "acme", key, id)).toBe("200 success");
        for (const at of [a, b]) expect(await claim(at, "acme", key, id)).toBe(CONSUMED);
        expect(both.runsOf(key)).toEqual({ acme: 1, globex: 0 });
        expect((await both.decide(a, "globex", own)).http).toBe(200);
        expect(await claim(b, "globex", key, own)).toBe("200 success");
        expect(both.runsOf(key)).toEqual({ acme: 1, globex: 1 });
      }
    });

    test("of claims at both replicas at the same time, one of each tenant runs", async () => {
      const ids = { acme: await both.ask(a, "acme", "raced"), globex: await both.ask(b, "globex", "raced") };
      for (const tenant of TENANTS) await both.decide(a, tenant, ids[tenant]);
      const claims = Array.from({ length: 5 }, () => outcomes((at, tenant) => claim(at, tenant, "raced", ids[tenant])));
      expect((await Promise.all(claims)).flat().sort()).toEqual([
        ...Array(2).fill("200 success"),
        ...Array(18).fill(CONSUMED),
      ]);
      expect(both.runsOf("raced")).toEqual({ acme: 1, globex: 1 });
    });

    test("a call that waits at one replica runs there once it is decided at the other", async () => {
      const waiting = TENANTS.map((tenant) =>
        both.call(a, tenant, "approved", { key: "waited", headers: { prefer: "wait=60" } }),
      );
      for (const [index, tenant] of TENANTS.entries()) {
        const id = await until("the request", async () => (await pendingIds(b, tenant))[0]);
        expect(both.runsOf("waited")).toEqual({ acme: index, globex: 0 });
        expect((await both.decide(b, tenant, id)).http).toBe(200);
        expect(outcome((await waiting[index]) ?? { http: 0, body: {} })).toBe("200 success");
      }
    });

    test("an approval for a session counts at both replicas, and not for the session of this name in another tenant", async () => {
      const options = { sid: "s-1" };
      const id = await both.ask(a, "acme", "granted", options);
      expect((await both.decide(b, "acme", id, "session")).http).toBe(200);
      const call = async (at: EndingWorld, tenant: Tenant) =>
        outcome(await both.call(at, tenant, "approved", { key: "granted", ...options }));
      expect(await outcomes(call)).toEqual([...Array(2).fill("200 success"), ...Array(2).fill("202 pending")]);
      const { grants } = (await both.asOperator(a, "acme", "GET /grants")).body;
      expect(grants).toHaveLength(1);
      expect((await both.asOperator(b, "globex", "GET /grants")).body.grants).toEqual([]);
      expect((await both.asOperator(b, "globex", `DELETE /grants/${grants[0].id}`)).http).toBe(404);
      expect((await both.asOperator(b, "acme", `DELETE /grants/${grants[0].id}`)).http).toBeLessThan(300);
      expect(await outcomes(call)).toEqual(Array(4).fill("202 pending"));
    });

    test.each([
      ["of a tenant stops the tenant's calls", "acme", { kind: "all" }, ["HALTED", "HALTED", "globex", "globex"]],
      ...([
        [
          "of the service for one tenant stops this tenant's",
          undefined,
          { kind: "all", tenant: "globex" },
          ["acme", "acme", "HALTED", "HALTED"],
        ],
        ["of the service stops those of all", undefined, { kind: "tool", tool: "hello" }, Array(4).fill("HALTED")],
      ] as const),
    ] as const)("a halt %s, at both replicas until it is lifted at either", async (_title, by, halt, halted) => {
      const isInForce = (expected: readonly string[]) =>
        until(`the answers ${expected}`, async () =>
          Bun.deepEquals(await said("hello"), [...expected]) ? true : undefined,
        );
      expect(await said("hello")).toEqual(SAID);
      const { body } = await both.asOperator(a, by as TenantName, "POST /halts", { ...halt, reason: "drill" });
      const path = `DELETE /halts/${body.halt.id}`;
      try {
        // At the replica that sets it, a halt is in force before the answer.
        const [acme, , globex] = await said("hello");
        expect([acme, globex]).toEqual([halted[0], halted[2]]);
        await isInForce(halted);
        if (by === "acme") {
          expect(outcome(await both.asOperator(b, "globex", path))).toBe("404 HALT_NOT_FOUND");
          expect((await both.asOperator(b, "globex", "GET /halts")).body.halts).toEqual([]);
        }
        expect(await said("hello")).toEqual([...halted]);
      } finally {
        expect((await both.asOperator(b, by as TenantName, path)).http).toBeLessThan(300);
      }
      await isInForce(SAID);
    });

    test("a quota counts over both replicas and for each tenant alone, and is reset for one alone", async () => {
      const count = async (at: EndingWorld, tenant: Tenant) => outcome(await both.call(at, tenant, "counted"));
      const inTurn = async (tenant: Tenant, times: number): Promise<readonly string[]> => {
        const seen: string[] = [];
        for (let turn = 0; turn < times; turn += 1) seen.push(await count(turn % 2 ? a : b, tenant));
        return seen;
      };
      const used = async (tenant: Tenant) => {
        const { body } = await both.asOperator(b, tenant, "GET /quotas");
        return body.use.map((use: { readonly used: number }) => use.used);
      };
      const refused = Array(2).fill("429 QUOTA_EXCEEDED");
      const passed = (times: number) => [...Array(times).fill("200 success"), ...refused];
      expect(await inTurn("acme", QUOTA + 2)).toEqual(passed(QUOTA));
      expect([await used("acme"), await used("globex")]).toEqual([[QUOTA], []]);
      expect(await inTurn("globex", QUOTA + 2)).toEqual(passed(QUOTA));
      expect((await both.asOperator(a, "acme", "POST /quotas/reset", { quota: "few" })).http).toBeLessThan(300);
      expect([await used("acme"), await used("globex")]).toEqual([[0], [QUOTA]]);
      expect(await count(a, "acme")).toBe("200 success");
      // The other replica repeats a refusal for a second.
      await until("the reset at the other replica", async () =>
        (await count(b, "acme")) === "200 success" ? true : undefined,
      );
      expect(await inTurn("acme", QUOTA)).toEqual(passed(QUOTA - 2));
      expect(await inTurn("globex", 2)).toEqual(refused);
    });

    test("a shared rate counts over both replicas, and for each tenant alone", async () => {
      for (const tenant of TENANTS) {
        const take = async (at: EndingWorld) => outcome(await both.call(at, tenant, "limited"));
        for (let turn = 0; turn < RATE; turn += 1) expect(await take(a)).toBe("200 success");
        expect(await take(a)).toBe("429 RATE_LIMITED");
        let taken = 0;
        await until("the other replica to know", async () => {
          if ((await take(b)) === "429 RATE_LIMITED") return true;
          taken += 1;
          // Longer than between two of its exchanges with the database.
          await Bun.sleep(150);
          return undefined;
        });
        expect(taken).toBeLessThan(RATE);
      }
    });

    test("an Idempotency-Key is answered from the store at the other replica, and is free in another tenant", async () => {
      const use = async (at: EndingWorld, tenant: Tenant) =>
        outcome(await both.keyed(at, tenant, "record", "order-66"));
      expect(await use(a, "acme")).toBe("200 success");
      expect(await use(b, "acme")).toBe("200 success");
      expect(both.runsOf("order-66")).toEqual({ acme: 1, globex: 0 });
      expect([await use(b, "globex"), await use(a, "globex")]).toEqual(Array(2).fill("200 success"));
      expect(both.runsOf("order-66")).toEqual({ acme: 1, globex: 1 });
    });

    test("a session of the console works at both replicas, for the tenant of its operator alone", async () => {
      const [acme, globex, own] = [
        await both.signIn(a, "acme"),
        await both.signIn(b, "globex"),
        await both.signIn(a, undefined),
      ];
      const id = await both.ask(a, "acme", "in-the-console");
      for (const at of [a, b]) {
        expect(await both.seen(at, `GET /approvals/${id}`, acme)).toBe("200");
        for (const session of [globex, own])
          expect(await both.seen(at, `GET /approvals/${id}`, session)).toBe("404 APPROVAL_NOT_FOUND");
      }
      const body = { decision: "approve", scope: "once" };
      const decided = await both.console(b, `POST /approvals/${id}/decisions`, { session: acme, body });
      expect(decided.status).toBe(200);
      expect(await claim(a, "acme", "in-the-console", id)).toBe("200 success");
      expect(await both.seen(b, "DELETE /console/session", acme)).toBe("204");
      for (const at of [a, b]) {
        expect(await both.seen(at, "GET /approvals", acme)).toBe("401 UNAUTHENTICATED");
        expect(await both.seen(at, "GET /approvals", globex)).toBe("200");
      }
    });

    test("each log verifies, and every call is in the log of its tenant", () => both.expectWhole());
  },
);

describe.skipIf(native === undefined)("two replicas with tenants: losing one, or the database", () => {
  test("kill -9 of one: once it is back, its changes of each tenant are OUTCOME_UNKNOWN, and those of the other go on", async () => {
    const key = "stuck";
    const ids = { acme: await both.ask(a, "acme", "later"), globex: await both.ask(a, "globex", "later") };
    await both.decide(a, "acme", ids.acme);
    // The same key: acme's call runs at the replica that is killed, globex's at the other; and a second one the other way round.
    const stuck = [
      both.keyed(a, "acme", "stuck_record", key),
      both.keyed(b, "globex", "stuck_record", key),
      both.keyed(b, "acme", "stuck_record", `${key}-2`),
      both.keyed(a, "globex", "stuck_record", `${key}-2`),
    ];
    const ends = Promise.allSettled(stuck);
    const claimed = await both.call(a, "acme", "stuck_approved", { key: "claimed" });
    await both.decide(b, "acme", claimed.body.approval.id);
    const again = { key: "claimed", approval: claimed.body.approval.id };
    const lost = Promise.allSettled([both.call(a, "acme", "stuck_approved", again)]);
    await until("all changes to run", () => {
      const counts = [key, `${key}-2`, "claimed"].map((each) => Object.values(both.runsOf(each)).join());
      return Bun.deepEquals(counts, ["1,1", "1,1", "1,0"]) ? true : undefined;
    });
    await a.end("SIGKILL");
    await lost;
    const use = async (at: EndingWorld, tenant: Tenant, suffix = "") =>
      outcome(await both.keyed(at, tenant, "stuck_record", `${key}${suffix}`));
    for (const tenant of TENANTS) {
      expect([await use(b, tenant), await use(b, tenant, "-2")]).toEqual(Array(2).fill("409 CALL_IN_PROGRESS"));
    }
    // Approvals of both tenants continue at the other.
    expect(await claim(b, "acme", "later", ids.acme)).toBe("200 success");
    expect((await both.decide(b, "globex", ids.globex)).http).toBe(200);
    expect(await claim(b, "globex", "later", ids.globex)).toBe("200 success");

    await a.start();
    for (const at of [a, b]) {
      expect([await use(at, "acme"), await use(at, "globex")]).toEqual(["502 OUTCOME_UNKNOWN", "409 CALL_IN_PROGRESS"]);
      expect([await use(at, "acme", "-2"), await use(at, "globex", "-2")]).toEqual([
        "409 CALL_IN_PROGRESS",
        "502 OUTCOME_UNKNOWN",
      ]);
      expect(outcome(await both.call(at, "acme", "stuck_approved", again))).toBe(CONSUMED);
    }
    await b.end("SIGKILL");
    await ends;
    await b.start();
    for (const at of [a, b]) {
      for (const tenant of TENANTS) {
        expect([await use(at, tenant), await use(at, tenant, "-2")]).toEqual(Array(2).fill("502 OUTCOME_UNKNOWN"));
      }
    }
    expect(both.runsOf("later")).toEqual({ acme: 1, globex: 1 });
    expect([both.runsOf(key), both.runsOf(`${key}-2`)]).toEqual(Array(2).fill({ acme: 1, globex: 1 }));
    await both.expectWhole();
  });

  test("kill -9 of each in turn, while both tenants change with the same keys: no change is lost without an answer or runs twice", async () => {
    const loads = await Promise.all(TENANTS.map((tenant) => both.load(tenant)));
    try {
      for (const replica of both.replicas) {
        await moreCalls(loads);
        await both.changing(replica);
        await replica.end("SIGKILL");
        await moreCalls(loads);
        await replica.start();
      }
      await moreCalls(loads);
      // The database is lost as well, at the same load.
      const failed = failuresFrom(loads);
      await server.kill();
      await Promise.all(loads.map(({ calls }, index) => until("calls meanwhile", () => moreOf(loads[index], calls))));
      await server.start();
      await moreCalls(loads);
      for (const { read, others } of failed()) {
        expect(read).toEqual([]);
        expect(others).toContain(UNAVAILABLE);
        expect(others.filter((code) => code !== UNAVAILABLE && code !== "409 CALL_IN_PROGRESS")).toEqual([]);
      }
    } finally {
      await Promise.all(loads.map((load) => load.stop()));
    }
    for (const [index, load] of loads.entries()) {
      console.log(load.summary());
      const tenant = TENANTS[index] as Tenant;
      const known = both.runs(tenant).filter((key) => !key.startsWith(LOAD));
      const { lost, twice, unexplained } = load.exactness();
      expect({ lost, twice: twice.filter((key) => key.startsWith(LOAD)) }).toEqual({ lost: [], twice: [] });
      expect(unexplained.filter((key) => !known.includes(key))).toEqual([]);
      expect(
        [...load.unknown.values()].filter((code) => !/ (?:OUTCOME_UNKNOWN|APPROVAL_CONSUMED)$/.test(code)),
      ).toEqual([]);
      expect(load.unknown.size).toBeLessThanOrEqual(2 * load.clients);
      // Each run is in the log of its tenant, and so is that its outcome is unknown.
      const keysOf = (isMeant: (code: string | undefined) => boolean) =>
        new Set(entries.filter(({ error }) => isMeant(error?.code)).map(({ request }) => request.args["key"]));
      const entries = both.entries(tenant);
      const recorded = keysOf((code) => code === undefined || code === "OUTCOME_UNKNOWN");
      expect(both.runs(tenant).filter((key) => !recorded.has(key))).toEqual([]);
      const inDoubt = keysOf((code) => code === "OUTCOME_UNKNOWN");
      // A claim whose answer was lost with the database is used, and its change was refused and never runs.
      const ran = new Set(both.runs(tenant));
      const refused = keysOf((code) => code === "APPROVAL_UNAVAILABLE");
      const isUsedInVain = (key: string) =>
        load.unknown.get(key) === "409 APPROVAL_CONSUMED" && refused.has(key) && !ran.has(key);
      expect([...load.unknown.keys()].filter((key) => !inDoubt.has(key) && !isUsedInVain(key))).toEqual([]);
    }
    await both.expectWhole();
  });

  test("the database stops and is back: reads of both tenants go on, changes are refused cleanly, and nothing is lost", async () => {
    const key = "away";
    const decided = { acme: await both.ask(a, "acme", key), globex: await both.ask(b, "globex", key) };
    const open = { acme: await both.ask(b, "acme", "open"), globex: await both.ask(a, "globex", "open") };
    for (const tenant of TENANTS) expect((await both.decide(a, tenant, decided[tenant])).http).toBe(200);
    const halt = { kind: "tool", tool: "limited", reason: "drill" };
    const { id } = (await both.asOperator(a, "acme", "POST /halts", halt)).body.halt;
    await until("the halt", async () => ((await said("limited"))[1] === "HALTED" ? true : undefined));
    await server.stop();

    expect(await said("hello")).toEqual(SAID);
    expect(await outcomes((at, tenant) => claim(at, tenant, key, decided[tenant]))).toEqual(Array(4).fill(UNAVAILABLE));
    for (const refused of [
      await outcomes(async (at, tenant) => outcome(await both.call(at, tenant, "approved", { key }))),
      await outcomes(async (at, tenant) => outcome(await both.keyed(at, tenant, "record", key))),
      await outcomes(async (at, tenant) => outcome(await both.decide(at, tenant, open[tenant]))),
    ]) {
      expect(refused).toEqual(Array(4).fill(UNAVAILABLE));
    }
    // Each tenant's halts stay in force, and are none of the other's.
    expect((await said("limited")).slice(0, 2)).toEqual(["HALTED", "HALTED"]);
    expect((await said("limited")).slice(2)).not.toContain("HALTED");
    for (const at of [a, b]) expect(await at.ready()).toBe(200);
    expect(both.runsOf(key)).toEqual({ acme: 0, globex: 0 });

    await server.start();
    for (const tenant of TENANTS) {
      await until("the service to reach the database", async () =>
        (await both.decide(b, tenant, open[tenant])).http === 200 ? true : undefined,
      );
      expect(await until("a claim", () => unlessUnavailable(claim(b, tenant, "open", open[tenant])))).toBe(
        "200 success",
      );
      expect(await until("a claim", () => unlessUnavailable(claim(a, tenant, key, decided[tenant])))).toBe(
        "200 success",
      );
      expect(await claim(b, tenant, key, decided[tenant])).toBe(CONSUMED);
      expect(outcome(await both.keyed(a, tenant, "record", `${key}-after`))).toBe("200 success");
    }
    for (const each of [key, "open", `${key}-after`]) expect(both.runsOf(each)).toEqual({ acme: 1, globex: 1 });
    expect((await both.asOperator(b, "acme", `DELETE /halts/${id}`)).http).toBeLessThan(300);
    await both.expectWhole();
  });

  test("a tenant that one replica does not have yet is served by the other, and goes on at both", async () => {
    const [id, own] = [await both.ask(b, "globex", "rolled"), await both.ask(b, "acme", "rolled")];
    const session = await both.signIn(a, "globex");
    await both.restart(b, ["acme"]);
    expect(outcome(await both.call(b, "globex", "hello"))).toBe("401 UNAUTHENTICATED");
    for (const at of [b, a]) expect(await both.seen(at, "GET /approvals", session)).toBe("401 UNAUTHENTICATED");
    expect((await both.decide(a, "globex", id)).http).toBe(200);
    // A halt of the tenant is known where the tenant is not, stops nobody there, and can be lifted there.
    const halt = { kind: "all", tenant: "globex", reason: "drill" };
    const set = await both.asOperator(a, undefined, "POST /halts", halt);
    await until("the halt", async () => {
      const { body } = await both.asOperator(b, undefined, "GET /halts");
      return body.halts.length === 1 ? true : undefined;
    });
    expect(await claim(a, "globex", "rolled", id)).toBe("403 HALTED");
    expect((await both.decide(b, "acme", own)).http).toBe(200);
    expect(await claim(b, "acme", "rolled", own)).toBe("200 success");
    expect((await both.asOperator(b, undefined, `DELETE /halts/${set.body.halt.id}`)).http).toBeLessThan(300);
    await both.restart(b, TENANTS);
    await until("the end of the halt", async () =>
      outcome(await both.call(a, "globex", "hello")) === "200 success" ? true : undefined,
    );
    expect(await claim(b, "globex", "rolled", id)).toBe("200 success");
    expect(await claim(a, "globex", "rolled", id)).toBe(CONSUMED);
    expect(both.runsOf("rolled")).toEqual({ acme: 1, globex: 1 });
    // Only the call for a tenant that the replica does not have is in the service's own log.
    expect(both.entries(undefined).map(({ error }) => error?.code)).toEqual(["UNAUTHENTICATED"]);
  });
});

async function unlessUnavailable(told: Promise<string>): Promise<string | undefined> {
  const code = await told;
  return code === UNAVAILABLE ? undefined : code;
}

/** Returns a function that returns what has failed of each load from now on. */
function failuresFrom(loads: readonly ReplicaLoad[]) {
  const before = loads.map((load) => structuredClone(load.failed));
  return () =>
    loads.map(({ failed }, index) => {
      const since = (kind: keyof ReplicaLoad["failed"]) => failed[kind].slice(before[index]?.[kind].length);
      return { read: since("read"), others: [...since("kept"), ...since("new"), ...since("approvals")] };
    });
}

const moreOf = (load: ReplicaLoad | undefined, before: number) =>
  (load?.calls ?? 0) >= before + 60 ? true : undefined;

/** Resolves when each tenant has made more calls, of them an approved change. */
async function moreCalls(loads: readonly ReplicaLoad[]): Promise<void> {
  const before = loads.map(({ calls, approved }) => ({ calls, approved }));
  for (const [index, load] of loads.entries()) {
    const { calls = 0, approved = 0 } = before[index] ?? {};
    await until("more calls", () => moreOf(load, calls));
    await until("an approved change", () => (load.approved > approved ? true : undefined));
  }
}
