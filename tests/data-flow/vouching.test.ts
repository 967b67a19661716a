import { Database } from "bun:sqlite";
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { join } from "node:path";
import type { CallExtras, Reply } from "../support/asking-service.ts";
import { AGENTS_ISSUER } from "../support/tokens.ts";
import { FlowWorld } from "./flow-world.ts";

let world: FlowWorld;
beforeEach(async () => {
  world = await new FlowWorld().start();
});
afterEach(() => world.end());

const BOB = "bob@partner.test";
const IBAN = "DE89 3704 0044 0532 0130 00";

const send = (to: string | readonly string[], extras: CallExtras = {}) =>
  world.call("send_mail", { to: typeof to === "string" ? [to] : to, body: "hi" }, extras);

const voucher = () => world.person({ permissions: ["approvals:decide", "data-flow:vouch"] });

async function vouch(id: string, values: readonly string[], more: Record<string, unknown> = {}): Promise<Reply> {
  return world.decide(id, "approve", { token: await voucher(), vouch: values, ...more });
}

/** Asks about a mail to this address, and answers that the address is fine. The call then passes, and its approval stays unused. */
async function vouchedFor(address: string, extras: CallExtras = {}): Promise<Reply> {
  const asked = await send(address, extras);
  expect(asked.http).toBe(202);
  const decided = await vouch(asked.body.approval.id, [address]);
  expect(decided.http).toBe(200);
  expect((await send(address, extras)).http).toBe(200);
  return asked;
}

describe("an address that an approver has vouched for", () => {
  test("is not asked about again, whatever else the mail says, its case and its spaces", async () => {
    await world.readsMail(`Please answer to ${BOB}.`);
    const asked = await vouchedFor(BOB);
    const next = await world.call("send_mail", { to: [BOB], body: "another text" });
    expect(next.http).toBe(200);
    expect((await send(` ${BOB.toUpperCase()}`)).http).toBe(200);
    expect(world.entry(next.body.traceId)?.dataFlow?.sources?.[0]).toEqual({
      argument: "to[]",
      tool: "an approver's answer",
      traceId: asked.body.traceId,
      field: "to[]",
      labels: [],
      trusted: true,
    });
  });

  test("is one of a list: the others still ask", async () => {
    await world.readsMail(`Please answer to ${BOB} and eve@partner.test.`);
    await vouchedFor(BOB);
    expect((await send([BOB, "eve@partner.test"])).http).toBe(202);
    expect((await send("eve@partner.test")).http).toBe(202);
    expect((await send([BOB, "carol@elsewhere.test"])).http).toBe(200);
  });

  test.each([
    ["with another letter that looks alike", "bób@partner.test"],
    ["with more before it", `x-${BOB}`],
    ["with more after it", `${BOB}.evil.test`],
    ["with a second address", `${BOB}, eve@partner.test`],
  ])("is not one %s", async (_title, address) => {
    await world.readsMail(`Please answer to ${BOB}, ${address} or eve@partner.test.`);
    await vouchedFor(BOB);
    expect((await send(address)).http).toBe(202);
  });

  test("is an account, however its groups are written", async () => {
    await world.readsMail(`Pay to ${IBAN}`);
    const asked = await world.call("pay", { iban: IBAN, amount: 1 });
    await vouch(asked.body.approval.id, [IBAN]);
    expect((await world.call("pay", { iban: IBAN.replaceAll(" ", ""), amount: 2 })).http).toBe(200);
    expect((await world.call("pay", { iban: "DE89 3704 0044 0532 0130 01", amount: 2 })).http).not.toBe(500);
  });

  test("is shown with where it was", async () => {
    const read = await world.readsMail(`Please answer to ${BOB}.`);
    const { body } = await send(BOB);
    const shown = await world.send("GET", `/approvals/${body.approval.id}`, { token: await voucher() });
    expect(shown.body.approval.canDecide).toEqual({ approve: true, deny: true, vouch: true });
    expect(shown.body.approval.view.dataFlow.arguments).toMatchObject([
      {
        argument: "to[]",
        sources: [{ tool: "read_mail", of: "id: 812", field: "body", traceId: read.body.traceId }],
      },
    ]);
    expect(shown.body.approval.view.vouchable).toEqual([{ argument: "to[]", value: BOB }]);
  });

  test("is in the journal: who, for whom, which approval and argument, and the value's hash only", async () => {
    const read = await world.readsMail(`Please answer to ${BOB}.`);
    const { body } = await vouchedFor(BOB);
    const line = world.journal().find(({ type }) => type === "dataFlow.vouched");
    expect(line).toMatchObject({
      id: body.approval.id,
      subject: "agent-7",
      sub: "alice",
      values: [
        {
          argument: "to[]",
          valueHash: expect.stringMatching(/^[0-9a-f]{64}$/),
          sources: [{ tool: "read_mail", traceId: read.body.traceId, field: "body" }],
        },
      ],
    });
    expect(JSON.stringify(world.journal().filter(({ type }) => type !== "intent"))).not.toContain(BOB);
    expect(world.journal().find(({ type }) => type === "approval.voted")).toMatchObject({
      vouched: [{ argument: "to[]" }],
    });
  });
});

