import { afterEach, describe, expect, test } from "bun:test";
import type { EndingWorld } from "../support/ending-world.ts";
import { FleetWorld } from "../support/fleet-world.ts";
import { until } from "../support/until.ts";

let fleet: FleetWorld;
afterEach(() => fleet.end());

/** Asks, approves at the hub, and calls again until the answer is known. */
async function approvedRun(member: EndingWorld, key: string, hub = fleet.hub): Promise<string> {
  const id = await until("the request", async () => {
    const { body } = await fleet.call(member, "asked", key);
    return body.approval?.id as string | undefined;
  });
  await until("the decision", async () => {
    const { http } = await fleet.approve(id, hub).catch(() => ({ http: 0 }));
    return http === 200 || http === 409 ? true : undefined;
  });
  return until("the run", async () => {
    const { body } = await fleet.call(member, "asked", key, { approval: { id } });
    if (body.result?.key === key) return "done";
    return body.error?.retryable === true ? undefined : String(body.error?.code ?? body.status);
  });
}

const repeated = (runs: readonly string[]): readonly string[] => runs.filter((key, at) => runs.indexOf(key) !== at);

describe("faults of a fleet", () => {
  test("a hub that is killed and starts again in the middle loses nothing, and nothing runs twice", async () => {
    fleet = await FleetWorld.start();
    const member = await fleet.withCertificate("a");
    await member.start();
    await fleet.connected("agents/a");
    const ends: string[] = [];
    const work = (async () => {
      for (let turn = 0; turn < 30; turn += 1) ends.push(await approvedRun(member, `k${turn}`));
    })();
    for (let kill = 0; kill < 2; kill += 1) {
      await until("some runs", () => (ends.length >= 8 * (kill + 1) ? true : undefined));
      await fleet.hub.end("SIGKILL");
      await fleet.hub.start();
    }
    await work;
    const runs = fleet.runs();
    expect(repeated(runs)).toEqual([]);
    // A claim whose answer is lost with the hub is known again after it, and its call runs.
    expect(ends.filter((end) => end === "done").length).toBe(30);
    expect(runs).toHaveLength(30);
  }, 180_000);

  test("with two hubs behind one name, one may be killed: calls go on, and nothing runs twice", async () => {
    fleet = await FleetWorld.start({ hubs: 2 });
    const [first, second] = fleet.hubs as readonly [EndingWorld, EndingWorld];
    const member = await fleet.withToken();
    await member.start();
    const ends: string[] = [];
    const work = (async () => {
      for (let turn = 0; turn < 20; turn += 1) ends.push(await approvedRun(member, `k${turn}`, second));
    })();
    await until("some runs", () => (ends.length >= 8 ? true : undefined));
    await first.end("SIGKILL");
    await work;
    expect(ends).toEqual(Array.from({ length: 20 }, () => "done"));
    expect(repeated(fleet.runs())).toEqual([]);
  }, 180_000);

  test("a network that is cut, or loses answers, holds what asks and nothing else; known halts stay", async () => {
    fleet = await FleetWorld.start();
    const member = await fleet.withCertificate("a");
    await member.start();
    await fleet.connected("agents/a");
    await fleet.send(fleet.hub, "POST", "/halts", { body: { kind: "tool", tool: "counted", reason: "drill" } });
    const token = await fleet.agent();
    await until("the halt", async () => {
      const { body } = await fleet.call(member, "counted", "x");
      return body.error?.code === "HALTED" ? true : undefined;
    });
    for (const [before, state] of (["cut", "deaf"] as const).entries()) {
      fleet.network.become(state);
      expect((await fleet.send(member, "POST", "/call", { token, body: { tool: "hello", args: {} } })).http).toBe(200);
      const asked = await fleet.call(member, "asked", state);
      expect(asked).toMatchObject({ http: 503, body: { error: { retryable: true } } });
      expect((await fleet.call(member, "counted", "x")).body.error?.code).toBe("HALTED");
      fleet.network.heal();
      expect(await approvedRun(member, state)).toBe("done");
      // The request whose answer was lost is the one that was approved.
      const { body } = await fleet.send(fleet.hub, "GET", "/approvals?state=all");
      expect(body.approvals).toHaveLength(before + 1);
    }
    expect(fleet.network.lostBytes).toBeGreaterThan(0);
    expect(fleet.runs().filter((key) => key !== "x")).toEqual(["cut", "deaf"]);
  }, 120_000);

  test("a member starts while its hub is away, says so, and continues when it is back", async () => {
    fleet = await FleetWorld.start();
    fleet.network.become("cut");
    const member = await fleet.withToken();
    await member.start();
    const hubOf = async (): Promise<unknown> => (await fleet.send(member, "GET", "/readyz")).body.hub;
    expect(await hubOf()).toBe("away");
    const token = await fleet.agent();
    expect((await fleet.send(member, "POST", "/call", { token, body: { tool: "hello", args: {} } })).http).toBe(200);
    expect((await fleet.call(member, "asked", "early")).http).toBe(503);
    fleet.network.heal();
    await until("the hub", async () => ((await hubOf()) === "connected" ? true : undefined));
    expect(await approvedRun(member, "early")).toBe("done");
  }, 120_000);

  test("a member that is killed while it holds a claim: the outcome is in doubt, and nothing runs twice", async () => {
    fleet = await FleetWorld.start();
    const member = await fleet.withCertificate("a");
    await member.start();
    const asked = await fleet.call(member, "stuck_asked", "claimed");
    const { id } = asked.body.approval;
    await fleet.approve(id);
    const running = fleet.call(member, "stuck_asked", "claimed", { approval: { id } }).catch(() => undefined);
    await until("the run", () => (fleet.runs().includes("claimed") ? true : undefined));
    await member.end("SIGKILL");
    await running;
    await member.start();
    const state = await until("the end of the claim", async () => {
      const { body } = await fleet.send(fleet.hub, "GET", `/approvals/${id}`);
      return body.approval.state === "claimed" ? undefined : (body.approval.state as string);
    });
    expect(state).toBe("in_doubt");
    const again = await fleet.call(member, "stuck_asked", "claimed", { approval: { id } });
    expect(again.http).not.toBe(200);
    expect(fleet.runs()).toEqual(["claimed"]);
  }, 120_000);

  /** A change that runs; `answer` lets it end. */
  async function runningChange(member: EndingWorld) {
    const asked = await fleet.call(member, "held_asked", "held");
    const id: string = asked.body.approval.id;
    await fleet.approve(id);
    const running = fleet.call(member, "held_asked", "held", { approval: { id } });
    await until("the run", () => (fleet.runs().includes("held") ? true : undefined));
    return {
      id,
      async answer() {
        fleet.release();
        return running;
      },
    };
  }

  async function stateOf(id: string): Promise<string> {
    return (await fleet.send(fleet.hub, "GET", `/approvals/${id}`)).body.approval.state;
  }

  test.each(["the network is back", "the member is killed", "the member is killed, and its hub, too"])(
    "a change that is answered while the hub is away: the hub knows that it has run when %s",
    async (what) => {
      fleet = await FleetWorld.start();
      const member = await fleet.withCertificate("a");
      await member.start();
      const { id, answer } = await runningChange(member);
      fleet.network.become("cut");
      expect(await answer()).toMatchObject({ http: 200, body: { result: { key: "held" } } });
      expect(await stateOf(id)).toBe("claimed");
      if (what !== "the network is back") await member.end("SIGKILL");
      if (what.includes("hub, too")) {
        await fleet.hub.end("SIGKILL");
        await fleet.hub.start();
      }
      fleet.network.heal();
      if (what !== "the network is back") await member.start();
      const state = await until("the outcome", async () => {
        const now = await stateOf(id);
        return now === "claimed" ? undefined : now;
      });
      expect(state).toBe("executed");
      const again = await fleet.call(member, "held_asked", "held", { approval: { id } });
      expect(again.body.error?.code).toBe("APPROVAL_CONSUMED");
      expect((await fleet.call(member, "held_asked", "held")).http).toBe(202);
      expect(fleet.runs()).toEqual(["held"]);
    },
    120_000,
  );

  test("a member that starts while the hub is away settles what it has left when the hub is back", async () => {
    fleet = await FleetWorld.start();
    const member = await fleet.withCertificate("a");
    await member.start();
    const stuck = (await fleet.call(member, "stuck_asked", "stuck")).body.approval.id as string;
    await fleet.approve(stuck);
    const lost = fleet.call(member, "stuck_asked", "stuck", { approval: { id: stuck } }).catch(() => undefined);
    await until("the run", () => (fleet.runs().includes("stuck") ? true : undefined));
    const { id, answer } = await runningChange(member);
    fleet.network.become("cut");
    expect((await answer()).http).toBe(200);
    await member.end("SIGKILL");
    await lost;
    await member.start();
    expect((await fleet.call(member, "asked", "early")).body.error?.code).toBe("APPROVAL_UNAVAILABLE");
    expect([await stateOf(id), await stateOf(stuck)]).toEqual(["claimed", "claimed"]);
    fleet.network.heal();
    await until("the outcomes", async () =>
      (await Promise.all([id, stuck].map(stateOf))).includes("claimed") ? undefined : true,
    );
    expect([await stateOf(id), await stateOf(stuck)]).toEqual(["executed", "in_doubt"]);
    expect(await approvedRun(member, "later")).toBe("done");
    expect(fleet.runs()).toEqual(["stuck", "held", "later"]);
  }, 120_000);

  test("a change that is answered while no hub runs: the next hub learns that it has run", async () => {
    fleet = await FleetWorld.start();
    const member = await fleet.withCertificate("a");
    await member.start();
    const { id, answer } = await runningChange(member);
    await fleet.hub.end("SIGKILL");
    expect((await answer()).http).toBe(200);
    // Longer than `hub.requestMs`.
    await Bun.sleep(1_500);
    await fleet.hub.start();
    await until("the outcome", async () => ((await stateOf(id)) === "executed" ? true : undefined));
    expect(fleet.runs()).toEqual(["held"]);
  }, 120_000);

  test("a member that ends sends the outcomes of the changes that it has answered", async () => {
    fleet = await FleetWorld.start();
    const member = await fleet.withCertificate("a");
    await member.start();
    const { id, answer } = await runningChange(member);
    expect((await answer()).http).toBe(200);
    await member.end("SIGTERM");
    expect(await stateOf(id)).toBe("executed");
  }, 120_000);
});
