import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { EscalationStep, PolicyStage, Requirement } from "../../../src/approvals/approver-policies/requirement.ts";
import type { Approval, Decision } from "../../../src/approvals/types.ts";
import { AGENT, type ApprovalWorld, askFor, claimOf, createApprovalWorld } from "../../support/approvals.ts";

let world: ApprovalWorld;
let store: Awaited<ReturnType<ApprovalWorld["open"]>>;
beforeEach(async () => {
  world = createApprovalWorld();
  store = await world.open();
});
afterEach(() => world.end());

const PEOPLE = "https://people.example";
const named = (...subjects: readonly string[]) => ({
  permissions: [],
  subjects: subjects.map((subject) => ({ issuer: PEOPLE, subject })),
});
const adding = (afterSeconds: number, stage: number, ...subjects: readonly string[]): EscalationStep => ({
  afterSeconds,
  adds: { stage, deciders: named(...subjects) },
});
const ANNA: PolicyStage = { name: "team", count: 1, deciders: named("anna") };

interface Escalating {
  readonly stages?: readonly PolicyStage[];
  readonly escalate: readonly EscalationStep[];
  readonly distinctPeople?: boolean;
}

function needing(...policies: readonly Escalating[]): Requirement {
  return {
    ...{ digest: "r".repeat(64), reasonRequired: "never", scopes: ["once", "session"], callback: false },
    policies: policies.map(({ stages = [ANNA], distinctPeople = true, escalate }, index) => ({
      ...{ name: `policy-${index}`, distinctPeople, stages, escalate },
    })),
  };
}

const ask = (requirement: Requirement, more: Parameters<typeof askFor>[1] = {}): Promise<Approval> =>
  askFor(store, { requirement, ...more });

const decide = (id: string, subject: string, more: Partial<Decision> = {}) =>
  store.decide({ id, by: { issuer: PEOPLE, subject }, decision: "approve", ...more });

async function after(seconds: number): Promise<void> {
  world.now += seconds * 1_000;
  await store.sweep();
}

const escalated = () => world.lines.filter(({ type }) => type === "approval.escalated");
const events = async () => (await store.eventsAfter(0, 100)).filter(({ type }) => type === "approval.escalated");

test("a step that is due adds its approvers, and is in the journal and the events", async () => {
  const asked = await ask(needing({ escalate: [{ ...adding(300, 0, "oncall"), webhooks: ["pager"] }] }));
  await after(299);
  expect(await store.get(asked.id)).toMatchObject({ version: 1, escalations: [] });
  expect((await decide(asked.id, "oncall")).outcome).toBe("not_eligible");
  await after(1);
  const found = await store.get(asked.id);
  expect(found).toMatchObject({ state: "pending", version: 2, votes: [] });
  expect(found?.escalations).toEqual([{ policy: 0, step: 0, at: world.now }]);
  expect(escalated()).toEqual([
    {
      ...{ type: "approval.escalated", id: asked.id, tool: "deploy", issuer: AGENT.issuer, subject: AGENT.subject },
      ...{ session: "sid-1", planDigest: asked.planDigest, policy: "policy-0", stage: "team", afterSeconds: 300 },
      ...{ waitedSeconds: 300, deciders: named("oncall"), webhooks: ["pager"] },
    },
  ]);
  expect(await events()).toEqual([
    expect.objectContaining({
      ...{ id: asked.id, at: world.now, webhooks: ["pager"] },
      summary: "deploy to prod; policy-0: no decision for 300 s",
    }),
  ]);
  expect(await decide(asked.id, "oncall")).toMatchObject({ outcome: "decided", approval: { state: "approved" } });
  const { digest } = needing({ escalate: [] });
  expect((await store.claim(claimOf(asked, { requirementDigest: digest }))).outcome).toBe("claimed");
});

test("the approvers whom the policy names may still decide", async () => {
  const asked = await ask(needing({ escalate: [adding(300, 0, "oncall")] }));
  await after(300);
  expect(await decide(asked.id, "anna")).toMatchObject({ outcome: "decided", approval: { state: "approved" } });
});

test("an approver of a step that is due may decide before the sweep takes it", async () => {
  const asked = await ask(needing({ escalate: [adding(300, 0, "oncall")] }));
  world.now += 300_000;
  expect(await decide(asked.id, "zoe")).toMatchObject({ outcome: "not_eligible" });
  expect(escalated()).toHaveLength(1);
  expect(await decide(asked.id, "oncall", { decision: "deny" })).toMatchObject({ approval: { state: "denied" } });
  await store.sweep();
  expect(escalated()).toHaveLength(1);
});

