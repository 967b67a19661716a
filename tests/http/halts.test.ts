import { Database } from "bun:sqlite";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import type { z } from "zod";
import type { ApprovalStore } from "../../src/database/dialect.ts";
import { sqliteStore } from "../../src/database/sqlite.ts";
import { endpoints } from "../../src/http/routes/halts.ts";
import { MODULES } from "../../src/modules.ts";
import { HaltService } from "../support/halt-service.ts";
import { until } from "../support/until.ts";

let service: HaltService;
beforeAll(async () => {
  service = await new HaltService().start();
});
afterEach(async () => {
  for (const { id } of (await service.halts()).halts) await service.resume(id);
  service.finish();
  service.begun.length = 0;
});
afterAll(() => service.end());

const codeOf = ({ body }: { readonly body: { readonly error?: { readonly code: string }; readonly status: string } }) =>
  body.error?.code ?? body.status;

const schemaOf = (method: string, status: number) =>
  endpoints.find((each) => each.method === method)?.responses?.[status]?.schema as z.ZodType;

/** A call that waits for an approver; resolves once it waits. */
async function held(tool = "do_write", headers: Readonly<Record<string, string>> = {}) {
  const before = service.journal().length;
  const answer = service.call(tool, { headers: { prefer: "wait=60", ...headers } });
  const id = await until("a request", async () => {
    const asked = service.journal().findLast(({ type }) => type === "approval.asked");
    return service.journal().length > before ? (asked?.["id"] as string | undefined) : undefined;
  });
  return { answer, id };
}

