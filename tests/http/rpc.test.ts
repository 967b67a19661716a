import { afterAll, beforeAll, expect, test } from "bun:test";
import { AGENTS_ISSUER } from "../support/tokens.ts";
import { ApprovalStand, agentToken, codeOf, listOf, membersOf, operatorToken, type Reply } from "./approval-stand.ts";

let stand: ApprovalStand;
let olga: string;
beforeAll(async () => {
  stand = await ApprovalStand.open();
  olga = await operatorToken();
});
afterAll(() => stand.close());

const requester = { issuer: AGENTS_ISSUER, subject: "agent-7", actors: [], session: undefined };
const NEVER_GIVEN = "00000000-0000-4000-8000-000000000000";
const RESOLVED = "approval not found or already resolved";

function call(method: string, params?: unknown, token = olga): Promise<Reply> {
  return stand.send("POST /rpc", { token, body: { jsonrpc: "2.0", id: 7, method, params } });
}

const faultOf = ({ json }: Reply): unknown => membersOf(json["error"])["code"];
const stateOf = async (id: string): Promise<unknown> => (await stand.approvals.get(id))?.state;

test("exec.approve and exec.deny decide, once", async () => {
  const [first, second] = [await stand.ask(), await stand.ask()];
  const approved = await call("exec.approve", { approvalId: first.id });
  expect([approved.status, approved.json]).toEqual([200, { jsonrpc: "2.0", id: 7, result: { ok: true } }]);
  const denied = await call("exec.deny", { approvalId: second.id, reason: "too dangerous" });
  expect(denied.json).toEqual({ jsonrpc: "2.0", id: 7, result: { ok: true } });
  expect(await stand.approvals.get(second.id)).toMatchObject({
    state: "denied",
    decisionReason: "too dangerous",
    decidedBy: { issuer: "https://people.test", subject: "olga" },
  });
  for (const method of ["exec.approve", "exec.deny"]) {
    const again = await call(method, { approvalId: first.id });
    expect([again.status, again.json]).toEqual([
      200,
      { jsonrpc: "2.0", id: 7, error: { code: -32602, message: RESOLVED } },
    ]);
  }
  expect([await stateOf(first.id), await stateOf(second.id)]).toEqual(["approved", "denied"]);
});

test("a frame without jsonrpc is accepted, and answered in kind", async () => {
  const { id } = await stand.ask();
  const send = (body: Record<string, unknown>) => stand.send("POST /rpc", { token: olga, body });
  const approved = await send({ id: "3", method: "exec.approve", params: { approvalId: id } });
  expect([approved.status, approved.json]).toEqual([200, { id: "3", result: { ok: true } }]);
  const again = await send({ id: "4", method: "exec.approve", params: { approvalId: id } });
  expect(again.json).toEqual({ id: "4", error: { code: -32602, message: RESOLVED } });
  const other = await send({ jsonrpc: "1.0", id: "5", method: "exec.list" });
  expect(other.json).toMatchObject({ error: { code: -32600 } });
});

test("exec.list shows what this operator may decide, with the command when there is one", async () => {
  const { id, decideBy } = await stand.ask();
  const plain = await stand.ask({ view: { tool: "customer_block" } });
  const from = stand.lines.length;
  const listed = await call("exec.list");
  const items = listOf({ ...listed, json: membersOf(listed.json["result"]) }, "approvals");
  const summary = "customer_block on customer-master-service (write, medium risk)";
  const times = { tool: "customer_block", summary, decideBy: new Date(decideBy).toISOString() };
  const wanted = { approvalId: id, command: ["git", "push"], workingDir: "/srv/x", ...times };
  expect(items.find(({ approvalId }) => approvalId === id)).toEqual(wanted);
  expect(items.find(({ approvalId }) => approvalId === plain.id)).toEqual({ approvalId: plain.id, ...times });
  expect(listed.text).not.toContain("secret-arg");
  expect(stand.lines.slice(from)).toEqual([{ type: "approvals.listed", sub: "olga", iss: "https://people.test" }]);
  const own = await call("exec.list", {}, await operatorToken({ sub: "agent-7" }));
  expect(own.json["result"]).toEqual({ approvals: [] });
  for (const one of [id, plain.id]) await stand.approvals.cancel(one, requester);
});

test("one's own request cannot be decided, and an attempt is recorded", async () => {
  const { id } = await stand.ask();
  const from = stand.lines.length;
  const answer = await call("exec.approve", { approvalId: id }, await operatorToken({ sub: "agent-7" }));
  expect(answer.json["error"]).toEqual({ code: -32602, message: RESOLVED });
  expect(stand.lines.slice(from)).toEqual([
    { type: "approval.forged", id, sub: "agent-7", iss: "https://people.test", reason: "own_question" },
  ]);
  expect(await stateOf(id)).toBe("pending");
});

