import { expect, test } from "bun:test";
import { AGENTS_AUDIENCE } from "../support/tokens.ts";
import { McpWorld } from "./mcp-world.ts";

const PAGE = "/.well-known/oauth-protected-resource";
const LIST = { jsonrpc: "2.0", id: 1, method: "tools/list" };

async function served(sections: Readonly<Record<string, unknown>>, check: (world: McpWorld) => Promise<void>) {
  const world = await new McpWorld().start(sections);
  try {
    await check(world);
  } finally {
    await world.end();
  }
}

test("with server.resource the metadata is at both paths, and a 401 names it", () =>
  served({ server: { port: 0, resource: "https://tools.example" } }, async (world) => {
    for (const path of [PAGE, `${PAGE}/mcp`]) {
      const { http, body } = await world.send("GET", path, {});
      expect([http, body.resource]).toEqual([200, "https://tools.example"]);
      expect(body.authorization_servers.length).toBe(1);
    }
    const { headers } = await world.send("POST", "/mcp", { body: LIST });
    expect(headers.get("www-authenticate")).toContain(`resource_metadata="https://tools.example${PAGE}"`);
  }));

test("a resource that is the MCP endpoint itself has its metadata where clients look first", () =>
  served({ server: { port: 0, resource: "https://tools.example/mcp" } }, async (world) => {
    expect((await world.send("GET", `${PAGE}/mcp`, {})).body.resource).toBe("https://tools.example/mcp");
    const { headers } = await world.send("POST", "/mcp", { body: LIST });
    expect(headers.get("www-authenticate")).toContain(`resource_metadata="https://tools.example${PAGE}/mcp"`);
  }));

test.each([
  ["without server.resource", { server: { port: 0 } }],
  [
    "with mcp.oauthMetadata off",
    { server: { port: 0, resource: "https://tools.example" }, mcp: { oauthMetadata: false } },
  ],
])("%s there is no metadata, and the challenge is bare", (_title, sections) =>
  served(sections, async (world) => {
    for (const path of [PAGE, `${PAGE}/mcp`]) expect((await world.send("GET", path, {})).http).toBe(404);
    const { http, headers } = await world.send("POST", "/mcp", { body: LIST });
    expect([http, headers.get("www-authenticate")]).toEqual([401, 'Bearer realm="safe-tool-call"']);
  }),
);

test("mcp.oauthMetadata without server.resource does not start", async () => {
  const world = new McpWorld();
  await expect(world.start({ mcp: { oauthMetadata: true } })).rejects.toThrow(
    "mcp.oauthMetadata: describes server.resource, which is missing",
  );
  await world.end();
});

test("an issuer may name several audiences; a token must be for one of them", async () => {
  const world = new McpWorld();
  const [agents, operators] = world.issuers.profiles();
  const issuers = [{ ...agents, audience: ["https://tools.example/mcp", AGENTS_AUDIENCE] }, operators];
  await world.start({ jwt: { issuers } });
  expect((await world.post(LIST)).http).toBe(200);
  await world.stop();
  await world.start({ jwt: { issuers: [{ ...agents, audience: ["https://tools.example/mcp"] }, operators] } });
  const refused = await world.post(LIST);
  expect([refused.http, refused.body.error.data.code]).toEqual([401, "UNAUTHENTICATED"]);
  await world.end();
});

test("a list of audiences must not hold the operators'", async () => {
  const world = new McpWorld();
  const [agents, operators] = world.issuers.profiles();
  const issuers = [{ ...agents, audience: [AGENTS_AUDIENCE, operators?.["audience"]] }, operators];
  await expect(world.start({ jwt: { issuers } })).rejects.toThrow("is also an operators' audience");
  await world.end();
});

test("with mcp.enabled off there is no such route", () =>
  served({ mcp: { enabled: false } }, async (world) => {
    const { http, body } = await world.post(LIST);
    expect([http, body.error.code]).toEqual([404, "ROUTE_NOT_FOUND"]);
  }));
