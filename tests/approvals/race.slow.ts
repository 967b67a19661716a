import { afterEach, beforeEach, expect, test } from "bun:test";
import { AGENT, type ApprovalWorld, approvedBy, askFor, claimOf, createApprovalWorld } from "../support/approvals.ts";
import { childCommand, type DyingAct } from "../support/approvals-child.ts";
import { needing, raceClaims, raceVotes } from "../support/approvals-race.ts";

let world: ApprovalWorld;
beforeEach(() => {
  world = createApprovalWorld();
});
afterEach(() => world.end());

test("APR-50: 4 processes claim 50 approvals of one file, each once", async () => {
  const claimed = await raceClaims(4, 50);
  expect(claimed.reduce((sum, count) => sum + count, 0)).toBe(50);
});

test("APR-50: 4 processes vote on 20 approval requests with the same names: each gets exactly its approvals", async () => {
  await raceVotes({ processes: 4, approvals: 20, count: 2 });
});

const KILLS: readonly (readonly [act: DyingAct, when: "journaling" | "answered", state: string])[] = [
  ["approve", "journaling", "pending"],
  ["approve", "answered", "approved"],
  ["claim", "journaling", "approved"],
  ["claim", "answered", "claimed"],
];

test.each(KILLS)("APR-53: kill -9 during %s, %s: it is %s", async (act, when, state) => {
  const store = await world.open();
  const { id } = await (act === "approve" ? askFor(store) : approvedBy(store));
  await store.close();
  const child = Bun.spawn(childCommand(world, world.now, { kind: "die", act, id, when }), { stderr: "inherit" });
  await child.exited;
  expect(child.signalCode).toBe("SIGKILL");
  const next = await world.open();
  expect((await next.get(id))?.state).toBe(state as never);
  expect((await next.listGrants({ requester: AGENT })).length).toBe(act === "approve" && when === "answered" ? 1 : 0);
});

test.each([
  ["journaling", 0],
  ["answered", 1],
] as const)(
  "APR-53: kill -9 during a vote, %s: %d is counted, and the other vote is still possible",
  async (when, count) => {
    const store = await world.open();
    const { id } = await askFor(store, { requirement: needing(2) });
    await store.close();
    const child = Bun.spawn(childCommand(world, world.now, { kind: "die", act: "approve", id, when }), {
      stderr: "inherit",
    });
    await child.exited;
    expect(child.signalCode).toBe("SIGKILL");
    const next = await world.open();
    expect(await next.get(id)).toMatchObject({ state: "pending", version: 1 + count });
    expect((await next.get(id))?.votes).toHaveLength(count);
    for (const subject of ["x", "y", "z"].slice(count)) {
      await next.decide({ id, by: { issuer: "i", subject }, decision: "approve" });
    }
    expect((await next.get(id))?.state).toBe("approved");
  },
);

test.each([
  ["journaling", 0],
  ["answered", 1],
] as const)("APR-53: kill -9 during an escalation, %s: %d step is taken, and one in the end", async (when, count) => {
  const store = await world.open();
  const needed = needing(1);
  const escalate = [{ afterSeconds: 100, adds: { stage: 0, deciders: { permissions: [] } } }];
  const policies = needed.policies.slice(0, 1).map((policy) => ({ ...policy, escalate }));
  const { id } = await askFor(store, { requirement: { ...needed, policies } });
  await store.close();
  const asked = world.now;
  world.now += 100_000;
  const child = Bun.spawn(childCommand(world, world.now, { kind: "die", act: "sweep", id, when }), {
    stderr: "inherit",
  });
  await child.exited;
  expect(child.signalCode).toBe("SIGKILL");
  // At the time of the request no step is due: what is found was written by the killed process.
  world.now = asked;
  const next = await world.open();
  expect((await next.get(id))?.escalations).toHaveLength(count);
  world.now += 100_000;
  await next.sweep();
  const found = await next.get(id);
  expect([found?.escalations.length, found?.version]).toEqual([1, 2]);
  const types = (await next.eventsAfter(0, 10)).map(({ type }) => type);
  expect(types).toEqual(["approval.requested", "approval.escalated"]);
});

test("APR-56: a claim of a killed process is in doubt when its lease ends", async () => {
  const store = await world.open();
  const approval = await approvedBy(store);
  const { id } = approval;
  const child = Bun.spawn(childCommand(world, world.now, { kind: "die", act: "claim", id, when: "answered" }));
  await child.exited;
  expect((await store.claim(claimOf(approval))).outcome).toBe("not_approved");
  world.now += 900_000;
  await store.sweep();
  expect((await store.get(id))?.state).toBe("in_doubt");
  expect((await store.claim(claimOf(approval))).outcome).toBe("not_approved");
});
