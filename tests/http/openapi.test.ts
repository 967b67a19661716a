import { expect, test } from "bun:test";
import { QUERY_PARAMS } from "../../src/audit/query/params.ts";
import { REFUSALS } from "../../src/core/refusals.ts";
import { CALL, callHeaders, hubSection, issuers, startIdentityService } from "../support/identity-service.ts";
import { ENDPOINTS } from "./server-parts.ts";

/** Endpoints that this configuration does not have. */
const ELSEWHERE = ["POST /reload", "GET /tenants"];
/** It asks for no token: what is sent there is signed. */
const SIGNED = "POST /webhooks/:name/decisions";
const SOME_ID = "01900000-0000-7000-8000-000000000000";

interface Operation {
  readonly summary?: string;
  readonly operationId: string;
  readonly security?: readonly object[];
  readonly parameters?: readonly { readonly name: string; readonly in: string }[];
  readonly responses: Readonly<Record<string, { readonly description: string; readonly content?: object }>>;
  readonly requestBody?: { readonly content: Record<string, { readonly schema: { readonly properties: object } }> };
}

interface Document {
  readonly openapi: string;
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: {
    readonly schemas: { readonly Refusal: { properties: { error: { properties: { code: { enum: string[] } } } } } };
  };
}

async function full() {
  const stand = await startIdentityService({
    server: { resource: "https://tools.example/" },
    rest: { approvals: { store: "sqlite://./approvals.sqlite" }, hub: hubSection() },
  });
  const answer = await fetch(`${stand.service.url}/openapi.json`, { headers: { host: "anybody.example" } });
  expect(answer.status).toBe(200);
  const text = await answer.text();
  return { stand, text, document: JSON.parse(text) as Document };
}

/** `METHOD /path`, as the routes are declared. */
function operationsIn({ paths }: Document): ReadonlyMap<string, Operation> {
  return new Map(
    Object.entries(paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(
        ([method, operation]) => [`${method.toUpperCase()} ${path.replace(/\{(\w+)\}/g, ":$1")}`, operation] as const,
      ),
    ),
  );
}

test("every declared endpoint is described, with a summary and an id of its own", async () => {
  const { stand, document } = await full();
  expect(document.openapi).toBe("3.1.0");
  const operations = operationsIn(document);
  expect([...operations].filter(([, { summary }]) => summary === undefined).map(([name]) => name)).toEqual([]);
  const shut = ENDPOINTS.map(({ method, path }) => `${method} ${path}`).filter(
    (name) => !operations.has(name) && !ELSEWHERE.includes(name),
  );
  expect(shut).toEqual([]);
  const ids = [...operations.values()].map(({ operationId }) => operationId);
  expect(new Set(ids).size).toBe(ids.length);
  await stand.close();
});

test("everything described exists: every operation answers something other than an unknown route", async () => {
  const { stand, document } = await full();
  for (const [name, operation] of operationsIn(document)) {
    const [method = "", path = ""] = name.split(" ");
    if (path === "/.well-known/oauth-protected-resource" || path === "/openapi.json") continue;
    const answer = await fetch(`${stand.service.url}${path.replace(/:\w+/g, SOME_ID)}`, { method });
    const text = await answer.text();
    expect([name, text.includes("ROUTE_NOT_FOUND")]).toEqual([name, false]);
    // What asks for a token asks for it when none is shown.
    const isOpen = operation.security?.length === 0;
    if (isOpen && name !== SIGNED) expect([name, answer.status]).toEqual([name, 200]);
    else expect([name, answer.status >= 400]).toEqual([name, true]);
  }
  await stand.close();
});

test("every code of the table is in it, each call's under its status", async () => {
  const { stand, document } = await full();
  const { code } = document.components.schemas.Refusal.properties.error.properties;
  expect(code.enum).toEqual([...Object.keys(REFUSALS), "ROUTE_NOT_FOUND", "METHOD_NOT_ALLOWED", "ENTRY_NOT_FOUND"]);
  const call = document.paths["/call"]?.["post"];
  for (const [name, { http, decision }] of Object.entries(REFUSALS)) {
    if (decision === "PENDING" || http === 499) continue;
    expect(call?.responses[http]?.description.split(", ")).toContain(name);
  }
  await stand.close();
});

