import { afterEach, describe, expect, test } from "bun:test";
import { Refusal } from "../../src/core/errors.ts";
import { Client, failure, type Moment, MomentsRoad, nameOf, refuse } from "../approvals/moments-road.ts";
import { until } from "../support/until.ts";

let road: MomentsRoad;
afterEach(() => road.close());

const key = { idempotencyKey: "k-1" };
const wait = { waitMs: 20_000 };

async function stateOf(id: string): Promise<string | undefined> {
  return (await road.approvals.get(id))?.state;
}

/** At the first such moment from now on. */
function once(moment: Moment, act: () => void): void {
  let isDone = false;
  road.at = (now) => {
    if (now !== moment || isDone) return;
    isDone = true;
    act();
  };
}

describe("Prefer: wait, and a client that disconnects at any moment", () => {
  /** Before its yes is claimed it stays; after, it is used up, run or not; never anything runs twice. */
  const rows: readonly (readonly [Moment, "first" | "again", string, number])[] = [
    ["verify", "first", "approved", 0],
    ["after findSession", "first", "approved", 0],
    ["before ask", "first", "approved", 0],
    ["after ask", "first", "approved", 0],
    ["before wait", "first", "approved", 0],
    ["after wait", "again", "approved", 0],
    ["verify", "again", "approved", 0],
    ["admit", "again", "approved", 0],
    ["before beginKey", "again", "approved", 0],
    ["after beginKey", "again", "approved", 0],
    ["before claim", "again", "failed", 0],
    ["after claim", "again", "failed", 0],
    ["intent", "again", "failed", 0],
    ["handler", "again", "executed", 1],
    ["record", "again", "executed", 1],
    ["before settle", "again", "executed", 1],
  ];

  test.each(rows)("%s, the %s time", async (moment, time, state, ran) => {
    road = await MomentsRoad.open();
    const client = new Client();
    if (time === "first") once(moment, () => client.leave());
    const call = road.call({ ...key, ...wait, disconnect: client, session: "mine" });
    const id = await road.pending();
    if (time === "again") once(moment, () => client.leave());
    else await until("the call to give up", () => client.disconnected || undefined);
    await road.approve(id);
    await call;
    expect(client.disconnected).toBe(true);
    expect(await stateOf(id)).toBe(state);
    expect(road.deeds).toHaveLength(ran);
    expect(road.entries).toHaveLength(1);
    road.at = () => {};
    const claimed = await road.call({ ...key, approvalId: id, session: "mine" });
    const want = { approved: "success", executed: "success", failed: "APPROVAL_CONSUMED" }[state] ?? "";
    expect(nameOf(claimed)).toBe(want);
    expect(road.deeds).toHaveLength(state === "failed" ? 0 : 1);
  });
});

describe("APR-55: changes during the wait count", () => {
  test("an expired token runs nothing; its approval is claimed with a fresh one", async () => {
    road = await MomentsRoad.open();
    const call = road.call(wait);
    const id = await road.pending();
    road.now += 70_000;
    await road.approve(id);
    expect(nameOf(await call)).toBe("UNAUTHENTICATED");
    expect([await stateOf(id), road.deeds.length, road.entries.length]).toEqual(["approved", 0, 1]);
    road.now -= 70_000;
    expect(nameOf(await road.call({ approvalId: id }))).toBe("success");
  });

  test.each(["RATE_LIMITED", "OVERLOADED", "SHUTTING_DOWN"] as const)(
    "a service that says %s keeps the approval and reports its request",
    async (code) => {
      road = await MomentsRoad.open();
      const call = road.call(wait);
      const id = await road.pending();
      once("admit", () => {
        throw new Refusal(code, "Not now.");
      });
      await road.approve(id);
      expect((await call).result).toMatchObject({ status: "pending", approval: { id } });
      expect([await stateOf(id), road.deeds.length, road.entries.length]).toEqual(["approved", 0, 1]);
      expect(nameOf(await road.call({ approvalId: id }))).toBe("success");
    },
  );

  test("a draining service answers waiting callers with their approval request", async () => {
    road = await MomentsRoad.open();
    const calls = [road.call(wait), road.call({ ...wait, args: { what: "b" } })];
    await until("both questions", async () => {
      const { approvals } = await road.approvals.list({ state: "pending", limit: 3 });
      return approvals.length === 2 || undefined;
    });
    road.room.releaseAll();
    expect((await Promise.all(calls)).map(nameOf)).toEqual(["pending", "pending"]);
  });
});

