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

async function decide(): Promise<string> {
  const [asked] = (await hub.list({ state: "pending", limit: 1 })).approvals;
  await hub.decide({ id: asked?.id ?? "", by: OPERATOR, decision: "approve" });
  return asked?.id ?? "";
}

test("a change that asks and runs with its approval costs five requests, one of them after the run", async () => {
  expect(nameOf(await road.call())).toBe("pending");
  expect(take()).toEqual(["priorOf", "ask"]);
  await decide();
  expect(nameOf(await road.call())).toBe("success");
  expect(take()).toEqual(["priorOf", "claim", "settle"]);
});

test("a call that names its approval runs with two", async () => {
  await road.call();
  const approvalId = await decide();
  take();
  expect(nameOf(await road.call({ approvalId }))).toBe("success");
  expect(take()).toEqual(["claim", "settle"]);
});

test("an idempotency key costs one more at each end", async () => {
  await road.call({ idempotencyKey: "k" });
  expect(take()).toEqual(["beginKey", "priorOf", "ask", "endKey"]);
});