describe("a halt", () => {
  test("stops calls at once, says so without its reason, names itself in the audit, and is journaled", async () => {
    expect(codeOf(await service.call("do_read"))).toBe("success");
    const set = await service.halt({ kind: "all", reason: "incident 4711" });
    expect(set.http).toBe(201);
    expect(set.body.halt).toMatchObject({ kind: "all", reason: "incident 4711", cancelRunning: false });
    const { http, body } = await service.call("do_read");
    expect([http, body.status, body.error]).toEqual([
      403,
      "denied",
      {
        code: "HALTED",
        stage: "PERMISSION",
        message: "The service's operators have halted this call. Do not repeat it.",
        retryable: false,
      },
    ]);
    expect(JSON.stringify(body)).not.toContain("incident");
    const id = set.body.halt.id;
    const entry = service.entry(body.traceId);
    expect(entry).toMatchObject({ decision: "DENIED", error: { code: "HALTED" }, tool: { name: "do_read" } });
    expect(JSON.stringify(entry?.decisionReasons)).toContain(`halt ${id}`);
    expect(service.journal().findLast(({ type }) => type === "halt.set")).toMatchObject({
      ...{ id, kind: "all", reason: "incident 4711" },
      setBy: { subject: "olga" },
    });
    expect((await service.resume(id)).body.halt).toMatchObject({ id, lifted: true });
    expect(codeOf(await service.call("do_read"))).toBe("success");
    expect(service.journal().findLast(({ type }) => type === "halt.lifted")).toMatchObject({
      id,
      liftedBy: { subject: "olga" },
    });
    for (const unknown of [id, crypto.randomUUID(), "no-id"]) {
      const { http, body } = await service.resume(unknown);
      expect([http, body.error.code]).toEqual([404, "HALT_NOT_FOUND"]);
    }
  });

  test.each([
    { kind: "all" },
    { kind: "tool", tool: "do_reads" },
    { kind: "system", system: "inline", forSeconds: 60 },
    { kind: "caller", issuer: "https://issuer.example", subject: "agent-7" },
    { kind: "session", session: "s-1", cancelRunning: true },
  ])("%j is answered as the endpoints' schemas say, with nothing else", async (target) => {
    const set = await service.halt(target);
    const listed = await service.halts();
    const lifted = await service.resume(set.body.halt.id);
    expect([set.http, lifted.http]).toEqual([201, 200]);
    expect(schemaOf("POST", 201).parse(set.body)).toEqual(set.body);
    expect(schemaOf("GET", 200).parse(listed)).toEqual(listed);
    expect(schemaOf("DELETE", 200).parse(lifted.body)).toEqual(lifted.body);
    expect(listed.halts).toEqual([set.body.halt]);
    expect(lifted.body.halt).toEqual({ ...set.body.halt, lifted: true });
  });

  test("tells the agent until when, and ends then", async () => {
    const { body } = await service.halt({ kind: "tool", tool: "do_read", forSeconds: 1 });
    const { error } = (await service.call("do_read")).body;
    expect(error).toMatchObject({ code: "HALTED", details: { until: body.halt.until } });
    expect(error.retryAfterMs).toBeGreaterThan(0);
    expect(error.retryAfterMs).toBeLessThanOrEqual(1_000);
    expect(codeOf(await service.call("free_write"))).toBe("success");
    await until("the end of the halt", async () => ((await service.call("do_read")).http === 200 ? true : undefined));
    await until("its line", async () =>
      service.journal().find(({ type, id }) => type === "halt.expired" && id === body.halt.id),
    );
    expect((await service.halts()).halts).toEqual([]);
  });

  test.each([
    [{ kind: "tool", tool: "do_read" }, ["do_read"]],
    [{ kind: "tool", tool: "do_reads" }, []],
    [{ kind: "system", system: "inline" }, ["do_read", "free_write"]],
    [{ kind: "session", session: "s-1" }, ["s-1"]],
    [{ kind: "session", session: "sid:s-1" }, []],
  ] as const)("%j stops exactly the calls that it names", async (target, stopped) => {
    const { body } = await service.halt(target);
    const calls = {
      do_read: await service.call("do_read"),
      free_write: await service.call("free_write"),
      "s-1": await service.call("do_read", { session: "s-1" }),
    };
    const halted = Object.entries(calls).flatMap(([name, reply]) => (codeOf(reply) === "HALTED" ? [name] : []));
    const all =
      target.kind === "session" ? stopped : [...stopped, ...(stopped.includes("do_read" as never) ? ["s-1"] : [])];
    expect(halted).toEqual([...all]);
    expect(body.notes).toEqual(
      target.kind === "tool" && stopped.length === 0
        ? ["no tool of this service is called do_reads; did you mean do_read?: the halt is in force all the same"]
        : [],
    );
  });

  test("of a caller stops its own calls and those in which it is an actor, and nobody else's", async () => {
    const issuer = service.issuers.profiles().find((profile) => profile["operators"] !== true)?.["issuer"] ?? "";
    await service.halt({ kind: "caller", issuer, subject: "agent-7" });
    expect(codeOf(await service.call("do_read"))).toBe("HALTED");
    const other = await service.agent({ sub: "agent-8" });
    expect(codeOf(await service.call("do_read", { token: other }))).toBe("success");
    const acting = await service.agent({
      sub: "person",
      claims: { act: { sub: "x", act: { sub: "agent-7" } } },
    } as never);
    expect(codeOf(await service.call("do_read", { token: acting }))).toBe("HALTED");
  });

  test("of a token's session stops it whatever session the call names, or none", async () => {
    await service.halt({ kind: "session", session: "sid:abc" });
    const token = await service.agent({ claims: { sid: "abc" } } as never);
    expect(codeOf(await service.call("do_read", { token }))).toBe("HALTED");
    expect(codeOf(await service.call("do_read", { token, session: "other" }))).toBe("HALTED");
    expect(codeOf(await service.call("do_read"))).toBe("success");
  });

  test("survives a restart, and is in force for the first call", async () => {
    await service.halt({ kind: "all" });
    await service.stop();
    await service.start();
    expect(codeOf(await service.call("do_read"))).toBe("HALTED");
    expect((await service.halts()).halts).toHaveLength(1);
  });

  test("comes before arguments, and does not stop what is not a call", async () => {
    await service.halt({ kind: "all" });
    expect(codeOf(await service.call("do_read", { what: "x".repeat(50) }))).toBe("HALTED");
    expect(codeOf(await service.call("no_tool"))).toBe("TOOL_NOT_FOUND");
    expect((await service.send("GET", "/tools", { token: await service.agent() })).http).toBe(200);
    expect((await service.halts()).halts).toHaveLength(1);
  });
});