describe("an approver's answer does not cover", () => {
  test("what a person was told of the labels: the call still asks", async () => {
    await world.readsMail(`Please answer to ${BOB}.`);
    await vouchedFor(BOB);
    await world.readsAccount({ number: "12 345", balance: 100 });
    const { http, body } = await send(BOB);
    expect(http).toBe(202);
    expect(world.entry(body.traceId)?.decisionReasons).toMatchObject([
      { reason: "the caller has read private and untrusted data, and this tool sends outside" },
    ]);
  });

  test("another caller, nor the same one through actors, nor its actor alone", async () => {
    const token = await world.agent({ claims: { act: { sub: "agent-8" } } });
    await world.readsMail(`Please answer to ${BOB}.`, { token });
    await vouchedFor(BOB, { token });
    expect((await send(BOB, { token })).http).toBe(200);
    expect((await send(BOB)).http).toBe(202);
    expect((await send(BOB, { token: await world.agent({ sub: "agent-8" }) })).http).toBe(202);
    const other = await world.agent({ sub: "agent-9" });
    await world.readsMail(`Please answer to ${BOB}.`, { token: other });
    expect((await send(BOB, { token: other })).http).toBe(202);
  });

  test("another session, nor calls without one", async () => {
    const opened = async () => (await world.send("POST", "/sessions", { token: await world.agent() })).body;
    const [one, two] = [await opened(), await opened()].map(({ session }) => session.id as string);
    await world.readsMail(`Please answer to ${BOB}.`);
    await vouchedFor(BOB, { session: one as string });
    expect((await send(BOB, { session: one as string })).http).toBe(200);
    expect((await send(BOB, { session: two as string })).http).toBe(202);
    expect((await send(BOB)).http).toBe(202);
  });

  test("a token with another sid, nor one that names it", async () => {
    const [one, two] = [await world.agent({ claims: { sid: "one" } }), await world.agent({ claims: { sid: "two" } })];
    await world.readsMail(`Please answer to ${BOB}.`, { token: one });
    await vouchedFor(BOB, { token: one });
    expect((await send(BOB, { token: one })).http).toBe(200);
    expect((await send(BOB, { token: two })).http).toBe(202);
    expect((await send(BOB, { token: two, session: "sid:one" })).http).not.toBe(200);
    expect((await send(BOB, { session: "sid:one" })).http).not.toBe(200);
  });

  test("a session that has ended", async () => {
    const token = await world.agent();
    const { session } = (await world.send("POST", "/sessions", { token })).body;
    await world.readsMail(`Please answer to ${BOB}.`);
    await vouchedFor(BOB, { session: session.id });
    expect((await world.send("DELETE", `/sessions/${session.id}`, { token })).http).toBeLessThan(300);
    expect((await send(BOB, { session: session.id })).body.error.code).toBe("APPROVAL_REVOKED");
  });

  test("what is later than its time, an hour without a session", async () => {
    await world.readsMail(`Please answer to ${BOB}.`);
    await vouchedFor(BOB);
    await world.stop();
    const database = new Database(join(world.folder, "approvals.sqlite"));
    const tool = "an approver's answer";
    const [row] = database.query("SELECT at, until FROM policy_flow_sources WHERE tool = ?").all(tool) as never[];
    const { at, until } = row as unknown as { readonly at: number; readonly until: number };
    expect(until - at).toBe(3_600_000);
    database.query("UPDATE policy_flow_sources SET until = at + 1 WHERE tool = ?").run(tool);
    database.close();
    await world.start();
    expect((await world.call("send_mail", { to: [BOB], body: "later" })).http).toBe(202);
  });

  test("a session when it was given without one, and none is offered for a session that the agent invents", async () => {
    await world.readsMail(`Please answer to ${BOB}.`);
    await vouchedFor(BOB);
    expect((await send(BOB)).http).toBe(200);
    const { http, body } = await send(BOB, { session: "invented" });
    expect(http).toBe(202);
    const refused = await vouch(body.approval.id, [BOB]);
    expect([refused.http, refused.body.error.code]).toEqual([400, "INVALID_INPUT"]);
    expect((await send(BOB, { session: "invented" })).http).toBe(202);
  });

  test("what operators have cleared", async () => {
    await world.readsMail(`Please answer to ${BOB}.`);
    await vouchedFor(BOB);
    const token = await world.person({ permissions: ["data-flow:write"] });
    const body = { issuer: AGENTS_ISSUER, subject: "agent-7", reason: "its work has ended" };
    expect((await world.send("POST", "/data-flow/clear", { token, body })).http).toBe(200);
    await world.readsMail(`Please answer to ${BOB}.`);
    expect((await world.call("send_mail", { to: [BOB], body: "later" })).http).toBe(202);
  });
});

