import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { SignJWT } from "jose";
import { z } from "zod";
import { ALLOWED, type PolicyPoint } from "../../src/core/policy-point.ts";
import { defineTool } from "../../src/index.ts";
import { type BuildModules, MODULES } from "../../src/modules.ts";
import { AskingService, type Loose, type Reply } from "../support/asking-service.ts";
import { startIdentityService } from "../support/identity-service.ts";
import { AGENTS_ISSUER } from "../support/tokens.ts";

/** What reached a point of the stage `elevation`. */
const asked: unknown[] = [];
let runs = 0;

const tool = (name: string, more: Loose = {}) =>
  defineTool({
    ...{ name, description: "Works on a record", classification: "write", category: "network" },
    permissions: { required: [name.replace("_", ":")] },
    ...{ input: z.strictObject({ record: z.string().max(20) }), output: z.strictObject({}), outputPolicy: {} },
    handler: () => {
      runs += 1;
      return {};
    },
    ...more,
  });

const TOOLS = [
  tool("record_read", { classification: "read", category: "read" }),
  tool("record_write"),
  tool("record_delete", {
    permissions: {
      required: ["record:delete"],
      elevatedIf: { when: ({ soft }: { readonly soft: boolean }) => !soft, required: ["record:purge"] },
    },
    input: z.strictObject({ record: z.string().max(20), soft: z.boolean() }),
  }),
  tool("record_broken", {
    permissions: {
      required: ["record:read"],
      elevatedIf: {
        when: () => {
          throw new Error("no");
        },
        required: ["record:read"],
      },
    },
  }),
  tool("record_denied", { permissions: { required: ["record:read"] } }),
  tool("record_asked", { permissions: { required: ["record:read"] } }),
  tool("record_failing", { permissions: { required: ["record:read"] } }),
  tool("record_destroy", { permissions: { required: ["record:read"] }, classification: "destructive" }),
  tool("record_unconditional", { permissions: { required: ["record:read"] }, approval: { required: true } }),
  tool("record_category", { permissions: { required: ["record:read"] }, category: "ask" }),
  tool("record_risky", { permissions: { required: ["record:read"] }, approval: { risk: "high" } }),
  tool("record_conditional", {
    permissions: { required: ["record:read"] },
    approval: { needsApproval: ({ record }: { readonly record: string }) => record !== "mine" },
  }),
  tool("record_ruled", { permissions: { required: ["record:read"] } }),
];

/** Points as another program could be one: by the name of the tool. */
const POINTS: readonly PolicyPoint[] = [
  {
    name: "early",
    stage: "permission",
    decide: async ({ tool: { name } }) =>
      name === "record_denied" ? { verdict: "deny", reasons: ["closed today"] } : ALLOWED,
  },
  {
    name: "late",
    stage: "elevation",
    decide: async ({ tool: { name }, input }) => {
      asked.push(input);
      if (name === "record_failing") throw new Error("away");
      return name === "record_asked" ? { verdict: "requireApproval", reasons: ["ask somebody"] } : ALLOWED;
    },
  },
];

class Stand extends AskingService {
  async start(): Promise<void> {
    const modules: BuildModules = { ...MODULES, policyPoints: { ...MODULES.policyPoints, others: POINTS } };
    const sections = {
      tools: TOOLS,
      server: { port: 0, resource: "https://tools.example/mcp", allowedHosts: ["tools.example"] },
      approvals: {
        store: "sqlite://./approvals.sqlite",
        rules: [
          { name: "secret", when: { tool: "record_ruled", args: { record: ["secret"] } }, verdict: "ask" },
          { name: "closed", when: { tool: "record_ruled", args: { record: ["closed"] } }, verdict: "deny" },
        ],
      },
      limits: { rates: { tools: { record_read: { tool: { calls: 1, seconds: 3_600 } } } } },
      roles: {
        reader: { permissions: ["record:read"] },
        writer: { permissions: ["record:read", "record:write", "record:delete"] },
        purger: { permissions: ["record:delete", "record:purge"] },
      },
      bindings: [
        { role: "writer", subject: "alice" },
        { role: "reader", subject: "bob" },
        { role: "purger", subject: "carl" },
        { role: "purger", group: "purgers" },
      ],
    };
    await this.run(sections, "", modules);
  }

  asker(): Promise<string> {
    return this.person({ sub: "gateway", permissions: ["policy:evaluate"] });
  }

