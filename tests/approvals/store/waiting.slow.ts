import { afterEach, beforeEach, expect, test } from "bun:test";
import type { Approvals } from "../../../src/approvals/types.ts";
import {
  AGENT,
  type ApprovalWorld,
  askFor,
  claimedFrom,
  createApprovalWorld,
  OPERATOR,
} from "../../support/approvals.ts";
import { until } from "../../support/until.ts";

let world: ApprovalWorld;
let store: Approvals;
beforeEach(async () => {
  world = createApprovalWorld();
  store = await world.open();
});
afterEach(() => world.end());

/** Longer than any test: whoever waits so long waits in vain. */
const LONG = { timeoutMs: 60_000 };
const yes = (id: string) => ({ id, by: OPERATOR, decision: "approve" as const });

const TURNS = Array.from({ length: 80 }, (_, turns) => turns);

async function turn(turns: number): Promise<void> {
  for (let done = 0; done < turns; done += 1) await Promise.resolve();
}

test("APR-52: a decision at any moment after the start of the wait ends it", async () => {
  for (const turns of TURNS) {
    const { id } = await askFor(store, { planDigest: `${turns}` });
    const waited = store.wait(id, LONG);
    await turn(turns);
    await store.decide(yes(id));
    expect(await waited).toMatchObject({ id, state: "approved" });
  }
});

test("APR-52: a decision committed at any moment of the wait ends it", async () => {
  for (const turns of TURNS) {
    const { id } = await askFor(store, { planDigest: `${turns}` });
    const decided = store.decide(yes(id));
    await turn(turns);
    expect(await store.wait(id, LONG)).toMatchObject({ id, state: "approved" });
    await decided;
  }
});

test("a decided or unknown request does not wait", async () => {
  const { id } = await askFor(store);
  await store.decide(yes(id));
  expect(await store.wait(id, LONG)).toMatchObject({ state: "approved" });
  expect(await store.wait("nothing", LONG)).toBeUndefined();
});

test.each([
  ["the time is over", () => ({ timeoutMs: 20 })],
  ["there is no time", () => ({ timeoutMs: 0 })],
  ["the signal had said so", () => ({ ...LONG, signal: AbortSignal.abort() })],
  ["the signal says so", () => ({ ...LONG, signal: AbortSignal.timeout(20) })],
] as const)("a wait ends when %s", async (_title, options) => {
  const { id } = await askFor(store);
  expect(await store.wait(id, options())).toMatchObject({ id, state: "pending" });
});

test("one decision ends the waits of all its waiters; other changes do not", async () => {
  const [{ id }, other] = [await askFor(store), await askFor(store, { planDigest: "other" })];
  let told = 0;
  const waits = Array.from({ length: 100 }, () => store.wait(id, LONG).finally(() => (told += 1)));
  await store.decide(yes(other.id));
  expect(await store.get(id)).toMatchObject({ state: "pending" });
  expect(told).toBe(0);
  await store.decide(yes(id));
  expect((await Promise.all(waits)).every((approval) => approval?.state === "approved")).toBe(true);
});

test("a wait ends when nobody decides in time", async () => {
  await store.close();
  store = await world.open({ decideBySeconds: 0.05 });
  const { id } = await askFor(store);
  const waited = store.wait(id, LONG);
  await letItWait(id);
  world.now += 50;
  expect(await waited).toMatchObject({ state: "expired" });
});

/** What is asked later is answered later: after these a wait that was begun before has looked and waits. */
async function letItWait(id: string): Promise<void> {
  for (let reads = 0; reads < 100; reads += 1) expect((await store.get(id))?.state).toBe("pending");
}

test("another process's decision ends a wait", async () => {
  const other = await world.open();
  const { id } = await askFor(store);
  const waited = store.wait(id, LONG);
  await letItWait(id);
  await other.decide(yes(id));
  expect(await waited).toMatchObject({ state: "approved" });
});

