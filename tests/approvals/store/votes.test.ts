import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import type { PolicyStage, Requirement } from "../../../src/approvals/approver-policies/requirement.ts";
import type { Approval, Approvals, Decision } from "../../../src/approvals/types.ts";
import { AGENT, type ApprovalWorld, askFor, claimOf, createApprovalWorld } from "../../support/approvals.ts";

let world: ApprovalWorld;
let store: Approvals;
beforeEach(async () => {
  world = createApprovalWorld();
  store = await world.open();
});
afterEach(() => world.end());

const PEOPLE = "https://people.example";
const TEAM: PolicyStage = { name: "team", count: 2, deciders: { permissions: ["team"] } };
const SECOPS: PolicyStage = { name: "secops", count: 1, deciders: { permissions: ["secops"] } };

function needing(stages: readonly PolicyStage[], more: Partial<Requirement> = {}): Requirement {
  return {
    ...{ digest: "r".repeat(64), reasonRequired: "never", scopes: ["once", "session"], callback: false },
    policies: [{ name: "prod", distinctPeople: true, stages }],
    ...more,
  };
}

const ask = (requirement: Requirement, more: Parameters<typeof askFor>[1] = {}): Promise<Approval> =>
  askFor(store, { requirement, ...more });

const decide = (id: string, subject: string, more: Partial<Decision> = {}) =>
  store.decide({ id, by: { issuer: PEOPLE, subject }, decision: "approve", permissions: ["team", "secops"], ...more });

const claim = (approval: Approval, requirement: Requirement | undefined) =>
  store.claim(claimOf(approval, { requirementDigest: requirement?.digest }));

test("an approval that is not enough is counted and reports what is missing", async () => {
  const requirement = needing([TEAM, SECOPS]);
  const asked = await ask(requirement);
  expect(asked).toMatchObject({ requirement, votes: [], version: 1 });
  const from = world.lines.length;
  world.now += 1_000;
  const counted = await decide(asked.id, "anna", { reason: "fine", viewDigest: asked.viewDigest, scope: "session" });
  expect(counted).toMatchObject({
    outcome: "counted",
    lacking: [{ policy: "prod", stage: "team", have: 1, needed: 2 }],
    approval: {
      ...{ state: "pending", version: 2, decidedBy: undefined, decidedAt: undefined, scope: undefined },
      ...{ executeBy: undefined, decisionReason: undefined },
    },
  });
  expect((await store.get(asked.id))?.votes).toEqual([
    {
      ...{ issuer: PEOPLE, subject: "anna", actors: [], at: world.now, scope: "session", reason: "fine" },
      ...{ viewDigest: asked.viewDigest, version: 1, places: [{ policy: 0, stage: 0 }] },
    },
  ]);
  expect(world.lines.slice(from)).toEqual([
    {
      type: "approval.voted",
      ...{ id: asked.id, tool: "deploy", issuer: AGENT.issuer, subject: AGENT.subject, session: "sid-1" },
      ...{ planDigest: asked.planDigest, viewDigest: asked.viewDigest, decider: { issuer: PEOPLE, subject: "anna" } },
      ...{ decision: "approve", scope: "session", reason: "fine", counted: [{ policy: "prod", stage: "team" }] },
      lacking: [{ policy: "prod", stage: "team", have: 1, needed: 2 }],
    },
  ]);
  const [event] = (await store.eventsAfter(0, 10)).slice(-1);
  expect(event).toMatchObject({ type: "approval.voted", id: asked.id, summary: "deploy to prod; prod, team: 1 of 2" });
});

test("the last missing approval approves the request, and its claim runs once", async () => {
  const requirement = needing([TEAM, SECOPS]);
  const asked = await ask(requirement);
  for (const subject of ["anna", "bert"]) await decide(asked.id, subject);
  expect(await decide(asked.id, "cleo", { permissions: ["team"] })).toMatchObject({ outcome: "not_eligible" });
  const decided = await decide(asked.id, "cleo");
  expect(decided).toMatchObject({
    outcome: "decided",
    approval: { state: "approved", version: 4, decidedBy: { subject: "cleo" }, scope: "once" },
  });
  const voters = (await store.get(asked.id))?.votes.map(({ subject }) => subject);
  expect(voters).toEqual(["anna", "bert", "cleo"]);
  expect(await claim(asked, requirement)).toMatchObject({ outcome: "claimed" });
  expect(await claim(asked, requirement)).toMatchObject({ outcome: "not_approved" });
  expect(await decide(asked.id, "dora")).toMatchObject({ outcome: "not_pending" });
});