  async ask(body: unknown, path = "/access/v1/evaluation", headers: Record<string, string> = {}): Promise<Reply> {
    return this.send("POST", path, { token: await this.asker(), body, headers });
  }

  async evaluate(body: Loose): Promise<Loose> {
    const { http, body: answer } = await this.ask(body);
    expect(http).toBe(200);
    return answer;
  }
}

const stand = new Stand();
beforeAll(() => stand.start());
afterAll(() => stand.end());

const BATCH = "/access/v1/evaluations";
const PLANNED = { planned: false };
const ALLOW = { decision: true, context: PLANNED };
const deny = (code: string) => ({ decision: false, context: { ...PLANNED, code } });

const user = (id: string, properties?: Loose) => ({ type: "user", id, ...(properties && { properties }) });
const action = { name: "tools/call" };
const called = (id: string) => ({ type: "tool", id });
const question = (who: string, name: string, args: Loose = { record: "record-1" }): Loose => ({
  subject: user(who),
  action,
  resource: called(name),
  context: { arguments: args },
});

describe("one evaluation", () => {
  test.each<[string, string, string, Loose, Loose]>([
    ["a tool of a role", "alice", "record_read", { record: "record-1" }, ALLOW],
    ["another tool of the role", "alice", "record_write", { record: "record-1" }, ALLOW],
    ["the tool of another role", "bob", "record_read", { record: "record-1" }, ALLOW],
    ["a permission that is missing", "bob", "record_write", { record: "record-1" }, deny("PERMISSION_DENIED")],
    ["arguments that need no elevation", "alice", "record_delete", { record: "r", soft: true }, ALLOW],
    ["arguments that need it", "alice", "record_delete", { record: "r", soft: false }, deny("PERMISSION_DENIED")],
    ["elevated permissions", "carl", "record_delete", { record: "r", soft: false }, ALLOW],
    ["arguments that do not fit", "alice", "record_read", { record: 7 }, deny("INVALID_INPUT")],
    ["arguments that are no table", "alice", "record_read", null, deny("INVALID_INPUT")],
    ["a point that denies", "alice", "record_denied", { record: "r" }, deny("POLICY_DENIED")],
    ["a point that requires an approval", "alice", "record_asked", { record: "r" }, deny("APPROVAL_REQUIRED")],
    ["a destructive tool", "alice", "record_destroy", { record: "r" }, deny("APPROVAL_REQUIRED")],
    ["a tool that always asks", "alice", "record_unconditional", { record: "r" }, deny("APPROVAL_REQUIRED")],
    ["a category that always asks", "alice", "record_category", { record: "r" }, deny("APPROVAL_REQUIRED")],
    ["a tool of high risk", "alice", "record_risky", { record: "r" }, deny("APPROVAL_REQUIRED")],
    ["a rule that asks for the arguments", "alice", "record_ruled", { record: "secret" }, deny("APPROVAL_REQUIRED")],
    ["a rule that denies the arguments", "alice", "record_ruled", { record: "closed" }, deny("POLICY_DENIED")],
    ["arguments that no rule matches", "alice", "record_ruled", { record: "r" }, ALLOW],
    ["a tool that a mode lets pass", "alice", "record_conditional", { record: "r" }, ALLOW],
    ["a tool that passes itself", "alice", "record_conditional", { record: "mine" }, ALLOW],
    ["a tool that always asks, without its permission", "carl", "record_destroy", {}, deny("PERMISSION_DENIED")],
    ["a point that fails", "alice", "record_failing", { record: "r" }, deny("POLICY_DENIED")],
    ["a manifest that fails", "alice", "record_broken", { record: "r" }, deny("INTERNAL")],
  ])("decides %s", async (_title, who, name, args, want) => {
    expect(await stand.evaluate(question(who, name, args))).toEqual(want);
    expect(await stand.evaluate(question(who, name, args))).toEqual(want);
  });

  test("without arguments takes every call for an elevated one, and points see none", async () => {
    const ask = (who: string) =>
      stand.evaluate({ subject: user(who), action, resource: called("record_delete"), context: { time: "now" } });
    expect(await ask("alice")).toEqual(deny("PERMISSION_DENIED"));
    asked.length = 0;
    expect(await ask("carl")).toEqual(ALLOW);
    expect(asked).toEqual([undefined]);
    expect(await stand.evaluate({ subject: user("bob"), action, resource: called("record_read") })).toEqual(ALLOW);
  });

  test("without arguments says what holds for all of them", async () => {
    const ask = (name: string) => stand.evaluate({ subject: user("alice"), action, resource: called(name) });
    for (const name of ["record_destroy", "record_unconditional", "record_category", "record_risky"]) {
      expect([name, await ask(name)]).toEqual([name, deny("APPROVAL_REQUIRED")]);
    }
    for (const name of ["record_ruled", "record_conditional", "record_write"]) {
      expect([name, await ask(name)]).toEqual([name, ALLOW]);
    }
  });

  test("says of a call that always asks what the call itself is answered", async () => {
    const token = await stand.agent({ sub: "alice", permissions: ["record:read"] });
    for (const name of ["record_destroy", "record_unconditional", "record_category", "record_risky"]) {
      const { http, body } = await stand.send("POST", "/call", { token, body: { tool: name, args: { record: "r" } } });
      expect([name, http, body.status]).toEqual([name, 202, "pending"]);
    }
  });

  test("answers an unknown tool like a permission that is missing", async () => {
    const [missing, unknown, hidden] = await Promise.all(
      ["record_write", "no_such_tool", "__proto__"].map((name) => stand.ask(question("bob", name))),
    );
    expect([missing?.http, missing?.body]).toEqual([200, deny("PERMISSION_DENIED")]);
    expect([unknown?.http, unknown?.body]).toEqual([missing?.http, missing?.body]);
    expect([hidden?.http, hidden?.body]).toEqual([missing?.http, missing?.body]);
    const early = await stand.evaluate({ ...question("carl", "record_denied"), context: undefined });
    expect(early).toEqual(deny("PERMISSION_DENIED"));
  });

  test("ignores members and properties that it does not know", async () => {
    const more = {
      ...question("alice", "record_read"),
      ...{ foo: "bar", futureField: { nested: true } },
      subject: user("alice", { department: "Sales", role: "manager" }),
      action: { ...action, properties: { method: "GET" } },
      resource: { ...called("record_read"), properties: { status: "active", owner: "bob" } },
    };
    expect(await stand.evaluate(more)).toEqual(ALLOW);
  });

  test("never believes what is said about the subject", async () => {
    const asserted = { permissions: ["record:write"], roles: ["writer"], role: "writer", groups: ["purgers"] };
    const body = { ...question("bob", "record_write"), subject: { ...user("bob", asserted), ...asserted } };
    expect(await stand.evaluate(body)).toEqual(deny("PERMISSION_DENIED"));
  });

  test.each([
    ["another action", { action: { name: "tools/list" } }],
    ["a look-alike of the action", { action: { name: "Tools/call" } }],
    ["another type of resource", { resource: { type: "record", id: "record_read" } }],
    ["another type of subject", { subject: { type: "group", id: "alice" } }],
  ])("denies %s", async (_title, change) => {
    expect(await stand.evaluate({ ...question("alice", "record_read"), ...change })).toEqual(deny("UNSUPPORTED"));
  });

  test.each([
    ["another issuer's subject", { issuer: "https://elsewhere.test" }],
    ["an operators' issuer", { issuer: "https://people.test" }],
  ])("denies %s", async (_title, properties) => {
    const body = { ...question("alice", "record_read"), subject: user("alice", properties) };
    expect(await stand.evaluate(body)).toEqual(deny("UNAUTHENTICATED"));
  });

  test("runs, plans and counts nothing", async () => {
    const before = runs;
    for (let at = 0; at < 3; at += 1) await stand.evaluate(question("alice", "record_read"));
    const token = await stand.agent({ sub: "alice" });
    const call = await stand.send("POST", "/call", { token, body: { tool: "record_read", args: { record: "r" } } });
    expect([call.http, runs]).toEqual([200, before + 1]);
    expect(stand.entries().filter(({ caller }) => caller.sub === "gateway")).toEqual([]);
  });
});