test("a decision that needs no further approvers prevents a step that is due", async () => {
  const asked = await ask(needing({ escalate: [adding(300, 0, "oncall")] }));
  world.now += 300_000;
  expect(await decide(asked.id, "anna")).toMatchObject({ outcome: "decided" });
  await after(60);
  expect(escalated()).toEqual([]);
});

test("each step is taken once, in order, by whichever replica and after whatever restart", async () => {
  const steps = [adding(100, 0, "b"), { afterSeconds: 200 }, adding(300, 0, "c")];
  const asked = await ask(needing({ escalate: steps }));
  await after(100);
  await store.close();
  const replicas = await Promise.all([world.open(), world.open(), world.open()]);
  store = replicas[0] as typeof store;
  expect((await store.get(asked.id))?.escalations).toHaveLength(1);
  world.now += 250_000;
  await Promise.all(replicas.flatMap((replica) => [replica.sweep(), replica.sweep()]));
  expect(escalated().map(({ afterSeconds }) => afterSeconds)).toEqual([100, 200, 300]);
  expect(await events()).toHaveLength(3);
  expect(await store.get(asked.id)).toMatchObject({ version: 4 });
});

test("the time counts from the request by the store's clock, and a clock set back takes nothing back", async () => {
  const asked = await ask(needing({ escalate: [adding(300, 0, "oncall"), adding(400, 0, "boss")] }));
  await after(300);
  await after(-299);
  expect((await store.get(asked.id))?.escalations).toHaveLength(1);
  expect((await decide(asked.id, "boss")).outcome).toBe("not_eligible");
  expect(await decide(asked.id, "oncall")).toMatchObject({ outcome: "decided" });
});

test("APR-63: when the journal fails, the step is not taken, and the next sweep takes it", async () => {
  const asked = await ask(needing({ escalate: [adding(300, 0, "oncall")] }));
  world.now += 300_000;
  world.journal = () => Promise.reject(new Error("the disk is full"));
  await expect(store.sweep()).rejects.toThrow("the disk is full");
  expect(await store.get(asked.id)).toMatchObject({ version: 1, escalations: [] });
  world.journal = undefined;
  await store.sweep();
  expect(escalated()).toHaveLength(1);
});

describe("what an escalation cannot do", () => {
  test("it does not lower the quorum, and a person still counts once", async () => {
    const asked = await ask(needing({ stages: [{ ...ANNA, count: 2 }], escalate: [adding(300, 0, "oncall", "boss")] }));
    await after(300);
    expect(await decide(asked.id, "oncall")).toMatchObject({
      outcome: "counted",
      lacking: [{ policy: "policy-0", stage: "team", have: 1, needed: 2 }],
    });
    expect((await decide(asked.id, "ONCALL")).outcome).toBe("already_voted");
    expect((await decide(asked.id, "anna")).outcome).toBe("decided");
  });

  test("it adds approvers to its own stage only", async () => {
    const stages = [ANNA, { name: "secops", count: 1, deciders: named("sam") }];
    const asked = await ask(needing({ stages, distinctPeople: false, escalate: [adding(300, 0, "oncall")] }));
    await after(300);
    expect((await decide(asked.id, "oncall")).outcome).toBe("counted");
    expect((await decide(asked.id, "oncall")).outcome).toBe("already_voted");
    expect((await decide(asked.id, "sam")).outcome).toBe("decided");
  });

  test("it does not open a later stage sooner", async () => {
    const stages = [ANNA, { name: "secops", count: 1, deciders: named("sam") }];
    const asked = await ask(needing({ stages, escalate: [adding(300, 1, "oncall")] }));
    await after(300);
    expect(await decide(asked.id, "oncall")).toMatchObject({ outcome: "later_stage", stage: "secops" });
    expect((await decide(asked.id, "anna")).outcome).toBe("counted");
    expect((await decide(asked.id, "oncall")).outcome).toBe("decided");
  });

  test("another policy that excludes the added approver still needs its own", async () => {
    const strict = { stages: [{ name: "strict", count: 1, deciders: named("frida") }], escalate: [] };
    const asked = await ask(needing({ escalate: [adding(300, 0, "oncall")] }, strict));
    await after(300);
    expect(await decide(asked.id, "oncall")).toMatchObject({
      outcome: "counted",
      lacking: [{ policy: "policy-1", stage: "strict", have: 0, needed: 1 }],
    });
    expect((await decide(asked.id, "frida")).outcome).toBe("decided");
  });

  test("APR-33: nobody decides on requests of their own", async () => {
    const escalate = [{ afterSeconds: 300, adds: { stage: 0, deciders: { permissions: [] } } }];
    const asked = await ask(needing({ escalate }), { requester: { ...AGENT, actors: ["oncall"] } });
    await after(300);
    for (const subject of ["oncall", "ONCALL", AGENT.subject]) {
      expect((await decide(asked.id, subject)).outcome).toBe("own_question");
    }
    expect((await decide(asked.id, "boss", { actors: ["oncall"] })).outcome).toBe("own_question");
    expect((await decide(asked.id, "boss")).outcome).toBe("decided");
  });

  test("a request that has ended does not escalate", async () => {
    const escalate = [adding(300, 0, "oncall")];
    const one = await ask(needing({ escalate }));
    const two = await ask(needing({ escalate }), { planDigest: "2" });
    const three = await ask(needing({ escalate }), { planDigest: "3" });
    await store.cancel(one.id, AGENT);
    await decide(two.id, "anna", { decision: "deny" });
    await decide(three.id, "anna");
    await after(300);
    expect(escalated()).toEqual([]);
    const late = await ask({ ...needing({ escalate }), decideBySeconds: 100 }, { planDigest: "4" });
    await after(300);
    expect(await store.get(late.id)).toMatchObject({ state: "expired", escalations: [] });
    expect(escalated()).toEqual([]);
  });
});

