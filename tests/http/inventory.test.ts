import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { basename, join } from "node:path";
import type { z } from "zod";
import { sha256Hex } from "../../src/core/digest.ts";
import { dayFilesText } from "../support/audit-files.ts";
import { manifest, ReloadService, type Reply } from "../support/reload-service.ts";
import { HostileWorld, hostileTool } from "../targets/mcp/world.ts";
import { ENDPOINTS } from "./server-parts.ts";

/** Secrets of several forms, none of which an operator may read. */
const TOKEN = `ghp_${"a1B2".repeat(9)}`;
const HIDDEN = [TOKEN, "planted-header", "planted-query", "planted-password", "planted-variable"];
const HOSTILE = '<img src=x onerror="alert(1)">\u202e';

/** A tool with most members that the catalogue shows. */
const REFUND = `
import { defineTool } from "safe-tool-call";
import { z } from "zod";
export const tool = defineTool({
  name: "order_refund",
  title: "Refund an order",
  description: ${JSON.stringify(`Refunds an order ${HOSTILE}`)},
  classification: "write",
  permissions: { required: ["orders:refund"], elevatedIf: { when: () => false, required: ["orders:refund-any"] } },
  input: z.strictObject({ order: z.string().regex(/^A-[0-9]+$/).max(20), amount: z.number().max(500) }),
  target: { system: "orders", http: {
    method: "POST", path: "/orders/{order}/refund", body: { amount: "{amount}", by: "${TOKEN}", password: "planted-password", token: "{order}" },
    headers: { "x-api": "planted-header" },
  } },
  output: z.object({ id: z.string(), email: z.string() }),
  outputPolicy: { id: { action: "allow", reason: "the id of the refund is public" }, email: "mask" },
  inputPolicy: { order: "allow" },
  approval: { needsApproval: () => true, risk: "medium", message: "Gives money back", scopes: ["once"], grants: { runs: 9, minutes: 30, arguments: { amount: { max: 40 }, order: "equal" } } },
  idempotent: true,
  additive: true,
  timeoutMs: 4_000,
});
`;

const KEYS = { hook: `whsec_${Buffer.from("k".repeat(32)).toString("base64")}`, bearer: TOKEN };
const stand = new ReloadService();
let reader: string;
beforeAll(async () => {
  stand.write("tools/orders/refund.ts", REFUND);
  for (const [name, text] of Object.entries(KEYS)) stand.write(`secrets/${name}`, text);
  const permitted = { "agent-7": ["hello:say", "orders:refund"], "agent-8": ["hello:say"] };
  const issuers = stand.issuers.profiles().map((profile) => ({
    ...profile,
    ...(profile["operators"] !== true && { subjectPermissions: permitted }),
  }));
  stand.configure({
    jwt: { issuers },
    systems: {
      orders: {
        own: true,
        http: {
          baseUrl: "https://orders.example/v1",
          auth: { bearerFile: "secrets/bearer" },
          headers: { "x-team": "planted-header" },
        },
      },
      reports: {
        mcp: { command: process.execPath, args: ["-e", "planted-variable"], env: { MODE: "planted-variable" } },
      },
      lists: {
        ...{ repositories: { app: "repos/app" }, names: ["one", "two"], note: `uses ${TOKEN}`, cache: "var/cache" },
        docs: "https://reader:planted-password@docs.example/start",
      },
    },
    approvals: {
      store: "sqlite://./approvals.sqlite",
      rules: [
        { name: "euros", when: { tool: "order_refund", args: { order: "A-7", amount: [5, 6] } }, verdict: "ask" },
      ],
      policies: [
        { name: "refunds", when: { systems: ["orders"] }, require: { count: 2 }, reasonRequired: "deny" },
        { name: "others", when: { tools: ["other_*"] }, require: { count: 1 } },
      ],
      webhooks: [{ name: "chat", url: "https://hooks.example/planted-query", secretFile: "secrets/hook" }],
    },
  });
  await stand.start();
  reader = await stand.operator(["tools:read", "metrics:read", "configuration:read"]);
});
afterAll(() => stand.end());

const get = (path: string, token = reader): Promise<Reply> => stand.send("GET", path, { token });

const PATHS = [
  ["/catalog", "tools:read", "catalog.read"],
  ["/catalog/order_refund", "tools:read", "catalog.read"],
  ["/systems", "metrics:read", "systems.read"],
  ["/configuration", "configuration:read", "configuration.read"],
  ["/configuration/versions", "configuration:read", "configuration.read"],
] as const;

