import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import type { Approver } from "../../../src/approvals/identities.ts";
import type { Approval, Approvals, Claim, Decision, NewApproval } from "../../../src/approvals/types.ts";
import {
  AGENT,
  type ApprovalWorld,
  approvedBy,
  askFor,
  claimedFrom,
  claimOf,
  createApprovalWorld,
  OPERATOR,
} from "../../support/approvals.ts";

let world: ApprovalWorld;
let store: Approvals;
beforeEach(async () => {
  world = createApprovalWorld();
  store = await world.open();
});
afterEach(() => world.end());

const decide = (id: string, more: Partial<Decision> = {}) =>
  store.decide({ id, by: OPERATOR, decision: "approve", ...more });

test("an approval names its approver, starts the second deadline and is in the journal", async () => {
  const asked = await askFor(store);
  world.now += 1_000;
  const decided = await decide(asked.id, { reason: "go on", viewDigest: asked.viewDigest });
  const expected: Approval = {
    ...asked,
    ...{ state: "approved" as const, version: 2, decidedAt: world.now, decidedBy: OPERATOR },
    ...{ executeBy: world.now + 300_000, scope: "once" as const, decisionReason: "go on" },
  };
  expect(decided).toEqual({ outcome: "decided", approval: expected });
  expect(await store.get(asked.id)).toEqual(expected);
  expect(world.lines.at(-1)).toEqual({
    type: "approval.voted",
    ...{ id: asked.id, tool: "deploy", issuer: AGENT.issuer, subject: AGENT.subject, session: "sid-1" },
    ...{ planDigest: asked.planDigest, viewDigest: asked.viewDigest },
    ...{ decider: { ...OPERATOR }, decision: "approve", scope: "once", reason: "go on" },
  });
});

test("a denial ends the request", async () => {
  const { id } = await askFor(store);
  expect(await decide(id, { decision: "deny", scope: "session" })).toMatchObject({
    outcome: "decided",
    approval: { state: "denied", scope: undefined, executeBy: undefined, decidedBy: OPERATOR },
  });
  expect(await decide(id)).toMatchObject({ outcome: "not_pending", approval: { state: "denied" } });
});

const OWN: readonly (readonly [title: string, by: Approver, outcome: string])[] = [
  ["the asker", { issuer: AGENT.issuer, subject: AGENT.subject }, "own_question"],
  [
    "the asker's account at another issuer",
    { issuer: "https://people.example", subject: AGENT.subject },
    "own_question",
  ],
  ["one for whom the agent acts", { issuer: "https://people.example", subject: "bob" }, "own_question"],
  ["the last of the chain", { issuer: "https://people.example", subject: "batch" }, "own_question"],
  ["somebody else", OPERATOR, "decided"],
  ["one whose name only begins alike", { issuer: AGENT.issuer, subject: "agent-10" }, "decided"],
];

describe.each(["approve", "deny"] as const)("APR-33: who may %s", (decision) => {
  test.each(OWN)("%s", async (_title, by, outcome) => {
    const { id } = await askFor(store, { requester: { ...AGENT, actors: ["bob", "batch"] } });
    expect((await decide(id, { by, decision })).outcome).toBe(outcome as never);
    expect((await store.get(id))?.state === "pending").toBe(outcome === "own_question");
  });
});

test("APR-10: an approver who saw another view cannot decide", async () => {
  const { id } = await askFor(store);
  expect(await decide(id, { viewDigest: "0".repeat(64) })).toEqual({ outcome: "stale_view" });
  expect((await store.get(id))?.state).toBe("pending");
});

const SCOPES: readonly (readonly [
  title: string,
  more: Partial<NewApproval>,
  scope: "once" | "session" | undefined,
  ok: boolean,
])[] = [
  ["none of two", {}, undefined, true],
  ["session of two", {}, "session", true],
  ["session when only once is offered", { scopes: ["once"] }, "session", false],
  ["none when only session is offered", { scopes: ["session"] }, undefined, false],
  ["session without a session", { requester: { ...AGENT, session: undefined } }, "session", false],
];

