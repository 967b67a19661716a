import { Database } from "bun:sqlite";
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { defineTool, SafeToolCall } from "safe-tool-call";
import { z } from "zod";
import type { PolicyPoint } from "../../src/core/policy-point.ts";
import { MODULES } from "../../src/modules.ts";
import { AskingService, type Loose, type Reply } from "../support/asking-service.ts";

const ran: string[] = [];
const base = {
  description: "Does something",
  permissions: { required: ["deeds:do"] },
  input: z.strictObject({ id: z.string().regex(/^[a-z]{1,20}$/), size: z.int().min(0).max(1_000).default(1) }),
  output: z.object({ id: z.string() }),
  outputPolicy: { id: "allow" },
} as const;
const running = (name: string) => ({
  name,
  handler: ({ id }: { readonly id: string }) => {
    ran.push(name);
    return { id };
  },
});
const TOOLS = [
  defineTool({ ...base, ...running("look"), classification: "read" }),
  defineTool({ ...base, ...running("change"), classification: "write", category: "write" }),
  defineTool({ ...base, ...running("destroy"), classification: "destructive", category: "write" }),
  defineTool({
    ...base,
    ...running("free"),
    classification: "write",
    category: "network",
    approval: { needsApproval: ({ size }: { readonly size: number }) => size > 10 },
    permissions: {
      required: ["deeds:do"],
      elevatedIf: { when: ({ size }: { readonly size: number }) => size > 100, required: ["deeds:large"] },
    },
  }),
];

/** Denies one id, and another one with a code that an overload has, too. */
const picky: PolicyPoint = {
  name: "picky",
  stage: "elevation",
  decide({ input }) {
    const { id } = input as { readonly id: string };
    if (id === "never") return { verdict: "deny", reasons: ["secret reason"], message: "Not this one." };
    if (id === "later") return { verdict: "deny", reasons: ["later"], code: "RATE_LIMITED", retryAfterMs: 5_000 };
    return id === "watched" ? { verdict: "requireApproval", reasons: ["look at it"] } : { verdict: "allow" };
  },
};

class World extends AskingService {
  async start(): Promise<void> {
    const approvals = { store: "sqlite://./approvals.sqlite", rules: [RULE] };
    const modules = { ...MODULES, policyPoints: { ...MODULES.policyPoints, others: [picky] } };
    await this.run({ tools: TOOLS, approvals }, "", modules);
  }

  async call(tool: string, args: object, { headers = {}, ...more }: Loose = {}): Promise<Reply> {
    const { token = await this.agent(), ...rest } = more;
    return this.send("POST", "/call", { token, headers, body: { tool, args, ...rest } });
  }

  dryRun(tool: string, args: object, more: Loose = {}): Promise<Reply> {
    return this.call(tool, args, { ...more, dryRun: true });
  }
}

const RULE = {
  name: "no-forbidden",
  when: { args: { id: "forbidden" } },
  verdict: "deny",
  examples: { matches: [{ id: "forbidden" }], misses: [{ id: "fine" }] },
};

const world = new World();
beforeAll(() => world.start());
afterAll(() => world.end());

/** Counts all rows of all tables of the approvals' database. */
function rows(): Readonly<Record<string, number>> {
  const database = new Database(join(world.folder, "approvals.sqlite"), { readonly: true });
  const names = database.query("SELECT name FROM sqlite_schema WHERE type = 'table'").all() as { name: string }[];
  const counts = names.map(({ name }) => {
    const { count } = database.query(`SELECT COUNT(*) AS count FROM "${name}"`).get() as { count: number };
    return [name, count] as const;
  });
  database.close();
  return Object.fromEntries(counts);
}

