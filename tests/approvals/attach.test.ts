import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { cpSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { OPERATOR } from "../support/approvals.ts";
import { AGENTS_ISSUER } from "../support/tokens.ts";
import { until } from "../support/until.ts";
import { AskingWorld, codeOf, recordingTool } from "./asking-world.ts";
import { type Moment, MomentsRoad, nameOf } from "./moments-road.ts";

const deeds: unknown[] = [];
const input = z.strictObject({ what: z.string().max(100) });
let release = (): void => {};

const world = new AskingWorld({
  tools: [
    recordingTool("deed", deeds, input),
    recordingTool("slow_deed", deeds, input, {
      handler: async (given: unknown) => {
        deeds.push(given);
        await new Promise<void>((resolve) => {
          release = resolve;
        });
        return { done: true };
      },
    }),
    recordingTool("failing_deed", deeds, input, {
      handler: () => {
        throw new Error("in the middle of it");
      },
    }),
  ],
  approvals: { pendingPerCallerMax: 1_000 },
});
/** Another replica: it has the same store. */
const replica = new AskingWorld({ beside: world });

beforeAll(async () => {
  await world.start();
  await replica.start();
});
afterAll(async () => {
  await replica.stop();
  await world.end();
});

let things = 0;
/** Arguments of a call that nobody has made. */
function newArgs(): { what: string } {
  things += 1;
  return { what: `thing ${things}` };
}

async function notesOf(id: string): Promise<string> {
  return JSON.stringify((await world.show(id)).view.notes);
}

function key(name: string): { readonly headers: Record<string, string> } {
  return { headers: { "idempotency-key": name } };
}

/** Returns a folder with what the service's process would leave on disk if it ended now. */
function copiedFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "stc-left-"));
  cpSync(world.folder, folder, { recursive: true });
  return folder;
}