describe("APR-63: a store that fails at any moment lets nothing through, and nothing twice", () => {
  const rows: readonly (readonly [Moment, string, string, number])[] = [
    ["before beginKey", "APPROVAL_UNAVAILABLE", "approved", 0],
    ["after beginKey", "APPROVAL_UNAVAILABLE", "approved", 0],
    ["before findSession", "APPROVAL_UNAVAILABLE", "approved", 0],
    ["after findSession", "APPROVAL_UNAVAILABLE", "approved", 0],
    ["before claim", "APPROVAL_UNAVAILABLE", "approved", 0],
    ["after claim", "APPROVAL_UNAVAILABLE", "claimed", 0],
    ["intent", "INTERNAL", "in_doubt", 0],
    ["handler", "TARGET_FAILED", "failed", 0],
    ["before settle", "success", "claimed", 1],
    ["after settle", "success", "executed", 1],
    ["before endKey", "success", "executed", 1],
  ];

  test.each(rows)("%s", async (moment, code, state, ran) => {
    road = await MomentsRoad.open();
    const id = await road.approved({ session: "mine" });
    once(moment, failure);
    expect(nameOf(await road.call({ ...key, approvalId: id, session: "mine" }))).toBe(code);
    expect([await stateOf(id), road.deeds.length, road.entries.length]).toEqual([state, ran, 2]);
    road.at = () => {};
    road.world.now += 1_000_000;
    await road.approvals.sweep();
    if (state === "claimed") expect(await stateOf(id)).toBe("in_doubt");
    await road.call({ ...key, approvalId: id, session: "mine" });
    expect(road.deeds.length).toBeLessThanOrEqual(1);
  });

  test("when it cannot store the end of the run, the answer is still stored under its key", async () => {
    road = await MomentsRoad.open();
    const id = await road.approved();
    once("before settle", failure);
    expect(nameOf(await road.call({ ...key, approvalId: id }))).toBe("success");
    road.at = () => {};
    expect(nameOf(await road.call({ ...key, approvalId: id }))).toBe("success");
    expect([road.deeds.length, road.logged]).toEqual([1, ["APPROVAL_UNAVAILABLE"]]);
  });

  test("when it cannot store the request, nobody is asked", async () => {
    road = await MomentsRoad.open();
    once("before ask", failure);
    expect(nameOf(await road.call())).toBe("APPROVAL_UNAVAILABLE");
    once("before wait", failure);
    expect(nameOf(await road.call(wait))).toBe("pending");
  });
});

describe("an audit that fails at any moment", () => {
  test("after the request: the agent gets no answer, the request stays, and the next call joins it", async () => {
    road = await MomentsRoad.open();
    once("record", failure);
    expect(nameOf(await road.call(key))).toBe("AUDIT_UNAVAILABLE");
    const id = await road.pending();
    const again = await road.call(key);
    expect(again.result).toMatchObject({ status: "pending", approval: { id } });
  });

  test("before the run: nothing ran, so the key may be used again, as the answer says", async () => {
    road = await MomentsRoad.open();
    const id = await road.approved();
    once("intent", refuse);
    const failed = await road.call({ ...key, approvalId: id });
    expect(failed.result).toMatchObject({ error: { code: "AUDIT_UNAVAILABLE", retryable: true } });
    expect([await stateOf(id), road.deeds.length]).toEqual(["failed", 0]);
    expect(nameOf(await road.call(key))).toBe("pending");
    await road.approve(await road.pending());
  });

  test("after the run: the answer is withheld, the approval is in doubt, the key's outcome is unknown, and nothing runs again", async () => {
    road = await MomentsRoad.open();
    const id = await road.approved();
    once("record", failure);
    const failed = await road.call({ ...key, approvalId: id });
    expect(failed.result).toMatchObject({ error: { code: "AUDIT_UNAVAILABLE", details: { outcome: "unknown" } } });
    expect([await stateOf(id), road.deeds.length]).toEqual(["in_doubt", 1]);
    expect(nameOf(await road.call({ ...key, approvalId: id }))).toBe("OUTCOME_UNKNOWN");
    expect(nameOf(await road.call({ approvalId: id }))).toBe("APPROVAL_CONSUMED");
    expect(nameOf(await road.call(key))).toBe("OUTCOME_UNKNOWN");
    expect(road.deeds).toHaveLength(1);
  });

  test("after a read: it may be read again", async () => {
    road = await MomentsRoad.open({ classification: "read" });
    const id = await road.approved();
    once("record", failure);
    expect(nameOf(await road.call({ ...key, approvalId: id }))).toBe("AUDIT_UNAVAILABLE");
    expect(nameOf(await road.call(key))).toBe("pending");
  });

  test("during the wait for an approver: the approval stays", async () => {
    road = await MomentsRoad.open();
    const client = new Client();
    const call = road.call({ ...wait, disconnect: client });
    const id = await road.pending();
    once("record", failure);
    client.leave();
    expect(nameOf(await call)).toBe("AUDIT_UNAVAILABLE");
    await road.approve(id);
    expect(nameOf(await road.call({ approvalId: id }))).toBe("success");
  });
});
