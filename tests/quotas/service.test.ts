import { afterEach, expect, test } from "bun:test";
import { defineTool } from "safe-tool-call";
import { z } from "zod";
import { TASKS_EXTENSION } from "../../src/mcp/tasks.ts";
import { McpWorld, TOOLS } from "../mcp/mcp-world.ts";
import type { Loose, Reply } from "../support/asking-service.ts";
import { until } from "../support/until.ts";

const runs: string[] = [];
const COUNTED = defineTool({
  name: "notes_read",
  description: "Reads a note",
  classification: "read",
  cost: 2.5,
  permissions: { required: ["orders:read"] },
  input: z.strictObject({ text: z.string().max(1_000) }),
  output: z.object({ text: z.string() }),
  outputPolicy: { text: "allow" },
  limits: { concurrentCallsMax: 1 },
  async handler({ text }) {
    runs.push(text);
    if (text === "slow") await new Promise((resolve) => setTimeout(resolve, 200));
    if (text === "fails") throw new Error("as it was told");
    return { text };
  },
});

class QuotaService extends McpWorld {
  serve(quotas: readonly Loose[], sections: Readonly<Record<string, unknown>> = {}): Promise<this> {
    return this.start({ tools: [...TOOLS, COUNTED], limits: { quotas }, ...sections });
  }

  async read(text = "a", more: Loose = {}): Promise<Reply> {
    const token = more.token ?? (await this.caller());
    const { headers = {}, ...rest } = more;
    return this.send("POST", "/call", {
      token,
      headers,
      body: { tool: "notes_read", args: { text }, ...rest, token: undefined },
    });
  }

  async refund(cents: number, more: Loose = {}): Promise<Reply> {
    const body = { tool: "orders_refund", args: { order: "ord_1", cents }, ...more };
    return this.send("POST", "/call", { token: await this.caller(), body });
  }

  async operate(method: string, path: string, body?: Loose): Promise<Reply> {
    const permissions = ["quotas:read", "quotas:write", "metrics:read"];
    return this.send(method, path, { token: await this.person({ permissions }), ...(body && { body }) });
  }

  async used(): Promise<readonly Loose[]> {
    return (await this.operate("GET", "/quotas")).body.use;
  }
}

let world: QuotaService;
afterEach(async () => {
  await world.end();
  runs.length = 0;
});

const codeOf = ({ http, body }: Reply) => [http, body.error?.code ?? body.status];
const monthly = (calls: number, more: Loose = {}) => ({
  name: "monthly",
  per: ["caller"],
  calls,
  window: "month",
  ...more,
});

test("a call beyond the quota is refused with the time to wait, and the audit names the quota", async () => {
  world = await new QuotaService().serve([monthly(2)]);
  expect([codeOf(await world.read()), codeOf(await world.read())]).toEqual([
    [200, "success"],
    [200, "success"],
  ]);
  const refused = await world.read();
  expect(codeOf(refused)).toEqual([429, "QUOTA_EXCEEDED"]);
  const { retryAfterMs, retryable, stage, details, message } = refused.body.error;
  expect([stage, retryable]).toEqual(["LIMIT", true]);
  expect(details).toMatchObject({ quota: "monthly", limit: 2, unit: "calls", window: "month" });
  expect(message).toStartWith("The quota monthly of 2 calls is used up for this month.");
  expect(Number(refused.headers.get("retry-after"))).toBe(Math.ceil(retryAfterMs / 1_000));
  expect(Date.parse(details.resetsAt) - Date.now() - retryAfterMs).toBeWithin(-60_000, 60_000);
  const entry = world.entry(refused.body.traceId);
  expect(entry).toMatchObject({
    decision: "DENIED",
    denial: { stage: "LIMIT" },
    error: { code: "QUOTA_EXCEEDED" },
    decisionReasons: [{ point: "quotas", verdict: "deny", reason: "the quota monthly is used up" }],
  });
  expect(runs).toHaveLength(2);
  expect(codeOf(await world.read("a", { token: await world.caller({ sub: "another" }) }))).toEqual([200, "success"]);
});