describe("the same call again", () => {
  test("gets the open request, runs with its approval on either replica, and then needs another", async () => {
    const args = newArgs();
    const before = deeds.length;
    const id = await world.ask("deed", args);
    expect(await replica.ask("deed", args)).toBe(id);
    await world.decide(id, "approve");
    const ran = await replica.call("deed", args);
    expect([ran.http, replica.entry(ran.body.traceId)?.approval]).toEqual([
      200,
      { by: expect.stringContaining("human:"), id },
    ]);
    const next = await world.ask("deed", args);
    expect(next).not.toBe(id);
    expect(await notesOf(next)).toMatch(/The same call was approved at [^"]* and has run\./);
    expect(deeds).toHaveLength(before + 1);
  });

  test("runs with an approval from before a restart", async () => {
    const args = newArgs();
    const id = await world.ask("deed", args);
    await world.decide(id, "approve");
    await world.stop();
    await world.start();
    expect((await world.call("deed", args)).http).toBe(200);
    expect(world.story(id)).toContain("approval.settled");
  });

  test("asks again after a crash during its run, and the approver sees that its outcome is unknown", async () => {
    const args = newArgs();
    const id = await world.ask("slow_deed", args);
    await world.decide(id, "approve");
    const before = deeds.length;
    const running = world.call("slow_deed", args);
    await until("the run", () => deeds.length > before || undefined);
    const folder = copiedFolder();
    release();
    expect((await running).http).toBe(200);
    const next = await new AskingWorld({ folder, issuers: world.issuers, tools: world.tools }).start();
    const { body } = await next.send("GET", `/approvals/${id}`, { token: await next.agent() });
    expect(body.approval.state).toBe("in_doubt");
    const asked = await next.ask("slow_deed", args);
    expect(JSON.stringify(await next.show(asked))).toContain("and has run, and its outcome is unknown.");
    const entries = next.entries().filter(({ approval }) => approval?.id === id);
    expect(entries.map(({ error }) => error?.code)).toEqual(["APPROVAL_REQUIRED", "OUTCOME_UNKNOWN"]);
    await next.end();
  });

  test("gets CALL_IN_PROGRESS while it runs, on either replica", async () => {
    const args = newArgs();
    const id = await world.ask("slow_deed", args);
    await world.decide(id, "approve");
    const before = deeds.length;
    const running = world.call("slow_deed", args);
    await until("the run", () => deeds.length > before || undefined);
    for (const at of [world, replica]) {
      const { http, body } = await at.call("slow_deed", args);
      expect([http, body.error]).toMatchObject([
        409,
        { code: "CALL_IN_PROGRESS", retryable: true, details: { approval: { id } } },
      ]);
      expect(at.entry(body.traceId)).toMatchObject({ decision: "DENIED", approval: { id } });
    }
    const told = await world.ask("slow_deed", args, { approval: "new" });
    expect(await notesOf(told)).toContain("and is running.");
    release();
    expect((await running).http).toBe(200);
    expect(deeds).toHaveLength(before + 1);
  });

  test("runs once when many are made at the same time at both replicas", async () => {
    const args = newArgs();
    const before = deeds.length;
    const id = await world.ask("deed", args);
    await world.decide(id, "approve");
    const replies = await Promise.all(
      Array.from({ length: 24 }, (_, turn) => (turn % 2 === 0 ? world : replica).call("deed", args)),
    );
    const codes = replies.map(codeOf);
    expect(codes.filter((code) => code === "HTTP 200")).toHaveLength(1);
    for (const code of codes) expect(["HTTP 200", "CALL_IN_PROGRESS", "PENDING"]).toContain(code);
    expect(deeds).toHaveLength(before + 1);
  });

  test("of two that wait for the approver, one runs and the other gets CALL_IN_PROGRESS", async () => {
    const args = newArgs();
    const token = await world.agent({ sub: "waiting-agent" });
    const waiting = [world, replica].map((at) => at.call("deed", args, { token, headers: { prefer: "wait=50" } }));
    const id = await until("the request", async () => {
      const { body } = await world.send("GET", "/approvals?state=pending", { token });
      return body.approvals[0]?.id;
    });
    await world.decide(id, "approve");
    const codes = (await Promise.all(waiting)).map(codeOf).toSorted();
    expect(["CALL_IN_PROGRESS", "HTTP 200"]).toEqual(codes);
  });

  test("after a failure, tells the approver of it", async () => {
    const args = newArgs();
    const id = await world.ask("failing_deed", args);
    await world.decide(id, "approve");
    expect(codeOf(await world.call("failing_deed", args))).toBe("TARGET_FAILED");
    expect(await notesOf(await world.ask("failing_deed", args))).toContain(
      "and has run, and its outcome is a failure.",
    );
  });

  test("after a denial gets APPROVAL_DENIED, also as a new one, with a key, and in a session that the agent names", async () => {
    const args = newArgs();
    await world.decide(await world.ask("deed", args), "deny", { reason: "no" });
    for (const again of [{}, { approval: "new" as const }, key("denied"), { session: "elsewhere" }]) {
      expect(codeOf(await replica.call("deed", args, again))).toBe("APPROVAL_DENIED");
    }
  });

  test("does not use an approval from before a denial of the call, except by its id", async () => {
    const args = newArgs();
    const id = await world.ask("deed", args);
    await world.decide(id, "approve");
    await world.decide(await world.ask("deed", args, { approval: "new" }), "deny");
    expect(codeOf(await world.call("deed", args))).toBe("APPROVAL_DENIED");
    expect((await world.call("deed", args, { approval: { id } })).http).toBe(200);
  });

  test("does not use an approval for the session whose grant was revoked", async () => {
    const args = newArgs();
    const token = await world.agent({ claims: { sid: "s-1" } });
    const id = await world.ask("deed", args, { token });
    await world.decide(id, "approve", { scope: "session" });
    expect((await world.call("deed", args, { token })).http).toBe(200);
    const person = await world.person();
    const { body } = await world.send("GET", "/grants", { token: person });
    await world.send("DELETE", `/grants/${body.grants[0].id}`, { token: person });
    const next = await world.ask("deed", args, { token });
    expect(await notesOf(next)).toMatch(/The same call was approved at [^"]* for the session\./);
  });
});

describe("a call that is not the same", () => {
  test("by its caller, actors, sid, session or arguments does not use the approval", async () => {
    const args = newArgs();
    const id = await world.ask("deed", args);
    await world.decide(id, "approve");
    const opened = await world.send("POST", "/sessions", { token: await world.agent(), body: {} });
    const others = [
      { token: await world.agent({ sub: "agent-8" }) },
      { token: await world.agent({ claims: { act: { sub: "somebody" } } }) },
      { token: await world.agent({ claims: { sid: "s-2" } }) },
      { session: opened.body.session.id },
      { session: "invented" },
    ];
    for (const other of others) expect(await world.ask("deed", args, other)).not.toBe(id);
    expect(await world.ask("deed", { what: `${args.what}!` })).not.toBe(id);
    expect((await world.call("deed", args)).http).toBe(200);
  });

  test("because its agent wants another run does not use the approval, and its approver sees the earlier one", async () => {
    const args = newArgs();
    const id = await world.ask("deed", args);
    await world.decide(id, "approve");
    const ids = [
      await world.ask("deed", args, { approval: "new" }),
      await world.ask("deed", args, key("wants-another")),
    ];
    expect(ids).not.toContain(id);
    expect(await notesOf(ids[0] ?? "")).toMatch(/The same call was approved at [^"]* and has not run yet\./);
    expect((await world.call("deed", args, { approval: { id } })).http).toBe(200);
  });

  test("because of another session that the agent names or opens does not hide the earlier run from the approver", async () => {
    const args = newArgs();
    const id = await world.ask("deed", args, { session: "first" });
    await world.decide(id, "approve");
    expect((await world.call("deed", args, { session: "first" })).http).toBe(200);
    const opened = await world.send("POST", "/sessions", { token: await world.agent(), body: {} });
    for (const session of ["second", opened.body.session.id]) {
      expect(await notesOf(await world.ask("deed", args, { session }))).toContain("and has run.");
    }
  });
});

describe("an Idempotency-Key", () => {
  test("finds the approval that was requested with it, and another key does not", async () => {
    const args = newArgs();
    const before = deeds.length;
    const id = await world.ask("deed", args, key("asks-1"));
    expect(await replica.ask("deed", args, key("asks-1"))).toBe(id);
    await world.decide(id, "approve");
    expect(await world.ask("deed", args, key("asks-2"))).not.toBe(id);
    const ran = await replica.call("deed", args, key("asks-1"));
    expect([ran.http, replica.entry(ran.body.traceId)?.approval?.id]).toEqual([200, id]);
    const again = await world.call("deed", args, key("asks-1"));
    expect([again.http, world.entry(again.body.traceId)?.approval?.by]).toEqual([200, "idempotency-key"]);
    expect(deeds).toHaveLength(before + 1);
  });

  test("of a change that a crash interrupted is OUTCOME_UNKNOWN as soon as the service has started again", async () => {
    const args = newArgs();
    const id = await world.ask("slow_deed", args, key("crashed"));
    await world.decide(id, "approve");
    const before = deeds.length;
    const running = world.call("slow_deed", args, key("crashed"));
    await until("the run", () => deeds.length > before || undefined);
    expect(codeOf(await replica.call("slow_deed", args, key("crashed")))).toBe("CALL_IN_PROGRESS");
    const folder = copiedFolder();
    release();
    expect((await running).http).toBe(200);
    const next = await new AskingWorld({ folder, issuers: world.issuers, tools: world.tools }).start();
    const again = await next.call("slow_deed", args, key("crashed"));
    expect([again.http, again.body.error]).toMatchObject([
      502,
      { code: "OUTCOME_UNKNOWN", message: expect.stringContaining("first call with this Idempotency-Key") },
    ]);
    expect(next.entry(again.body.traceId)?.error).toEqual({ code: "OUTCOME_UNKNOWN" });
    expect(deeds).toHaveLength(before + 1);
    await next.end();
  });

  test("keeps its request when a call in between fails for another reason", async () => {
    const args = newArgs();
    const id = await world.ask("slow_deed", args, key("busy"));
    await world.decide(id, "approve");
    const before = deeds.length;
    const running = world.call("slow_deed", args);
    await until("the run", () => deeds.length > before || undefined);
    expect(codeOf(await world.call("slow_deed", args, key("busy")))).toBe("CALL_IN_PROGRESS");
    release();
    await running;
    const next = await world.ask("slow_deed", args, key("busy"));
    expect(await notesOf(next)).toContain("and has run.");
  });
});

describe("approval", () => {
  test.each([["newer"], [{}], [{ id: "a b" }], [{ id: "a", more: 1 }], [null]])("%j is malformed", async (approval) => {
    const reply = await world.call("deed", newArgs(), { approval } as never);
    expect([codeOf(reply), JSON.stringify(reply.body.error.details)]).toEqual([
      "MALFORMED_REQUEST",
      expect.stringContaining("approval"),
    ]);
  });
});

test("with approvals.attach: off, an approval is used only by a call that names it", async () => {
  const separate = await new AskingWorld({ approvals: { attach: "off" } }).start();
  const args = newArgs();
  const id = await separate.ask("deed", args);
  expect(await separate.ask("deed", args)).toBe(id);
  await separate.decide(id, "approve");
  expect(await separate.ask("deed", args)).not.toBe(id);
  expect((await separate.call("deed", args, { approval: { id } })).http).toBe(200);
  expect(separate.deeds).toHaveLength(1);
  await separate.end();
});

describe("when its approvals change while a call looks at them", () => {
  let road: MomentsRoad;
  afterEach(() => road.close());

  /** Makes the call, and does something when it comes to the moment for the first time. */
  async function callWith(moment: Moment, act: () => Promise<unknown>): Promise<string> {
    road.stall = async (now) => {
      if (now !== moment) return;
      road.stall = undefined;
      await act();
    };
    return nameOf(await road.call());
  }

  async function shown(id: string): Promise<string> {
    return JSON.stringify((await road.approvals.get(id))?.view);
  }

  test("an approval that the same call claims first is in use", async () => {
    road = await MomentsRoad.open();
    await road.approved();
    expect(await callWith("before claim", () => road.call())).toBe("CALL_IN_PROGRESS");
    expect(road.deeds).toEqual(["a"]);
  });

  test.each(["revoke", "cancel"] as const)(
    "an approval that is taken back (%s) is not used: a person is asked",
    async (act) => {
      road = await MomentsRoad.open();
      const id = await road.approved();
      const takeBack = () =>
        act === "revoke"
          ? road.approvals.revoke(id, OPERATOR)
          : road.approvals.cancel(id, { issuer: AGENTS_ISSUER, subject: "agent-7" });
      expect(await callWith("before claim", takeBack)).toBe("pending");
      expect(await road.pending()).not.toBe(id);
      expect(road.deeds).toEqual([]);
    },
  );

  test("an approval that is given is used, and nobody is asked again", async () => {
    road = await MomentsRoad.open();
    await road.call();
    const id = await road.pending();
    expect(await callWith("before ask", () => road.approve(id))).toBe("success");
    expect((await road.approvals.list({ limit: 10 })).approvals.map(({ state }) => state)).toEqual(["executed"]);
  });

  test("the next approver sees a run that has ended", async () => {
    road = await MomentsRoad.open();
    expect(
      await callWith("before ask", async () => {
        await road.approved();
        expect(nameOf(await road.call())).toBe("success");
      }),
    ).toBe("pending");
    expect(await shown(await road.pending())).toContain("and has run.");
  });

  /** Runs an approved call whose outcome the store does not learn, and lets its lease end. */
  async function roadAfterRunInDoubt(): Promise<MomentsRoad> {
    const opened = await MomentsRoad.open();
    await opened.approved();
    opened.at = (moment) => {
      if (moment === "before settle") throw new Error("injected");
    };
    await opened.call();
    opened.at = () => {};
    opened.world.now += 900_000;
    await opened.approvals.sweep();
    return opened;
  }

  test("the next approver sees a run in doubt, however long ago it was", async () => {
    road = await roadAfterRunInDoubt();
    road.world.now += 7_200_000;
    await road.call();
    expect(await shown(await road.pending())).toContain("and has run, and its outcome is unknown.");
  });

  test("the next approver sees a run in doubt after later approvals of the call, too", async () => {
    road = await roadAfterRunInDoubt();
    await road.approved();
    expect(nameOf(await road.call())).toBe("success");
    await road.call();
    const view = await shown(await road.pending());
    expect(view).toContain("and has run, and its outcome is unknown.");
    expect(view).toContain("and has run.");
  });

  test.each([
    [599_000, true],
    [601_000, false],
  ])("approvers see a run for ten minutes: after %d ms %p", async (laterMs, isShown) => {
    road = await MomentsRoad.open();
    await road.approved();
    expect(nameOf(await road.call())).toBe("success");
    road.world.now += laterMs;
    await road.call();
    expect((await shown(await road.pending())).includes("and has run.")).toBe(isShown);
  });
});