describe.each(PATHS)("GET %s", (path, permission, type) => {
  test("is for operators with the permission alone", async () => {
    const before = stand.journal(type).length;
    const [agent, other] = [await stand.agent([permission]), await stand.operator(["audit:read"])];
    expect([(await get(path, agent)).http, (await get(path, agent)).body.error.code]).toEqual([401, "UNAUTHENTICATED"]);
    const refused = await get(path, other);
    expect([refused.http, refused.body.error]).toEqual([
      403,
      expect.objectContaining({ code: "PERMISSION_DENIED", details: { missingPermissions: [permission] } }),
    ]);
    expect((await get(path, await stand.operator([permission]))).http).toBe(200);
    expect(stand.journal(type).length).toBe(before + 1);
  });

  test("is recorded with its reader", async () => {
    await get(path);
    expect(stand.journal(type).at(-1)).toMatchObject({ type, sub: "olga", iss: "https://people.test" });
  });

  test("answers what its schema in /openapi.json says, and nothing else", async () => {
    const endpoint = ENDPOINTS.find((each) => each.path === path.replace("order_refund", ":name"));
    const schema = endpoint?.responses?.[200]?.schema as z.ZodType;
    const { body } = await get(path);
    expect(schema.parse(body)).toEqual(body);
  });

  test("holds no secret, and no path of a file outside the configuration's folder", async () => {
    const text = JSON.stringify((await get(path)).body);
    expect(HIDDEN.filter((secret) => text.includes(secret))).toEqual([]);
    expect(
      [stand.folder, "secrets/", "repos/app", "var/cache", "approvals.sqlite", process.execPath].filter((each) =>
        text.includes(each),
      ),
    ).toEqual([]);
  });

  test("takes no parameters", async () => {
    expect((await get(`${path}?all=1`)).body.error.code).toBe("MALFORMED_REQUEST");
    expect((await get(`${path}?__proto__=1`)).http).toBe(400);
  });
});

test("the catalogue lists every tool, whoever may call it", async () => {
  const { tools, notRegistered } = (await get("/catalog")).body;
  expect(tools.map(({ name }: { name: string }) => name)).toEqual(["hello", "order_refund"]);
  expect(tools[1]).toEqual({
    ...{ name: "order_refund", title: "Refund an order", version: "1", kind: "http", system: "orders" },
    ...{ classification: "write", category: "network", permissions: ["orders:refund"] },
    ...{ elevated: ["orders:refund-any"], asks: "by mode", source: "tools/orders/refund.ts", isQuarantined: false },
  });
  expect(notRegistered).toEqual([]);
});

test("a tool says who may call it, who approves it, and what is released of its answers", async () => {
  const { body } = await get("/catalog/order_refund");
  expect(body).toMatchObject({
    description: `Refunds an order ${HOSTILE}`,
    callers: { subjects: ["agent-7"], certificates: [] },
    approval: {
      ...{ dependsOnArguments: true, risk: "medium", scopes: ["once"], message: "Gives money back", isAnswered: false },
      grants: { runs: 9, minutes: 30, arguments: { amount: "a number from 0 to 40", order: "as in this call" } },
      policies: [{ name: "refunds", risk: "low", reasonRequired: "deny", stages: [{ count: 2 }] }],
    },
    inputSchema: { type: "object", required: ["order", "amount"] },
    outputSchema: { properties: { email: { type: "string" } } },
    outputPolicy: [
      { field: "id", action: "allow", reason: "the id of the refund is public" },
      { field: "email", action: "mask" },
    ],
    inputPolicy: [{ field: "order", action: "allow" }],
    ...{ timeoutMs: 4_000, idempotent: true, additive: true, errors: "withheld" },
    target: { http: { method: "POST", path: "/orders/{order}/refund", body: { amount: "{amount}" } } },
  });
  expect(body.identity).toMatch(/^[0-9a-f]{64}$/);
});

test.each([
  ["an unknown name", "/catalog/nothing"],
  ["a member of every object", "/catalog/__proto__"],
  ["a constructor", "/catalog/constructor"],
  ["a path", "/catalog/..%2F..%2Fetc%2Fpasswd"],
  ["a NUL", "/catalog/%00"],
  ["markup", `/catalog/${encodeURIComponent(HOSTILE)}`],
])("%s is not a tool", async (_title, path) => {
  const before = stand.journal("catalog.read").length;
  const { http, body } = await get(path);
  expect([http, body.error.code]).toEqual([404, "TOOL_NOT_FOUND"]);
  expect(JSON.stringify(body)).not.toContain("<img");
  expect(stand.journal("catalog.read").length).toBe(before);
});

