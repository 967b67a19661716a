import { afterEach, beforeEach, expect, test } from "bun:test";
import type { Approvals, NewApproval } from "../../../src/approvals/types.ts";
import {
  AGENT,
  type ApprovalWorld,
  approvedBy,
  askFor,
  createApprovalWorld,
  OPERATOR,
  questionOf,
} from "../../support/approvals.ts";

let world: ApprovalWorld;
let store: Approvals;
beforeEach(async () => {
  world = createApprovalWorld();
  store = await world.open();
});
afterEach(() => world.end());

const MINUTE_MS = 60_000;

test("a request is stored as it was asked", async () => {
  const question = questionOf({ requester: { ...AGENT, actors: ["robot", "batch"] } });
  const approval = await askFor(store, question);
  expect(approval).toMatchObject({ ...question, state: "pending", version: 1, createdAt: world.now });
  expect(approval.decideBy).toBe(world.now + 10 * MINUTE_MS);
  expect(await store.get(approval.id)).toEqual(approval);
});

test("the age of a request is measured by the store's clock", async () => {
  const { id } = await askFor(store);
  world.now += 1_234;
  expect([await store.ageOf(id), await store.ageOf("unknown")]).toEqual([1_234, undefined]);
});

test("the backlog is what waits now, and the age of the oldest", async () => {
  expect(await store.backlog()).toEqual({ waiting: 0, oldestMs: 0 });
  const first = await askFor(store, { planDigest: "first" });
  world.now += 1_500;
  await askFor(store, { planDigest: "second" });
  expect(await store.backlog()).toEqual({ waiting: 2, oldestMs: 1_500 });
  await store.decide({ id: first.id, by: OPERATOR, decision: "deny", reason: "no" });
  expect(await store.backlog()).toEqual({ waiting: 1, oldestMs: 0 });
  world.now += 86_400_000;
  expect(await store.backlog()).toEqual({ waiting: 0, oldestMs: 0 });
});

test("the earlier decisions on a tool are people's, of other requests for it, newest first, at most five", async () => {
  const of = async (id: string) => (await store.earlierDecisions({ id, tool: "deploy" })).map((one) => one.reason);
  for (let count = 0; count < 7; count += 1) {
    const { id } = await askFor(store, { planDigest: `plan ${count}` });
    world.now += 1_000;
    const decision = count % 2 === 0 ? "approve" : "deny";
    await store.decide({ id, by: OPERATOR, decision, reason: `reason ${count}` });
  }
  const other = await askFor(store, { tool: "erase", planDigest: "other" });
  await store.decide({ id: other.id, by: OPERATOR, decision: "deny", reason: "another tool" });
  const withdrawn = await askFor(store, { planDigest: "withdrawn" });
  await store.cancel(withdrawn.id, AGENT);
  const { id } = await askFor(store, { planDigest: "now" });
  expect(await of(id)).toEqual([6, 5, 4, 3, 2].map((count) => `reason ${count}`));
  const [newest] = await store.earlierDecisions({ id, tool: "deploy" });
  expect(newest).toMatchObject({ decision: "approve", at: world.now, by: OPERATOR });
  expect(await of(newest?.id ?? "")).toEqual([5, 4, 3, 2, 1].map((count) => `reason ${count}`));
});

test("neither the journal nor the events contain the view", async () => {
  await approvedBy(store, { view: { secret: "in the view" } });
  const told = JSON.stringify([world.lines, await store.eventsAfter(0, 100)]);
  expect(world.lines.map(({ type }) => type)).toEqual(["approval.asked", "approval.voted"]);
  expect(told).not.toContain("in the view");
});

const OTHERS: readonly (readonly [title: string, other: Partial<NewApproval>])[] = [
  ["plan", { planDigest: "d".repeat(64) }],
  ["session", { requester: { ...AGENT, session: "sid-2" } }],
  ["no session", { requester: { ...AGENT, session: undefined } }],
  ["subject", { requester: { ...AGENT, subject: "agent-2" } }],
  ["issuer", { requester: { ...AGENT, issuer: "https://other.example" } }],
];

test("APR-62: an identical request joins the pending one instead of creating another", async () => {
  const first = await askFor(store);
  const again = await store.ask(questionOf({ traceId: "another" }));
  expect(again).toEqual({ outcome: "asked", approval: first, joined: true });
  expect(await store.lastSeq()).toBe(1);
});

test("APR-62: identical requests of a caller without a session join too", async () => {
  const requester = { ...AGENT, session: undefined };
  const first = await askFor(store, { requester });
  expect((await askFor(store, { requester })).id).toBe(first.id);
});

test.each(OTHERS)("APR-62: another %s is another request", async (_title, other) => {
  const first = await askFor(store);
  expect((await askFor(store, other)).id).not.toBe(first.id);
});

test("APR-62: an expired request does not occupy the place of the next", async () => {
  const first = await askFor(store);
  world.now = first.decideBy;
  const second = await askFor(store);
  expect(second.id).not.toBe(first.id);
  expect((await store.get(first.id))?.state).toBe("expired");
  expect(world.lines.map(({ type }) => type)).toEqual(["approval.asked", "approval.expired", "approval.asked"]);
});