describe("a subject's token", () => {
  const withToken = async (token: string, name = "record_delete", more: Loose = {}): Promise<Loose> =>
    stand.evaluate({
      ...question("dora", name, { record: "r", soft: false }),
      subject: user("dora", { token, ...more }),
    });

  test("adds what only the token says: its permissions and its groups", async () => {
    const grouped = await stand.agent({ sub: "dora", permissions: [], claims: { groups: ["purgers"] } });
    expect(await withToken(grouped)).toEqual(ALLOW);
    expect(await withToken(grouped, "record_delete", { issuer: AGENTS_ISSUER })).toEqual(ALLOW);
    const listed = await stand.agent({ sub: "dora", permissions: ["record:delete", "record:purge"] });
    expect(await withToken(listed)).toEqual(ALLOW);
    const bare = await stand.agent({ sub: "dora", permissions: [] });
    expect(await withToken(bare)).toEqual(deny("PERMISSION_DENIED"));
  });

  test("must be a valid agent's token of that subject", async () => {
    const full = { permissions: ["record:delete", "record:purge"] };
    const orders = [
      { sub: "carl", ...full },
      { sub: "dora", kind: "expired", ...full },
      { sub: "dora", kind: "other key", ...full },
      { sub: "dora", kind: "unsigned", ...full },
      { sub: "dora", kind: "operator", ...full },
      { sub: "dora", kind: "other audience", ...full },
    ] as const;
    for (const order of orders) {
      expect([order, await withToken(await stand.agent(order))]).toEqual([order, deny("UNAUTHENTICATED")]);
    }
    expect(await withToken("x.y.z")).toEqual(deny("UNAUTHENTICATED"));
    expect(await withToken("")).toEqual(deny("UNAUTHENTICATED"));
    const good = await stand.agent({ sub: "dora", ...full });
    expect(await withToken(good, "record_delete", { issuer: "https://elsewhere.test" })).toEqual(
      deny("UNAUTHENTICATED"),
    );
  });

  test("that is bound to a certificate is not valid here", async () => {
    const { privateKey, kid } = stand.issuers.agents;
    const token = await new SignJWT({ sub: "dora", permissions: ["record:delete", "record:purge"] })
      .setProtectedHeader({ alg: "ES256", kid, typ: "JWT" })
      .setIssuer(AGENTS_ISSUER)
      .setAudience("safe-tool-call")
      .setIssuedAt()
      .setExpirationTime("5 minutes")
      .sign(privateKey);
    expect(await withToken(token)).toEqual(ALLOW);
    const bound = await stand.agent({
      ...{ sub: "dora", permissions: ["record:delete", "record:purge"] },
      claims: { cnf: { "x5t#S256": "a".repeat(43) } },
    });
    expect(await withToken(bound)).toEqual(deny("UNAUTHENTICATED"));
  });
});