test("a new session, and another of the caller's tokens, have the same quota", async () => {
  world = await new QuotaService().serve([monthly(1)]);
  await world.read("a", { session: "one" });
  expect(codeOf(await world.read("a", { session: "two" }))).toEqual([429, "QUOTA_EXCEEDED"]);
  const token = await world.caller({ claims: { sid: "fresh" } });
  expect(codeOf(await world.read("a", { token }))).toEqual([429, "QUOTA_EXCEEDED"]);
});

test("refused, pending and replayed calls are not charged, failed ones are", async () => {
  world = await new QuotaService().serve([monthly(100)]);
  await world.read("x".repeat(2_000));
  await world.read("a", { token: await world.caller({ permissions: [] }) });
  expect(codeOf(await world.refund(1))).toEqual([202, "pending"]);
  expect(await world.used()).toEqual([]);
  const headers = { "idempotency-key": "same" };
  for (let index = 0; index < 3; index += 1)
    expect(codeOf(await world.read("once", { headers }))).toEqual([200, "success"]);
  expect(runs).toEqual(["once"]);
  expect((await world.used())[0]).toMatchObject({ used: 1 });
  expect(codeOf(await world.read("fails"))[0]).toBe(502);
  expect((await world.used())[0]).toMatchObject({ used: 2, limit: 100, subject: "agent-7", unit: "calls" });
});

test("a call that finds the tool busy gives back what it has taken", async () => {
  world = await new QuotaService().serve([monthly(10)]);
  const ends = await Promise.all([world.read("slow"), ...Array.from({ length: 5 }, () => world.read("slow"))]);
  const ran = ends.filter(({ http }) => http === 200).length;
  expect(ends.some(({ body }) => body.error?.code === "OVERLOADED")).toBe(true);
  for (let index = ran; index < 10; index += 1) expect(codeOf(await world.read())).toEqual([200, "success"]);
  expect(codeOf(await world.read())).toEqual([429, "QUOTA_EXCEEDED"]);
  expect(runs).toHaveLength(10);
});

test("an approval is not used up by a claim that the quota refuses", async () => {
  world = await new QuotaService().serve([monthly(1)]);
  const asked = await world.refund(5);
  const { id } = asked.body.approval;
  await world.decide(id, "approve");
  await world.read();
  expect(codeOf(await world.refund(5, { approval: { id } }))).toEqual([429, "QUOTA_EXCEEDED"]);
  // The identical call would use the approval without naming it.
  expect(codeOf(await world.refund(5))).toEqual([429, "QUOTA_EXCEEDED"]);
  const state = async () =>
    (await world.send("GET", `/approvals/${id}`, { token: await world.caller() })).body.approval.state;
  expect(await state()).toBe("approved");
  expect(codeOf(await world.operate("POST", "/quotas/reset", { quota: "monthly" }))).toEqual([200, undefined]);
  expect(codeOf(await world.refund(5, { approval: { id } }))).toEqual([200, "success"]);
  expect(await state()).toBe("executed");
  expect((await world.used())[0]).toMatchObject({ used: 1 });
});

test("a call that waits for its approver is refused when the quota is used up meanwhile, and keeps the approval", async () => {
  world = await new QuotaService().serve([monthly(1)]);
  const body = { tool: "orders_refund", args: { order: "ord_1", cents: 9 } };
  const headers = { prefer: "wait=30" };
  const waiting = world.send("POST", "/call", { token: await world.caller(), body, headers });
  const token = await world.person();
  const pending = async () => (await world.send("GET", "/approvals?state=pending", { token })).body.approvals[0]?.id;
  const id: string = await until("the request", pending);
  await world.read();
  await world.decide(id, "approve");
  expect(codeOf(await waiting)).toEqual([429, "QUOTA_EXCEEDED"]);
  const { approval } = (await world.send("GET", `/approvals/${id}`, { token: await world.caller() })).body;
  expect(approval.state).toBe("approved");
});