test.each(SCOPES)("APR-42: scope %s", async (_title, more, scope, ok) => {
  const { id, scopes } = await askFor(store, more);
  const decided = await decide(id, { scope });
  if (!ok) expect(decided).toEqual({ outcome: "scope_not_offered", offered: scopes });
  expect((await store.get(id))?.state).toBe(ok ? "approved" : "pending");
  expect(await store.listGrants({})).toHaveLength(ok && scope === "session" ? 1 : 0);
});

test("a reason is stored whole up to a limit, and never cut inside a character", async () => {
  const { id } = await askFor(store);
  await decide(id, { decision: "deny", reason: `${"x".repeat(499)}\u{1f600}\0` });
  expect((await store.get(id))?.decisionReason).toBe(`${"x".repeat(499)}\ufffd`);
});

test("APR-50: of many concurrent decisions one counts", async () => {
  const { id } = await askFor(store);
  const decided = await Promise.all(
    Array.from({ length: 20 }, (_, index) => decide(id, { decision: index % 2 === 0 ? "approve" : "deny" })),
  );
  expect(decided.filter(({ outcome }) => outcome === "decided")).toHaveLength(1);
  expect(world.lines.filter(({ type }) => type === "approval.voted")).toHaveLength(1);
});

test("an unknown request is not pending", async () => {
  expect(await decide("nothing")).toEqual({ outcome: "not_pending", approval: undefined });
});

describe("APR-54: two deadlines, enforced without a sweeper", () => {
  test("a request may be decided until decideBy, and not at it", async () => {
    const [early, late] = [await askFor(store), await askFor(store, { planDigest: "late" })];
    world.now = early.decideBy - 1;
    expect((await decide(early.id)).outcome).toBe("decided");
    world.now = late.decideBy;
    expect(await store.get(late.id)).toMatchObject({ state: "expired", version: 2 });
    expect((await store.list({ state: "pending", limit: 10 })).approvals).toEqual([]);
    expect((await store.list({ state: "expired", limit: 10 })).approvals).toMatchObject([{ id: late.id }]);
    expect(await decide(late.id)).toMatchObject({ outcome: "not_pending", approval: { state: "expired" } });
  });

  test("an approval may be used until executeBy, and not at it", async () => {
    const first = await approvedBy(store);
    const second = await approvedBy(store, { planDigest: "second" });
    world.now = (first.executeBy ?? 0) - 1;
    expect((await store.claim(claimOf(first))).outcome).toBe("claimed");
    world.now += 1;
    expect((await store.list({ state: "approved", limit: 10 })).approvals).toEqual([]);
    expect(await store.claim(claimOf(second))).toMatchObject({
      outcome: "not_approved",
      approval: { state: "expired" },
    });
    expect(await store.revoke(second.id, OPERATOR)).toBeUndefined();
    expect(await store.cancel(second.id, AGENT)).toBeUndefined();
  });

  test.each(["decide", "claim"] as const)(
    "what %s reported as expired stays expired when the clock is set back",
    async (how) => {
      const approval = how === "decide" ? await askFor(store) : await approvedBy(store);
      const before = world.now;
      world.now = (approval.executeBy ?? approval.decideBy) + 1;
      await (how === "decide" ? decide(approval.id) : store.claim(claimOf(approval)));
      world.now = before;
      expect((await store.get(approval.id))?.state).toBe("expired");
      expect((await decide(approval.id)).outcome).toBe("not_pending");
      expect((await store.claim(claimOf(approval))).outcome).toBe("not_approved");
    },
  );
});

const STRANGERS: readonly (readonly [title: string, more: (approval: Approval) => Partial<Claim>, outcome: string])[] =
  [
    ["an unknown id", () => ({ id: "11111111-1111-7111-8111-111111111111" }), "not_found"],
    ["another subject", () => ({ requester: { ...AGENT, subject: "agent-2" } }), "not_found"],
    ["another issuer", () => ({ requester: { ...AGENT, issuer: "https://other.example" } }), "not_found"],
    ["another session", () => ({ requester: { ...AGENT, session: "sid-2" } }), "mismatch"],
    ["no session", () => ({ requester: { ...AGENT, session: undefined } }), "mismatch"],
    ["another plan", () => ({ planDigest: "0".repeat(64) }), "mismatch"],
  ];

