import { afterAll, afterEach, beforeEach, expect, test } from "bun:test";
import { TASKS_EXTENSION } from "../../src/mcp/tasks.ts";
import { decision, evaluations, pointAt } from "../decision-points/authzen-service.ts";
import type { Loose } from "../support/asking-service.ts";
import { RawServer } from "../support/raw-server.ts";
import { until } from "../support/until.ts";
import { McpWorld } from "./mcp-world.ts";

const DECLARED = { "io.modelcontextprotocol/clientCapabilities": { extensions: { [TASKS_EXTENSION]: {} } } };
const ARGS = { order: "ord_7" };

const world = new McpWorld();
let pdp: RawServer;
/** What the point answers when it hears of the approval. */
let confirms = true;
beforeEach(async () => {
  pdp = await RawServer.start();
  pdp.answer = ({ text }) =>
    text.includes('"approval"') ? decision(confirms) : decision(false, { access_request: { template: "manager" } });
  const approvals = { store: `sqlite://./${crypto.randomUUID()}.sqlite` };
  await world.start({ approvals, decisionPoints: [pointAt(pdp, { onAccessRequest: "ask" })] });
});
afterEach(async () => {
  await world.stop();
  pdp.close();
});
afterAll(() => world.end());

test.each([
  [true, { refused: undefined, state: "executed" }],
  [false, { refused: "POLICY_DENIED", state: "approved" }],
])("a task runs with its approval only if the point allows it then: %p", async (allows, expected) => {
  confirms = allows;
  const created = await world.call("orders_find", ARGS, { _meta: DECLARED });
  const { taskId } = created.body.result;
  const pending = await until("an approval request", async () => {
    const { body } = await world.send("GET", "/approvals?state=pending", { token: await world.person() });
    return body.approvals[0] as Loose | undefined;
  });
  await world.decide(pending.id, "approve");
  const ended = await until("the end of the task", async () => {
    const headers = { "mcp-name": taskId };
    const { body } = await world.modern("tasks/get", { taskId, _meta: DECLARED }, { headers });
    return body.result?.status === "working" || body.result?.status === "input_required" ? undefined : body.result;
  });
  const text = JSON.stringify(ended);
  expect(text.includes("POLICY_DENIED") ? "POLICY_DENIED" : undefined).toBe(expected.refused);
  if (allows) expect(text).toContain("ord_7");
  expect(evaluations(pdp).at(-1)?.body.context.approval.id).toBe(pending.id);
  const { body: shown } = await world.send("GET", `/approvals/${pending.id}`, { token: await world.person() });
  expect(shown.approval.state).toBe(expected.state);
});
