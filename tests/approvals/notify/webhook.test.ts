import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import type { OpenedApprovals } from "../../../src/approvals/approvals.ts";
import type { RequiredPolicy, Requirement } from "../../../src/approvals/approver-policies/requirement.ts";
import { readKeys, verifyMessage } from "../../../src/approvals/notify/signature.ts";
import { Webhook, type WebhookParts, type WebhookTarget } from "../../../src/approvals/notify/webhook.ts";
import { type ApprovalWorld, askFor, createApprovalWorld, OPERATOR } from "../../support/approvals.ts";
import { until } from "../../support/until.ts";
import { Receiver } from "./receiver.ts";

const SECRET = `whsec_${Buffer.alloc(32, 3).toString("base64")}`;
const HOUR_MS = 3_600_000;
const EVENTS = ["approval.requested", "approval.approved", "approval.denied", "approval.expired"] as const;

let world: ApprovalWorld;
let receiver: Receiver;
let running: Webhook[];
const said: string[] = [];

beforeEach(() => {
  world = createApprovalWorld();
  receiver = new Receiver();
  running = [];
  said.length = 0;
});
afterEach(async () => {
  await Promise.all(running.map((webhook) => webhook.stop()));
  await receiver.close();
  await world.end();
});

function start(approvals: OpenedApprovals, changes: Partial<WebhookTarget & WebhookParts> = {}): Webhook {
  const target = { name: "chat", deployment: "test", detail: "summary", publicUrl: "https://stc.example" } as const;
  const parts = { approvals, clock: () => world.now, random: () => 0.5, owner: `owner-${running.length}` };
  const more = {
    url: receiver.url,
    keys: readKeys(SECRET, "sign"),
    events: EVENTS,
    report: (line: string) => said.push(line),
  };
  const all = { ...target, ...parts, ...more, pollMs: 5, timeoutMs: 2_000, ...changes };
  const webhook = new Webhook(all, all);
  running.push(webhook);
  return webhook;
}

/** It is registered: what happens from now on is told. */
async function started(approvals: OpenedApprovals, changes: Partial<WebhookTarget & WebhookParts> = {}) {
  await approvals.outbox.register(changes.name ?? "chat");
  return start(approvals, changes);
}

function other(digit: string) {
  return { planDigest: digit.repeat(64), viewDigest: digit.repeat(64), grantKey: undefined };
}

describe("the message", () => {
  test("APR-38: a summary and a link, signed; the same message has the same id", async () => {
    const store = await world.open();
    const webhook = await started(store);
    const { id, planDigest, viewDigest } = await askFor(store);
    const [first] = await receiver.untilArrived(1);
    expect(first?.json).toEqual({
      type: "approval.requested",
      timestamp: "2026-02-16T12:00:00.000Z",
      data: {
        ...{ id, tool: "deploy", summary: "deploy to prod", state: "pending", risk: "medium", planDigest, viewDigest },
        ...{ options: ["cancel", "once", "session"], decideBy: "2026-02-16T12:10:00.000Z" },
        link: `https://stc.example/approvals/${id}/page`,
      },
    });
    // Neither arguments nor who asks.
    expect(first?.body).not.toContain("--to");
    expect(first?.body).not.toContain("agent-1");
    const received = { ...first, body: Buffer.from(first?.body ?? "") };
    const verified = verifyMessage(
      { id: received.id, timestamp: received.timestamp, signature: received.signature, body: received.body },
      { keys: readKeys(SECRET, "sign"), nowMs: world.now },
    );
    expect(verified).toEqual({ id: first?.id ?? "" });
    await until("its count", () => (webhook.state().sent === 1 ? true : undefined));
    expect(webhook.state()).toEqual({
      ...{ webhook: "chat", sent: 1, failures: 0, dead: 0, stale: 0, isDisabled: false },
    });
  });

  test("APR-38: the approval view only where the operator configured it", async () => {
    const store = await world.open();
    await started(store, { detail: "view", publicUrl: undefined });
    const { id, view } = await askFor(store);
    const [first] = await receiver.untilArrived(1);
    expect(first?.json.data).toMatchObject({
      ...{ view, classification: "write", category: "write", rules: ["policy.ask"] },
      requester: { iss: "https://idp.example", sub: "agent-1", act: [] },
      link: `/approvals/${id}/page`,
    });
    await askFor(store, { ...other("1"), view: { text: "x".repeat(300_000) } });
    const [, second] = await receiver.untilArrived(2);
    expect(second?.json.data).toMatchObject({ viewLeftOut: true });
    expect(second?.body.length).toBeLessThan(2_000);
  });

  test("it says that an answer is wanted, and its choices only where the view is sent", async () => {
    const store = await world.open();
    await started(store);
    await started(store, { name: "room", detail: "view" });
    await askFor(store, { answer: { choices: ["blue", "green"] } });
    const told = (await receiver.untilArrived(2)).map(({ json: { data } }) => [data.wantsAnswer, data.choices]);
    expect(told).toContainEqual([true, undefined]);
    expect(told).toContainEqual([true, ["blue", "green"]]);
  });

  test("requests are sent in order, and none from before the webhook existed", async () => {
    const store = await world.open();
    await askFor(store, other("0"));
    await started(store, { events: ["approval.approved", "approval.denied"] });
    const first = await askFor(store, other("1"));
    const second = await askFor(store, other("2"));
    await store.decide({ id: second.id, by: OPERATOR, decision: "deny" });
    await store.decide({ id: first.id, by: OPERATOR, decision: "approve" });
    await receiver.untilArrived(2);
    expect(receiver.types).toEqual(["approval.denied", "approval.approved"]);
    expect(receiver.arrived.map(({ json }) => json.data.id)).toEqual([second.id, first.id]);
  });
});

