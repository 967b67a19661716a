import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type RunningService, startService } from "../../src/cli/service.ts";
import { journalEntries } from "../support/audit-files.ts";
import { readConfig } from "../support/build.ts";
import { LiveIssuers, OPERATORS_ISSUER } from "../support/live-tokens.ts";
import { until } from "../support/until.ts";

const MANIFEST = `
import { defineTool } from "safe-tool-call";
import { z } from "zod";
export const hello = defineTool({
  name: "hello",
  description: "Says hello",
  classification: "read",
  category: "read",
  permissions: { required: ["hello:say"] },
  input: z.strictObject({}),
  target: { system: "greetings", handler: async () => ({ said: "hello" }) },
  output: z.strictObject({ said: z.string() }),
  outputPolicy: { said: "allow" },
  examples: { accepts: [{}], rejects: [{ x: 1 }] },
});
`;

const folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-audit-service-")));
const issuers = new LiveIssuers();
const received: string[] = [];
let far: Bun.Server<undefined>;
let service: RunningService;

beforeAll(async () => {
  far = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: async (request) => {
      received.push(`${request.headers.get("x-scope-orgid")} ${await request.text()}`);
      return new Response(null, { status: 204 });
    },
  });
  mkdirSync(join(folder, "tools"));
  writeFileSync(join(folder, "tools/hello.ts"), MANIFEST);
  writeFileSync(join(folder, "headers"), "X-Scope-OrgID: audit\n");
  const written = {
    server: { port: 0 },
    tools: ["./tools"],
    audit: {
      dir: "./audit",
      durability: "write",
      export: [{ type: "loki", url: `http://127.0.0.1:${far.port}`, headersFile: "./headers" }],
    },
    jwt: { issuers: issuers.profiles() },
    log: { level: "silent" },
  };
  service = await startService(readConfig(written, { folder, environment: {}, origin: "test" }));
});
afterAll(async () => {
  await service?.drain();
  await far?.stop(true);
  rmSync(folder, { recursive: true, force: true });
});

async function bearer(kind: "good" | "operator", permissions: readonly string[]): Promise<Record<string, string>> {
  return { authorization: `Bearer ${await issuers.token({ kind, sub: `${kind}-1`, permissions })}` };
}

test("a call is found by its trace id a moment later, and the query is in the journal", async () => {
  const called = await fetch(`${service.url}/call`, {
    method: "POST",
    headers: { ...(await bearer("good", ["hello:say"])), "content-type": "application/json" },
    body: '{"tool":"hello","args":{}}',
  });
  const { traceId } = (await called.json()) as { traceId: string };
  const headers = await bearer("operator", ["audit:read", "metrics:read"]);
  const answer = await fetch(`${service.url}/audit?traceId=${traceId}&tool=hello`, { headers });
  expect(answer.status).toBe(200);
  expect(await answer.json()).toMatchObject({
    entries: [{ traceId, caller: { sub: "good-1" }, tool: { name: "hello" }, decision: "ALLOWED" }],
    more: false,
  });
  const looked = journalEntries(join(folder, "audit")).filter(({ type }) => type === "audit.queried");
  expect(looked).toMatchObject([
    { sub: "operator-1", iss: OPERATORS_ISSUER, route: "query", filters: { traceId, tool: "hello" } },
  ]);
  await until("the line at the far side", () =>
    received.some((text) => text.startsWith("audit ") && text.includes(traceId)) ? true : undefined,
  );
  await until("its count, once the far side's answer is there too", async () => {
    const metrics = await (await fetch(`${service.url}/metrics`, { headers })).text();
    return /stc_audit_export_sent_lines\{exporter="loki",stream="calls"\} [1-9]/.test(metrics) ? true : undefined;
  });
});

test("an agent's token reads nothing", async () => {
  const answer = await fetch(`${service.url}/audit`, { headers: await bearer("good", ["audit:read"]) });
  expect(answer.status).toBe(401);
});

test("an open stream does not delay the service's end", async () => {
  const headers = await bearer("operator", ["audit:read"]);
  const stream = await fetch(`${service.url}/audit/tail`, { headers });
  expect(stream.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
  const ended = stream.text();
  await service.drain();
  expect(await ended).toStartWith(": open\nretry: 1000\n\n");
});