test("another process's events are noticed", async () => {
  const other = await world.open();
  let heard = 0;
  const stop = store.onEvents(() => (heard += 1));
  const { id } = await askFor(store);
  await other.decide(yes(id));
  const before = heard;
  await other.claim({ id, requester: AGENT, planDigest: "a".repeat(64) });
  await until("the other process's claim", () => (heard > before ? true : undefined));
  stop();
  const stopped = heard;
  await store.settle(id, "executed");
  expect(heard).toBe(stopped);
});

test("another process's change is noticed at every moment of the start of watching", async () => {
  const other = await world.open();
  for (const turns of TURNS.filter((count) => count % 8 === 0)) {
    const { id } = await askFor(other, { planDigest: `${turns}` });
    let seen: string | undefined;
    const look = async (): Promise<void> => {
      seen = (await store.get(id))?.state ?? seen;
    };
    const stop = store.onEvents(() => void look());
    await look();
    await turn(turns);
    await other.decide(yes(id));
    await until("the decision", () => (seen === "approved" ? true : undefined));
    stop();
  }
});

test("closing the store ends its waits", async () => {
  const { id } = await askFor(store);
  const waited = store.wait(id, LONG);
  await letItWait(id);
  await Promise.all([store.close(), store.close()]);
  expect(await waited).toMatchObject({ id, state: "pending" });
  await expect(store.get(id)).rejects.toThrow("the approval store is closed");
  await store.close();
});

test("closing the store ends waits that have just begun", async () => {
  const { id } = await askFor(store);
  const early = store.wait(id, LONG);
  await store.close();
  expect(await early).toMatchObject({ id, state: "pending" });
  // Who comes after the end is told so.
  await expect(store.wait(id, LONG)).rejects.toThrow("the approval store is closed");
});

test("events arrive in commit order, once, and a throwing listener stops nothing", async () => {
  const stop = store.onEvents(() => {
    throw new Error("mine");
  });
  const { id } = await claimedFrom(store);
  await store.settle(id, "failed");
  const types = (await store.eventsAfter(0, 100)).map(({ type }) => type);
  expect(types).toEqual(["approval.requested", "approval.approved", "approval.claimed", "approval.failed"]);
  expect((await store.eventsAfter(1, 2)).map(({ seq }) => seq)).toEqual([2, 3]);
  expect(await store.eventsAfter(4, 100)).toEqual([]);
  expect(await store.lastSeq()).toBe(4);
  expect(world.logged).toContain("a listener to approval events threw: Error: mine");
  stop();
});

test("old events are forgotten, others are kept, and their numbers continue", async () => {
  const old = await claimedFrom(store);
  await store.settle(old.id, "executed");
  const running = await claimedFrom(store, { planDigest: "running" });
  const retentionMs = 30 * 86_400_000;
  world.now += retentionMs - 1;
  await store.settle(running.id, "executed");
  await store.sweep();
  expect(await store.get(old.id)).toBeDefined();
  world.now += 1;
  await store.sweep();
  expect(await store.get(old.id)).toBeUndefined();
  expect(await store.get(running.id)).toBeDefined();
  const before = await store.lastSeq();
  world.now += retentionMs;
  await store.sweep();
  expect(await store.eventsAfter(0, 100)).toEqual([]);
  await askFor(store, { planDigest: "new" });
  expect((await store.eventsAfter(0, 100)).map(({ seq }) => seq)).toEqual([before + 1]);
});

test("the sweeper runs by itself", async () => {
  await store.close();
  store = await world.open({ sweepEverySeconds: 0.05 });
  const { id, decideBy } = await askFor(store);
  world.now = decideBy;
  await until("the sweeper", () => (world.lines.some(({ type }) => type === "approval.expired") ? true : undefined));
  expect(await store.get(id)).toMatchObject({ state: "expired", version: 2 });
});

test("more than one batch is swept at once", async () => {
  await store.close();
  store = await world.open({ pendingPerCallerMax: 1_000, pendingPerSessionMax: 1_000 });
  for (let index = 0; index < 250; index += 1) await askFor(store, { planDigest: `${index}` });
  world.now += 600_000;
  await store.sweep();
  expect(world.lines.filter(({ type }) => type === "approval.expired")).toHaveLength(250);
});
