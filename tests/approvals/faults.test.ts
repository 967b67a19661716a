import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import type { Approvals, NewApproval } from "../../src/approvals/types.ts";
import {
  AGENT,
  type ApprovalWorld,
  approvedBy,
  askFor,
  claimedFrom,
  claimOf,
  createApprovalWorld,
  OPERATOR,
  questionOf,
} from "../support/approvals.ts";
import { WAYS } from "../support/hub-approvals.ts";
import { until } from "../support/until.ts";

let world: ApprovalWorld;
let store: Approvals;
afterEach(() => world.end());

const SESSION_QUESTION: Partial<NewApproval> = { requester: { ...AGENT, session: "sid-1" } };

/** Prepares, then answers what to do while the journal fails. */
type Act = () => Promise<() => Promise<unknown>>;

const ACTS: readonly (readonly [title: string, act: Act])[] = [
  ["ask", async () => () => store.ask(questionOf())],
  ["approve", async () => decideLater("approve")],
  ["approve for the session", async () => decideLater("approve", "session")],
  ["deny", async () => decideLater("deny")],
  ["claim", async () => later(await approvedBy(store), (approval) => store.claim(claimOf(approval)))],
  ["settle", async () => later(await claimedFrom(store), ({ id }) => store.settle(id, "executed"))],
  ["cancel", async () => later(await askFor(store), ({ id }) => store.cancel(id, AGENT))],
  ["revoke", async () => later(await approvedBy(store), ({ id }) => store.revoke(id, OPERATOR))],
  ["the sweeper", async () => later(await askFor(store), ({ decideBy }) => sweepAt(decideBy))],
  ["the sweeper on a lost lease", async () => later(await claimedFrom(store), () => sweepAt(world.now + 900_000))],
  ["a decision too late", async () => later(await askFor(store), ({ id, decideBy }) => decideAt(id, decideBy))],
  ["openSession", async () => () => store.openSession(AGENT)],
  ["setMode", async () => later(await store.openSession(AGENT), ({ id }) => setYolo(id))],
  ["endSession", async () => later(await store.openSession(AGENT), ({ id }) => store.endSession(id, AGENT))],
  ["revokeGrant", async () => later(await grant(), (id) => store.revokeGrant(id, OPERATOR))],
];

const later =
  <T>(given: T, act: (given: T) => Promise<unknown>) =>
  () =>
    act(given);
const setYolo = (id: string) => store.setMode({ id, mode: "yolo", until: world.now + 60_000, by: OPERATOR });

async function decideLater(decision: "approve" | "deny", scope?: "session") {
  const { id } = await askFor(store, SESSION_QUESTION);
  return () => store.decide({ id, by: OPERATOR, decision, scope });
}

function sweepAt(now: number): Promise<void> {
  world.now = now;
  return store.sweep();
}

function decideAt(id: string, now: number): Promise<unknown> {
  world.now = now;
  return store.decide({ id, by: OPERATOR, decision: "approve" });
}

async function grant(): Promise<string> {
  const { id } = await askFor(store, SESSION_QUESTION);
  await store.decide({ id, by: OPERATOR, decision: "approve", scope: "session" });
  return (await store.findGrant(AGENT, questionOf().grantKey ?? ""))?.id ?? "";
}

/** Everything that can be seen, as at the time of the preparation. */
async function everything(now: number): Promise<unknown> {
  const then = world.now;
  world.now = now;
  const seen = {
    approvals: await store.list({ limit: 200 }),
    grants: await store.listGrants({}),
    sessions: await store.listSessions(),
    events: await store.eventsAfter(0, 1_000),
    lastSeq: await store.lastSeq(),
  };
  world.now = then;
  return seen;
}

describe.each(WAYS)("by way of %s", (_way, makeWorld) => {
  beforeEach(async () => {
    world = makeWorld();
    store = await world.open();
  });

  test.each(ACTS)(
    "APR-63: when the journal fails, %s changes nothing, reports the failure, and works again after the journal recovers",
    async (_title, prepare) => {
      const act = await prepare();
      const now = world.now;
      const before = await everything(now);
      let heard = 0;
      const stop = store.onEvents(() => (heard += 1));
      // The watching begins with a look.
      await until("the first ring", () => (heard > 0 ? true : undefined));
      heard = 0;
      world.journal = () => Promise.reject(new Error("the disk is full"));
      await expect(act()).rejects.toThrow("the disk is full");
      expect(await everything(now)).toEqual(before);
      expect(heard).toBe(0);
      stop();
      world.journal = undefined;
      world.now = now;
      await act();
      expect(await everything(now)).not.toEqual(before);
    },
  );

  test("a change is visible to nobody before its journal line is on disk", async () => {
    const written = Promise.withResolvers<void>();
    const reached = Promise.withResolvers<void>();
    const { id } = await askFor(store);
    world.journal = () => {
      reached.resolve();
      return written.promise;
    };
    let isDone = false;
    const decided = store.decide({ id, by: OPERATOR, decision: "approve" }).finally(() => {
      isDone = true;
    });
    await reached.promise;
    expect((await store.get(id))?.state).toBe("pending");
    expect(await store.lastSeq()).toBe(1);
    expect(isDone).toBe(false);
    world.journal = undefined;
    written.resolve();
    expect((await decided).outcome).toBe("decided");
    expect((await store.get(id))?.state).toBe("approved");
  });
});

test("reads do not wait for a journal that hangs, and waiting writes are limited", async () => {
  world = createApprovalWorld();
  store = await world.open();
  const hung = Promise.withResolvers<void>();
  world.journal = () => hung.promise;
  const waiting = Array.from({ length: 2_000 }, (_, index) =>
    store.ask(questionOf({ planDigest: `${index}` })).then(
      ({ outcome }) => outcome,
      (error) => String(error),
    ),
  );
  expect(await store.list({ limit: 1 })).toEqual({ approvals: [], cursor: undefined });
  await expect(store.ask(questionOf())).rejects.toThrow("already wait for the disk or the journal");
  world.journal = undefined;
  hung.resolve();
  const outcomes = await Promise.all(waiting);
  expect(outcomes.filter((outcome) => outcome === "asked")).toHaveLength(10);
  expect(outcomes.filter((outcome) => outcome === "backlog")).toHaveLength(1_990);
  expect((await store.list({ limit: 100 })).approvals).toHaveLength(10);
});