test("a name of a megabyte, or with an invalid escape, is an unknown route", async () => {
  for (const name of ["a".repeat(10_000), "%ff", "%zz"]) {
    expect((await get(`/catalog/${name}`)).body.error.code).toBe("ROUTE_NOT_FOUND");
  }
  const large = await fetch(`${stand.running.url}/catalog/${"a".repeat(1_048_576)}`, {
    headers: { authorization: `Bearer ${reader}` },
  });
  expect(large.status).toBe(431);
});

test("systems show their addresses, TLS, calls and tools; a program shows its name", async () => {
  const { systems, audit, reasons } = (await get("/systems")).body;
  const byName = Object.fromEntries(systems.map((system: { name: string }) => [system.name, system]));
  expect(Object.keys(byName)).toEqual(["greetings", "orders", "reports"]);
  expect(byName["orders"]).toMatchObject({
    // `own` is beside the settings of its kind.
    ...{ kind: "http", addresses: ["https://orders.example/v1"], tls: "server", circuit: "closed" },
    ...{ calls: { inFlight: 0, max: 256 }, tools: ["order_refund"], certificateExpiresAt: null },
  });
  expect(byName["reports"]).toMatchObject({
    kind: "mcp",
    addresses: [basename(process.execPath)],
    tls: "none",
    tools: [],
  });
  expect([audit, reasons]).toEqual([{ status: "ok" }, []]);
});

test("the configuration has defaults, digests and names; what is hidden keeps its place", async () => {
  const { state, values, problems, liveKeys } = (await get("/configuration")).body;
  const [started] = stand.journal("service.started");
  expect(state).toMatchObject({ generation: 1, sha256: started?.["configuration"], lastRefused: null });
  expect([problems, liveKeys.includes("limits")]).toEqual([[], true]);
  expect(values).toMatchObject({
    limits: { concurrentCallsMax: 1_024 },
    audit: { dir: "[path]" },
    tools: ["[path]"],
    systems: {
      orders: { http: { auth: { bearerFile: "[path]" }, headers: { "x-team": "[hidden]" }, retries: 2 } },
      reports: { mcp: { args: ["[hidden]", "[hidden]"], env: { MODE: "[hidden]" } } },
      lists: {
        ...{ repositories: { app: "[path]" }, names: ["one", "two"], note: "uses [REDACTED]", cache: "[path]" },
        docs: "https://docs.example/start [hidden]",
      },
    },
    approvals: {
      store: "[path]",
      // What a rule is about is no secret.
      rules: [{ when: { args: { order: "A-7", amount: [5, 6] } } }],
      webhooks: [{ url: "https://hooks.example [hidden]", secretFile: "[path]" }],
    },
    jwt: { issuers: [{ jwks: { keys: "[hidden]" } }, { operators: true }] },
  });
});

test("a refused reload shows its problems without secrets and paths; an adopted one ends them", async () => {
  stand.write("tools/hello.ts", manifest({ before: `throw new Error("no ${TOKEN} in ${stand.folder}/x");` }));
  expect((await stand.reload()).http).toBe(422);
  const refused = (await get("/configuration")).body;
  expect([refused.state.generation, refused.state.lastRefused.problems, refused.problems]).toEqual([
    1,
    1,
    ["tools/hello.ts: cannot be loaded: no [REDACTED] in [path]"],
  ]);
  stand.write("tools/hello.ts", manifest({ says: "second" }));
  expect((await stand.reload()).http).toBe(200);
  const adopted = (await get("/configuration")).body;
  expect([adopted.state.generation, adopted.state.lastRefused, adopted.problems]).toEqual([2, null, []]);
  expect(dayFilesText(join(stand.folder, "audit", "journal"))).not.toContain(TOKEN);
});