test("a halted call takes nothing of a quota", async () => {
  world = await new QuotaService().serve([monthly(1)]);
  const token = await world.person({ permissions: ["halts:write"] });
  const { body } = await world.send("POST", "/halts", { token, body: { kind: "all", reason: "drill" } });
  expect(codeOf(await world.read())).toEqual([403, "HALTED"]);
  await world.send("DELETE", `/halts/${body.halt.id}`, { token });
  expect(codeOf(await world.read())).toEqual([200, "success"]);
  expect(codeOf(await world.read())).toEqual([429, "QUOTA_EXCEEDED"]);
});

test("a task whose approved call the quota refuses goes on when the quota is reset", async () => {
  const DECLARED = { "io.modelcontextprotocol/clientCapabilities": { extensions: { [TASKS_EXTENSION]: {} } } };
  world = await new QuotaService().serve([monthly(1)]);
  const { body } = await world.call("orders_refund", { order: "ord_1", cents: 7 }, { _meta: DECLARED });
  const { taskId } = body.result;
  const get = async (): Promise<Loose> => {
    const headers = { "mcp-name": taskId };
    return (await world.modern("tasks/get", { taskId, _meta: DECLARED }, { headers })).body.result;
  };
  await world.read();
  await world.decide(body.result._meta["safe-tool-call/approval"].id, "approve");
  const held = await get();
  expect(held).toMatchObject({ status: "working", pollIntervalMs: 60_000 });
  expect(held.statusMessage).toStartWith("QUOTA_EXCEEDED: The quota monthly of 1 calls is used up");
  await world.operate("POST", "/quotas/reset", { quota: "monthly" });
  expect(await get()).toMatchObject({ status: "completed", result: { structuredContent: { refunded: 7 } } });
});

test("an MCP client is told when it may call again", async () => {
  world = await new QuotaService().serve([monthly(1)]);
  await world.call("orders_find", { order: "ord_1" });
  const { body } = await world.call("orders_find", { order: "ord_1" });
  expect(body.result.isError).toBe(true);
  expect(body.result.content[0].text).toContain("QUOTA_EXCEEDED");
  expect(body.result.content[0].text).toMatch(/Wait \d+ s before you make the same call again/);
});

test("bytes of released answers block the next call, and cost is known before the run", async () => {
  world = await new QuotaService().serve([
    { name: "volume", per: ["caller", "tool"], bytes: 1_000, window: "month" },
    { name: "budget", per: [], cost: 6, window: "month" },
  ]);
  expect(codeOf(await world.read("x".repeat(989)))).toEqual([200, "success"]);
  expect(await world.used()).toMatchObject([
    { quota: "budget", used: 2.5, unit: "cost" },
    { quota: "volume", used: 1_000, unit: "bytes", tool: "notes_read", subject: "agent-7" },
  ]);
  expect((await world.used())[0]).not.toHaveProperty("subject");
  expect((await world.read()).body.error.details.quota).toBe("volume");
  const token = await world.caller({ sub: "another" });
  expect(codeOf(await world.read("b", { token }))).toEqual([200, "success"]);
  const refused = await world.read("b", { token });
  expect(refused.body.error).toMatchObject({ code: "QUOTA_EXCEEDED", details: { quota: "budget" } });
  // Everybody shares this quota: its numbers are not the caller's.
  expect(refused.body.error.details).not.toHaveProperty("limit");
});

test("use survives a restart", async () => {
  world = await new QuotaService().serve([monthly(2)]);
  await world.read();
  await world.stop();
  await world.serve([monthly(2)]);
  expect([codeOf(await world.read())[0], codeOf(await world.read())[0]]).toEqual([200, 429]);
});

