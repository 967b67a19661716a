import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { readKeys, signMessage } from "../../src/approvals/notify/signature.ts";
import { StartupError } from "../../src/core/errors.ts";
import { Receiver } from "../approvals/notify/receiver.ts";
import { ApprovalService } from "../support/approval-service.ts";
import { OPERATORS_ISSUER } from "../support/live-tokens.ts";
import { until } from "../support/until.ts";

const OUT = `whsec_${Buffer.alloc(32, 1).toString("base64")}`;
const IN = `whsec_${Buffer.alloc(32, 2).toString("base64")}`;
const people = { U1: { issuer: OPERATORS_ISSUER, subject: "alice" } };

let receiver: Receiver;
let service: ApprovalService;
beforeEach(() => {
  receiver = new Receiver();
  service = new ApprovalService();
  writeFileSync(join(service.folder, "out"), `${OUT}\n`);
  writeFileSync(join(service.folder, "in"), `${IN}\n`);
  writeFileSync(join(service.folder, "url"), `${receiver.url}\n`);
});
afterEach(async () => {
  await service.end();
  await receiver.close();
});

const chat = () => ({
  ...{ name: "chat", urlFile: "./url", secretFile: "./out", events: ["approval.requested", "approval.executed"] },
  decisions: { secretFile: "./in", people },
});

function signed(secret: string, body: string) {
  return { ...signMessage({ id: "msg_1", body }, { keys: readKeys(secret, "sign"), nowMs: Date.now() }) };
}

