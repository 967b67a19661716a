import { afterAll, beforeAll, expect, test } from "bun:test";
import { defineTool } from "safe-tool-call";
import { z } from "zod";
import type { PolicyPoint } from "../../../src/core/policy-point.ts";
import { MODULES } from "../../../src/modules.ts";
import { AskingService, type Loose, type Reply } from "../../support/asking-service.ts";

let planned = 0;
const base = {
  description: "Does something",
  permissions: {
    required: ["deeds:do"],
    elevatedIf: { when: ({ size }: { readonly size: number }) => size > 100, required: ["deeds:large"] },
  },
  input: z.strictObject({ id: z.string(), size: z.int().min(0).max(1_000).default(1) }),
  output: z.object({ id: z.string() }),
  outputPolicy: { id: "allow" },
  handler: ({ id }: { readonly id: string }) => {
    planned += 1;
    return { id };
  },
} as const;
const TOOLS = [
  defineTool({ ...base, name: "deeds_read", classification: "read" }),
  defineTool({ ...base, name: "deeds_write", classification: "write", category: "write" }),
  defineTool({ ...base, name: "deeds_destroy", classification: "destructive", category: "write" }),
];
const picky: PolicyPoint = {
  name: "picky",
  stage: "elevation",
  decide: ({ input }) =>
    (input as { readonly id: string }).id === "never"
      ? { verdict: "deny", reasons: ["it is never allowed"] }
      : { verdict: "allow" },
};

class World extends AskingService {
  async start(): Promise<void> {
    const policies = [
      {
        name: "two-people",
        when: { tools: ["deeds_destroy"] },
        require: { deciders: { permissions: ["deeds:approve"] }, count: 2 },
      },
    ];
    const rules = [{ name: "frozen", when: { args: { id: "frozen" } }, verdict: "deny" }];
    const approvals = { store: "sqlite://./approvals.sqlite", policies, rules };
    const modules = { ...MODULES, policyPoints: { ...MODULES.policyPoints, others: [picky] } };
    const issuer = this.issuers.profiles()[0]?.["issuer"];
    const bindings = [{ role: "doer", issuer, subject: "agent-bound" }];
    await this.run({ tools: TOOLS, approvals, roles: { doer: { permissions: ["deeds:do"] } }, bindings }, "", modules);
  }

  async explain(tool: string, args: object, more: Loose = {}): Promise<Reply> {
    const token = await this.person({ permissions: ["policy:explain"] });
    const body = { tool, args, sub: "agent-7", permissions: ["deeds:do"], ...more };
    return this.send("POST", "/explain", { token, body });
  }
}

const world = new World();
beforeAll(() => world.start());
afterAll(() => world.end());

test.each([
  ["deeds_read", { id: "a" }, {}, "allow", undefined, []],
  ["deeds_read", { id: "a" }, { permissions: ["other"] }, "deny", "PERMISSION_DENIED", [["permissions", ["deeds:do"]]]],
  ["deeds_read", { id: "a", size: 101 }, {}, "deny", "PERMISSION_DENIED", [["permissions", ["deeds:large"]]]],
  ["deeds_read", { id: "a", size: 101 }, { permissions: ["deeds:do", "deeds:large"] }, "allow", undefined, []],
  ["deeds_read", { size: -1 }, {}, "deny", "INVALID_INPUT", [["arguments", []]]],
  ["deeds_reed", {}, {}, "deny", "TOOL_NOT_FOUND", [["tool", ["deeds_read"]]]],
  ["deeds_read", { id: "never" }, {}, "deny", "POLICY_DENIED", [["points", ["picky"]]]],
  ["deeds_read", { id: "frozen" }, {}, "deny", "POLICY_DENIED", [["rules", ["frozen"]]]],
  ["deeds_write", { id: "a" }, {}, "ask", undefined, [["approval", ["autoEdit", "yolo"]]]],
  ["deeds_write", { id: "a" }, { mode: "autoEdit" }, "allow", undefined, []],
  [
    "deeds_destroy",
    { id: "a" },
    { mode: "yolo" },
    "ask",
    undefined,
    [
      ["manifest", ["floor:destructive"]],
      ["manifest", ["floor:risk:high"]],
    ],
  ],
])("%s %j %j: %s", async (tool, args, more, verdict, code, changes) => {
  const { http, body } = await world.explain(tool, args, more);
  expect({ http, verdict: body.verdict, code: body.code }).toEqual({ http: 200, verdict, code });
  const found = body.changes.map(({ kind, names }: Loose) => [kind, names]);
  expect(found).toEqual(changes.slice(0, found.length));
  expect(found.length).toBeGreaterThanOrEqual(Math.min(changes.length, 1));
});

