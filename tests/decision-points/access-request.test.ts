import { afterAll, afterEach, beforeEach, describe, expect, test } from "bun:test";
import { MODULES } from "../../src/modules.ts";
import { ModuleWorld } from "../modules/module-world.ts";
import type { Loose, Reply } from "../support/asking-service.ts";
import { RawServer } from "../support/raw-server.ts";
import { until } from "../support/until.ts";
import { decision, evaluations, expectUndecided, pointAt } from "./authzen-service.ts";

const world = new ModuleWorld();
let pdp: RawServer;
let elsewhere: RawServer;
beforeEach(async () => {
  pdp = await RawServer.start();
  elsewhere = await RawServer.start();
  pdp.answer = ({ text }) => (text.includes('"approval"') ? decision(true) : requestable());
});
afterEach(async () => {
  await world.stop();
  pdp.close();
  elsewhere.close();
  // The request's URL is for people and programs elsewhere.
  expect(elsewhere.connections).toBe(0);
});
afterAll(() => world.end());

/** A denial that a workflow elsewhere could lift. */
function requestable(): string {
  const endpoint = `http://127.0.0.1:${elsewhere.port}/requests`;
  const access_request = { endpoint, expires_at: "2099-01-01T00:00:00Z", binding_token: "x" };
  return decision(false, { access_request, reason_admin: { en: "team blue needs its manager" } });
}

async function serve(more: Readonly<Record<string, unknown>> = { onAccessRequest: "ask" }, sections: object = {}) {
  const approvals = { store: `sqlite://./${crypto.randomUUID()}.sqlite` };
  await world.start(MODULES, { decisionPoints: [pointAt(pdp, more)], approvals, ...sections });
}

const pay = (more: Readonly<Record<string, unknown>> = {}): Promise<Reply> => world.call("pay", { amount: 7 }, more);

/** Makes the call and lets a person approve it. */
async function approved(): Promise<string> {
  const { http, body } = await pay();
  expect([http, body.status]).toEqual([202, "pending"]);
  expect((await world.decide(body.approval.id, "approve")).http).toBe(200);
  return body.approval.id;
}

async function stateOf(id: string): Promise<Loose> {
  const { body } = await world.send("GET", `/approvals/${id}`, { token: await world.person() });
  return body.approval.state;
}

test("a denial that offers to request access is a denial unless the configuration says ask", async () => {
  await serve({});
  expect((await pay()).http).toBe(403);
  await world.stop();
  await serve();
  pdp.answer = () => decision(false, { reason_admin: { en: "never" } });
  expect((await pay()).http).toBe(403);
});