describe("a request that is not valid", () => {
  const whole = question("alice", "record_read");

  test.each<[string, unknown]>([
    ["no subject", { ...whole, subject: undefined }],
    ["no action", { ...whole, action: undefined }],
    ["no resource", { ...whole, resource: undefined }],
    ["a subject without a type", { ...whole, subject: { id: "alice" } }],
    ["a subject without an id", { ...whole, subject: { type: "user" } }],
    ["an action without a name", { ...whole, action: {} }],
    ["a resource without a type", { ...whole, resource: { id: "record_read" } }],
    ["a resource without an id", { ...whole, resource: { type: "tool" } }],
    ["a subject that is a text", { ...whole, subject: "alice" }],
    ["a name that is a number", { ...whole, action: { name: 123 } }],
    ["a token that is a table", { ...whole, subject: user("alice", { token: {} }) }],
    ["a context that is a list", { ...whole, context: [] }],
    ["a list", [whole]],
    ["text that is not JSON", "{"],
    ["duplicate keys", '{"subject":{"type":"user","id":"alice","id":"bob"},"action":{"name":"tools/call"}}'],
    ["deep nesting", `{"context":${"[".repeat(200)}${"]".repeat(200)}}`],
  ])("is answered with 400: %s", async (_title, body) => {
    for (const path of ["/access/v1/evaluation", BATCH]) {
      const { http, body: answer, headers } = await stand.ask(body, path, { "x-request-id": "id-7" });
      expect([http, answer.error.code, headers.get("x-request-id")]).toEqual([400, "MALFORMED_REQUEST", "id-7"]);
    }
  });

  test("is answered with 400 when it is empty or of another media type", async () => {
    const token = await stand.asker();
    const empty = await stand.send("POST", "/access/v1/evaluation", { token });
    expect(empty.http).toBe(400);
    const headers = { "content-type": "text/plain" };
    const text = await stand.send("POST", "/access/v1/evaluation", { token, body: JSON.stringify(whole), headers });
    expect([text.http, text.body.error.code]).toEqual([400, "UNSUPPORTED_MEDIA_TYPE"]);
  });

  test("is answered with 413 when it is too large", async () => {
    const { http } = await stand.ask({ ...whole, more: "x".repeat(70_000) });
    expect(http).toBe(413);
  });
});