describe("escalations", () => {
  const escalating = (steps: RequiredPolicy["escalate"]): Requirement => ({
    ...{ digest: "r", reasonRequired: "never", scopes: ["once"], callback: false },
    policies: [
      {
        ...{ name: "prod", distinctPeople: true, escalate: steps },
        stages: [{ name: "team", count: 1, deciders: { permissions: ["team"] } }],
      },
    ],
  });
  const adds = { stage: 0, deciders: { permissions: ["oncall"] } };

  test("a step's webhooks get it, whatever they subscribe to; the step of no webhook goes to subscribers", async () => {
    const store = await world.open();
    await started(store, { name: "chat", events: ["approval.escalated"] });
    await started(store, { name: "pager", events: ["approval.denied"] });
    const requirement = escalating([{ afterSeconds: 60, adds, webhooks: ["pager"] }, { afterSeconds: 120 }]);
    const { id } = await askFor(store, { requirement });
    world.now += 60_000;
    await store.sweep();
    const [first] = await receiver.untilArrived(1);
    expect(first?.json).toMatchObject({
      type: "approval.escalated",
      data: {
        ...{ id, state: "pending", summary: "deploy to prod; prod: no decision for 60 s" },
        escalations: [{ policy: "prod", stage: "team", afterSeconds: 60, at: "2026-02-16T12:01:00.000Z" }],
      },
    });
    world.now += 60_000;
    await store.sweep();
    await receiver.untilArrived(2);
    await Bun.sleep(30);
    const told = receiver.arrived.map(({ json }) => (json.data.escalations as readonly unknown[]).length);
    expect(told).toEqual([1, 2]);
    expect(new Set(receiver.arrived.map(({ id: message }) => message)).size).toBe(2);
  });

  test("a step of a request that was decided meanwhile is not sent", async () => {
    const store = await world.open();
    const { id } = await askFor(store, { requirement: escalating([{ afterSeconds: 60, adds }]) });
    await store.outbox.register("chat");
    world.now += 60_000;
    await store.sweep();
    await store.decide({ id, by: OPERATOR, permissions: ["oncall"], decision: "approve" });
    const webhook = start(store, { events: ["approval.escalated"] });
    await until("it is stale", () => (webhook.state().stale === 1 ? true : undefined));
    expect(receiver.arrived).toEqual([]);
  });
});

