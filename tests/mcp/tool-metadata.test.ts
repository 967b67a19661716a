import { afterAll, beforeAll, expect, test } from "bun:test";
import { defineTool } from "safe-tool-call";
import { z } from "zod";
import { McpWorld } from "./mcp-world.ts";

const base = {
  permissions: { required: ["orders:read"] },
  input: z.strictObject({}),
  output: z.object({ done: z.boolean() }),
  outputPolicy: { done: "allow" },
  handler: () => ({ done: true }),
} as const;
const write = { ...base, classification: "write", category: "write" } as const;

interface Listed {
  readonly name: string;
  readonly annotations: { readonly destructiveHint: boolean };
}

const ASKS = "safe-tool-call/approval";
const LOCATION = "safe-tool-call/location";

const world = new McpWorld();
beforeAll(() =>
  world.start({
    mcp: { holdSeconds: 0 },
    tools: [
      defineTool({ ...base, name: "t_read", description: "Reads", classification: "read" }),
      defineTool({ ...write, name: "t_write", description: "Writes" }),
      defineTool({
        ...write,
        name: "t_offered",
        description: "Writes",
        approval: { message: "Sends the letter.", grants: { runs: 3, minutes: 10 } },
      }),
      defineTool({ ...write, name: "t_add", description: "Adds", additive: true }),
      defineTool({ ...write, name: "t_once", description: "Writes", approval: { scopes: ["once"] } }),
      defineTool({ ...write, name: "t_risky", description: "Writes", approval: { risk: "high" } }),
      defineTool({
        ...base,
        name: "t_destroy",
        description: "Deletes",
        classification: "destructive",
        category: "write",
      }),
      defineTool({ ...base, name: "t_ask", description: "Asks", classification: "read", category: "ask" }),
    ],
  }),
);
afterAll(() => world.end());

const metaByName = async (): Promise<Record<string, Record<string, unknown>>> => {
  const { body } = await world.modern("tools/list");
  return Object.fromEntries(body.result.tools.map((tool: { name: string; _meta: object }) => [tool.name, tool._meta]));
};

test("the list says where a tool runs, what approvers are asked and how they may answer", async () => {
  const metas = await metaByName();
  const approvals = Object.fromEntries(Object.entries(metas).map(([name, meta]) => [name, meta[ASKS]]));
  const message = (title: string): string => `${title}: a person decides whether the call may run.`;
  expect(approvals).toEqual({
    t_read: { category: "read", asks: "never" },
    t_write: {
      ...{ category: "write", asks: "sometimes" },
      ...{ message: message("T write"), options: ["cancel", "once", "session"] },
    },
    t_offered: {
      ...{ category: "write", asks: "sometimes" },
      ...{ message: "Sends the letter.", options: ["cancel", "once", "session", "bounded"] },
    },
    t_add: {
      ...{ category: "write", asks: "sometimes" },
      ...{ message: message("T add"), options: ["cancel", "once", "session"] },
    },
    t_once: {
      ...{ category: "write", asks: "sometimes" },
      ...{ message: message("T once"), options: ["cancel", "once"] },
    },
    t_risky: {
      ...{ category: "write", asks: "always" },
      ...{ message: message("T risky"), options: ["cancel", "once"] },
    },
    t_destroy: {
      ...{ category: "write", asks: "always" },
      ...{ message: message("T destroy"), options: ["cancel", "once"] },
    },
    t_ask: {
      ...{ category: "ask", asks: "always" },
      ...{ message: message("T ask"), options: ["cancel", "once"] },
    },
  });
  expect(new Set(Object.values(metas).map((meta) => meta[LOCATION]))).toEqual(new Set(["server"]));
});

test("only a tool that reads or is additive is listed as not destructive, over MCP and at GET /tools", async () => {
  const { body: listed } = await world.modern("tools/list");
  const { body: exported } = await world.send("GET", "/tools?format=mcp", { token: await world.caller() });
  for (const tools of [listed.result.tools, exported.tools]) {
    const hints = tools.map(({ name, annotations }: Listed) => [name, annotations.destructiveHint]);
    expect(Object.fromEntries(hints)).toEqual({
      ...{ t_read: false, t_add: false, t_ask: false },
      ...{ t_write: true, t_offered: true, t_once: true, t_risky: true, t_destroy: true },
    });
  }
});

test("a call that repeats the `_meta` of a tool that asks is a call like any other", async () => {
  const { t_write: _meta = {} } = await metaByName();
  const answer = await world.call("t_write", {}, { _meta });
  expect(answer.body.result.content[0].text).toStartWith("APPROVAL_REQUIRED");
});

test("an approval that is named next to a list entry's members is refused", async () => {
  const _meta = { [ASKS]: { category: "read", asks: "never", id: "x".repeat(20) } };
  const answer = await world.call("t_write", {}, { _meta });
  expect(answer.body.error).toMatchObject({ code: -32_602 });
});