describe("the history of the configuration", () => {
  const versions = async () => (await get("/configuration/versions")).body.versions;
  const HELLO = "tools/hello.ts";

  test("has each version once, with who loaded it and what it changed", async () => {
    stand.write(HELLO, manifest({ says: "a third" }));
    expect((await stand.reload()).http).toBe(200);
    const { instance, inUse, versions: all } = (await get("/configuration/versions")).body;
    expect([instance, inUse]).toEqual([hostname(), all[0].policyVersion]);
    expect(all[0]).toMatchObject({ by: "https://people.test|olga", changes: ["tools.hello"], moreChanges: 0 });
    expect(all.at(-1)).toMatchObject({ by: "start", changes: [] });
    const count = all.length;
    expect((await stand.reload()).http).toBe(200);
    expect(await versions()).toHaveLength(count);
    expect((await get("/configuration")).body.state.sha256).toBe(inUse);
  });

  test("has the digests that the journal has, of texts without secrets that are files of the audit", async () => {
    const all = await versions();
    const [started, changed] = [stand.journal("service.started")[0], stand.journal("configuration.changed").at(-1)];
    const own = ({ policyVersion, shownSha256 }: Record<string, unknown>) => ({ policyVersion, shownSha256 });
    expect([started, changed].map((line) => own(line ?? {}))).toEqual([own(all.at(-1)), own(all[0])]);
    for (const { shownSha256 } of all) {
      const text = readFileSync(join(stand.folder, "audit", "configurations", `${shownSha256}.json`), "utf8");
      expect(sha256Hex(text)).toBe(shownSha256);
      expect(HIDDEN.filter((secret) => text.includes(secret))).toEqual([]);
      expect(text).not.toContain(stand.folder);
    }
  });

  test("shows one version, compared with the one before or with another", async () => {
    const [newest, before] = await versions();
    const { body } = await get(`/configuration/versions/${newest.policyVersion}`);
    expect(body).toMatchObject({ comparedWith: before.policyVersion, values: { audit: { dir: "[path]" } } });
    expect(body.differences.map(({ path }: { path: string }) => path)).toEqual(["tools.hello"]);
    const schema = ENDPOINTS.find(({ path }) => path === "/configuration/versions/:policyVersion")?.responses?.[200]
      ?.schema;
    expect((schema as z.ZodType).parse(body)).toEqual(body);
    const same = await get(`/configuration/versions/${newest.policyVersion}?against=${newest.policyVersion}`);
    expect([same.body.comparedWith, same.body.differences]).toEqual([newest.policyVersion, []]);
    expect(stand.journal("configuration.read").at(-1)).toMatchObject({
      policyVersion: newest.policyVersion,
      sub: "olga",
    });
  });

  test("refuses who may not read it, and versions that it does not have", async () => {
    const [{ policyVersion, shownSha256 }] = await versions();
    const path = `/configuration/versions/${policyVersion}`;
    const refused = await get(path, await stand.operator(["audit:read"]));
    expect([refused.http, refused.body.error.code]).toEqual([403, "PERMISSION_DENIED"]);
    const unknown = "0".repeat(64);
    for (const missing of [`/configuration/versions/${unknown}`, `${path}?against=${unknown}`]) {
      const { http, body } = await get(missing);
      expect([http, body.error.code]).toEqual([404, "CONFIGURATION_NOT_FOUND"]);
      expect(body.error.message).toContain("This replica has no such version");
    }
    expect((await get("/configuration/versions/..%2fx")).body.error.code).toBe("MALFORMED_REQUEST");
    const file = join(stand.folder, "audit", "configurations", `${shownSha256}.json`);
    const text = readFileSync(file, "utf8");
    writeFileSync(file, text.replace("[path]", "[changed]"));
    expect((await get(path)).body.error.code).toBe("CONFIGURATION_NOT_FOUND");
    writeFileSync(file, text);
    expect((await get(path)).http).toBe(200);
  });
});

test("a tool that its server changed is quarantined, with what changed; texts of the server are visible characters", async () => {
  const world = new HostileWorld();
  world.tell("changes.json", { echo: { description: `Does echo ${HOSTILE}` } });
  const definition = { name: "echo", description: "Does echo" };
  await world.start([hostileTool("echo", { definitionSha256: "0".repeat(64), definition }), hostileTool("who")]);
  const token = await world.person({ permissions: ["tools:read", "metrics:read"] });
  const { tools } = (await world.send("GET", "/catalog", { token })).body;
  expect(tools.map(({ name, isQuarantined }: Record<string, unknown>) => [name, isQuarantined])).toEqual([
    ["echo", true],
    ["who", false],
  ]);
  const { quarantine } = (await world.send("GET", "/catalog/echo", { token })).body;
  expect(quarantine.reason).toBe("its definition is not the pinned one");
  expect(quarantine.changes[0]).toStartWith(`sha256: ${"0".repeat(64)} → `);
  expect(quarantine.changes.join("\n")).toContain('description: "Does echo" → "Does echo <img');
  expect(quarantine.changes.join("\n")).not.toContain("\u202e");
  const { systems } = (await world.send("GET", "/systems", { token })).body;
  expect(systems[0]).toMatchObject({ name: "hostile", quarantined: ["echo"], calls: { inFlight: 0, max: 64 } });
  await world.end();
});
