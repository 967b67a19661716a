import { afterEach, beforeEach, expect, test } from "bun:test";
import { type ApprovalWorld, askFor, createApprovalWorld, OPERATOR } from "../../support/approvals.ts";

let world: ApprovalWorld;
beforeEach(() => {
  world = createApprovalWorld();
});
afterEach(() => world.end());

test("APR-57: a message counts once, in every replica and after a restart", async () => {
  const one = await world.open();
  const two = await world.open();
  expect(await one.inbox.receive("chat", "msg_1")).toBe(true);
  expect(await two.inbox.receive("chat", "msg_1")).toBe(false);
  expect(await two.inbox.receive("desk", "msg_1")).toBe(true);
  await Promise.all([one.close(), two.close()]);
  const three = await world.open();
  expect(await three.inbox.receive("chat", "msg_1")).toBe(false);
});

test("APR-57: of many concurrent messages one counts", async () => {
  const stores = [await world.open(), await world.open(), await world.open()];
  const receipts = stores.flatMap(({ inbox }) => Array.from({ length: 5 }, () => inbox.receive("chat", "msg_1")));
  expect((await Promise.all(receipts)).filter(Boolean)).toHaveLength(1);
});

test("old messages are forgotten", async () => {
  const { inbox } = await world.open();
  await inbox.receive("chat", "msg_1");
  // Its time would be refused by now.
  world.now += 3_600_000;
  expect(await inbox.receive("chat", "msg_1")).toBe(true);
});

const RELAY = { webhook: "chat", messageId: "msg_1", user: "U1" };

test("APR-57: a message is recorded together with its decision, or not at all", async () => {
  const store = await world.open();
  const { id } = await askFor(store);
  const decision = { id, by: OPERATOR, decision: "approve", relay: RELAY } as const;
  world.journal = () => Promise.reject(new Error("no room"));
  await expect(store.decide(decision)).rejects.toThrow("no room");
  expect(await store.get(id)).toMatchObject({ state: "pending" });
  world.journal = undefined;
  expect(await store.decide(decision)).toMatchObject({ outcome: "decided" });
  expect(world.lines.map(({ type }) => type)).toEqual(["approval.asked", "approval.relayed", "approval.voted"]);
  expect(await store.decide(decision)).toEqual({ outcome: "replayed" });
  expect(await store.inbox.receive("chat", "msg_1")).toBe(false);
  expect(world.lines).toHaveLength(3);
});

test("a message whose decision is refused is used up, and its sender is recorded", async () => {
  const store = await world.open();
  const { id, requester } = await askFor(store);
  const own = { id, by: requester, decision: "approve", relay: RELAY } as const;
  expect(await store.decide(own)).toEqual({ outcome: "own_question" });
  expect(await store.decide({ ...own, by: OPERATOR })).toEqual({ outcome: "replayed" });
  expect(world.lines.at(-1)).toMatchObject({ type: "approval.relayed", webhook: "chat", user: "U1", sub: "agent-1" });
  expect(await store.get(id)).toMatchObject({ state: "pending" });
});