test("a notification goes out, a person's answer comes in, the call runs, and its end is notified", async () => {
  await service.start({ webhooks: [chat()], publicUrl: "https://stc.example/" });
  const asked = await service.call("do_write", "a");
  const { id } = asked.body.approval;
  const [told] = await receiver.untilArrived(1);
  const { data } = told?.json ?? {};
  expect(data).toMatchObject({ id, state: "pending", link: `https://stc.example/approvals/${id}/page` });
  expect(told?.body).not.toMatch(/"a"|agent-7|arguments|view"/);

  const link = await fetch(`${service.url}${new URL(data.link).pathname}`);
  expect([link.status, link.headers.get("referrer-policy")]).toEqual([200, "no-referrer"]);
  await link.text();

  const answer = { approvalId: id, planDigest: data.planDigest, decision: "approve", decidedBy: { user: "U1" } };
  const body = JSON.stringify(answer);
  const path = "/webhooks/chat/decisions";
  // What signs outward counts for nothing inward.
  expect((await service.send("POST", path, { body: answer, headers: signed(OUT, body) })).http).toBe(401);
  const decided = await service.send("POST", path, { body: answer, headers: signed(IN, body) });
  expect([decided.http, decided.body.approval.state]).toEqual([200, "approved"]);
  expect((await service.send("POST", path, { body: answer, headers: signed(IN, body) })).http).toBe(409);

  const ran = await service.call("do_write", "a", { approval: { id } });
  expect([ran.http, service.deeds]).toEqual([200, ["a"]]);
  expect(service.entry(ran.body.traceId)?.approval).toMatchObject({ by: `human:${OPERATORS_ISSUER}|alice` });
  const [, executed] = await receiver.untilArrived(2);
  expect(executed?.json).toMatchObject({ type: "approval.executed", data: { id } });
  const types = service.journal().map(({ type }) => type);
  expect(types.filter((type) => /relayed|voted|forged/.test(type))).toEqual([
    ...["approval.forged", "approval.relayed", "approval.voted", "approval.forged"],
  ]);
});

test("metrics and the report include it", async () => {
  await service.start({ webhooks: [chat()] });
  const { id } = (await service.call("do_write", "a")).body.approval;
  await service.decide(id, "approve");
  await receiver.untilArrived(1);
  const token = await service.person({ permissions: ["metrics:read"] });
  const text = await until("the metrics", async () => {
    const response = await fetch(`${service.url}/metrics`, { headers: { authorization: `Bearer ${token}` } });
    const body = await response.text();
    return body.includes('stc_webhook_sent{webhook="chat"} 1') ? body : undefined;
  });
  expect(text).toContain('stc_approvals_ended_total{outcome="approved"} 1');
  expect(text).toContain('stc_approval_decision_seconds_bucket{le="+Inf"} 1');
  expect(text).toContain("stc_approval_decision_seconds_count 1");
  expect(text).toContain('stc_webhook_disabled{webhook="chat"} 0');
  const report = await service.send("GET", "/approvals/report?from=1h", { token: await service.person() });
  expect(report.body.report).toMatchObject({
    ...{ asked: 1, approved: 1, denied: 0, approvalRate: 1, hastyShare: 1, alerts: [] },
    tools: [{ tool: "do_write", asked: 1 }],
    deciders: [{ iss: OPERATORS_ISSUER, sub: "alice", approved: 1 }],
    hours: [{ asked: 1, decided: 1, approvers: [{ sub: "alice", asked: 1, decided: 1, quickApprovalShare: 1 }] }],
  });
  expect(service.journal().at(-1)).toMatchObject({ type: "approvals.reported", sub: "alice" });
});

test.each([
  ["an agent", () => service.agent(), "", 403],
  ["an operator without the permission", () => service.person({ permissions: ["metrics:read"] }), "", 403],
  ["a time that is none", () => service.person(), "?from=soon", 400],
  ["the wrong way round", () => service.person(), "?from=1h&to=2h", 400],
  ["an unknown parameter", () => service.person(), "?since=1h", 400],
])("the report is not available to %s", async (_, token, query, http) => {
  await service.start();
  expect((await service.send("GET", `/approvals/report${query}`, { token: await token() })).http).toBe(http);
  expect((await service.send("GET", "/approvals/report", {})).http).toBe(401);
});

test("when nobody decides, the pager is notified, the approver on call may decide, and the call runs", async () => {
  const named = (subject: string) => ({ subjects: [{ issuer: OPERATORS_ISSUER, subject }] });
  const escalate = [{ afterSeconds: 1, deciders: named("olivia"), webhooks: ["pager"] }];
  const policy = { name: "writes", when: { tools: ["do_write"] }, require: { deciders: named("alice") }, escalate };
  // Olivia may decide about one tool after a second, and about the other long after the test.
  const slower = {
    ...{ ...policy, name: "destroys", when: { tools: ["do_destroy"] } },
    escalate: escalate.map((step) => ({ ...step, afterSeconds: 300 })),
  };
  const pager = { name: "pager", urlFile: "./url", secretFile: "./out", events: ["approval.failed"] };
  await service.start({ webhooks: [pager], policies: [policy, slower], sweepEverySeconds: 1 });
  const { id } = (await service.call("do_write", "a")).body.approval;
  const olivia = await service.person({ sub: "olivia" });
  const early = (await service.call("do_destroy", "a")).body.approval;
  expect((await service.decide(early.id, "approve", { token: olivia })).http).toBe(403);
  const [told] = await receiver.untilArrived(1);
  expect(told?.json).toMatchObject({
    type: "approval.escalated",
    data: { id, state: "pending", escalations: [{ policy: "writes", stage: "deciders", afterSeconds: 1 }] },
  });
  const shown = await service.send("GET", `/approvals/${id}`, { token: olivia });
  expect(shown.body.approval).toMatchObject({ decidable: true, escalations: [{ takenAt: expect.any(String) }] });
  expect((await service.decide(id, "approve", { token: olivia })).body.approval.state).toBe("approved");
  expect((await service.call("do_write", "a", { approval: { id } })).http).toBe(200);
  const line = service.journal().find(({ type }) => type === "approval.escalated");
  expect(line).toMatchObject({ id, policy: "writes", stage: "deciders", afterSeconds: 1, webhooks: ["pager"] });
  const token = await service.person({ permissions: ["metrics:read"] });
  const metrics = await fetch(`${service.url}/metrics`, { headers: { authorization: `Bearer ${token}` } });
  const text = await metrics.text();
  expect(text).toContain('stc_approvals_escalated_total{policy="writes"} 1');
  expect(text).toContain(`{issuer="${OPERATORS_ISSUER}",approver="olivia",decision="approve"} 1`);
});

test("a receiver that hangs delays neither a call nor a decision nor the service's end", async () => {
  const { promise, resolve } = Promise.withResolvers<Response>();
  receiver.answer = () => promise;
  await service.start({ webhooks: [chat()] });
  const { id } = (await service.call("do_write", "a")).body.approval;
  await receiver.untilArrived(1);
  expect((await service.call("do_read", "b")).http).toBe(200);
  expect((await service.decide(id, "approve")).http).toBe(200);
  expect((await service.call("do_write", "a", { approval: { id } })).http).toBe(200);
  await service.stop();
  resolve(new Response());
  // What was not taken is sent after the next start.
  receiver.answer = () => new Response();
  await service.start({ webhooks: [chat()] });
  await until("both", () => (receiver.types.includes("approval.executed") ? true : undefined));
});

describe("a configuration that contradicts itself does not start", () => {
  const write = (name: string, text: string) => writeFileSync(join(service.folder, name), text);
  test.each([
    ["a missing key", {}, { secretFile: "./none" }, "approvals.webhooks[0].secretFile: ./none cannot be read (ENOENT)"],
    ["a key that is none", { out: "hello" }, {}, "secretFile: ./out line 1 is not whsec_"],
    [
      "one key for both ways",
      { in: OUT },
      {},
      "decisions.secretFile: ./in contains a key that approvals.webhooks[0].secretFile contains too",
    ],
    ["an address of the cloud's", { url: "https://169.254.169.254/x" }, {}, "urlFile: ./url names a link-local"],
    ["an open line", { url: "http://hooks.example/x" }, {}, "urlFile: ./url must begin with https://"],
    [
      "people whom no operators' issuer knows",
      {},
      { decisions: { secretFile: "./in", people: { U1: { issuer: "https://idp.test", subject: "a" } } } },
      "people.U1.issuer: https://idp.test is not an issuer in jwt.issuers with operators: true",
    ],
  ])("%s", async (_, files, changes, problem) => {
    for (const [name, text] of Object.entries(files)) write(name, text);
    const failed = await service.start({ webhooks: [{ ...chat(), ...changes }] }).catch((error: unknown) => error);
    expect(failed).toBeInstanceOf(StartupError);
    const problems = failed instanceof StartupError ? failed.problems : [];
    expect(problems.join("\n")).toContain(problem);
    // Once, and without what the files hold.
    expect(problems).toHaveLength(1);
    expect(problems.join("\n")).not.toMatch(/hooks\.example|169\.254|AQEB|hello/);
  });

  test("nobody to notify", async () => {
    const failed = await service.start({ store: undefined, webhooks: [chat()] }).catch((error: unknown) => error);
    expect(String(failed)).toContain("approvals.webhooks: needs approvals.store");
  });
});