test("a dry run gives the agent the verdict that the operator is told", async () => {
  for (const [tool, args] of [
    ["deeds_read", { id: "a" }],
    ["deeds_read", { id: "never" }],
    ["deeds_write", { id: "a" }],
    ["deeds_destroy", { id: "a", size: 200 }],
  ] as const) {
    const explained = await world.explain(tool, args);
    const token = await world.agent();
    const judged = await world.send("POST", "/call", { token, body: { tool, args, dryRun: true } });
    expect([judged.body.verdict, judged.body.error?.code]).toEqual([explained.body.verdict, explained.body.code]);
  }
});

test("every point is named in its order, with the approval policy, the plan and the configuration", async () => {
  const before = planned;
  const { body } = await world.explain("deeds_destroy", { id: "a" });
  expect(body.statements.map(({ stage, point, verdict }: Loose) => [stage, point, verdict])).toEqual([
    ["PERMISSION", "permissions", "allow"],
    ["PERMISSION", "elevation", "allow"],
    ["PERMISSION", "picky", "allow"],
    ["APPROVAL", "risk", "ask"],
  ]);
  expect(body.approvalPolicies).toMatchObject([
    { name: "two-people", stages: [{ count: 2, deciders: { permissions: ["deeds:approve"] } }] },
  ]);
  expect(body.plan).toMatchObject({ tool: "deeds_destroy", arguments: { id: "a", size: 1 } });
  expect(body.risk).toBe("high");
  expect(planned).toBe(before);
  const asked = await world.send("POST", "/call", {
    token: await world.agent(),
    body: { tool: "deeds_destroy", args: { id: "a" } },
  });
  expect(world.entry(asked.body.traceId)?.policyVersion).toBe(body.policyVersion);
});

test("only policy:explain opens it, and the journal says who asked about whom", async () => {
  const token = await world.person({ permissions: ["tools:read"] });
  const refused = await world.send("POST", "/explain", { token, body: { tool: "deeds_read", sub: "agent-7" } });
  expect([refused.http, refused.body.error.code]).toEqual([403, "PERMISSION_DENIED"]);
  const agent = await world.send("POST", "/explain", {
    token: await world.agent(),
    body: { tool: "deeds_read", sub: "a" },
  });
  expect(agent.http).toBe(401);
  await world.explain("deeds_read", { id: "a" }, { sub: "agent-9" });
  expect(world.journal().findLast(({ type }) => type === "policy.explained")).toMatchObject({
    sub: "alice",
    tool: "deeds_read",
    of: "agent-9",
    byToken: false,
  });
});

test("the caller is a valid agent's token, or stated completely", async () => {
  const token = await world.agent({ sub: "agent-8", permissions: ["deeds:do"] });
  const named = { sub: undefined, permissions: undefined };
  const byToken = await world.explain("deeds_read", { id: "a" }, { ...named, token });
  expect(byToken.body).toMatchObject({ verdict: "allow", caller: { sub: "agent-8", permissions: ["deeds:do"] } });
  const forged = await world.explain("deeds_read", { id: "a" }, { ...named, token: `${token}x` });
  expect([forged.http, forged.body.error.code]).toEqual([401, "UNAUTHENTICATED"]);
  const both = await world.explain("deeds_read", { id: "a" }, { token });
  expect([both.http, both.body.error.code]).toEqual([400, "MALFORMED_REQUEST"]);
  const unstated = await world.explain("deeds_read", { id: "a" }, { permissions: undefined });
  expect(unstated.body.error.message).toContain("permissions: required");
  const unknown = await world.explain("deeds_read", { id: "a" }, { iss: "https://nobody.example" });
  expect(unknown.body.error.message).toContain("is not an issuer");
});

test("a halt is the first statement, and the verdict", async () => {
  const token = await world.person({ permissions: ["halts:write"] });
  const body = { kind: "tool", tool: "deeds_read", reason: "drill" };
  const set = await world.send("POST", "/halts", { token, body });
  const { id } = set.body["halt"] as { readonly id: string };
  const halted = await world.explain("deeds_read", { id: "a" });
  expect(halted.body).toMatchObject({ verdict: "deny", code: "HALTED" });
  expect((halted.body["statements"] as readonly object[])[0]).toMatchObject({
    ...{ stage: "PERMISSION", point: "halts", verdict: "deny", code: "HALTED", reasons: [`halt ${id}`] },
  });
  expect((halted.body["changes"] as readonly object[])[0]).toMatchObject({ names: ["halts"] });
  await world.send("DELETE", `/halts/${id}`, { token });
  expect((await world.explain("deeds_read", { id: "a" })).body).toMatchObject({ verdict: "allow" });
});

test("a subject holds the roles that are bound to it", async () => {
  const named = await world.explain("deeds_read", { id: "a" }, { sub: "agent-bound", permissions: undefined });
  expect(named.body).toMatchObject({ verdict: "allow", caller: { permissions: ["deeds:do"] } });
});