describe("operators", () => {
  test("without the permission, and agents, cannot halt, lift or list", async () => {
    const { body } = await service.halt({ kind: "all" });
    const path = `/halts/${body.halt.id}`;
    for (const token of [await service.agent({ permissions: ["halts:write", "halts:read"] }), await service.person()]) {
      expect((await service.send("POST", "/halts", { token, body: { kind: "all", reason: "mine" } })).http).toBe(403);
      expect((await service.send("DELETE", path, { token })).http).toBe(403);
      expect((await service.send("GET", "/halts", { token })).http).toBe(403);
    }
    expect((await service.halts()).halts).toHaveLength(1);
  });

  test.each([
    [{}, "kind"],
    [{ kind: "all", reason: undefined }, "reason"],
    [{ kind: "all", reason: "  " }, "reason"],
    [{ kind: "tool" }, "tool"],
    [{ kind: "tool", tool: "" }, "tool"],
    [{ kind: "tool", tool: "a\0b" }, "tool"],
    [{ kind: "caller", subject: "x" }, "issuer"],
    [{ kind: "all", until: "tomorrow" }, "until"],
    [{ kind: "all", until: "2020-01-01T00:00:00Z" }, "until"],
    [{ kind: "all", until: "2100-01-01T00:00:00Z", forSeconds: 5 }, "until, forSeconds"],
    [{ kind: "all", cancel: true }, "cancel"],
    [{ kind: "session", session: "a b" }, "session"],
    [{ kind: "all", tenant: "acme" }, "tenant: only operators of a service that has tenants"],
  ])("%j is refused, and names %s", async (body, named) => {
    const { http, body: answer } = await service.halt(body);
    expect([http, answer.error.code]).toEqual([400, "MALFORMED_REQUEST"]);
    expect(JSON.stringify(answer.error)).toContain(named);
    expect((await service.halts()).halts).toEqual([]);
  });

  test("name an issuer with any characters, and it is compared exactly", async () => {
    const issuer = `https://idp.example/%00"'\\\u{1f600}?a=b#c`;
    const { body } = await service.halt({ kind: "caller", issuer, subject: "agent-7" });
    expect(body.halt).toMatchObject({ issuer, subject: "agent-7" });
    expect((await service.halts()).halts[0]).toMatchObject({ issuer });
    expect(codeOf(await service.call("do_read"))).toBe("success");
  });

  test("do not write secrets into the audit with a reason", async () => {
    const { body } = await service.halt({ kind: "all", reason: "leaked ghp_0123456789abcdefghijklmnopqrstuvwxyzAB" });
    expect(JSON.stringify([body, service.journal(), await service.halts()])).not.toContain("ghp_0123456789abc");
  });

  test("see the state in /readyz and in the metrics", async () => {
    await service.halt({ kind: "tool", tool: "do_read" });
    const token = await service.halter();
    expect((await service.send("GET", "/readyz", { token })).body.halts).toEqual({
      scope: "shared",
      status: "ok",
      active: 1,
    });
    const metrics = await fetch(`${service.url}/metrics`, { headers: { authorization: `Bearer ${token}` } });
    const text = await metrics.text();
    expect(text).toContain("stc_halts_active 1");
    expect(text).toContain("stc_halts_known 1");
  });
});

describe("a call that waits for an approver", () => {
  test("ends with HALTED; its request stays and is claimed after the halt", async () => {
    const { answer, id } = await held();
    const { body } = await service.halt({ kind: "tool", tool: "do_write" });
    expect(codeOf(await answer)).toBe("HALTED");
    expect((await service.decide(id, "approve")).http).toBe(200);
    expect(codeOf(await service.call("do_write", { approval: { id } }))).toBe("HALTED");
    // Neither does the same call attach to its approval.
    expect(codeOf(await service.call("do_write"))).toBe("HALTED");
    expect(service.begun).toEqual([]);
    await service.resume(body.halt.id);
    expect(codeOf(await service.call("do_write", { approval: { id } }))).toBe("success");
    expect(service.begun).toEqual(["a"]);
  });

  test("goes on when the halt is of something else", async () => {
    const { answer, id } = await held();
    await service.halt({ kind: "tool", tool: "do_read" });
    await service.decide(id, "approve");
    expect(codeOf(await answer)).toBe("success");
  });

  test("with an Idempotency-Key finds its approval after the halt, and a repetition of a finished call is refused during one", async () => {
    const headers = { "idempotency-key": "k-1" };
    const { answer, id } = await held("do_write", headers);
    const { body } = await service.halt({ kind: "all" });
    expect(codeOf(await answer)).toBe("HALTED");
    await service.decide(id, "approve");
    await service.resume(body.halt.id);
    expect(codeOf(await service.call("do_write", { headers }))).toBe("success");
    const again = await service.halt({ kind: "all" });
    expect(codeOf(await service.call("do_write", { headers }))).toBe("HALTED");
    await service.resume(again.body.halt.id);
    expect(codeOf(await service.call("do_write", { headers }))).toBe("success");
    expect(service.begun).toEqual(["a"]);
  });
});

describe("a running call", () => {
  test("ends as it would without --cancel-running", async () => {
    const running = service.call("slow_write");
    await until("the run", () => (service.begun.length > 0 ? true : undefined));
    await service.halt({ kind: "all" });
    service.finish();
    expect(codeOf(await running)).toBe("success");
  });

  test.each([
    ["slow_read", "HALTED", 403],
    ["slow_write", "OUTCOME_UNKNOWN", 502],
  ] as const)("%s ends as %s with --cancel-running", async (tool, code, http) => {
    const running = service.call(tool);
    await until("the run", () => (service.begun.length > 0 ? true : undefined));
    const { body } = await service.halt({ kind: "tool", tool, cancelRunning: true });
    const reply = await running;
    expect([codeOf(reply), reply.http]).toEqual([code, http]);
    const entry = service.entry(reply.body.traceId);
    expect(JSON.stringify(entry?.decisionReasons)).toContain(body.halt.id);
  });

  test("of another tool goes on", async () => {
    const running = service.call("slow_write");
    await until("the run", () => (service.begun.length > 0 ? true : undefined));
    await service.halt({ kind: "tool", tool: "slow_read", cancelRunning: true });
    service.finish();
    expect(codeOf(await running)).toBe("success");
  });
});

