import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { auditEntries, journalEntries } from "../support/audit-files.ts";
import { EndingWorld } from "../support/ending-world.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../support/postgres.ts";
import { manifest } from "../support/reload-service.ts";
import { runStc, SIGNATURES_NOT_CHECKED } from "../support/stc.ts";
import { AGENTS_ISSUER } from "../support/tokens.ts";
import { until } from "../support/until.ts";

/** Long: two processes with an audit each and one real PostgreSQL, which are killed and parted from it. */
const RATE = 20;
const native = findPostgres();
let server: PostgresServer;
let databases = 0;
let a: EndingWorld;
let b: EndingWorld;

/** JSON of which the tests say what they expect. */
type Loose = ReturnType<typeof JSON.parse>;

interface Reply {
  readonly http: number;
  readonly body: Loose;
}

/** Who ran it, in its answer; and a line in the replica's own log, for runs whose answer is lost. */
const RUNS = 'console.log("it runs"); return { said: String(process.pid) };';

const STUCK = 'console.log("it is stuck"); return new Promise(() => {});';

beforeAll(async () => {
  if (native !== undefined) server = await startPostgres(native);
});
afterAll(() => server?.end());
beforeEach(async () => {
  if (native === undefined) return;
  databases += 1;
  const url = await server.createDatabase(`replicas_${databases}`);
  const changes = {
    approvals: {
      storeUrlFile: "./url",
      policies: [{ name: "two-people", when: { tools: ["two_yes"] }, require: { count: 2 } }],
    },
    limits: { shared: true, rates: { tools: { limited: { tool: { calls: RATE, seconds: 600 } } } } },
  };
  a = new EndingWorld(changes);
  b = new EndingWorld({ ...changes, jwt: { issuers: a.world.issuers.profiles() } });
  for (const { world } of [a, b]) {
    world.write("url", `${url}\n`);
    world.write("tools/limited.ts", manifest({ name: "limited" }));
    for (const name of ["one_yes", "two_yes"]) {
      world.write(`tools/${name}.ts`, manifest({ name, classification: "write", body: RUNS }));
    }
    world.write("tools/stuck_read.ts", manifest({ name: "stuck_read", body: STUCK }));
    world.write(
      "tools/stuck_ask.ts",
      manifest({ name: "stuck_ask", classification: "write", body: "return new Promise(() => {});" }),
    );
  }
  await Promise.all([a.start(), b.start()]);
});
afterEach(async () => {
  if (native === undefined) return;
  await Promise.all([a.remove(), b.remove()]);
});

const agent = (claims: Readonly<Record<string, unknown>> = {}): Promise<string> =>
  a.world.issuers.token({ kind: "good", sub: "agent-7", permissions: ["hello:say"], claims });
const person = (sub = "olga"): Promise<string> => {
  const permissions = ["approvals:decide", "grants:manage", "modes:manage"];
  return a.world.issuers.token({ kind: "operator", sub, permissions });
};