test("the body of a call is the schema that the endpoint reads", async () => {
  const { stand, document } = await full();
  const schema = document.paths["/call"]?.["post"]?.requestBody?.content["application/json"]?.schema;
  expect(schema).toMatchObject({
    type: "object",
    required: ["tool"],
    additionalProperties: false,
    properties: { tool: { type: "string", maxLength: 256 }, args: { type: "object" } },
  });
  for (const key of Object.keys(schema?.properties ?? {})) {
    const odd = JSON.stringify({ ...JSON.parse(CALL), [key]: 7 });
    const answer = await fetch(`${stand.service.url}/call`, {
      method: "POST",
      headers: await callHeaders(),
      body: odd,
    });
    expect([key, answer.status]).toEqual([key, 400]);
  }
  await stand.close();
});

test("each endpoint's audience, and its successful answer", async () => {
  const { stand, document } = await full();
  const operations = operationsIn(document);
  for (const [name, schemes] of [
    ["GET /tools", ["agents"]],
    ["POST /sessions", ["agents"]],
    ["GET /sessions", ["operators"]],
    ["DELETE /grants/:id", ["operators"]],
    ["GET /grants", ["agents", "operators"]],
  ] as const) {
    expect([name, operations.get(name)?.security?.flatMap(Object.keys)]).toEqual([name, [...schemes]]);
  }
  const answer = await fetch(`${stand.service.url}/sessions`, { method: "POST", headers: await callHeaders() });
  expect(Object.keys(operations.get("POST /sessions")?.responses ?? {})).toContain(String(answer.status));
  expect(answer.status).toBe(201);
  await stand.close();
});

test("parameters, bodies and kinds of answers are those of the routes", async () => {
  const { stand, document } = await full();
  const operations = operationsIn(document);
  for (const [name, place, parameters] of [
    ["POST /call", "header", ["Idempotency-Key", "Prefer", "traceparent", "tracestate"]],
    ["GET /tools", "query", ["format", "strict"]],
    ["GET /approvals", "query", ["issuer", "subject", "state", "limit", "cursor", "headlinesFrom"]],
    ["GET /approvals/:id", "query", ["wait"]],
    ["GET /approvals/report", "query", ["from", "to"]],
    ["GET /approvals/:id", "path", ["id"]],
    ["GET /events", "header", ["Last-Event-ID"]],
  ] as const) {
    const named = operations
      .get(name)
      ?.parameters?.filter((one) => one.in === place)
      .map((one) => one.name);
    expect([name, named]).toEqual([name, [...parameters]]);
  }
  const audit = operations.get("GET /audit")?.parameters?.map(({ name }) => name) ?? [];
  expect(audit).toEqual([...QUERY_PARAMS, "source"]);
  expect(Object.keys(operations.get("POST /rpc")?.responses ?? {})).toContain("204");
  expect(operations.get("POST /rpc")?.requestBody).toBeDefined();
  expect(operations.get("GET /audit/:traceId")?.responses["404"]?.description).toContain("ENTRY_NOT_FOUND");
  const authorization = `Bearer ${await issuers.token({
    kind: "operator",
    sub: "olga",
    permissions: ["approvals:decide", "audit:read", "metrics:read"],
  })}`;
  for (const path of ["/events", "/audit/tail", "/metrics", "/healthz", "/audit", `/approvals/${SOME_ID}/page`]) {
    const ending = new AbortController();
    const answer = await fetch(`${stand.service.url}${path}`, { headers: { authorization }, signal: ending.signal });
    const kind = answer.headers.get("content-type")?.split(";")[0] ?? "";
    const described = operations.get(`GET ${path.replace(SOME_ID, ":id")}`)?.responses["200"]?.content ?? {};
    expect([path, answer.status, Object.keys(described)]).toEqual([path, 200, [kind]]);
    ending.abort();
  }
  await stand.close();
});

test("no tool, no path of a file, no issuer", async () => {
  const { stand, text } = await full();
  for (const secret of ["whoami", "self:read", stand.folder, "idp.test", "people.test"])
    expect(text).not.toContain(secret);
  await stand.close();
});

test("an endpoint that is switched off is not described", async () => {
  const stand = await startIdentityService({});
  const document = (await (await fetch(`${stand.service.url}/openapi.json`)).json()) as Document;
  expect(Object.keys(document.paths)).toContain("/call");
  expect(Object.keys(document.paths)).not.toContain("/approvals");
  expect(Object.keys(document.paths)).not.toContain("/.well-known/oauth-protected-resource");
  await stand.close();
});