test("APR-02: before the last approval nothing can be claimed", async () => {
  const requirement = needing([TEAM]);
  const asked = await ask(requirement);
  await decide(asked.id, "anna");
  expect(await claim(asked, requirement)).toMatchObject({ outcome: "not_approved", approval: { state: "pending" } });
});

test("a denial by a permitted approver ends the request, whatever was counted before", async () => {
  const asked = await ask(needing([TEAM, SECOPS]));
  await decide(asked.id, "anna");
  expect(await decide(asked.id, "x", { decision: "deny", permissions: [] })).toMatchObject({ outcome: "not_eligible" });
  expect(await decide(asked.id, "cleo", { decision: "deny", permissions: ["secops"] })).toMatchObject({
    outcome: "decided",
    approval: { state: "denied", decidedBy: { subject: "cleo" }, votes: [{ subject: "anna" }] },
  });
  expect(await decide(asked.id, "bert")).toMatchObject({ outcome: "not_pending", approval: { state: "denied" } });
});

test("APR-33: the requester cannot vote, and nobody votes twice", async () => {
  const asked = await ask(needing([TEAM]), { requester: { ...AGENT, actors: ["anna"] } });
  expect(await decide(asked.id, "ANNA")).toEqual({ outcome: "own_question" });
  expect(await decide(asked.id, "bert", { actors: ["anna"] })).toEqual({ outcome: "own_question" });
  expect(await decide(asked.id, "bert")).toMatchObject({ outcome: "counted" });
  expect(await decide(asked.id, "Bert")).toMatchObject({ outcome: "already_voted" });
  expect((await store.get(asked.id))?.votes).toHaveLength(1);
});

test("APR-10: a vote on another view does not count", async () => {
  const asked = await ask(needing([TEAM]));
  expect(await decide(asked.id, "anna", { viewDigest: "0".repeat(64) })).toEqual({ outcome: "stale_view" });
  expect(await store.get(asked.id)).toMatchObject({ votes: [], version: 1 });
});

const REASONS: readonly (readonly [
  rule: Requirement["reasonRequired"],
  decision: Decision["decision"],
  reason: string | undefined,
  ok: boolean,
])[] = [
  ["never", "deny", undefined, true],
  ["deny", "approve", undefined, true],
  ["deny", "deny", undefined, false],
  ["deny", "deny", "", false],
  ["deny", "deny", " \t\n", false],
  ["deny", "deny", "\u200b\u2060\u3164\u2800\u00ad", false],
  ["deny", "deny", `${" ".repeat(600)}x`, false],
  ["deny", "deny", "no.", true],
  ["always", "approve", undefined, false],
  ["always", "approve", "\u4e86", true],
  ["always", "deny", "?", true],
];

test.each(REASONS)("reasonRequired %s, %s because %j: %p", async (reasonRequired, decision, reason, ok) => {
  const asked = await ask(needing([TEAM], { reasonRequired }));
  const { outcome } = await decide(asked.id, "anna", { decision, reason });
  expect(outcome === "reason_missing").toBe(!ok);
  expect((await store.get(asked.id))?.version).toBe(ok ? 2 : 1);
});

describe("scopes", () => {
  test("a policy can narrow the scopes, never widen them", async () => {
    expect((await ask(needing([TEAM], { scopes: ["once"] }))).scopes).toEqual(["once"]);
    const once = await ask(needing([TEAM]), { planDigest: "2", scopes: ["once"] });
    expect(once.scopes).toEqual(["once"]);
    expect(await decide(once.id, "anna", { scope: "session" })).toMatchObject({ outcome: "scope_not_offered" });
  });

  test.each([
    ["session", "session", 1],
    ["session", "once", 0],
    ["once", "session", 0],
  ] as const)("of %s and %s the narrower applies", async (first, second, grants) => {
    const asked = await ask(needing([TEAM]));
    await decide(asked.id, "anna", { scope: first });
    expect(await decide(asked.id, "bert", { scope: second })).toMatchObject({ outcome: "decided" });
    expect((await store.get(asked.id))?.scope).toBe(grants === 1 ? "session" : "once");
    expect(await store.listGrants({})).toHaveLength(grants);
  });
});

