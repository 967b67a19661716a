import { afterAll, beforeAll, expect, test } from "bun:test";
import { readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { type RunningService, startService } from "../../src/cli/service.ts";
import { MODULES, served } from "../../src/modules.ts";
import { readConfig } from "../support/build.ts";
import { emptyFolder, issuers } from "../support/identity-service.ts";

/** The one line that registers it. */
const toys = served(
  () => import("./toy-endpoint.ts"),
  ({ registry }) => ({ registry }),
);
const modules = { ...MODULES, endpoints: [...MODULES.endpoints, toys] };

const folder = emptyFolder();
let service: RunningService;
beforeAll(async () => {
  const written = {
    server: { port: 0, operator: { port: 0 } },
    ...{ tools: ["."], audit: { dir: "./audit", durability: "write" }, log: { level: "silent" } },
    jwt: { issuers: issuers.profiles() },
  };
  service = await startService(readConfig(written, { folder, environment: {}, origin: "test" }), undefined, {
    modules,
  });
});
afterAll(async () => {
  await service.drain();
  rmSync(folder, { recursive: true, force: true });
});

interface Asked {
  readonly kind?: "operator" | "good" | "none";
  readonly permissions?: readonly string[];
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

async function ask(path: string, { kind = "operator", permissions = ["toys:count"], ...init }: Asked = {}) {
  const token = kind === "none" ? undefined : await issuers.token({ kind, sub: "olga", permissions: [...permissions] });
  const answer = await fetch(service.url + path, {
    method: init.method ?? "GET",
    headers: { ...(token !== undefined && { authorization: `Bearer ${token}` }), ...init.headers },
  });
  const body = (await answer.json()) as { readonly error?: { readonly code: string } } & Record<string, unknown>;
  return { status: answer.status, code: body.error?.code, body, headers: answer.headers };
}

/** What the journal has of toys, without the members that every line has. */
function recorded(): readonly unknown[] {
  const dir = join(folder, "audit/journal");
  return readdirSync(dir)
    .flatMap((name) => readFileSync(join(dir, name), "utf8").trim().split("\n"))
    .map((line) => JSON.parse(line) as Record<string, unknown>)
    .filter(({ type }) => type === "toys.counted")
    .map(({ sub, color }) => ({ sub, color }));
}

test("an operator with the permission is answered, and the answer is in the journal before it is sent", async () => {
  const before = recorded().length;
  expect(await ask("/toys/red?size=large")).toMatchObject({
    status: 200,
    body: { color: "red", count: 3, by: "olga" },
  });
  expect(recorded().slice(before)).toEqual([{ sub: "olga", color: "red" }]);
});

test.each<readonly [string, string, Asked, number, string]>([
  ["a client without a token", "/toys/red", { kind: "none" }, 401, "UNAUTHENTICATED"],
  ["an agent", "/toys/red", { kind: "good" }, 401, "UNAUTHENTICATED"],
  ["an operator without the permission", "/toys/red", { permissions: ["audit:read"] }, 403, "PERMISSION_DENIED"],
  ["an invalid query", "/toys/red?size=huge", {}, 400, "MALFORMED_REQUEST"],
  ["an unknown parameter", "/toys/red?weight=3", {}, 400, "MALFORMED_REQUEST"],
  ["an invalid path", "/toys/blue", {}, 400, "MALFORMED_REQUEST"],
  ["a web page", "/toys/red", { headers: { origin: "https://evil.example" } }, 403, "HOST_NOT_ALLOWED"],
  ["another method", "/toys/red", { method: "POST" }, 405, "METHOD_NOT_ALLOWED"],
])("%s is refused and leaves no line in the journal", async (_who, path, asked, status, code) => {
  const before = recorded().length;
  const answer = await ask(path, asked);
  expect([answer.status, answer.code]).toEqual([status, code]);
  if (status === 405) expect(answer.headers.get("allow")).toBe("GET");
  expect(recorded()).toHaveLength(before);
});

test("it is described like every other endpoint", async () => {
  const { body } = await ask("/openapi.json", { kind: "none" });
  const { paths } = body as { readonly paths: Readonly<Record<string, { readonly get: object }>> };
  expect(paths["/toys/{color}"]?.get).toMatchObject({
    operationId: "getToysColor",
    summary: "Counts the toys of a color.",
    security: [{ operators: [] }],
    parameters: [
      { name: "color", in: "path", required: true, schema: { enum: ["red", "green"] } },
      { name: "size", in: "query", schema: { enum: ["small", "large"] } },
    ],
    responses: {
      200: { content: { "application/json": { schema: { properties: { count: { type: "integer" } } } } } },
      403: { description: expect.stringContaining("PERMISSION_DENIED") },
    },
  });
});

test("it does not exist on a listener that it does not name", async () => {
  const answer = await fetch(`${service.operatorUrl}/toys/red`);
  expect(answer.status).toBe(404);
});

test("a build without it has no such route", async () => {
  const written = {
    server: { port: 0 },
    ...{ tools: ["."], audit: { dir: "./other-audit", durability: "write" }, log: { level: "silent" } },
    jwt: { issuers: issuers.profiles() },
  };
  const plain = await startService(readConfig(written, { folder, environment: {}, origin: "test" }));
  expect((await fetch(`${plain.url}/toys/red`)).status).toBe(404);
  await plain.drain();
});