test("APR-62: a caller has a maximum of pending requests over all sessions", async () => {
  for (let index = 0; index < 20; index += 1) {
    await askFor(store, { planDigest: `${index}`, requester: { ...AGENT, session: `sid-${index % 2}` } });
  }
  const more = questionOf({ planDigest: "more", requester: { ...AGENT, session: "sid-new" } });
  expect(await store.ask(more)).toEqual({ outcome: "backlog", limit: 20, retryAfterMs: 10 * MINUTE_MS });
  expect((await store.ask(questionOf({ requester: { ...AGENT, subject: "agent-2" } }))).outcome).toBe("asked");
  world.now += 10 * MINUTE_MS;
  expect((await store.ask(more)).outcome).toBe("asked");
});

test("APR-62: a session has a maximum of pending requests", async () => {
  for (let index = 0; index < 10; index += 1) await askFor(store, { planDigest: `${index}` });
  world.now += 4 * MINUTE_MS;
  expect(await store.ask(questionOf())).toEqual({ outcome: "backlog", limit: 10, retryAfterMs: 6 * MINUTE_MS });
  expect((await store.ask(questionOf({ planDigest: "3" }))).outcome).toBe("asked");
  expect((await store.ask(questionOf({ requester: { ...AGENT, session: "sid-2" } }))).outcome).toBe("asked");
});

test("APR-62: many concurrent requests do not exceed the limit", async () => {
  const asked = await Promise.all(
    Array.from({ length: 60 }, (_, index) => store.ask(questionOf({ planDigest: `${index}` }))),
  );
  expect(asked.filter(({ outcome }) => outcome === "asked")).toHaveLength(10);
  expect(asked.filter(({ outcome }) => outcome === "backlog")).toHaveLength(50);
});

test("APR-62: asking and withdrawing in turns is limited for a while too", async () => {
  await store.close();
  store = await world.open({ pendingPerCallerMax: 2 });
  for (let index = 0; index < 20; index += 1) {
    const { id } = await askFor(store, { planDigest: `${index}` });
    expect((await store.cancel(id, AGENT))?.state).toBe("cancelled");
    world.now += 1_000;
  }
  expect(await store.ask(questionOf())).toEqual({ outcome: "backlog", limit: 20, retryAfterMs: 580_000 });
  expect((await store.ask(questionOf({ requester: { ...AGENT, subject: "agent-2" } }))).outcome).toBe("asked");
  world.now += 580_000;
  expect((await store.ask(questionOf())).outcome).toBe("asked");
});

test("APR-61: after a denial the same call is not asked again for a while and gets the same reason", async () => {
  const { id } = await askFor(store);
  await store.decide({ id, by: OPERATOR, decision: "deny", reason: "not on a Friday" });
  world.now += 4 * MINUTE_MS;
  const again = await store.ask(questionOf());
  expect(again).toMatchObject({
    outcome: "denied_before",
    retryAfterMs: 6 * MINUTE_MS,
    askAgainAt: world.now + 6 * MINUTE_MS,
  });
  expect(again.outcome === "denied_before" && again.approval).toMatchObject({ id, decisionReason: "not on a Friday" });
  world.now += 6 * MINUTE_MS;
  expect((await store.ask(questionOf())).outcome).toBe("asked");
});

test.each(OTHERS.filter(([title]) => title === "plan" || title === "subject" || title === "issuer"))(
  "APR-61: a denial does not block another %s",
  async (_title, other) => {
    const { id } = await askFor(store);
    await store.decide({ id, by: OPERATOR, decision: "deny" });
    expect((await store.ask(questionOf(other))).outcome).toBe("asked");
  },
);

test("APR-61: a clock that is set back does not extend the cool-down", async () => {
  const { id } = await askFor(store);
  await store.decide({ id, by: OPERATOR, decision: "deny" });
  world.now -= 60 * MINUTE_MS;
  expect(await store.ask(questionOf())).toMatchObject({ outcome: "denied_before", retryAfterMs: 10 * MINUTE_MS });
});

const SCOPES: readonly (readonly [title: string, more: Partial<NewApproval>, offered: readonly string[]])[] = [
  ["a session and a key", {}, ["once", "session"]],
  ["no session", { requester: { ...AGENT, session: undefined } }, ["once"]],
  ["an empty session", { requester: { ...AGENT, session: "" } }, ["once"]],
  ["nothing to remember it by", { grantKey: undefined }, ["once"]],
  ["high risk", { risk: "high" }, ["once"]],
  ["critical risk", { risk: "critical" }, ["once"]],
  ["a tool that offers a session's yes alone", { scopes: ["session"] }, ["session"]],
];

test.each(SCOPES)("APR-42, APR-44: the scopes offered for %s", async (_title, more, offered) => {
  expect((await askFor(store, more)).scopes).toEqual([...offered] as never);
});

test("a view without limits is refused", async () => {
  await expect(store.ask(questionOf({ view: "x".repeat(2_000_000) }))).rejects.toThrow(
    "the view of an approval request has more",
  );
});

test("text with a meaning in SQL stays text", async () => {
  const hostile = "'); DROP TABLE approvals; -- \u2028 %_ \\";
  const { id } = await askFor(store, { requester: { ...AGENT, subject: hostile }, tool: hostile, summary: hostile });
  expect(await store.get(id)).toMatchObject({ tool: hostile, summary: hostile, requester: { subject: hostile } });
  expect(await store.list({ requester: { issuer: AGENT.issuer, subject: hostile }, limit: 5 })).toMatchObject({
    approvals: [{ id }],
  });
  expect((await store.list({ requester: { issuer: AGENT.issuer, subject: "%" }, limit: 5 })).approvals).toEqual([]);
});
