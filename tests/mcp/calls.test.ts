import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { McpWorld, TOOLS } from "./mcp-world.ts";

let world: McpWorld;
beforeAll(async () => {
  world = await new McpWorld().start();
});
afterAll(() => world.end());

describe.each(["2026-07-28", "2025-11-25", "2025-06-18"])("the official client, protocol version %s", (version) => {
  test("lists exactly the tools that its caller can call", async () => {
    const client = await world.client(version);
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toEqual(["orders_find", "orders_refund", "reports_read"]);
    const reader = await world.client(version, await world.caller({ permissions: ["orders:read"] }));
    const { tools: fewer } = await reader.listTools();
    expect(fewer.map(({ name }) => name)).toEqual(["orders_find", "reports_read"]);
  });

  test("gets a filtered result, and its call is one audit line with the protocol", async () => {
    const client = await world.client(version);
    const before = world.entries().length;
    const { content, structuredContent, isError } = await client.callTool({
      name: "orders_find",
      arguments: { order: "ord_1" },
    });
    const result = { order: "ord_1", email: "a**@c********.example", total: 12.5 };
    expect([isError, structuredContent]).toEqual([undefined, result]);
    expect(content).toEqual([{ type: "text", text: JSON.stringify(result) }]);
    expect(world.entries().length).toBe(before + 1);
    expect(world.last()).toMatchObject({
      decision: "ALLOWED",
      tool: { name: "orders_find" },
      protocol: { name: "mcp", version, client: { name: "test-client", version: "1.2.3" } },
      response: { filteredFields: ["email", "note"] },
    });
  });

  test("is told what to change about refused arguments, and the corrected call runs", async () => {
    const client = await world.client(version);
    const refused = await client.callTool({ name: "orders_find", arguments: { order: "1" } });
    expect(refused.isError).toBe(true);
    const [{ text = "" } = {}] = refused.content as readonly { readonly text?: string }[];
    expect(text).toStartWith("INVALID_INPUT: The arguments do not match the tool's input schema: order.");
    expect(text).toContain("- order: ");
    expect(refused._meta?.["safe-tool-call/refusal"]).toMatchObject({ code: "INVALID_INPUT", stage: "VALIDATION" });
    expect(world.last()).toMatchObject({
      decision: "DENIED",
      denial: { stage: "VALIDATION" },
      error: { code: "INVALID_INPUT" },
    });
    const corrected = await client.callTool({ name: "orders_find", arguments: { order: "ord_1" } });
    expect(corrected.isError).toBeUndefined();
  });
});

test.each([
  [[]],
  [["orders:read"]],
  [["orders:refund"]],
  [["orders:refund-large"]],
  [["orders:read", "orders:refund"]],
  [["orders:rea"]],
  [["*"]],
])("with the permissions %j, what is listed is what can be called, in both eras", async (permissions) => {
  const token = await world.caller({ permissions });
  const callable: string[] = [];
  for (const { name } of TOOLS) {
    const { body } = await world.call(name, {}, { token });
    if (body.error === undefined) callable.push(name);
  }
  const list = { jsonrpc: "2.0", id: 1, method: "tools/list" };
  for (const answer of [await world.modern("tools/list", {}, { token }), await world.post(list, { token })]) {
    const listed = answer.body.result?.tools.map(({ name }: { readonly name: string }) => name) ?? [];
    expect(listed).toEqual(callable.toSorted());
    expect(answer.http).toBe(callable.length > 0 ? 200 : 403);
  }
});
