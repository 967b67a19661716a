import { afterEach, beforeEach, expect, test } from "bun:test";
import type { OpenedApprovals } from "../../src/approvals/approvals.ts";
import { hubApprovals } from "../../src/hub/methods/hub-approvals.ts";
import { atTokenTime, MomentsRoad, nameOf } from "../approvals/moments-road.ts";
import { type ApprovalWorld, createApprovalWorld, OPERATOR, type Reach } from "../support/approvals.ts";
import { clientOf, HUB_URL, hubOf } from "../support/hub-approvals.ts";

/** Names of the requests that the hub got. */
let sent: string[];
let hub: OpenedApprovals;
let world: ApprovalWorld;
let road: MomentsRoad;

const counted: Reach = async (openOne) => {
  hub = await openOne();
  const client = clientOf([hubOf(hub)], { sent: (method) => sent.push(method.replace("approvals.", "")) });
  return { ...hub, ...hubApprovals(client, { hub: HUB_URL }), close: hub.close };
};

beforeEach(async () => {
  sent = [];
  world = atTokenTime(createApprovalWorld(undefined, counted));
  road = await MomentsRoad.open({ world });
});
afterEach(() => world.end());

const take = (): readonly string[] => sent.splice(0);

async function decide(scope?: "session"): Promise<string> {
  const [asked] = (await hub.list({ state: "pending", limit: 1 })).approvals;
  await hub.decide({ id: asked?.id ?? "", by: OPERATOR, decision: "approve", scope });
  return asked?.id ?? "";
}

test("a change asks with one request, and runs with one before its run and one after it", async () => {
  expect(nameOf(await road.call())).toBe("pending");
  expect(take()).toEqual(["ask"]);
  await decide();
  expect(nameOf(await road.call())).toBe("success");
  expect(take()).toEqual(["ask", "settle"]);
});

test("a call that has earlier approvals asks twice: the second request names them to the approver", async () => {
  await road.call();
  await decide();
  await road.call();
  take();
  expect(nameOf(await road.call())).toBe("pending");
  expect(take()).toEqual(["ask", "ask"]);
  const [asked] = (await hub.list({ state: "pending", limit: 1 })).approvals;
  expect(JSON.stringify(asked?.view)).toContain("The same call was approved at");
});

test("a call whose approval is in use is refused after one request", async () => {
  await road.call();
  await decide();
  take();
  const { promise: isOver, resolve: end } = Promise.withResolvers<void>();
  const { promise: hasBegun, resolve: begin } = Promise.withResolvers<void>();
  road.during = () => {
    begin();
    return isOver;
  };
  const running = road.call();
  await hasBegun;
  expect(nameOf(await road.call())).toBe("CALL_IN_PROGRESS");
  expect(take()).toEqual(["ask", "ask"]);
  end();
  expect(nameOf(await running)).toBe("success");
});

test("a call that names its approval runs with two", async () => {
  await road.call();
  const approvalId = await decide();
  take();
  expect(nameOf(await road.call({ approvalId }))).toBe("success");
  expect(take()).toEqual(["claim", "settle"]);
});

test("a dry run looks, and asks nobody", async () => {
  await road.call({ dryRun: true });
  expect(take()).toEqual(["priorOf", "foresee"]);
});

test("a read costs nothing, with a session neither", async () => {
  for (const sid of [undefined, "s-1"]) {
    const reader = await MomentsRoad.open({ world, classification: "read", category: "read", ...(sid && { sid }) });
    expect(nameOf(await reader.call())).toBe("success");
  }
  expect(take()).toEqual([]);
});

test("in a session, a change reads the session and its grant; under a grant, it does nothing more", async () => {
  const inSession = await MomentsRoad.open({ world, sid: "s-1" });
  expect(nameOf(await inSession.call())).toBe("pending");
  expect(take()).toEqual(["findSession", "findGrant", "ask"]);
  await decide("session");
  expect(nameOf(await inSession.call())).toBe("success");
  expect(take()).toEqual(["findSession", "findGrant"]);
});

test("an idempotency key costs one more at each end", async () => {
  await road.call({ idempotencyKey: "k" });
  expect(take()).toEqual(["beginKey", "ask", "endKey"]);
});