test("steps of several policies are taken each at its time, and each for its own policy", async () => {
  const bert: PolicyStage = { name: "desk", count: 1, deciders: named("bert") };
  const requirement = needing(
    { escalate: [adding(200, 0, "a2"), adding(400, 0, "a3")] },
    { stages: [bert], escalate: [adding(200, 0, "b2"), adding(300, 0, "b3")] },
  );
  const asked = await ask(requirement);
  await after(200);
  await after(100);
  expect(escalated().map(({ policy, afterSeconds }) => [policy, afterSeconds])).toEqual([
    ["policy-0", 200],
    ["policy-1", 200],
    ["policy-1", 300],
  ]);
  expect((await decide(asked.id, "a3")).outcome).toBe("not_eligible");
  expect((await decide(asked.id, "b3")).outcome).toBe("counted");
  expect((await decide(asked.id, "a2")).outcome).toBe("decided");
});

test("APR-50: escalation races with decision, expiry, withdrawal and revocation: every step once, none after the end", async () => {
  const other = await world.open();
  const acts = ["sweep", "late", "named", "deny", "cancel", "revoke", "clock"] as const;
  let round = 0;
  const property = fc.asyncProperty(
    fc.array(fc.constantFrom(...acts), { minLength: 4, maxLength: 12 }),
    async (walk) => {
      round += 1;
      const from = world.lines.length;
      const escalate = [adding(100, 0, "late"), { afterSeconds: 250 }, adding(500, 0, "latest")];
      const { id, createdAt } = await ask(needing({ escalate }), { planDigest: `round ${round}` });
      world.now += 100_000;
      await Promise.all(
        walk.map(async (act, index) => {
          const replica = index % 2 === 0 ? store : other;
          const by = { issuer: PEOPLE, subject: act === "late" ? "late" : "anna" };
          if (act === "sweep") return replica.sweep();
          if (act === "cancel") return replica.cancel(id, AGENT);
          if (act === "revoke") return replica.revoke(id, by);
          if (act === "clock") {
            world.now += 160_000;
            return undefined;
          }
          return replica.decide({ id, by, decision: act === "deny" ? "deny" : "approve" });
        }),
      );
      await Promise.all([store.sweep(), other.sweep()]);
      const lines = world.lines.slice(from).filter((line) => line["id"] === id);
      const taken = lines.filter(({ type }) => type === "approval.escalated");
      const times = taken.map(({ afterSeconds }) => afterSeconds);
      expect(times).toEqual([100, 250, 500].slice(0, times.length));
      const found = await store.get(id);
      expect(found?.escalations).toHaveLength(times.length);
      // A pending request has taken every step that is due.
      const due = [100, 250, 500].filter((seconds) => createdAt + seconds * 1_000 <= world.now).length;
      if (found?.state === "pending") expect(times).toHaveLength(due);
      const ends = ["approval.expired", "approval.cancelled", "approval.voted"];
      const end = lines.findIndex(({ type }) => ends.includes(type));
      const last = lines.findLastIndex(({ type }) => type === "approval.escalated");
      if (end !== -1 && last !== -1) expect(last).toBeLessThan(end);
      // A vote of an added approver comes after the step that added this approver.
      const late = lines.findIndex((line) => (line["decider"] as { subject?: string } | undefined)?.subject === "late");
      const first = lines.findIndex(({ type }) => type === "approval.escalated");
      if (late !== -1) expect(first).toBeGreaterThan(-1);
      if (late !== -1) expect(first).toBeLessThan(late);
      world.now += 700_000;
      await store.sweep();
      await store.cancel(id, AGENT);
    },
  );
  await fc.assert(property, { numRuns: 40 });
});