interface Sent {
  readonly token: string;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

async function send(at: EndingWorld, line: string, { token, body, headers = {} }: Sent): Promise<Reply> {
  const [method = "", path = ""] = line.split(" ");
  const response = await fetch(`${at.url}${path}`, {
    method,
    headers: {
      ...{ authorization: `Bearer ${token}`, ...headers },
      ...(body !== undefined && { "content-type": "application/json" }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return { http: response.status, body: text === "" ? undefined : JSON.parse(text) };
}

async function call(at: EndingWorld, tool: string, more: Readonly<Record<string, unknown>> = {}): Promise<Reply> {
  const { token = await agent(), headers = {}, ...rest } = more as { token?: string; headers?: Sent["headers"] };
  return send(at, "POST /call", { token, headers: headers ?? {}, body: { tool, args: {}, ...rest } });
}

async function ask(at: EndingWorld, tool: string, token?: string): Promise<string> {
  const { http, body } = await call(at, tool, token === undefined ? {} : { token });
  expect([http, body.status]).toEqual([202, "pending"]);
  return body.approval.id;
}

async function approve(at: EndingWorld, id: string, { sub = "olga", scope = "once" } = {}): Promise<Reply> {
  const body = { decision: "approve", scope };
  return send(at, `POST /approvals/${id}/decisions`, { token: await person(sub), body });
}

const outcome = ({ http, body }: Reply): string => `${http} ${body.error?.code ?? body.status}`;
const pidOf = (at: EndingWorld): string => String(at.child.pid);
const runs = (...at: readonly EndingWorld[]): number =>
  at.reduce((sum, one) => sum + (one.log().match(/^it runs$/gm) ?? []).length, 0);

async function expectWhole(...replicas: readonly EndingWorld[]): Promise<void> {
  for (const { auditDir } of replicas) {
    const { code, out, err } = await runStc(["audit", "verify", "--dir", auditDir]);
    expect({ code, err, out }).toMatchObject({ code: SIGNATURES_NOT_CHECKED, err: "" });
  }
}

describe.skipIf(native === undefined)("replicas: two services on one PostgreSQL share", () => {
  test("approval requests: asked at one, answered at the other, claimed at either, once", async () => {
    for (const claimer of [a, b]) {
      const id = await ask(a, "one_yes");
      expect((await approve(b, id)).http).toBe(200);
      const ran = await call(claimer, "one_yes", { approval: { id } });
      expect(ran.body.result?.said ?? ran.body).toBe(pidOf(claimer));
      for (const at of [a, b])
        expect(outcome(await call(at, "one_yes", { approval: { id } }))).toBe("409 APPROVAL_CONSUMED");
    }
    const id = await ask(b, "one_yes");
    await approve(a, id);
    const claims = await Promise.all(
      Array.from({ length: 10 }, (_, turn) => call(turn % 2 ? a : b, "one_yes", { approval: { id } })),
    );
    expect(claims.map(outcome).sort()).toEqual(["200 success", ...Array(9).fill("409 APPROVAL_CONSUMED")]);
    await expectWhole(a, b);
  });

  test("waiting: a call that waits at one runs there when it is answered at the other", async () => {
    const waiting = call(a, "one_yes", { headers: { prefer: "wait=30" } });
    const token = await person();
    const id = await until("the question", async () => {
      const { body } = await send(b, "GET /approvals?state=pending", { token });
      return body.approvals[0]?.id as string | undefined;
    });
    await approve(b, id);
    expect((await waiting).body.result.said).toBe(pidOf(a));
  });

  test("votes: two people, one at each", async () => {
    const id = await ask(a, "two_yes");
    expect((await approve(a, id, { sub: "olga" })).http).toBe(200);
    expect(outcome(await call(b, "two_yes", { approval: { id } }))).toBe("202 pending");
    expect((await approve(b, id, { sub: "olga" })).http).not.toBe(500);
    expect(outcome(await call(a, "two_yes", { approval: { id } }))).toBe("202 pending");
    expect((await approve(b, id, { sub: "pavel" })).http).toBe(200);
    expect(outcome(await call(b, "two_yes", { approval: { id } }))).toBe("200 success");
  });

  test("grants: an approval for a session counts at both, until it is revoked at one", async () => {
    const token = await agent({ sid: "s-1" });
    const id = await ask(a, "one_yes", token);
    expect((await approve(b, id, { scope: "session" })).http).toBe(200);
    expect(outcome(await call(b, "one_yes", { token, approval: { id } }))).toBe("200 success");
    for (const at of [a, b]) expect(outcome(await call(at, "one_yes", { token }))).toBe("200 success");
    const { body } = await send(a, "GET /grants", { token: await person() });
    expect(body.grants).toHaveLength(1);
    expect((await send(a, `DELETE /grants/${body.grants[0].id}`, { token: await person() })).http).toBeLessThan(300);
    for (const at of [b, a]) expect(outcome(await call(at, "one_yes", { token }))).toBe("202 pending");
  });

  test("modes: set at one, in force at the other", async () => {
    const token = await agent({ sid: "s-2" });
    expect(outcome(await call(b, "one_yes", { token }))).toBe("202 pending");
    const body = { mode: "autoEdit", expiresInSeconds: 60, issuer: AGENTS_ISSUER, subject: "agent-7" };
    expect(await send(a, "PUT /sessions/sid:s-2/mode", { token: await person(), body })).toMatchObject({ http: 200 });
    for (const at of [b, a]) expect(outcome(await call(at, "one_yes", { token }))).toBe("200 success");
  });

  test("Idempotency-Key: the same call at the other gets the stored answer, not another run", async () => {
    const token = await agent({ sid: "s-3" });
    const headers = { "idempotency-key": "order-66" };
    const id = await ask(a, "one_yes", token);
    await approve(a, id);
    const before = runs(a, b);
    const first = await call(a, "one_yes", { token, headers, approval: { id } });
    expect(first.body.result?.said ?? first.body).toBe(pidOf(a));
    const again = await call(b, "one_yes", { token, headers, approval: { id } });
    expect(again.body.result?.said ?? again.body).toBe(pidOf(a));
    expect(runs(a, b) - before).toBe(1);
  });

  test("rates: calls at one count at the other", async () => {
    for (let index = 0; index < RATE; index += 1) expect(outcome(await call(a, "limited"))).toBe("200 success");
    expect(outcome(await call(a, "limited"))).toBe("429 RATE_LIMITED");
    let taken = 0;
    await until("the other to have heard", async () => {
      const said = outcome(await call(b, "limited"));
      if (said === "429 RATE_LIMITED") return true;
      taken += 1;
      // Longer than between two of its exchanges with the database.
      await Bun.sleep(150);
      return undefined;
    });
    // What comes between two of its rounds.
    expect(taken).toBeLessThan(RATE);
  });
});

describe.skipIf(native === undefined)("replicas: losing one", () => {
  test("kill -9 of one: nothing is lost, the other continues, and calls in progress do not run a second time", async () => {
    const [asked, decided, claimed] = [await ask(a, "one_yes"), await ask(a, "two_yes"), await ask(a, "stuck_ask")];
    await approve(a, decided, { sub: "olga" });
    await approve(a, claimed);
    const stuck = call(a, "stuck_ask", { approval: { id: claimed } }).catch(() => undefined);
    await until("the change to run", () =>
      journalEntries(a.auditDir).some(({ type }) => type === "intent") ? true : undefined,
    );
    await a.end("SIGKILL");
    await stuck;

    expect((await approve(b, asked)).http).toBe(200);
    expect(outcome(await call(b, "one_yes", { approval: { id: asked } }))).toBe("200 success");
    expect((await approve(b, decided, { sub: "pavel" })).http).toBe(200);
    expect(outcome(await call(b, "two_yes", { approval: { id: decided } }))).toBe("200 success");
    expect(outcome(await call(b, "stuck_ask", { approval: { id: claimed } }))).toBe("409 APPROVAL_CONSUMED");

    const next = await ask(b, "one_yes");
    await a.start();
    expect(auditEntries(a.auditDir).at(-1)).toMatchObject({ error: { code: "OUTCOME_UNKNOWN" } });
    expect((await approve(a, next)).http).toBe(200);
    expect(outcome(await call(a, "one_yes", { approval: { id: next } }))).toBe("200 success");
    expect(outcome(await call(a, "stuck_ask", { approval: { id: claimed } }))).toBe("409 APPROVAL_CONSUMED");
    await expectWhole(a, b);
  });

  test("kill -9 of one: once it is back, its Idempotency-Keys are OUTCOME_UNKNOWN at once, and those of the other go on", async () => {
    const use = (at: EndingWorld, tool: string, key: string) => call(at, tool, { headers: { "idempotency-key": key } });
    const lost = [["stuck_read", "read-1"] as const, ["stuck_write", "write-1"] as const];
    const stuck = [...lost.map(([tool, key]) => use(a, tool, key)), use(b, "stuck_read", "read-2")];
    const ends = Promise.allSettled(stuck);
    await until("all calls to run", () => {
      const isChanging = journalEntries(a.auditDir).some(({ type }) => type === "intent");
      return isChanging && [a, b].every((at) => /^it is stuck$/m.test(at.log())) ? true : undefined;
    });
    await a.end("SIGKILL");
    for (const [tool, key] of lost) expect(outcome(await use(b, tool, key))).toBe("409 CALL_IN_PROGRESS");
    await a.start();
    for (const [tool, key] of lost) {
      for (const at of [a, b]) expect(outcome(await use(at, tool, key))).toBe("502 OUTCOME_UNKNOWN");
    }
    expect(outcome(await use(a, "stuck_read", "read-2"))).toBe("409 CALL_IN_PROGRESS");
    await b.end("SIGKILL");
    await ends;
    await expectWhole(a);
  });

  test.each(["stop", "kill"] as const)(
    "the database unavailable (%s) and back: calls are refused meanwhile, and nothing is lost",
    async (how) => {
      const [pending, approved] = [await ask(a, "two_yes"), await ask(b, "one_yes")];
      await approve(a, pending, { sub: "olga" });
      await approve(b, approved);
      await server[how]();
      const before = runs(a, b);
      for (const at of [a, b]) {
        expect(outcome(await call(at, "asking"))).toBe("503 APPROVAL_UNAVAILABLE");
        expect(outcome(await call(at, "one_yes", { approval: { id: approved } }))).toBe("503 APPROVAL_UNAVAILABLE");
        expect((await approve(at, pending, { sub: "pavel" })).http).toBe(503);
        expect(outcome(await call(at, "hello"))).toBe("200 success");
        expect(await at.ready()).toBe(200);
      }
      expect(runs(a, b)).toBe(before);
      await server.start();
      await until("the services to reach it", async () =>
        (await approve(b, pending, { sub: "pavel" })).http === 200 ? true : undefined,
      );
      await until("the claim", async () =>
        outcome(await call(a, "one_yes", { approval: { id: approved } })) === "200 success" ? true : undefined,
      );
      expect(outcome(await call(b, "two_yes", { approval: { id: pending } }))).toBe("200 success");
      expect(runs(a, b) - before).toBe(2);
      await expectWhole(a, b);
    },
  );

  test("SIGTERM of one while calls wait there: they are asked to come back, and do so at the other", async () => {
    const waiting = Array.from({ length: 5 }, async (_, index) => {
      const token = await agent({ sid: `w-${index}` });
      return { token, answer: await call(a, "one_yes", { token, headers: { prefer: "wait=30" } }) };
    });
    await until("the questions", async () => {
      const { body } = await send(b, "GET /approvals?state=pending", { token: await person() });
      return body.approvals.length === 5 ? true : undefined;
    });
    const ended = a.end("SIGTERM");
    for (const { token, answer } of await Promise.all(waiting)) {
      expect(outcome(answer)).toBe("202 pending");
      const { id } = answer.body.approval;
      expect((await approve(b, id)).http).toBe(200);
      expect(outcome(await call(b, "one_yes", { token, approval: { id } }))).toBe("200 success");
    }
    expect((await ended).code).toBe(0);
  });
});