describe("the request's identifier", () => {
  const whole = question("alice", "record_read");
  const idOf = async (id: string, token: string): Promise<readonly unknown[]> => {
    const headers = { "x-request-id": id };
    const reply = await stand.send("POST", "/access/v1/evaluation", { token, body: whole, headers });
    return [reply.http, reply.headers.get("x-request-id")];
  };

  test("is repeated in the answer, also in a refusal", async () => {
    const id = "bfe9eb29-ab87-4ca3-be83-a1d5d8305716";
    expect(await idOf(id, await stand.asker())).toEqual([200, id]);
    expect(await idOf("a b, c", await stand.asker())).toEqual([200, "a b, c"]);
    expect(await idOf(id, "x.y.z")).toEqual([401, id]);
    expect(await idOf(id, await stand.person({ permissions: [] }))).toEqual([403, id]);
  });

  test("is refused when it is long or has other characters", async () => {
    expect(await idOf("x".repeat(128), await stand.asker())).toEqual([200, "x".repeat(128)]);
    expect(await idOf("x".repeat(129), await stand.asker())).toEqual([400, null]);
    expect(await idOf("caf\u00e9", await stand.asker())).toEqual([400, null]);
  });

  test("may be missing", async () => {
    const { http, headers } = await stand.ask(whole);
    expect([http, headers.get("x-request-id")]).toEqual([200, null]);
  });
});

describe("several evaluations", () => {
  const decisionsOf = ({ body }: Reply): unknown => body.evaluations?.map(({ decision }: Loose) => decision);

  test("take their defaults from the top, whole members at a time, and keep their order", async () => {
    const context = { arguments: { record: "r" } };
    const reply = await stand.ask(
      {
        subject: user("bob"),
        action,
        context,
        evaluations: [{ resource: called("record_read") }, { resource: called("record_write") }],
      },
      BATCH,
    );
    expect([reply.http, reply.body]).toEqual([200, { evaluations: [ALLOW, deny("PERMISSION_DENIED")] }]);
    const replaced = await stand.ask(
      {
        ...question("alice", "record_write"),
        evaluations: [{}, { subject: user("bob") }, { context: { arguments: { record: 1 } } }],
      },
      BATCH,
    );
    expect(decisionsOf(replaced)).toEqual([true, false, false]);
    const subjects = {
      subject: user("alice", { issuer: "https://elsewhere.test" }),
      evaluations: [question("alice", "record_read")],
    };
    expect(decisionsOf(await stand.ask(subjects, BATCH))).toEqual([true]);
  });

  test("need no defaults", async () => {
    const evaluations = [question("alice", "record_read"), question("bob", "record_write")];
    expect(decisionsOf(await stand.ask({ evaluations }, BATCH))).toEqual([true, false]);
  });

  test.each([
    ["execute_all", [true, false, true]],
    [undefined, [true, false, true]],
    ["deny_on_first_deny", [true, false]],
    ["permit_on_first_permit", [true]],
  ])("end as %s says", async (semantic, want) => {
    const evaluations = ["record_read", "no_such", "record_write"].map((name) => ({ resource: called(name) }));
    const options = semantic === undefined ? { another_option: "value" } : { evaluations_semantic: semantic };
    const { resource: _, ...rest } = question("alice", "");
    expect(decisionsOf(await stand.ask({ ...rest, evaluations, options }, BATCH))).toEqual(want);
  });

  test("that are not valid by themselves are denied, the others decided", async () => {
    const { resource: _, ...rest } = question("alice", "");
    const evaluations = [{ resource: called("record_read") }, {}, "x", null, { resource: "record_read" }];
    const { http, body } = await stand.ask({ ...rest, evaluations }, BATCH);
    expect([http, body.evaluations.map(({ decision }: Loose) => decision)]).toEqual([
      200,
      [true, false, false, false, false],
    ]);
    for (const { context } of body.evaluations.slice(1)) expect(context).toMatchObject({ error: { status: 400 } });
  });

  test("are a single evaluation when the list is empty or missing", async () => {
    const whole = question("alice", "record_read");
    for (const body of [whole, { ...whole, evaluations: [] }]) {
      const reply = await stand.ask(body, BATCH);
      expect([reply.http, reply.body]).toEqual([200, ALLOW]);
    }
  });

  test("are at most 100, of a known semantic", async () => {
    const whole = question("alice", "record_read");
    const many = (count: number) => ({ ...whole, evaluations: Array.from({ length: count }, () => ({})) });
    expect((await stand.ask(many(100), BATCH)).body.evaluations).toHaveLength(100);
    expect((await stand.ask(many(101), BATCH)).http).toBe(400);
    const options = { evaluations_semantic: "any" };
    expect((await stand.ask({ ...many(1), options }, BATCH)).http).toBe(400);
  });
});

