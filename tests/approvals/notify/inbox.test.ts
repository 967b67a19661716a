import { afterEach, beforeEach, expect, test } from "bun:test";
import { type ApprovalWorld, createApprovalWorld } from "../../support/approvals.ts";

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

test("APR-57: of many at once one counts", async () => {
  const stores = [await world.open(), await world.open(), await world.open()];
  const receipts = stores.flatMap(({ inbox }) => Array.from({ length: 5 }, () => inbox.receive("chat", "msg_1")));
  expect((await Promise.all(receipts)).filter(Boolean)).toHaveLength(1);
});

test("what failed through no fault of its own may come again; what is old is forgotten", async () => {
  const { inbox } = await world.open();
  await inbox.receive("chat", "msg_1");
  await inbox.putBack("chat", "msg_1");
  expect(await inbox.receive("chat", "msg_1")).toBe(true);
  // Its time would be refused by now.
  world.now += 3_600_000;
  expect(await inbox.receive("chat", "msg_1")).toBe(true);
});