test.each(STRANGERS)("APR-02, APR-35, APR-40: a claim with %s", async (_title, more, outcome) => {
  const approval = await approvedBy(store);
  expect((await store.claim(claimOf(approval, more(approval)))).outcome).toBe(outcome as never);
  expect((await store.get(approval.id))?.state).toBe("approved");
});

test("APR-35: another caller's request and an unknown one get the same words", async () => {
  const approval = await approvedBy(store);
  const foreign = await store.claim(claimOf(approval, { requester: { ...AGENT, subject: "agent-2" } }));
  expect(foreign).toEqual(await store.claim(claimOf(approval, { id: "nothing" })));
  expect(await store.cancel(approval.id, { issuer: AGENT.issuer, subject: "agent-2" })).toBeUndefined();
});

test("APR-50: of many concurrent claims one runs", async () => {
  const approval = await approvedBy(store);
  const claimed = await Promise.all(Array.from({ length: 50 }, () => store.claim(claimOf(approval))));
  expect(claimed.filter(({ outcome }) => outcome === "claimed")).toHaveLength(1);
  expect(claimed.filter(({ outcome }) => outcome === "not_approved")).toHaveLength(49);
});

test.each(["executed", "failed", "in_doubt"] as const)("APR-50, APR-56: what has %s never runs again", async (end) => {
  const approval = await claimedFrom(store);
  await store.settle(approval.id, end);
  await store.settle(approval.id, end === "executed" ? "failed" : "executed");
  expect(await store.get(approval.id)).toMatchObject({ state: end, version: 4 });
  expect(await store.claim(claimOf(approval))).toMatchObject({ outcome: "not_approved", approval: { state: end } });
  expect((await decide(approval.id)).outcome).toBe("not_pending");
  expect(await store.revoke(approval.id, OPERATOR)).toBeUndefined();
  expect(await store.cancel(approval.id, AGENT)).toBeUndefined();
});

test.each(["pending", "denied", "cancelled", "revoked"] as const)("a claim of a request that is %s", async (state) => {
  const approval = state === "revoked" ? await approvedBy(store) : await askFor(store);
  if (state === "denied") await decide(approval.id, { decision: "deny" });
  if (state === "cancelled") await store.cancel(approval.id, AGENT);
  if (state === "revoked") await store.revoke(approval.id, OPERATOR);
  expect(await store.claim(claimOf(approval))).toMatchObject({ outcome: "not_approved", approval: { state } });
});

test("the claims of a process that has ended are in doubt at once, and those of others are not", async () => {
  world.claimant = "log-a";
  const lost = await claimedFrom(store);
  const settled = await claimedFrom(store, { planDigest: "d".repeat(64) });
  await store.settle(settled.id, "executed");
  world.claimant = "log-b";
  const others = await claimedFrom(store, { planDigest: "e".repeat(64) });
  await store.doubtClaimsOf("log-a");
  const states = await Promise.all([lost, settled, others].map(async ({ id }) => (await store.get(id))?.state));
  expect(states).toEqual(["in_doubt", "executed", "claimed"]);
  expect(world.lines.at(-1)).toMatchObject({ type: "approval.settled", outcome: "in_doubt", cause: "process_ended" });
});