test("APR-54: a policy shortens both deadlines and never extends them", async () => {
  const short = await ask(needing([TEAM], { decideBySeconds: 60, executeBySeconds: 30 }));
  expect(short.decideBy - short.createdAt).toBe(60_000);
  await decide(short.id, "anna");
  world.now += 59_999;
  expect(await decide(short.id, "bert")).toMatchObject({ approval: { executeBy: world.now + 30_000 } });
  const long = await ask(needing([TEAM], { decideBySeconds: 9_999, executeBySeconds: 9_999 }), { planDigest: "long" });
  expect(long.decideBy - long.createdAt).toBe(600_000);
  await decide(long.id, "anna");
  world.now = long.decideBy;
  expect(await decide(long.id, "bert")).toMatchObject({ outcome: "not_pending", approval: { state: "expired" } });
  expect((await store.get(long.id))?.votes).toHaveLength(1);
});

describe("APR-51: an approval counts under the policies in force when it was given", () => {
  const requirement = needing([{ ...TEAM, count: 1 }]);
  test.each([
    ["another policy", requirement, { ...requirement, digest: "x".repeat(64) }],
    ["none any more", requirement, undefined],
    ["one that came since", undefined, requirement],
  ])("%s", async (_title, then, now) => {
    const asked = await askFor(store, { requirement: then });
    await decide(asked.id, "anna");
    expect(await claim(asked, now)).toMatchObject({ outcome: "mismatch" });
    expect((await store.get(asked.id))?.state).toBe("approved");
    expect(await claim(asked, then)).toMatchObject({ outcome: "claimed" });
  });

  test("approvers and counts are read from the request, after a restart too", async () => {
    const asked = await ask(needing([TEAM]));
    await decide(asked.id, "anna");
    await store.close();
    store = await world.open();
    expect(await decide(asked.id, "bert", { permissions: [] })).toMatchObject({ outcome: "not_eligible" });
    expect(await decide(asked.id, "bert")).toMatchObject({ outcome: "decided" });
  });
});

test("APR-63: when the journal fails, the vote does not count", async () => {
  const asked = await ask(needing([{ ...TEAM, count: 1 }]));
  world.journal = () => Promise.reject(new Error("the disk is full"));
  await expect(decide(asked.id, "anna")).rejects.toThrow("the disk is full");
  world.journal = undefined;
  expect(await store.get(asked.id)).toMatchObject({ state: "pending", votes: [], version: 1 });
});

test("APR-50: of many concurrent votes each counts once, and no more than are needed", async () => {
  const other = await world.open();
  for (let round = 0; round < 10; round += 1) {
    const asked = await ask(needing([TEAM, SECOPS]), { planDigest: `round ${round}` });
    const people = ["anna", "bert", "cleo", "dora", "anna", "bert"];
    const told = await Promise.all(
      people.flatMap((subject, index) =>
        [store, other].map((replica) => {
          const by = { issuer: PEOPLE, subject };
          const permissions = index % 2 === 0 ? ["team"] : ["team", "secops"];
          return replica.decide({ id: asked.id, by, decision: "approve", permissions });
        }),
      ),
    );
    const found = await store.get(asked.id);
    const votes = found?.votes ?? [];
    expect(new Set(votes.map(({ subject }) => subject)).size).toBe(votes.length);
    expect(votes.filter(({ places }) => places[0]?.stage === 0)).toHaveLength(2);
    const counted = told.filter(({ outcome }) => outcome === "counted" || outcome === "decided");
    expect(counted).toHaveLength(votes.length);
    expect(told.filter(({ outcome }) => outcome === "decided")).toHaveLength(found?.state === "approved" ? 1 : 0);
    expect(found?.state === "approved").toBe(votes.some(({ places }) => places[0]?.stage === 1));
    await store.cancel(asked.id, AGENT);
  }
});