describe("a receiver that does not accept", () => {
  test("the message is sent again later with the same id, and other receivers get theirs meanwhile", async () => {
    const store = await world.open();
    const webhook = await started(store);
    receiver.answer = () => new Response(null, { status: receiver.arrived.length === 1 ? 500 : 204 });
    const first = await askFor(store, other("1"));
    await until("the failure", () => (webhook.state().failures === 1 ? true : undefined));
    // The pause after a failure is over, and the event's own is not.
    world.now += 2_000;
    const second = await askFor(store, other("2"));
    await receiver.untilArrived(2);
    world.now += 4_000;
    await receiver.untilArrived(3);
    const { id: firstId } = first;
    expect(receiver.arrived.map(({ json }) => json.data.id)).toEqual([firstId, second.id, firstId]);
    const [before, , again] = receiver.arrived;
    expect(again?.id).toBe(before?.id ?? "");
    expect(again?.timestamp).not.toBe(before?.timestamp);
  });

  test.each([
    ["an error", () => new Response("no", { status: 500 })],
    ["a redirect, which nobody follows", () => Response.redirect("/elsewhere", 307)],
    ["a refusal", () => new Response("no", { status: 401 })],
  ])("%s: attempts for a day, then a line in the journal", async (_, answer) => {
    const store = await world.open();
    const webhook = await started(store, { events: ["approval.denied"] });
    receiver.answer = answer;
    const { id } = await askFor(store);
    await store.decide({ id, by: OPERATOR, decision: "deny" });
    await receiver.untilArrived(1);
    for (let hours = 0; hours < 40 && webhook.state().dead === 0; hours += 1) {
      world.now += HOUR_MS;
      const before = webhook.state().failures;
      await until("an attempt", () =>
        webhook.state().failures > before || webhook.state().dead > 0 ? true : undefined,
      );
    }
    expect(webhook.state().dead).toBe(1);
    const dead = world.lines.filter(({ type }) => type === "webhook.dead");
    expect(dead).toMatchObject([{ webhook: "chat", event: "approval.denied", id }]);
    expect(new Set(receiver.arrived.map((one) => one.id)).size).toBe(1);
    expect(new Set(receiver.arrived.map((one) => one.timestamp)).size).toBe(receiver.arrived.length);
    expect(said.filter((line) => line.includes("does not accept notifications"))).toHaveLength(1);
    // It is over: nothing more is tried.
    const count = receiver.arrived.length;
    world.now += HOUR_MS;
    receiver.answer = () => new Response(null, { status: 204 });
    const next = await askFor(store, other("2"));
    await store.decide({ id: next.id, by: OPERATOR, decision: "deny" });
    await receiver.untilArrived(count + 1);
    expect(receiver.arrived.at(-1)?.json.data.id).toBe(next.id);
  });

  test.each([429, 503])("%d with Retry-After pauses sending for that time", async (status) => {
    const store = await world.open();
    const webhook = await started(store, { events: ["approval.denied"] });
    receiver.answer = () => new Response(null, { status, headers: { "retry-after": "7200" } });
    const first = await askFor(store, other("1"));
    await store.decide({ id: first.id, by: OPERATOR, decision: "deny" });
    await until("the failure", () => (webhook.state().failures === 1 ? true : undefined));
    receiver.answer = () => new Response(null, { status: 204 });
    const second = await askFor(store, other("2"));
    await store.decide({ id: second.id, by: OPERATOR, decision: "deny" });
    world.now += 7_199_000;
    const wanted = { webhook: "chat", types: new Set(["approval.denied"]), owner: "owner-0" };
    expect(await store.outbox.check(wanted)).toBe("nothing");
    expect(receiver.arrived).toHaveLength(1);
    world.now += 2_000;
    await receiver.untilArrived(3);
  });

  test("a Retry-After of any length pauses at most six hours: nothing is given up for it", async () => {
    const store = await world.open();
    const webhook = await started(store, { events: ["approval.denied"] });
    receiver.answer = () => new Response(null, { status: 503, headers: { "retry-after": "999999999" } });
    const { id } = await askFor(store);
    await store.decide({ id, by: OPERATOR, decision: "deny" });
    await until("the failure", () => (webhook.state().failures === 1 ? true : undefined));
    receiver.answer = () => new Response(null, { status: 204 });
    world.now += 6 * HOUR_MS;
    await receiver.untilArrived(2);
    await until("a yes", () => (webhook.state().sent === 1 ? true : undefined));
    expect(webhook.state().dead).toBe(0);
  });

  test("a receiver that accepts every other message is logged once a minute", async () => {
    const store = await world.open();
    const webhook = await started(store, { events: ["approval.denied"] });
    receiver.answer = () => new Response(null, { status: receiver.arrived.length % 2 === 1 ? 500 : 204 });
    const seconds = [2, 2, 2, 61, 2];
    for (const [index, pause] of seconds.entries()) {
      const { id } = await askFor(store, other(String(index)));
      await store.decide({ id, by: OPERATOR, decision: "deny" });
      await until("a failure", () => (webhook.state().failures === index + 1 ? true : undefined));
      world.now += 10_000;
      await until("a yes", () => (webhook.state().sent === index + 1 ? true : undefined));
      world.now += pause * 1_000;
    }
    expect(said).toEqual(Array.from({ length: 2 }, () => "the webhook chat does not accept notifications: status 500"));
  });

  test("messages that nobody accepted within a day are given up and recorded in the journal", async () => {
    const store = await world.open();
    const webhook = await started(store, { events: ["approval.requested", "approval.denied"] });
    await webhook.stop();
    const { id } = await askFor(store);
    await store.decide({ id, by: OPERATOR, decision: "deny" });
    world.now += 24 * HOUR_MS;
    const next = await started(store, { events: ["approval.requested", "approval.denied"] });
    const fresh = await askFor(store, other("2"));
    await receiver.untilArrived(1);
    expect(receiver.arrived.map(({ json }) => json.data.id)).toEqual([fresh.id]);
    expect(next.state()).toMatchObject({ dead: 1, failures: 0 });
    const dead = world.lines.filter(({ type }) => type === "webhook.dead");
    expect(dead).toMatchObject([{ webhook: "chat", event: "approval.denied", id, attempts: 0 }]);
    expect(said).toEqual(["the webhook chat did not accept 1 events within a day: given up"]);
  });

  test("410 stops the webhook until the next start, and missed messages are not sent", async () => {
    const store = await world.open();
    const webhook = await started(store);
    receiver.answer = () => new Response(null, { status: 410 });
    await askFor(store, other("1"));
    await until("its end", () => (webhook.state().isDisabled ? true : undefined));
    expect(world.lines.filter(({ type }) => type === "webhook.disabled")).toHaveLength(1);
    receiver.answer = () => new Response(null, { status: 204 });
    await askFor(store, other("2"));
    world.now += 2 * 60_000;
    await webhook.stop();
    await started(store);
    const third = await askFor(store, other("3"));
    await receiver.untilArrived(2);
    expect(receiver.arrived.map(({ json }) => json.data.id).slice(1)).toEqual([third.id]);
  });

  test("a receiver that hangs, and one that never stops sending, delay nobody else", async () => {
    const store = await world.open();
    const { promise: never, resolve: release } = Promise.withResolvers<Response>();
    receiver.answer = () => never;
    const webhook = await started(store, { timeoutMs: 100 });
    const { id } = await askFor(store);
    await receiver.untilArrived(1);
    // Its attempt is under way.
    expect((await store.decide({ id, by: OPERATOR, decision: "approve" })).outcome).toBe("decided");
    await until("the end of the attempt", () => (webhook.state().failures >= 1 ? true : undefined));
    const endless = () => new ReadableStream({ pull: (controller) => controller.enqueue(new Uint8Array(65_536)) });
    receiver.answer = () => new Response(endless());
    world.now += 60_000;
    await until("an answer that counts", () => (webhook.state().sent >= 1 ? true : undefined));
    release(new Response());
  });
});