test("a claim in doubt is settled by the outcome of its call, when it is the claim of that process", async () => {
  world.claimant = "log-a";
  const [made, unmade, claimed] = [
    await claimedFrom(store),
    await claimedFrom(store, { planDigest: "b".repeat(64) }),
    await claimedFrom(store, { planDigest: "c".repeat(64) }),
  ];
  const found = { claimant: "log-a", key: undefined, startedAt: world.now };
  await store.resolveDoubt({ ...found, approvalId: claimed.id, isDone: true });
  expect((await store.get(claimed.id))?.state).toBe("claimed");
  await store.doubtClaimsOf("log-a");
  await store.resolveDoubt({ ...found, claimant: "log-b", approvalId: made.id, isDone: true });
  expect((await store.get(made.id))?.state).toBe("in_doubt");
  for (const { id } of [made, unmade]) await store.resolveDoubt({ ...found, approvalId: id, isDone: id === made.id });
  expect(world.lines.at(-1)).toMatchObject({ type: "approval.settled", outcome: "failed", cause: "resolved" });
  const states = await Promise.all([made, unmade, claimed].map(async ({ id }) => (await store.get(id))?.state));
  expect(states).toEqual(["executed", "failed", "in_doubt"]);
});

test("APR-56: a claim that lost its lease is in doubt, and a late result changes nothing", async () => {
  const approval = await claimedFrom(store);
  world.now += 900_000 - 1;
  await store.sweep();
  expect((await store.get(approval.id))?.state).toBe("claimed");
  world.now += 1;
  await store.sweep();
  await store.settle(approval.id, "executed");
  expect(await store.get(approval.id)).toMatchObject({ state: "in_doubt" });
  expect(world.lines.at(-1)).toMatchObject({ type: "approval.settled", outcome: "in_doubt", cause: "lease_lost" });
});

test("APR-56: claims of an earlier process are in doubt at the next start", async () => {
  const [lost, running] = [await claimedFrom(store), await approvedBy(store, { planDigest: "second" })];
  world.now += 200_000;
  await store.claim(claimOf(running));
  await store.close();
  world.now += 700_000;
  store = await world.open();
  expect((await store.get(lost.id))?.state).toBe("in_doubt");
  expect((await store.get(running.id))?.state).toBe("claimed");
});

test("APR-53: a request and its approval survive the process", async () => {
  const [asked, approved] = [await askFor(store), await approvedBy(store, { planDigest: "second" })];
  await store.close();
  store = await world.open();
  expect((await decide(asked.id)).outcome).toBe("decided");
  expect((await store.claim(claimOf(asked))).outcome).toBe("claimed");
  expect((await store.claim(claimOf(approved))).outcome).toBe("claimed");
});

test("a caller may cancel its request or approval; an operator may revoke an approval", async () => {
  const [asked, approved, revoked] = [
    await askFor(store),
    await approvedBy(store, { planDigest: "second" }),
    await approvedBy(store, { planDigest: "third" }),
  ];
  expect(await store.revoke(asked.id, OPERATOR)).toBeUndefined();
  expect(await store.cancel(asked.id, AGENT)).toMatchObject({ state: "cancelled" });
  expect(await store.cancel(approved.id, AGENT)).toMatchObject({ state: "cancelled" });
  expect(await store.revoke(revoked.id, OPERATOR)).toMatchObject({ state: "revoked" });
  expect(world.lines.slice(-3).map(({ type }) => type)).toEqual([
    "approval.cancelled",
    "approval.cancelled",
    "approval.revoked",
  ]);
});

test("pages contain everything once, newest first", async () => {
  const asked: string[] = [];
  for (let index = 0; index < 10; index += 1) {
    world.now += index % 3 === 0 ? 1 : 0;
    asked.push((await askFor(store, { planDigest: `${index}` })).id);
  }
  const listed: string[] = [];
  let cursor: string | undefined;
  do {
    const page = await store.list({ limit: 3, cursor, state: "pending", requester: AGENT });
    listed.push(...page.approvals.map(({ id }) => id));
    cursor = page.cursor;
  } while (cursor !== undefined);
  expect(listed).toEqual(asked.toReversed());
  expect((await store.list({ limit: 10, requester: { ...AGENT, subject: "x" } })).approvals).toEqual([]);
  expect(await store.list({ limit: 10, cursor: "' OR 1=1" })).toEqual({ approvals: [], cursor: undefined });
});