describe("a halt between the claim of an approval and the run", () => {
  let own: HaltService;
  /** Called after a claim is committed, before the call learns of it. */
  let afterClaim: () => Promise<unknown> = async () => {};

  const hooked: ApprovalStore = {
    ...sqliteStore,
    accepts: /^hooked:/,
    async open(url, parts) {
      const dialect = await sqliteStore.open(url.replace("hooked:", "sqlite:"), parts);
      return {
        ...dialect,
        async begin(kind, work) {
          const result = await dialect.begin(kind, work);
          if (JSON.stringify(result)?.includes('"outcome":"claimed"') === true) await afterClaim();
          return result;
        },
      };
    },
    inspect: (url, parts) => sqliteStore.inspect(url.replace("hooked:", "sqlite:"), parts),
    stateTransactions: (url, parts) => sqliteStore.stateTransactions(url.replace("hooked:", "sqlite:"), parts),
  };

  beforeAll(async () => {
    own = new HaltService();
    const approvals = { store: "hooked://./approvals.sqlite" };
    await own.start({ approvals }, { ...MODULES, approvalStores: [hooked] });
  });
  afterAll(() => own.end());

  test("refuses the call before it runs, and the approval is used after the halt, once", async () => {
    const asked = await own.call("do_write");
    const { id } = asked.body.approval;
    await own.decide(id, "approve");
    let haltId = "";
    afterClaim = async () => {
      afterClaim = async () => {};
      haltId = (await own.halt({ kind: "tool", tool: "do_write" })).body.halt.id;
    };
    const refused = await own.call("do_write", { approval: { id } });
    expect([codeOf(refused), own.begun]).toEqual(["HALTED", []]);
    expect(own.journal().findLast(({ type }) => type === "approval.settled")).toMatchObject({ id, outcome: "unused" });
    await own.resume(haltId);
    expect(codeOf(await own.call("do_write", { approval: { id } }))).toBe("success");
    expect(codeOf(await own.call("do_write", { approval: { id } }))).toBe("APPROVAL_CONSUMED");
    expect(own.begun).toEqual(["a"]);
  });

  test("with an Idempotency-Key, the same key uses the approval after the halt", async () => {
    const headers = { "idempotency-key": "k-2" };
    const asked = await own.call("do_write", { what: "b", headers });
    await own.decide(asked.body.approval.id, "approve");
    let haltId = "";
    afterClaim = async () => {
      afterClaim = async () => {};
      haltId = (await own.halt({ kind: "all", cancelRunning: true })).body.halt.id;
    };
    expect(codeOf(await own.call("do_write", { what: "b", headers }))).toBe("HALTED");
    await own.resume(haltId);
    expect(codeOf(await own.call("do_write", { what: "b", headers }))).toBe("success");
    expect(own.begun).toEqual(["a", "b"]);
  });
});

test("a caller without the permission does not learn that a call is halted", async () => {
  const { body } = await service.halt({ kind: "all", reason: "incident 4711" });
  const token = await service.agent({ permissions: [] });
  const refused = await service.call("do_read", { token });
  expect([refused.http, codeOf(refused)]).toEqual([403, "PERMISSION_DENIED"]);
  expect(service.entry(refused.body.traceId)).toMatchObject({ error: { code: "PERMISSION_DENIED" } });
  expect(JSON.stringify(service.entry(refused.body.traceId))).not.toContain(body.halt.id);
  expect(codeOf(await service.call("do_read"))).toBe("HALTED");
  await service.resume(body.halt.id);
  expect(codeOf(await service.call("do_read", { token }))).toBe("PERMISSION_DENIED");
});

test.each(["do_read", "do_write"])(
  "%s that was not run because nothing could be looked up may be repeated",
  async (tool) => {
    const limited = await new HaltService().start({
      limits: { quotas: [{ name: "daily", per: ["caller"], calls: 9, window: "day" }] },
      approvals: { store: "sqlite://./approvals.sqlite", mode: "yolo" },
    });
    try {
      const database = new Database(join(limited.folder, "approvals.sqlite"));
      database.run("DROP TABLE policy_quota_use");
      database.close();
      const { http, body } = await limited.call(tool);
      expect([http, body.error]).toMatchObject([
        503,
        { code: "POLICY_STATE_UNAVAILABLE", retryable: true, details: { outcome: "not_run" } },
      ]);
      expect(limited.entry(body.traceId)).toMatchObject({
        decision: "ERROR",
        error: { code: "POLICY_STATE_UNAVAILABLE" },
      });
      expect(limited.begun).toEqual([]);
    } finally {
      await limited.end();
    }
  },
);