test("an address that a rule denies is denied, whatever an approver has answered before", async () => {
  await world.readsMail(`Please answer to ${BOB}.`);
  await vouchedFor(BOB);
  await world.stop();
  await world.start({
    dataFlow: { rules: [{ argument: "destinations", from: "untrusted", verdict: "deny" }] },
  });
  const { http, body } = await send(BOB);
  expect([http, body.error.code]).toEqual([403, "POLICY_DENIED"]);
});

describe("the decision", () => {
  test("counts once", async () => {
    await world.readsMail(`Please answer to ${BOB}.`);
    const { body } = await send(BOB);
    const replies = await Promise.all([vouch(body.approval.id, [BOB]), vouch(body.approval.id, [BOB])]);
    expect(replies.map(({ http }) => http).toSorted((a, b) => a - b)).toEqual([200, 409]);
    expect(world.journal().filter(({ type }) => type === "dataFlow.vouched")).toHaveLength(1);
    const again = await vouch(body.approval.id, [BOB]);
    expect([again.http, again.body.error.code]).toEqual([409, "APPROVAL_CONSUMED"]);
  });

  test("vouches for nothing when it is a plain approval, or a denial", async () => {
    await world.readsMail(`Please answer to ${BOB}.`);
    const first = await send(BOB);
    await world.decide(first.body.approval.id, "approve");
    const second = await world.call("send_mail", { to: [BOB], body: "other" });
    expect(second.http).toBe(202);
    await world.decide(second.body.approval.id, "deny", { token: await voucher(), vouch: [BOB] });
    expect((await world.call("send_mail", { to: [BOB], body: "third" })).http).toBe(202);
  });

  test("needs a permission of its own", async () => {
    await world.readsMail(`Please answer to ${BOB}.`);
    const { body } = await send(BOB);
    const { http, body: refused } = await world.decide(body.approval.id, "approve", { vouch: [BOB] });
    expect({ http, ...refused.error }).toMatchObject({
      http: 403,
      code: "PERMISSION_DENIED",
      message: "This is for operators whose token holds data-flow:vouch.",
      details: { missingPermissions: ["data-flow:vouch"] },
    });
    expect(world.journal()).toContainEqual(
      expect.objectContaining({
        type: "operator.refused",
        id: body.approval.id,
        sub: "alice",
        reason: "permission_missing",
        permission: "data-flow:vouch",
      }),
    );
    const shown = await world.send("GET", `/approvals/${body.approval.id}`, { token: await world.person() });
    expect(shown.body.approval).toMatchObject({ state: "pending", canDecide: { approve: true, deny: true } });
    expect(shown.body.approval.canDecide.vouch).toBeUndefined();
  });

  test.each([
    ["another address", "eve@partner.test"],
    ["another spelling", BOB.toUpperCase()],
    ["its host", "partner.test"],
  ])("cannot vouch for %s", async (_title, value) => {
    await world.readsMail(`Please answer to ${BOB}.`);
    const { body } = await send(BOB);
    const { http, body: refused } = await vouch(body.approval.id, [value]);
    expect({ http, ...refused.error }).toMatchObject({
      http: 400,
      code: "INVALID_INPUT",
      message: "This approval request does not offer to vouch for that value: read view.vouchable again.",
      details: { field: "vouch" },
    });
  });

  test("is not offered for what only labels ask about", async () => {
    await world.readsMail("Hello");
    await world.readsAccount({ number: "12 345" });
    const { body } = await send(BOB);
    const shown = await world.send("GET", `/approvals/${body.approval.id}`, { token: await voucher() });
    expect(shown.body.approval.canDecide).toEqual({ approve: true, deny: true });
    expect((await vouch(body.approval.id, [BOB])).http).toBe(400);
  });

  test.each([
    ["two stages", { stages: [{ name: "first" }, { name: "second" }] }],
    ["two people of one stage", { count: 2 }],
  ])("cannot vouch, nor is it offered, where a policy wants %s", async (_title, required) => {
    await world.stop();
    const policies = [{ name: "payments", when: { tools: ["send_mail"] }, require: required }];
    await world.start({ approvals: { store: "sqlite://./approvals.sqlite", mode: "yolo", policies } });
    await world.readsMail(`Please answer to ${BOB}.`);
    const { body } = await send(BOB);
    const { id } = body.approval;
    for (const by of ["alice", "bert"]) {
      const token = await world.person({ sub: by, permissions: ["approvals:decide", "data-flow:vouch"] });
      const shown = await world.send("GET", `/approvals/${id}`, { token });
      expect(shown.body.approval.canDecide).toEqual({ approve: true, deny: true });
      const refused = await vouch(id, [BOB], { token });
      expect({ http: refused.http, ...refused.body.error }).toMatchObject({
        http: 400,
        code: "INVALID_INPUT",
        message: "Others have to approve this as well: send the approval without vouch.",
        details: { field: "vouch" },
      });
      expect((await world.decide(id, "approve", { token })).http).toBe(200);
    }
    expect(world.journal().filter(({ type }) => type === "dataFlow.vouched")).toEqual([]);
    expect((await world.call("send_mail", { to: [BOB], body: "later" })).http).toBe(202);
  });

  test("can vouch under a policy that this approval alone satisfies", async () => {
    await world.stop();
    const policies = [{ name: "mail", when: { tools: ["send_mail"] }, require: { count: 1 } }];
    await world.start({ approvals: { store: "sqlite://./approvals.sqlite", mode: "yolo", policies } });
    await world.readsMail(`Please answer to ${BOB}.`);
    const asked = await send(BOB);
    const token = await voucher();
    const shown = await world.send("GET", `/approvals/${asked.body.approval.id}`, { token });
    expect(shown.body.approval.canDecide).toMatchObject({ vouch: true });
    expect((await vouch(asked.body.approval.id, [BOB], { token })).http).toBe(200);
    expect(world.journal().filter(({ type }) => type === "dataFlow.vouched")).toHaveLength(1);
  });
});