test("operators list and reset; both are recorded, and a reset before it is made", async () => {
  world = await new QuotaService().serve([monthly(100, { when: { tools: ["notes_*"] } })]);
  for (const sub of ["ann", "bob", "eve"]) await world.read("a", { token: await world.caller({ sub }) });
  await world.read("a", { token: await world.caller({ sub: "eve" }) });
  const first = await world.operate("GET", "/quotas?limit=2");
  expect(first.body.quotas).toEqual([monthly(100, { when: { tools: ["notes_*"] } })]);
  expect(first.body.use.map(({ subject, used }: Loose) => [subject, used])[0]).toEqual(["eve", 2]);
  const second = await world.operate("GET", `/quotas?limit=2&cursor=${first.body.cursor}`);
  expect(second.body.use).toHaveLength(1);
  expect(second.body.cursor).toBeUndefined();
  const [{ issuer }] = first.body.use;
  const whose = { quota: "monthly", subject: "eve", issuer };
  expect((await world.operate("GET", `/quotas?${new URLSearchParams(whose)}`)).body.use).toHaveLength(1);
  expect((await world.operate("POST", "/quotas/reset", whose)).body).toEqual({ quota: "monthly", reset: 1 });
  expect(world.journal().find(({ type }) => type === "quota.reset")).toMatchObject({
    ...whose,
    sub: "alice",
    iss: "https://people.test",
  });
  expect(world.journal().some(({ type }) => type === "quotas.listed")).toBe(true);
  const uses = (await world.used()).map(({ subject, used }: Loose) => [subject, used]);
  expect(uses.at(-1)).toEqual(["eve", 0]);
});

test.each([
  ["GET", "/quotas?cursor=1.2.3", undefined, 400, "MALFORMED_REQUEST"],
  ["GET", "/quotas?limit=501", undefined, 400, "MALFORMED_REQUEST"],
  ["GET", "/quotas?subject=ann", undefined, 400, "MALFORMED_REQUEST"],
  ["POST", "/quotas/reset", { quota: "nowhere" }, 404, "QUOTA_NOT_FOUND"],
  ["POST", "/quotas/reset", {}, 400, "MALFORMED_REQUEST"],
  ["POST", "/quotas/reset", { quota: "monthly", session: "x" }, 400, "MALFORMED_REQUEST"],
] as const)("%s %s %j is refused", async (method, path, body, http, code) => {
  world = await new QuotaService().serve([monthly(1)]);
  expect(codeOf(await world.operate(method, path, body))).toEqual([http, code]);
  expect(world.journal().some(({ type }) => type === "quota.reset")).toBe(false);
});

test("agents, and operators without the permission, neither see nor reset quotas", async () => {
  world = await new QuotaService().serve([monthly(1)]);
  const permissions = ["orders:read", "quotas:read", "quotas:write"];
  const tokens = [await world.caller({ permissions }), await world.person({ permissions: ["quotas:read"] })];
  const ends = await Promise.all(
    tokens.map((token) => world.send("POST", "/quotas/reset", { token, body: { quota: "monthly" } })),
  );
  expect(ends.map(codeOf)).toEqual([
    [403, "PERMISSION_DENIED"],
    [403, "PERMISSION_DENIED"],
  ]);
});

test("metrics count by the quota's name alone", async () => {
  world = await new QuotaService().serve([monthly(2)]);
  for (let index = 0; index < 3; index += 1) await world.read();
  const token = await world.person({ permissions: ["metrics:read"] });
  const response = await fetch(`${world.url}/metrics`, { headers: { authorization: `Bearer ${token}` } });
  const lines = (await response.text()).split("\n").filter((line) => line.startsWith("stc_quota_"));
  expect(lines).toEqual([
    'stc_quota_charged_total{quota="monthly"} 2',
    'stc_quota_refused_total{quota="monthly"} 1',
    "stc_quota_failures_total 0",
  ]);
});

test("a service without quotas has none to list, and none to reset", async () => {
  world = await new QuotaService().serve([]);
  expect((await world.operate("GET", "/quotas")).body).toEqual({ quotas: [], use: [] });
  expect(codeOf(await world.operate("POST", "/quotas/reset", { quota: "monthly" }))).toEqual([404, "QUOTA_NOT_FOUND"]);
});
