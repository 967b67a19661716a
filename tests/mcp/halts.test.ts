import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { TASKS_EXTENSION } from "../../src/mcp/tasks.ts";
import type { Loose } from "../support/asking-service.ts";
import { until } from "../support/until.ts";
import { McpWorld, MODERN } from "./mcp-world.ts";

const HALTS = ["halts:read", "halts:write"];
const CAPABILITIES = "io.modelcontextprotocol/clientCapabilities";
const TASKS = { [CAPABILITIES]: { extensions: { [TASKS_EXTENSION]: {} } } };
const OPENS_PAGES = { [CAPABILITIES]: { elicitation: { url: {} } } };

let world: McpWorld;
beforeAll(async () => {
  const approvals = { store: "sqlite://./approvals.sqlite", pageUrl: "https://people.example/approvals/{id}/page" };
  world = await new McpWorld().start({ approvals });
});
afterEach(async () => {
  const token = await world.person({ permissions: HALTS });
  const { halts } = (await world.send("GET", "/halts", { token })).body;
  for (const { id } of halts) await lift(id);
});
afterAll(() => world.end());

async function halt(body: Loose): Promise<string> {
  const token = await world.person({ permissions: HALTS });
  const { body: set } = await world.send("POST", "/halts", { token, body: { reason: "secret plan", ...body } });
  return set.halt.id;
}

async function lift(id: string): Promise<void> {
  await world.send("DELETE", `/halts/${id}`, { token: await world.person({ permissions: HALTS }) });
}

let cents = 100;
const refund = () => {
  cents += 1;
  return { order: "ord_1", cents };
};

async function pendingId(): Promise<string> {
  return until("an approval request", async () => {
    const { body } = await world.send("GET", "/approvals?state=pending", { token: await world.person() });
    return body.approvals[0]?.id as string | undefined;
  });
}

test.each([MODERN, "2025-11-25"])(
  "protocol version %s: a halted call is a refusal like others, and tools are still listed",
  async (version) => {
    await halt({ kind: "tool", tool: "orders_find" });
    const client = await world.client(version);
    const { isError, content, _meta } = await client.callTool({ name: "orders_find", arguments: { order: "ord_1" } });
    expect([isError, _meta?.["safe-tool-call/refusal"]]).toMatchObject([true, { code: "HALTED" }]);
    expect(JSON.stringify(content)).toContain("HALTED: The service's operators have halted this call.");
    expect(JSON.stringify(content)).not.toContain("secret plan");
    expect((await client.listTools()).tools.map(({ name }) => name)).toContain("orders_find");
  },
);

test.each([MODERN, "2025-11-25"])(
  "protocol version %s: a held call ends with HALTED, and its approval is used after the halt",
  async (version) => {
    const client = await world.client(version);
    const call = { name: "orders_refund", arguments: refund() };
    const answer = client.callTool(call, { onprogress: () => {} });
    const approval = await pendingId();
    const id = await halt({ kind: "all" });
    expect((await answer)._meta?.["safe-tool-call/refusal"]).toMatchObject({ code: "HALTED" });
    await world.decide(approval, "approve");
    expect((await client.callTool(call))._meta?.["safe-tool-call/refusal"]).toMatchObject({ code: "HALTED" });
    await lift(id);
    expect((await client.callTool(call)).structuredContent).toEqual({ refunded: call.arguments.cents });
  },
);

test("a task whose request is approved reports HALTED while it is halted, and completes after the halt", async () => {
  const args = refund();
  const created = await world.call("orders_refund", args, { _meta: TASKS });
  const { taskId, _meta } = created.body.result;
  await world.decide(_meta["safe-tool-call/approval"].id, "approve");
  const id = await halt({ kind: "system", system: "inline" });
  const get = async () => {
    const headers = { "mcp-name": taskId };
    return (await world.modern("tasks/get", { taskId, _meta: TASKS }, { headers })).body.result;
  };
  expect(await get()).toMatchObject({ status: "working", statusMessage: expect.stringContaining("HALTED") });
  expect(await get()).toMatchObject({ status: "working" });
  await lift(id);
  expect(await get()).toMatchObject({ status: "completed", result: { structuredContent: { refunded: args.cents } } });
});

test("a client that opened the page of its request gets HALTED during a halt, and its result after it", async () => {
  const args = refund();
  const asked = await world.call("orders_refund", args, { _meta: OPENS_PAGES });
  const { requestState } = asked.body.result;
  await world.decide(await pendingId(), "approve");
  const id = await halt({ kind: "tool", tool: "orders_refund" });
  const again = () =>
    world.modern("tools/call", {
      name: "orders_refund",
      arguments: args,
      requestState,
      inputResponses: { approval: { action: "accept" } },
      _meta: OPENS_PAGES,
    });
  expect(JSON.stringify((await again()).body)).toContain("HALTED");
  await lift(id);
  expect((await again()).body.result.structuredContent).toEqual({ refunded: args.cents });
});