describe("who may ask", () => {
  const whole = question("alice", "record_read");

  test("no agent, whatever its permissions", async () => {
    const token = await stand.agent({ sub: "alice", permissions: ["policy:evaluate"] });
    for (const path of ["/access/v1/evaluation", BATCH]) {
      const { http, body } = await stand.send("POST", path, { token, body: whole });
      expect([http, body.error.code]).toEqual([401, "UNAUTHENTICATED"]);
    }
  });

  test("no operator without the permission, which is recorded", async () => {
    const token = await stand.person({ sub: "olga" });
    const { http, body } = await stand.send("POST", "/access/v1/evaluation", { token, body: whole });
    expect([http, body.error.details]).toEqual([403, { missingPermissions: ["policy:evaluate"] }]);
    expect(stand.journal()).toContainEqual(
      expect.objectContaining({ type: "operator.refused", sub: "olga", permission: "policy:evaluate" }),
    );
  });

  test("an operator with it, and the journal counts the decisions", async () => {
    await stand.ask({ evaluations: [whole, question("bob", "record_write"), {}] }, BATCH);
    expect(stand.journal().findLast(({ type }) => type === "policy.evaluated")).toMatchObject({
      ...{ sub: "gateway", iss: "https://people.test", evaluations: 3, allowed: 1 },
    });
  });
});

test("the metrics count the answers by their code", async () => {
  const countOf = async (code: string): Promise<number> => {
    const token = await stand.person({ permissions: ["metrics:read"] });
    const response = await fetch(`${stand.url}/metrics`, { headers: { authorization: `Bearer ${token}` } });
    const line = new RegExp(`^stc_access_evaluations_total\\{code="${code}"\\} (\\d+)$`, "m");
    return Number(line.exec(await response.text())?.[1] ?? 0);
  };
  const before = [await countOf("OK"), await countOf("PERMISSION_DENIED")];
  await stand.ask({ evaluations: [question("alice", "record_read"), question("bob", "record_write"), {}] }, BATCH);
  expect([await countOf("OK"), await countOf("PERMISSION_DENIED")]).toEqual(before.map((count) => count + 1));
});

test("the metadata names the endpoints under the service's own URL", async () => {
  for (const host of ["localhost", "tools.example"]) {
    const response = await fetch(`${stand.url}/.well-known/authzen-configuration`, {
      headers: { host, "x-request-id": "m" },
    });
    expect([response.status, response.headers.get("content-type"), response.headers.get("x-request-id")]).toEqual([
      ...[200, "application/json; charset=utf-8", "m"],
    ]);
    expect(await response.json()).toEqual({
      policy_decision_point: "https://tools.example",
      access_evaluation_endpoint: "https://tools.example/access/v1/evaluation",
      access_evaluations_endpoint: "https://tools.example/access/v1/evaluations",
    });
  }
  const foreign = await fetch(`${stand.url}/.well-known/authzen-configuration`, { headers: { host: "evil.example" } });
  expect(foreign.status).toBe(403);
});

test("where the listener for calls answers no operators, only the console's listener answers questions", async () => {
  const server = { operatorsOnAgentPort: false, console: { host: "127.0.0.1", port: 0 } };
  const { service, close } = await startIdentityService({ server });
  const consoleUrl = service.consoleUrl ?? "";
  const statuses = async (url: string): Promise<readonly number[]> => {
    const metadata = await fetch(`${url}/.well-known/authzen-configuration`);
    await metadata.body?.cancel();
    const headers = { "content-type": "application/json" };
    const body = JSON.stringify(question("alice", "record_read"));
    const asked = await fetch(`${url}/access/v1/evaluation`, { method: "POST", headers, body });
    await asked.body?.cancel();
    return [metadata.status, asked.status];
  };
  expect(await statuses(service.url)).toEqual([404, 404]);
  expect(await statuses(consoleUrl)).toEqual([200, 401]);
  const named = await fetch(`${consoleUrl}/.well-known/authzen-configuration`);
  expect(await named.json()).toMatchObject({ policy_decision_point: consoleUrl });
  await close();
});