test.each([
  ["look", { id: "a" }, "allow"],
  ["change", { id: "a" }, "ask"],
  ["destroy", { id: "a" }, "ask"],
  ["free", { id: "a" }, "allow"],
  ["free", { id: "a", size: 11 }, "ask"],
  ["look", { id: "watched" }, "ask"],
])("%s with %p: the verdict is %s, and nothing runs or is requested", async (tool, args, verdict) => {
  const before = [rows(), ran.length];
  const { http, body } = await world.dryRun(tool, args);
  expect({ http, body }).toEqual({ http: 200, body: { status: "dryRun", tool, verdict, traceId: body.traceId } });
  expect([rows(), ran.length]).toEqual(before);
  expect(world.entry(body.traceId)).toMatchObject({
    decision: "DRY_RUN",
    dryRun: true,
    ...(verdict === "ask" && { error: { code: "APPROVAL_REQUIRED" } }),
  });
});

describe("a dry run that is denied", () => {
  test.each([
    ["nobody_knows_it", { id: "a" }, {}],
    ["look", { id: "NOT VALID" }, {}],
    ["look", {}, {}],
    ["free", { id: "a", size: 101 }, {}],
    ["look", { id: "never" }, {}],
    ["look", { id: "later" }, {}],
    ["look", { id: "forbidden" }, {}],
    ["look", { id: "a" }, { permissions: ["other:thing"] }],
  ])("has exactly the refusal of the call: %s %p", async (tool, args, order) => {
    const token = await world.agent(order);
    const refused = await world.call(tool, args, { token });
    const { http, body } = await world.dryRun(tool, args, { token });
    expect(http).toBe(200);
    const { error } = refused.body;
    expect(body).toEqual({ status: "dryRun", tool, verdict: "deny", error, traceId: body.traceId });
    expect(JSON.stringify(body)).not.toContain("secret reason");
    const entry = world.entry(body.traceId);
    const { decisionReasons, denial } = world.entry(refused.body.traceId) ?? {};
    expect(entry).toMatchObject({ decision: "DRY_RUN", dryRun: true, error: { code: error.code }, denial });
    expect(entry?.decisionReasons).toEqual(decisionReasons);
  });

  test("of a call that a person has denied before has that denial", async () => {
    const asked = await world.call("destroy", { id: "denied" });
    await world.decide(asked.body.approval.id, "deny");
    const refused = await world.call("destroy", { id: "denied" });
    const { body } = await world.dryRun("destroy", { id: "denied" });
    expect(body.verdict).toBe("deny");
    expect(body.error).toMatchObject({ code: "APPROVAL_DENIED", details: refused.body.error.details });
  });
});

test("a call that may use an approval would run, and the dry run leaves the approval", async () => {
  const asked = await world.call("destroy", { id: "approved" });
  expect((await world.dryRun("destroy", { id: "approved" })).body.verdict).toBe("ask");
  await world.decide(asked.body.approval.id, "approve");
  expect((await world.dryRun("destroy", { id: "approved" })).body.verdict).toBe("allow");
  expect((await world.dryRun("destroy", { id: "approved" })).body.verdict).toBe("allow");
  expect((await world.call("destroy", { id: "approved" })).body.status).toBe("success");
  expect((await world.dryRun("destroy", { id: "approved" })).body.verdict).toBe("ask");
});

test.each([
  ["an approval", { approval: { id: "a-1" } }],
  ["an approval", { approval: "new" }],
  ["an Idempotency-Key", { headers: { "idempotency-key": "k-1" } }],
])("a dry run with %s is refused as malformed", async (named, more) => {
  const { http, body } = await world.dryRun("look", { id: "a" }, more);
  expect([http, body.error.code]).toEqual([400, "MALFORMED_REQUEST"]);
  expect(body.error.message).toContain(named);
  expect(world.entry(body.traceId)).toMatchObject({ decision: "DENIED", dryRun: true });
});

test("a dry run that is not true or false is refused, and so is one without a valid token", async () => {
  const odd = await world.call("look", { id: "a" }, { dryRun: "yes" });
  expect([odd.http, odd.body.error.code]).toEqual([400, "MALFORMED_REQUEST"]);
  const wrong = await world.dryRun("look", { id: "a" }, { token: "no.to.ken" });
  expect([wrong.http, wrong.body.error.code]).toEqual([401, "UNAUTHENTICATED"]);
  const plain = await world.call("look", { id: "a" }, { dryRun: false });
  expect(plain.body.status).toBe("success");
});