describe("with ask", () => {
  test.each(["default", "yolo"])(
    "a person is asked in mode %s, and the agent reads no text of the point",
    async (mode) => {
      await serve({ onAccessRequest: "ask" }, { approvals: { store: `sqlite://./${mode}.sqlite`, mode } });
      const { http, body } = await pay({ session: `s-${mode}` });
      expect([http, body.approval.options]).toEqual([202, ["cancel", "once"]]);
      const seen = await world.send("GET", `/approvals/${body.approval.id}`, {
        token: await world.agent({ permissions: ["money:send"] }),
      });
      expect(JSON.stringify([body, seen.body])).not.toMatch(/blue|manager/);
      const shown = await world.send("GET", `/approvals/${body.approval.id}`, { token: await world.person() });
      expect(shown.body.approval.view.notes).toContain(
        "The policy pdp requires an approval: team blue needs its manager",
      );
      expect(world.entry(body.traceId)).toMatchObject({
        decision: "PENDING",
        decisionReasons: [{ point: "pdp", verdict: "requireApproval", reason: "team blue needs its manager" }],
      });
      await world.decide(body.approval.id, "deny");
    },
  );

  test("the point hears of the approval before it is used, and its true runs the call", async () => {
    await serve();
    const id = await approved();
    const { http, body } = await pay({ approval: { id } });
    expect([http, body.result]).toEqual([200, { paid: 7 }]);
    const last = evaluations(pdp).at(-1)?.body;
    expect(last.context.approval).toEqual({
      id,
      approved_at: expect.stringMatching(/^\d{4}-.*Z$/),
      approved_until: expect.stringMatching(/^\d{4}-.*Z$/),
      approvers: [{ type: "identity", id: "alice", properties: { issuer: "https://people.test" } }],
    });
    expect(last.resource.id).toBe("pay");
    expect(await stateOf(id)).toBe("executed");
  });

  test("the point also hears of an approval that the same call finds without naming it", async () => {
    await serve();
    const id = await approved();
    expect((await pay()).http).toBe(200);
    expect(evaluations(pdp).at(-1)?.body.context.approval.id).toBe(id);
    expect(await stateOf(id)).toBe("executed");
  });

  test("the point also hears of an approval for which the call waited", async () => {
    await serve();
    const token = await world.agent({ permissions: ["money:send"] });
    const headers = { prefer: "wait=50" };
    const calling = world.send("POST", "/call", { token, headers, body: { tool: "pay", args: { amount: 7 } } });
    const pending = await until("an approval request", async () => {
      const { body } = await world.send("GET", "/approvals?state=pending", { token: await world.person() });
      return body.approvals[0] as Loose | undefined;
    });
    pdp.answer = () => requestable();
    await world.decide(pending.id, "approve");
    expect((await calling).http).toBe(403);
    expect(evaluations(pdp).at(-1)?.body.context.approval.id).toBe(pending.id);
    expect(await stateOf(pending.id)).toBe("approved");
  });

  test.each<readonly [string, () => string | undefined]>([
    ["still denies", () => decision(false)],
    ["offers to request access again", () => requestable()],
  ])("a point that %s leaves the approval unused", async (_title, answer) => {
    await serve();
    const id = await approved();
    pdp.answer = ({ text }) => (text.includes('"approval"') ? answer() : requestable());
    const { http, body } = await pay({ approval: { id } });
    expect([http, body.error.code]).toEqual([403, "POLICY_DENIED"]);
    expect(await stateOf(id)).toBe("approved");
    pdp.answer = ({ text }) => (text.includes('"approval"') ? decision(true) : requestable());
    expect((await pay({ approval: { id } })).http).toBe(200);
  });

  test("a point that fails leaves the approval unused", async () => {
    await serve({ onAccessRequest: "ask", timeoutMs: 2_000 });
    const id = await approved();
    pdp.answer = ({ text }) => (text.includes('"approval"') ? undefined : requestable());
    const reply = await pay({ approval: { id } });
    expect(reply.http).toBe(403);
    expect(world.entry(reply.body.traceId)?.decisionReasons).toEqual([
      { point: "pdp", verdict: "requireApproval", reason: "team blue needs its manager" },
      { point: "pdp", verdict: "deny", reason: "could not decide: no answer within 2000 ms" },
    ]);
    expect(await stateOf(id)).toBe("approved");
  });

  test("an approval of another call or of another caller, or none yet, is not told to the point", async () => {
    await serve();
    const id = await approved();
    const asked = pdp.requests.length;
    const other = await world.call("pay", { amount: 8 }, { approval: { id } });
    expect(other.body.error.code).toBe("APPROVAL_MISMATCH");
    const token = await world.agent({ permissions: ["money:send"], sub: "agent-8" });
    const body = { tool: "pay", args: { amount: 7 }, approval: { id } };
    const foreign = await world.send("POST", "/call", { token, body });
    expect(foreign.body.error.code).toBe("APPROVAL_NOT_FOUND");
    const { body: pending } = await world.call("refund", { amount: 1 });
    const early = await world.call("refund", { amount: 1 }, { approval: { id: pending.approval.id } });
    expect([early.http, early.body.status]).toEqual([202, "pending"]);
    const told = evaluations(pdp).slice(asked);
    expect(told.map(({ body: sent }) => sent.context.approval)).toEqual(told.map(() => undefined));
  });

  test("a cached answer never confirms an approval", async () => {
    await serve({ onAccessRequest: "ask", cacheSeconds: 60 });
    const id = await approved();
    expect((await pay({ approval: { id } })).http).toBe(200);
    expect((await pay()).http).toBe(202);
  });

  test("a point that allows the call by itself meanwhile needs no confirmation", async () => {
    await serve();
    const id = await approved();
    pdp.answer = () => decision(true);
    expect((await pay({ approval: { id } })).http).toBe(200);
    expect(evaluations(pdp).at(-1)?.body.context.approval).toBeUndefined();
  });

  test("a point that cannot decide denies, whatever it could ask for", async () => {
    await serve();
    pdp.answer = () => "garbage\r\n\r\n";
    expectUndecided(world, await pay(), /no usable answer/);
  });
});