test.each([
  ["an unknown id", { approvalId: NEVER_GIVEN }, RESOLVED],
  ["no UUID", { approvalId: "1" }, "approvalId must be a UUID"],
  ["a prototype's name", { approvalId: "__proto__" }, "approvalId must be a UUID"],
  ["a number", { approvalId: 7 }, "approvalId must be a UUID"],
  ["no id", {}, "approvalId must be a UUID"],
  ["nothing", undefined, "invalid params"],
  ["a list", [NEVER_GIVEN], "invalid params"],
  ["a field too many", { approvalId: NEVER_GIVEN, by: "boss" }, "invalid params"],
  ["another scope", { approvalId: NEVER_GIVEN, scope: "always" }, "invalid params"],
])("exec.approve with %s", async (_what, params, message) => {
  const answer = await call("exec.approve", params);
  expect([answer.status, answer.json["error"]]).toEqual([200, { code: -32602, message }]);
});

test("a scope that was not offered approves nothing", async () => {
  const { id } = await stand.ask();
  const answer = await call("exec.approve", { approvalId: id, scope: "session" });
  expect([faultOf(answer), await stateOf(id)]).toEqual([-32602, "pending"]);
});

test.each([["exec.run"], ["exec"], ["__proto__"], ["constructor"], ["EXEC.APPROVE"], [""], ["exec.approve "]])(
  "the method %p does not exist",
  async (method) => {
    const answer = await call(method, { approvalId: NEVER_GIVEN });
    expect([answer.status, faultOf(answer), answer.json["id"]]).toEqual([200, -32601, 7]);
  },
);

const request = { jsonrpc: "2.0", id: 1, method: "exec.list" };

test.each([
  ["a batch", [request], -32600],
  ["an empty batch", [], -32600],
  ["another version", { ...request, jsonrpc: "1.0" }, -32600],
  ["no method", { jsonrpc: "2.0", id: 1 }, -32600],
  ["a method that is none", { ...request, method: 1 }, -32600],
  ["an id that is none", { ...request, id: {} }, -32600],
  ["an endless id", { ...request, id: "x".repeat(129) }, -32600],
  ["a member too many", { ...request, auth: "x" }, -32600],
  ["null", null, -32600],
  ["no JSON", "{", -32700],
  ["one key twice", '{"jsonrpc":"2.0","jsonrpc":"2.0","id":1,"method":"exec.list"}', -32700],
  ["a prototype", '{"jsonrpc":"2.0","id":1,"method":"exec.list","__proto__":{}}', -32700],
  ["nothing", undefined, -32700],
])("%s is not a request", async (_what, body, code) => {
  const answer = await stand.send("POST /rpc", { token: olga, body });
  expect([answer.status, faultOf(answer), answer.json["id"], answer.json["jsonrpc"]]).toEqual([200, code, null, "2.0"]);
});

test.each([["text"], [""], [null], [0], [-1.5]])("the id %p is returned", async (id) => {
  const { json } = await stand.send("POST /rpc", { token: olga, body: { ...request, id } });
  expect(json["id"]).toBe(id);
});

test("a notification is executed and not answered", async () => {
  const { id } = await stand.ask();
  const body = { jsonrpc: "2.0", method: "exec.deny", params: { approvalId: id } };
  for (const sent of [body, { ...body, method: "exec.run" }, body]) {
    const answer = await stand.send("POST /rpc", { token: olga, body: sent });
    expect([answer.status, answer.text]).toEqual([204, ""]);
  }
  expect(await stateOf(id)).toBe("denied");
});

test("without the permission the status is the same as on every route", async () => {
  const { id } = await stand.ask();
  const body = { ...request, method: "exec.approve", params: { approvalId: id } };
  for (const [token, status, code] of [
    [undefined, 401, "UNAUTHENTICATED"],
    ["not.a-token", 401, "UNAUTHENTICATED"],
    [await agentToken({ permissions: ["approvals:decide"] }), 403, "PERMISSION_DENIED"],
    [await operatorToken({ permissions: ["grants:manage"] }), 403, "PERMISSION_DENIED"],
  ] as const) {
    for (const sent of [body, "{", [body]]) {
      const answer = await stand.send("POST /rpc", { token, body: sent });
      expect([answer.status, codeOf(answer)]).toEqual([status, code]);
    }
  }
  expect(await stateOf(id)).toBe("pending");
});
