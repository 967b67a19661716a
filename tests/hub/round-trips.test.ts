import { afterEach, beforeEach, expect, test } from "bun:test";
import type { OpenedApprovals } from "../../src/approvals/approvals.ts";
import type { HubClient } from "../../src/hub/contract.ts";
import { hubApprovals } from "../../src/hub/methods/hub-approvals.ts";
import type { Answer } from "../../src/pipeline/answer.ts";
import { atTokenTime, type Moment, MomentsRoad, nameOf } from "../approvals/moments-road.ts";
import { type ApprovalWorld, createApprovalWorld, OPERATOR, type Reach } from "../support/approvals.ts";
import { clientOf, HUB_URL, hubOf } from "../support/hub-approvals.ts";
import { turns, until } from "../support/until.ts";

/** Names of the requests that the hub got. */
let sent: string[];
/** Called with each outcome that is sent; it arrives at the hub when the result resolves. */
let onOutcome: () => Promise<void>;
let hub: OpenedApprovals;
let world: ApprovalWorld;
let road: MomentsRoad;

const counted: Reach = async (openOne) => {
  hub = await openOne();
  const direct = clientOf([hubOf(hub)], { sent: (method) => sent.push(method.replace("approvals.", "")) });
  const client: HubClient = {
    ...direct,
    async call(method, ...sending) {
      if (method === "approvals.settle") await onOutcome();
      return direct.call(method, ...sending);
    },
  };
  return { ...hub, ...hubApprovals(client, { hub: HUB_URL }), close: hub.close };
};

beforeEach(async () => {
  sent = [];
  onOutcome = async () => {};
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

/** Holds the outcomes that are sent from now on until `arrive` is called. */
function holdOutcomes() {
  const { promise: sentOne, resolve: note } = Promise.withResolvers<void>();
  const { promise: mayArrive, resolve: arrive } = Promise.withResolvers<void>();
  onOutcome = () => {
    note();
    return mayArrive;
  };
  return { sentOne, arrive };
}

/** Resolves when a call reaches this moment. */
function moment(wanted: Moment): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  road.at = (now) => now === wanted && resolve();
  return promise;
}

/** Returns the name of an answer; "none" when there is none after many turns of the event loop. */
function soon(answer: Promise<Answer>): Promise<string> {
  return Promise.race([answer.then(nameOf), turns().then(() => "none")]);
}

test("a change asks with one request, and is answered after one more; its outcome is a third one after the answer", async () => {
  expect(nameOf(await road.call())).toBe("pending");
  expect(take()).toEqual(["ask"]);
  const id = await decide();
  const { arrive } = holdOutcomes();
  expect(nameOf(await road.call())).toBe("success");
  expect([take(), (await hub.get(id))?.state]).toEqual([["ask"], "claimed"]);
  // The same call finds that the first one has run, as if its answer had waited, and names it to the approver.
  const asks = moment("before ask");
  const again = road.call();
  await asks;
  expect(await soon(again)).toBe("none");
  expect(take()).toEqual([]);
  arrive();
  expect(nameOf(await again)).toBe("pending");
  expect(take()).toEqual(["settle", "ask", "ask"]);
  expect((await hub.get(id))?.state).toBe("executed");
  const [asked] = (await hub.list({ state: "pending", limit: 1 })).approvals;
  expect(JSON.stringify(asked?.view)).toContain("and has run.");
});

test("another replica is told that the call is in progress until its outcome has arrived, and does not run it", async () => {
  const replica = await MomentsRoad.open({ world });
  await road.call();
  const approvalId = await decide();
  const { arrive } = holdOutcomes();
  expect(nameOf(await road.call())).toBe("success");
  expect(nameOf(await replica.call())).toBe("CALL_IN_PROGRESS");
  expect(nameOf(await replica.call({ approvalId }))).toBe("APPROVAL_CONSUMED");
  arrive();
  await replica.approvals.settle(approvalId, "failed");
  expect(nameOf(await replica.call())).toBe("pending");
  expect([(await hub.get(approvalId))?.state, road.deeds, replica.deeds]).toEqual(["executed", ["a"], []]);
});

test("with an idempotency key, or without a result, the answer waits until the outcome has arrived", async () => {
  await road.call({ idempotencyKey: "k" });
  await decide();
  let held = holdOutcomes();
  const kept = road.call({ idempotencyKey: "k" });
  await held.sentOne;
  expect(await soon(kept)).toBe("none");
  held.arrive();
  expect(nameOf(await kept)).toBe("success");

  await road.call();
  const id = await decide();
  road.during = () => Promise.reject(new Error("injected"));
  held = holdOutcomes();
  const failed = road.call();
  await held.sentOne;
  expect(await soon(failed)).toBe("none");
  held.arrive();
  expect(nameOf(await failed)).toBe("TARGET_FAILED");
  expect((await hub.get(id))?.state).toBe("failed");
});

test("the outcome of an answered call that the hub refuses is logged, and the call is as it was", async () => {
  await road.call();
  await decide();
  onOutcome = () => Promise.reject(new Error("injected"));
  expect(nameOf(await road.call())).toBe("success");
  await until("the log", () => (road.logged.includes("APPROVAL_UNAVAILABLE") ? true : undefined));
  onOutcome = async () => {};
  expect(nameOf(await road.call())).toBe("CALL_IN_PROGRESS");
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

test("a call that names its approval is answered after one", async () => {
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