test("a dry run does not wait for anybody", async () => {
  const { headers, body } = await world.dryRun("destroy", { id: "patient" }, { headers: { prefer: "wait=30" } });
  expect([body.verdict, headers.get("preference-applied")]).toEqual(["ask", null]);
});

test("the report counts the dry runs that would have asked a person", async () => {
  const token = await world.person();
  const before = await world.send("GET", "/approvals/report", { token });
  for (let count = 0; count < 3; count += 1) await world.dryRun("destroy", { id: "counted" });
  const after = await world.send("GET", "/approvals/report", { token });
  const count = ({ body }: Reply): number =>
    body.report.dryRuns.find(({ tool }: Loose) => tool === "destroy")?.dryRuns ?? 0;
  expect(count(after) - count(before)).toBe(3);
});

test("metrics count dry runs apart from calls", async () => {
  await world.dryRun("look", { id: "measured" });
  const token = await world.issuers.token({ kind: "operator", sub: "alice", permissions: ["metrics:read"] });
  const response = await fetch(`${world.url}/metrics`, { headers: { authorization: `Bearer ${token}` } });
  const text = await response.text();
  expect(text).toMatch(/stc_calls_total\{tool="look",decision="DRY_RUN",code="OK"\} [1-9]/);
  expect(text).toMatch(/stc_calls_total\{tool="look",decision="ALLOWED",code="OK"\} [1-9]/);
});

describe("over MCP", () => {
  async function rpc(params: object): Promise<Loose> {
    const { body } = await world.send("POST", "/mcp", {
      token: await world.agent(),
      headers: { accept: "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18" },
      body: { jsonrpc: "2.0", id: 1, method: "tools/call", params },
    });
    return body;
  }
  const META = "safe-tool-call/dryRun";

  test.each([
    ["look", "allow"],
    ["destroy", "ask"],
  ])("%s: %s", async (name, verdict) => {
    const before = ran.length;
    const { result } = await rpc({ name, arguments: { id: "mcp" }, _meta: { [META]: true } });
    expect(result._meta[META]).toMatchObject({ verdict });
    expect(result.isError).toBe(true);
    expect(result.content[0].text).toStartWith("DRY_RUN: Nothing has run.");
    expect(ran).toHaveLength(before);
  });

  test("a refusal is in the verdict, a tool without permission stays unknown, and another value is refused", async () => {
    const { result } = await rpc({ name: "look", arguments: { id: "never" }, _meta: { [META]: true } });
    expect(result._meta[META]).toMatchObject({ verdict: "deny", error: { code: "POLICY_DENIED" } });
    const unknown = await rpc({ name: "nobody_knows_it", arguments: {}, _meta: { [META]: true } });
    expect(unknown.error.message).toContain("Unknown tool");
    const odd = await rpc({ name: "look", arguments: { id: "a" }, _meta: { [META]: 1 } });
    expect(odd.error.code).toBe(-32_602);
  });
});

test("the library judges calls and asks no callback", async () => {
  let asked = 0;
  const stc = SafeToolCall.create({
    tools: TOOLS,
    jwt: { issuers: world.issuers.profiles() } as never,
    audit: { dir: join(world.folder, "library-audit") },
    onToolApprove: () => {
      asked += 1;
      return true;
    },
  });
  const token = await world.agent();
  const before = ran.length;
  const judged = await stc.call("destroy", { id: "a" }, token, { dryRun: true });
  expect(judged).toMatchObject({ status: "dryRun", verdict: "ask" });
  expect([asked, ran.length]).toEqual([0, before]);
  expect(await stc.call("look", { id: "a" }, token, { dryRun: true })).toMatchObject({ verdict: "allow" });
  expect(await stc.call("look", { id: "a" }, token, { dryRun: 1 } as never)).toMatchObject({ status: "denied" });
  expect(await stc.call("look", { id: "a" }, token)).toMatchObject({ status: "success" });
  await stc.close();
});
