import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createMcpHandler, Server } from "@modelcontextprotocol/server";
import { LiveIssuers } from "../support/live-tokens.ts";
import { runStc } from "../support/stc.ts";

const folder = mkdtempSync(join(tmpdir(), "stc-check-"));
const config = join(folder, "stc.yaml");
const requests: string[] = [];
const handler = createMcpHandler(
  () => {
    const server = new Server({ name: "tickets", version: "1" }, { capabilities: { tools: {} } });
    const inputSchema = { type: "object" as const, properties: { id: { type: "string" } }, required: ["id"] };
    server.setRequestHandler("tools/list", () => ({ tools: [{ name: "get_ticket", inputSchema }] }));
    return server;
  },
  { legacy: "stateless" },
);
const far = Bun.serve({
  ...{ hostname: "127.0.0.1", port: 0 },
  async fetch(request) {
    const { pathname } = new URL(request.url);
    const text = await request.clone().text();
    requests.push(`${pathname} ${text === "" ? request.method : JSON.parse(text).method}`);
    return handler.fetch(request);
  },
});

const MANIFEST = `
  import { defineTool, httpRequest, mcpTool } from "safe-tool-call";
  import { z } from "zod";
  const read = {
    description: "Reads a ticket", classification: "read", permissions: { required: ["tickets:read"] },
    output: z.object({ text: z.string() }), outputPolicy: { text: "allow" },
  } as const;
  const id = z.string().max(20).regex(/^[a-z0-9-]+$/);
  export const byHttp = defineTool({
    ...read, name: "http_ticket", input: z.strictObject({ id, page: z.int().optional() }),
    target: httpRequest("api", { method: "GET", path: "/tickets/{id}", query: { page: "{page}" } }),
  });
  export const byMcp = defineTool({
    ...read, name: "mcp_ticket", input: z.strictObject({ idd: id }), target: mcpTool("server", "get_ticket"),
  });`;

function write(api: object = {}): void {
  const url = `http://127.0.0.1:${far.port}`;
  const plain = { plaintext: true, addresses: ["loopback"], auth: { bearerFile: "token" } };
  const systems = {
    api: { http: { baseUrl: `${url}/v1`, ...plain, ...api } },
    server: { mcp: { url: `${url}/mcp`, ...plain } },
  };
  const jwt = { issuers: new LiveIssuers().profiles() };
  writeFileSync(config, JSON.stringify({ tools: ["./tool.ts"], audit: { dir: "./audit" }, jwt, systems }));
}

beforeAll(() => {
  writeFileSync(join(folder, "tool.ts"), MANIFEST);
  writeFileSync(join(folder, "token"), "a-token-of-the-test");
});
afterAll(async () => {
  await far.stop(true);
  rmSync(folder, { recursive: true, force: true });
});

test("stc check reads the definitions of an MCP server, sends nothing to an API, and names what does not fit", async () => {
  write();
  requests.length = 0;
  const { code, out, err } = await runStc(["check", "--config", config]);
  expect([code, err]).toEqual([0, ""]);
  expect(out).toContain("ok: 2 tools");
  expect(out).toMatch(/tool mcp_ticket: target\.mcp: is not pinned: set definitionSha256: "[0-9a-f]{64}"/);
  expect(out).toContain("tool mcp_ticket: input.idd: is unknown to the server; did you mean id?");
  expect(out).toContain("tool mcp_ticket: input.id: is missing: the server requires it");
  expect(out).not.toContain("a-token-of-the-test");
  expect(requests).toContain("/mcp tools/list");
  expect(requests.filter((request) => request.startsWith("/v1"))).toEqual([]);

  write({ auth: { bearerFile: "nowhere" } });
  const broken = await runStc(["check", "--config", config]);
  expect([broken.code, broken.out]).toEqual([78, ""]);
  expect(broken.err).toContain("systems.api.http.auth.bearerFile: nowhere cannot be read (ENOENT)");
});

test("stc plan prints the request to an API and the call of an MCP server, without credentials, and sends neither", async () => {
  write();
  requests.length = 0;
  const api = await runStc(["plan", "http_ticket", '{"id":"t-7","page":2}', "--config", config]);
  expect([api.code, api.err]).toEqual([0, ""]);
  expect(JSON.parse(api.out)).toMatchObject({
    ...{ kind: "http", system: "api", method: "GET", url: `http://127.0.0.1:${far.port}/v1/tickets/t-7?page=2` },
    addedHeaders: expect.arrayContaining(["(credentials)"]),
  });
  const call = await runStc(["plan", "mcp_ticket", '{"idd":"t-7"}', "--config", config]);
  expect([call.code, call.err]).toEqual([0, ""]);
  expect(JSON.parse(call.out)).toMatchObject({
    ...{ kind: "mcp", system: "server", tool: "get_ticket", arguments: { idd: "t-7" } },
    addedHeaders: ["authorization (bearerFile)"],
    addedMeta: ["traceparent?", "tracestate?"],
    definitionSha256: expect.stringMatching(/^[0-9a-f]{64}$/),
  });
  expect(`${api.out}${call.out}`).not.toContain("a-token-of-the-test");
  expect(requests.filter((request) => request.startsWith("/v1") || request.endsWith("tools/call"))).toEqual([]);
  const refused = await runStc(["plan", "http_ticket", '{"id":"../x"}', "--config", config]);
  expect(refused.code).not.toBe(0);
});