test("an expired approval request is not sent late", async () => {
  const store = await world.open();
  const webhook = await started(store);
  receiver.answer = () => new Response(null, { status: 500 });
  const { id } = await askFor(store);
  await until("the failure", () => (webhook.state().failures === 1 ? true : undefined));
  receiver.answer = () => new Response(null, { status: 204 });
  world.now += 601_000;
  await store.sweep();
  const last = await until("the end of the question", () =>
    receiver.arrived.find(({ json }) => json.type === "approval.expired"),
  );
  expect(last.json.data.id).toBe(id);
  await until("the count", () => (webhook.state().stale === 1 ? true : undefined));
  expect(receiver.types).toEqual(["approval.requested", "approval.expired"]);
});

test("a restart continues where it was: nothing is lost, nothing is sent twice", async () => {
  const store = await world.open();
  const webhook = await started(store);
  await askFor(store, other("1"));
  await until("the first", () => (webhook.state().sent === 1 ? true : undefined));
  await webhook.stop();
  await askFor(store, other("2"));
  await askFor(store, other("3"));
  await store.close();
  const again = await world.open();
  start(again);
  await receiver.untilArrived(3);
  await askFor(again, other("4"));
  await receiver.untilArrived(4);
  expect(new Set(receiver.arrived.map(({ id }) => id)).size).toBe(4);
});

test("several replicas on one store send each message once", async () => {
  const stores = [await world.open(), await world.open(), await world.open()];
  const [first] = stores;
  if (first === undefined) throw new Error("no store");
  for (const store of stores) await started(store);
  const digits = [..."0123456789"];
  for (const digit of digits) await askFor(first, other(digit));
  await receiver.untilArrived(digits.length);
  await Promise.all(running.map((webhook) => webhook.stop()));
  expect(receiver.arrived).toHaveLength(digits.length);
  expect(new Set(receiver.arrived.map(({ id }) => id)).size).toBe(digits.length);
});

test("a replica dies while sending: another takes over after its lease, with the same id", async () => {
  const store = await world.open();
  const wanted = { webhook: "chat", types: new Set(EVENTS as readonly string[]), owner: "the one that dies" };
  await store.outbox.register("chat");
  const { id } = await askFor(store);
  expect(await store.outbox.takeNext(wanted)).toMatchObject({ event: { id } });
  await started(store);
  expect(receiver.arrived).toHaveLength(0);
  world.now += 61_000;
  const [taken] = await receiver.untilArrived(1);
  expect(taken?.json.data.id).toBe(id);
  // It was not dead after all: what it says now counts for nothing.
  const piece = { event: (await store.eventsAfter(0, 1))[0], attempts: 0 };
  if (piece.event === undefined) throw new Error("no event");
  const settled = await store.outbox.settle(wanted, {
    item: { event: piece.event, attempts: 0 },
    outcome: { kind: "gone" },
    random: 0,
  });
  expect(settled).toBe("lost");
});
