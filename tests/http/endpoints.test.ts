import { afterAll, beforeAll, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { OPERATOR_PERMISSIONS } from "../../src/core/operator-permissions.ts";
import { type Endpoint, methodsOf, type NotReady } from "../../src/http/endpoint.ts";
import { createOperatorServer, createServer } from "../../src/http/server.ts";
import { createCallerVerifier } from "../../src/pipeline/caller-context.ts";
import { CALL, startIdentityService } from "../support/identity-service.ts";
import { agentsProfile, makeSigningKey, NOW_SECONDS } from "../support/tokens.ts";
import { PAGE, withReference } from "./endpoint-reference.ts";
import { bodyOf, CONSOLE_ENDPOINTS, ENDPOINTS, endpointsWith, serverParts } from "./server-parts.ts";

const ROOT = resolve(import.meta.dir, "../..");
const clock = (): number => NOW_SECONDS * 1_000;

/** Parts that exist, and are not used: every request is refused before. */
const unused = new Proxy({}, { get: () => unusedFunction }) as never;
const unusedFunction = (): never => {
  throw new Error("a part was used");
};

const parts = serverParts({
  callers: createCallerVerifier({ issuers: [agentsProfile([makeSigningKey("ES256", "agents-1")])], clock }),
  ...{
    clock,
    journal: unusedFunction,
    approvals: unused,
    auditDir: "/nowhere",
    reload: unusedFunction,
    learning: unusedFunction,
    quotas: unusedFunction,
    inventory: unusedFunction,
    halts: unused,
    hub: unused,
    tenants: unusedFunction,
    evaluate: unusedFunction,
    explain: unusedFunction,
    dataFlow: unusedFunction,
  },
  ...{
    resource: "https://tools.example/",
    mcp: { resultBytesMax: 65_536, holdSeconds: 200, searchAbove: 64, attaches: () => true },
  },
  resourceMetadata: {
    resource: "https://tools.example/",
    resourceScopes: undefined,
    authorizationServers: () => [],
    bindsCertificates: false,
    hasMcp: true,
  },
  exports: () => [],
  notReady: (): readonly NotReady[] => [],
});
const endpoints = await endpointsWith(parts);
const agents = createServer(parts, endpoints);
const operators = createOperatorServer(parts, endpoints);
beforeAll(() => Promise.all([agents.ready(), operators.ready()]));
afterAll(() => Promise.all([agents.close(), operators.close()]));

const nameOf = ({ method, path }: Endpoint): string => `${method} ${path}`;
const urlOf = ({ path }: Endpoint): string => path.replace(":id", "01900000-0000-7000-8000-000000000000");
const guarded = ENDPOINTS.filter(({ audience }) => audience !== "anybody" && audience !== "signers");

test.each(
  guarded.filter((endpoint) => !("receive" in endpoint)).map((endpoint) => [nameOf(endpoint), endpoint] as const),
)("%s refuses a request without a token, and one with a wrong token", async (_name, endpoint) => {
  for (const listener of endpoint.listeners ?? ["agents"]) {
    const app = listener === "agents" ? agents : operators;
    for (const authorization of [undefined, "Bearer x.y.z"]) {
      const payload = bodyOf(endpoint);
      const answer = await app.inject({
        method: endpoint.method,
        url: urlOf(endpoint),
        headers: { ...(authorization && { authorization }), ...(payload && { "content-type": "application/json" }) },
        ...(payload && { payload }),
      });
      expect([answer.statusCode, answer.json().error.code]).toEqual([401, "UNAUTHENTICATED"]);
    }
  }
});

test.each(guarded.filter((endpoint) => "receive" in endpoint).map((endpoint) => [nameOf(endpoint), endpoint] as const))(
  "%s, which judges its requests itself, refuses a request without a token, and one with a wrong token",
  async (_name, { method, path }) => {
    const stand = await startIdentityService({});
    for (const authorization of [undefined, "Bearer x.y.z"]) {
      // Before the token, a GET must ask for a stream that there is.
      const asked: Record<string, string> =
        method === "GET"
          ? { accept: "text/event-stream", "mcp-protocol-version": "2025-11-25" }
          : { "content-type": "application/json" };
      const headers = { ...asked, ...(authorization && { authorization }) };
      const answer = await fetch(stand.service.url + path, {
        method,
        headers,
        ...(method !== "GET" && { body: CALL }),
      });
      expect(answer.status).toBe(401);
      const code = path === "/mcp" ? { data: { code: "UNAUTHENTICATED" } } : { code: "UNAUTHENTICATED" };
      expect(await answer.json()).toMatchObject({ error: code });
    }
    await stand.close();
  },
);

test("every named segment of a path has a schema, and no schema is without its segment", () => {
  const wrong = ENDPOINTS.filter(({ path, params }) => {
    const segments = path.split("/").flatMap((part) => (part.startsWith(":") ? [part.slice(1)] : []));
    return segments.join() !== Object.keys(params?.shape ?? {}).join();
  });
  expect(wrong.map(nameOf)).toEqual([]);
});

test("only calls, signed messages and the stream of MCP judge their requests themselves", () => {
  const own = ENDPOINTS.filter((endpoint) => "receive" in endpoint);
  expect(own.map(({ audience, audited }) => [audience, audited])).toEqual([
    ["agents", "call"],
    ["agents", "call"],
    ["agents", "tools.followed"],
    ["signers", "change"],
  ]);
});

test.each(ENDPOINTS.map((endpoint) => [nameOf(endpoint), endpoint] as const))(
  "%s: another method of the path is 405, with the methods that there are",
  async (_name, endpoint) => {
    const url = urlOf(endpoint);
    const isThere = ({ path }: Endpoint): boolean => {
      const [ours, theirs] = [endpoint.path.split("/"), path.split("/")];
      return ours.length === theirs.length && theirs.every((part, at) => part.startsWith(":") || part === ours[at]);
    };
    const methods = [...new Set(ENDPOINTS.filter(isThere).flatMap(methodsOf))].sort();
    const answer = await agents.inject({ method: "PATCH" as "GET", url });
    expect([answer.statusCode, answer.headers["allow"]]).toEqual([405, methods.join(", ")]);
  },
);

test("the listener for operators has probes and metrics only", () => {
  const there = ENDPOINTS.filter(({ listeners }) => listeners?.includes("operators"));
  expect(there.map(({ path }) => path).sort()).toEqual(["/healthz", "/metrics", "/readyz"]);
});

test("what needs a part of the service that there is not does not exist", async () => {
  const {
    approvals: _approvals,
    reload: _reload,
    resourceMetadata: _metadata,
    mcp: _mcp,
    hub: _hub,
    tenants: _tenants,
    ...bare
  } = parts;
  const app = createServer(bare, await endpointsWith(bare));
  for (const endpoint of ENDPOINTS) {
    const answer = await app.inject({ method: endpoint.method, url: urlOf(endpoint) });
    const isUnknown = answer.statusCode === 404;
    expect([nameOf(endpoint), isUnknown]).toEqual([nameOf(endpoint), endpoint.onlyWith !== undefined]);
  }
  await app.close();
});

test("the table of endpoints is current: else `bun run docs:endpoints`", () => {
  const page = readFileSync(PAGE, "utf8");
  expect(page).toBe(withReference(page));
});

test("every endpoint that the documents name is declared", () => {
  const pages = ["README.md", ...readdirSync(join(ROOT, "docs")).map((name) => `docs/${name}`)];
  const named = pages
    .filter((name) => name.endsWith(".md"))
    .flatMap((name) => [...readFileSync(join(ROOT, name), "utf8").matchAll(/\b(GET|POST|PUT|DELETE) (\/[\w:./-]+)/g)])
    .map(
      ([, method, path = ""]) =>
        `${method} ${path.replace(/[.,]$/, "").replace("/webhooks/chat/", "/webhooks/:name/")}`,
    );
  const declared = [...ENDPOINTS, ...CONSOLE_ENDPOINTS].map(nameOf);
  expect(new Set(named).size).toBeGreaterThan(15);
  expect([...new Set(named)].filter((name) => !declared.includes(name))).toEqual([]);
});

test("an endpoint demands each operators' permission of the table, and no other", () => {
  const demanded = new Set([...ENDPOINTS, ...CONSOLE_ENDPOINTS].flatMap(({ permission }) => permission ?? []));
  expect([...demanded].sort()).toEqual(Object.keys(OPERATOR_PERMISSIONS).sort());
});

test("the identity page's table of operators' permissions equals the code's, without links", () => {
  const page = readFileSync(join(ROOT, "docs/identity.md"), "utf8").replace(/\[([^\]]+)\]\([^)]+\)/g, "$1");
  const table = page.split("| permission | opens |\n|---|---|\n")[1]?.split("\n\n")[0];
  expect(table?.split("\n")).toEqual(
    Object.entries(OPERATOR_PERMISSIONS).map(([name, { opens }]) => `| \`${name}\` | ${opens} |`),
  );
});
