import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import type { OpenedApprovals } from "../../src/approvals/approvals.ts";
import type { Approval, Approvals } from "../../src/approvals/types.ts";
import { sha256Hex } from "../../src/core/digest.ts";
import { Refusal } from "../../src/core/errors.ts";
import type { CallerContext } from "../../src/core/types.ts";
import { forList, forRequester } from "../../src/http/approval-json.ts";
import type { HubClient } from "../../src/hub/contract.ts";
import { HubRefusal, HubUnavailable } from "../../src/hub/errors.ts";
import { APPROVAL_INPUTS, type ApprovalMethodName } from "../../src/hub/methods/approval-inputs.ts";
import { hubApprovals } from "../../src/hub/methods/hub-approvals.ts";
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
import { clientOf, type Fate, HUB_URL, type Hub, hubOf } from "../support/hub-approvals.ts";
import { turns, until } from "../support/until.ts";

let world: ApprovalWorld;
let hub: OpenedApprovals;
let hubs: readonly Hub[];
/** Requests that the hubs got. */
let sent: string[];
/** A member, and another one. */
let crm: Approvals;
let billing: Approvals;
const opened: Approvals[] = [];

beforeEach(async () => {
  world = createApprovalWorld();
  hub = await world.open();
  hubs = [hubOf(hub), hubOf(await world.open())];
  sent = [];
  crm = memberOf("crm");
  billing = memberOf("billing");
});
afterEach(async () => {
  await Promise.all(opened.splice(0).map((each) => each.close()));
  await world.end();
});

function memberOf(member: string, { instance = "log-1", speaksFor = () => true }: Partial<Options> = {}): Approvals {
  const client = clientOf(hubs, { member, instance: () => instance, speaksFor, sent: (method) => sent.push(method) });
  const approvals = hubApprovals(client, { hub: HUB_URL });
  opened.push(approvals);
  return approvals;
}

interface Options {
  readonly instance: string;
  readonly speaksFor: (issuer: string) => boolean;
}

const approve = (id: string) => hub.decide({ id, by: OPERATOR, decision: "approve" });
const use = { issuer: AGENT.issuer, subject: AGENT.subject, tool: "deploy", keyHash: "k", argsHash: "a" };
const task = { tool: "deploy", args: { to: "prod" } };

type Methods = Omit<Approvals, "isRemote">;

/** Use of each method of approvals by a member. A new method fails the test until it is in this table. */
const FOR_MEMBERS: Readonly<Record<keyof Methods, "offered" | "refused" | "nothing to do" | "by events">> = {
  ...{ ask: "offered", foresee: "offered", claim: "offered", priorOf: "offered", settle: "offered", cancel: "offered" },
  ...{ get: "offered", ageOf: "offered", list: "offered", backlog: "offered", wait: "by events" },
  ...{ findGrant: "offered", findBoundedGrants: "offered", useGrant: "offered", revokeGrantsFor: "offered" },
  ...{ openSession: "offered", findSession: "offered", hasSessionEnded: "offered", endSession: "offered" },
  ...{ beginKey: "offered", endKey: "offered", doubtKey: "nothing to do", doubtClaimsOf: "offered" },
  ...{ claimsOf: "offered", resolveDoubt: "offered" },
  ...{ createTask: "offered", readTask: "offered", hasTask: "offered", endTask: "offered", cancelTask: "offered" },
  ...{ eventsAfter: "offered", lastSeq: "offered", onEvents: "by events" },
  ...{ decide: "refused", revoke: "refused", revokeGrant: "refused", listGrants: "refused", setMode: "refused" },
  ...{ listSessions: "refused", earlierDecisions: "refused", sweep: "nothing to do", close: "nothing to do" },
};

describe("what a member may do", () => {
  test("every method of approvals is offered, refused with the hub's name, or has nothing to do there", async () => {
    const methods = Object.keys(FOR_MEMBERS) as (keyof Methods)[];
    expect(Object.keys(crm).toSorted()).toEqual([...methods, "isRemote"].toSorted());
    for (const method of methods.filter((each) => FOR_MEMBERS[each] === "refused")) {
      const refused = (crm[method] as () => Promise<unknown>)();
      const error = await refused.then(
        () => undefined,
        (thrown: unknown) => thrown,
      );
      expect({ method, code: error instanceof Refusal && error.code }).toEqual({ method, code: "PERMISSION_DENIED" });
      expect(String(error)).toContain(HUB_URL);
    }
    const offered = methods.filter((each) => FOR_MEMBERS[each] === "offered").toSorted();
    const renamed = (name: string) => (name === "boundedGrants" ? "findBoundedGrants" : name);
    const atHub = Object.keys(APPROVAL_INPUTS).filter((name) => name !== "awaitEvents");
    expect(atHub.map(renamed).toSorted()).toEqual(offered);
  });

  test("nobody lists the requests of others, and no operator ends a session", async () => {
    await askFor(billing);
    await expect(crm.list({ limit: 10 })).rejects.toThrow(HUB_URL);
    expect(await crm.list({ limit: 10, requester: AGENT })).toEqual({ approvals: [], cursor: undefined });
    expect((await billing.list({ limit: 10, requester: AGENT })).approvals).toHaveLength(1);
    expect([await crm.backlog(), await billing.backlog()].map(({ waiting }) => waiting)).toEqual([0, 1]);
    const { id } = await crm.openSession(AGENT);
    await expect(crm.endSession(id, OPERATOR, AGENT)).rejects.toThrow(HUB_URL);
    expect(await crm.endSession(id, AGENT)).toBe(true);
  });

  test("input that is not as expected is refused", async () => {
    const client = clientOf(hubs);
    for (const name of Object.keys(APPROVAL_INPUTS)) {
      for (const input of [{ more: 1 }, "text", null, [], { id: 1 }, { requester: { issuer: "x" } }]) {
        await expect(client.call(`approvals.${name}`, input)).rejects.toThrow(HubRefusal);
      }
    }
    const huge = questionOf({ summary: "x".repeat(70_000) });
    await expect(crm.ask(huge)).rejects.toThrow("Too big");
  });
});

describe("what belongs to another member", () => {
  const foreign = async (act: Promise<unknown>): Promise<void> => {
    const error = await act.then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    expect(error instanceof HubRefusal && [error.status, error.code]).toEqual([403, "FOREIGN_ROW"]);
  };

  test("a request is read by its id only by the member that asked for it", async () => {
    const { id } = await askFor(crm);
    await foreign(billing.get(id));
    await foreign(billing.ageOf(id));
    await foreign(billing.wait(id, { timeoutMs: 0 }));
    expect((await crm.get(id))?.members).toEqual(["crm"]);
    const other = await askFor(billing);
    expect([other.id === id, other.members]).toEqual([false, ["billing"]]);
    expect((await hub.get(id))?.members).toEqual(["crm"]);
    const ownOfHub = await askFor(hub, { planDigest: "d".repeat(64) });
    await foreign(crm.get(ownOfHub.id));
  });

  test("what people approved for one member is used by no other, whatever it was called there", async () => {
    const shown = {
      view: { headline: "a harmless call" },
      viewDigest: "v".repeat(64),
      summary: "harmless",
      risk: "low",
    } as const;
    const lie = async (facts: Partial<ReturnType<typeof questionOf>> = {}) =>
      (await askFor(billing, { ...shown, callDigest: "c", ...facts })).id;
    const once = await lie();
    const own = await askFor(crm);
    expect([own.id === once, own.summary]).toEqual([false, questionOf().summary]);
    await crm.cancel(own.id, AGENT);
    await approve(once);
    const { planDigest, requester } = questionOf();
    for (const user of [crm, hub]) {
      const call = { requester, planDigest, requirementDigest: undefined, callDigest: "c", attach: "any" } as const;
      expect((await user.priorOf(call)).usable).toBeUndefined();
      expect((await user.priorOf({ ...call, attach: { id: once } })).usable).toBeUndefined();
      expect(await user.claim({ id: once, requester, planDigest })).toEqual({ outcome: "not_found" });
      expect(await user.createTask({ requester, approvalId: once, call: task })).toBeUndefined();
    }
    await foreign(crm.cancel(once, AGENT));
    expect((await billing.claim({ id: once, requester, planDigest })).outcome).toBe("claimed");
    await billing.settle(once, "executed");
    const session = await lie();
    await hub.decide({ id: session, by: OPERATOR, decision: "approve", scope: "session" });
    const grantKey = questionOf().grantKey ?? "";
    expect(await billing.findGrant(AGENT, grantKey)).toBeDefined();
    expect([await crm.findGrant(AGENT, grantKey), await hub.findGrant(AGENT, grantKey)]).toEqual([
      undefined,
      undefined,
    ]);
  });

  test("a claim is settled by the member that made it, in any of its processes", async () => {
    const { id, requester, planDigest } = await askFor(crm);
    await approve(id);
    await crm.claim({ id, requester, planDigest });
    await foreign(billing.settle(id, "executed"));
    await foreign(memberOf("crm/log-1").settle(id, "executed"));
    expect((await hub.get(id))?.state).toBe("claimed");
    await memberOf("crm", { instance: "log-2" }).settle(id, "executed");
    expect((await hub.get(id))?.state).toBe("executed");
    const direct = await claimedFrom(hub, { planDigest: "d".repeat(64) });
    await foreign(crm.settle(direct.id, "failed"));
  });

  test("a member ends the claims of its own processes, whatever they are called", async () => {
    const claimed = async (member: Approvals, planDigest: string) => {
      const { id } = await askFor(member, { planDigest });
      await approve(id);
      await member.claim({ id, requester: AGENT, planDigest });
      return id;
    };
    const first = await claimed(crm, "1".repeat(64));
    const second = await claimed(memberOf("crm", { instance: "log-2" }), "2".repeat(64));
    const other = await claimed(billing, "3".repeat(64));
    await billing.doubtClaimsOf("../crm/log-1");
    await billing.doubtClaimsOf("crm/log-1");
    await crm.doubtClaimsOf("log-1");
    const states = [first, second, other].map(async (id) => (await hub.get(id))?.state);
    expect(await Promise.all(states)).toEqual(["in_doubt", "claimed", "claimed"]);
  });

  test("what a member finds out later settles its own claims and uses, and those of no other", async () => {
    const { id } = await askFor(crm);
    await approve(id);
    await crm.claim({ id, requester: AGENT, planDigest: questionOf().planDigest });
    await crm.beginKey(use);
    await crm.doubtClaimsOf("log-1");
    const { argsHash: _, ...key } = use;
    const found = { claimant: "log-1", approvalId: id, key, startedAt: world.now, isDone: true };
    const seen = async () => [(await hub.get(id))?.state, (await crm.beginKey(use)).outcome];
    await billing.resolveDoubt(found);
    await billing.resolveDoubt({ ...found, claimant: "../crm/log-1" });
    await billing.resolveDoubt({ ...found, claimant: "crm/log-1", isDone: false });
    await hub.resolveDoubt({ ...found, claimant: "crm/log-1", approvalId: undefined });
    await crm.resolveDoubt({ ...found, claimant: "log-2", key: undefined });
    expect(await seen()).toEqual(["in_doubt", "unknown"]);
    await crm.resolveDoubt(found);
    expect(await seen()).toEqual(["executed", "answered"]);
    expect(world.lines.at(-1)).toMatchObject({ type: "approval.settled", outcome: "executed", cause: "resolved" });
    expect(await billing.beginKey(use)).toEqual({ outcome: "unknown" });
    await crm.resolveDoubt({ ...found, isDone: false });
    expect(await seen()).toEqual(["executed", "answered"]);
  });

  test("a use that has changed nothing can begin again, at its member and at others", async () => {
    const { argsHash: _, ...key } = use;
    await crm.beginKey(use);
    const found = { claimant: "log-1", approvalId: undefined, key, startedAt: world.now, isDone: false };
    await crm.resolveDoubt(found);
    expect(await crm.beginKey(use)).toEqual({ outcome: "running" });
    await crm.doubtClaimsOf("log-1");
    await crm.resolveDoubt({ ...found, startedAt: 0 });
    expect(await crm.beginKey(use)).toEqual({ outcome: "unknown" });
    await crm.resolveDoubt(found);
    expect(await billing.beginKey(use)).toEqual({ outcome: "begin" });
    await crm.resolveDoubt(found);
    expect(await billing.beginKey(use)).toEqual({ outcome: "running" });
  });

  test("a use of a key is ended by the member that began it, and its answer is given to no other", async () => {
    await crm.beginKey(use);
    const answer = { result: "forged", filteredFields: [], outputHash: "h" };
    await foreign(billing.endKey(use, answer));
    await billing.doubtKey(use);
    expect(await crm.beginKey(use)).toEqual({ outcome: "running" });
    await crm.endKey(use, { ...answer, result: "own" });
    expect(await memberOf("crm", { instance: "log-2" }).beginKey(use)).toMatchObject({
      outcome: "answered",
      answer: { result: "own" },
    });
    for (const other of [billing, hub]) expect(await other.beginKey(use)).toEqual({ outcome: "unknown" });
  });

  test("a task is read, run and cancelled through the member that made it", async () => {
    const { id: approvalId } = await askFor(crm);
    const { id = "" } = (await crm.createTask({ requester: AGENT, approvalId, call: task })) ?? {};
    await foreign(billing.readTask(id, AGENT));
    await foreign(billing.hasTask(id, AGENT));
    await foreign(billing.cancelTask(id, AGENT));
    await foreign(billing.endTask(id, { answer: "forged", short: "forged", mayRunLater: false }));
    await approve(approvalId);
    expect(await crm.readTask(id, AGENT)).toMatchObject({ state: "due", call: task });
    expect(await crm.endTask(id, { answer: "own", short: "own", mayRunLater: false })).toBe(true);
    expect(await crm.readTask(id, AGENT)).toMatchObject({ state: "answered", answer: "own" });
  });

  test("events are those of requests that the member asked for", async () => {
    const { id } = await askFor(crm);
    await askFor(billing, { planDigest: "d".repeat(64) });
    await approve(id);
    const own = (await crm.eventsAfter(0, 100)).map((event) => [event.type, event.id]);
    expect(own).toEqual([
      ["approval.requested", id],
      ["approval.approved", id],
    ]);
    expect(await billing.eventsAfter(0, 100)).toHaveLength(1);
    expect(await memberOf("third").eventsAfter(0, 100)).toEqual([]);
  });

  test("a write to a workspace ends grants of the own requests alone", async () => {
    const { id } = await askFor(crm);
    await hub.decide({ id, by: OPERATOR, decision: "approve", scope: "session" });
    const held = () => crm.findGrant(AGENT, questionOf().grantKey ?? "");
    const writer = { issuer: "safe-tool-call", subject: "a write to the workspace" };
    await billing.revokeGrantsFor(["deploy"], writer);
    expect(await held()).toMatchObject({ tool: "deploy" });
    await crm.revokeGrantsFor(["deploy"], writer);
    expect(await held()).toBeUndefined();
    expect(world.lines.at(-1)).toMatchObject({
      type: "grant.revoked",
      decider: { issuer: "safe-tool-call", subject: "a write to the workspace of crm" },
    });
  });

  /** Everything that names a caller. */
  const named: readonly (readonly [ApprovalMethodName, (member: Approvals) => Promise<unknown>])[] = [
    ["ask", (member) => member.ask(questionOf())],
    ["foresee", (member) => member.foresee(questionOf())],
    ["claim", (member) => member.claim({ id: "x", requester: AGENT, planDigest: "p" })],
    ["priorOf", (m) => m.priorOf({ requester: AGENT, planDigest: "p", callDigest: "c", attach: "any" })],
    ["cancel", (member) => member.cancel("x", AGENT)],
    ["list", (member) => member.list({ limit: 1, requester: AGENT })],
    ["findGrant", (member) => member.findGrant(AGENT, "g")],
    [
      "boundedGrants",
      (member) =>
        member.findBoundedGrants({
          ...{ requester: AGENT, boundsKey: "b", input: {}, isElevated: false, risk: "low", rules: [] },
        }),
    ],
    ["openSession", (member) => member.openSession(AGENT)],
    ["findSession", (member) => member.findSession("sid-1", AGENT)],
    ["hasSessionEnded", (member) => member.hasSessionEnded("sid-1", AGENT)],
    ["endSession", (member) => member.endSession("sid-1", AGENT)],
    ["beginKey", (member) => member.beginKey(use)],
    ["endKey", (member) => member.endKey(use, "unknown")],
    [
      "resolveDoubt",
      (member) =>
        member.resolveDoubt({ claimant: "log-1", approvalId: undefined, key: use, startedAt: 1, isDone: true }),
    ],
    ["createTask", (member) => member.createTask({ requester: AGENT, approvalId: "x", call: task })],
    ["readTask", (member) => member.readTask("t", AGENT)],
    ["hasTask", (member) => member.hasTask("t", AGENT)],
    ["cancelTask", (member) => member.cancelTask("t", AGENT)],
  ];

  test.each(named)("%s speaks only for callers of the member's issuers", async (name, act) => {
    const limited = memberOf("limited", { speaksFor: (issuer) => issuer === "https://other.example" });
    const error = await act(limited).then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    expect(error instanceof HubRefusal && [error.status, error.code]).toEqual([403, "ISSUER_NOT_ALLOWED"]);
    expect(sent).toEqual([`approvals.${name}`]);
  });

  test("those that name a caller are all that have one", () => {
    const about = Object.entries(APPROVAL_INPUTS).filter(([, schema]) =>
      /"(requester|use)"/.test(JSON.stringify(shapeOf(schema))),
    );
    expect(about.map(([name]) => name).toSorted()).toEqual(named.map(([name]) => name).toSorted());
  });
});

function shapeOf(schema: unknown): unknown {
  const { in: inner, shape } = (schema as { def: { in?: unknown; shape?: object } }).def;
  return inner === undefined ? Object.keys(shape ?? {}) : shapeOf(inner);
}

describe("a request that is repeated", () => {
  const repeated = async (method: ApprovalMethodName, input: object): Promise<readonly unknown[]> => {
    const [first, second] = hubs;
    const [one, two] = [first, second].map((each) => each?.get(`approvals.${method}`));
    const member = { name: "crm", instance: "log-1", speaksFor: () => true };
    const request = { member, id: `repeated-${method}`, digest: method, signal: new AbortController().signal };
    const parsed = APPROVAL_INPUTS[method].parse(input);
    const answers = [await one?.handle(parsed, request), await two?.handle(parsed, request)];
    return answers.map((answer) => answer?.value ?? undefined);
  };

  test("is answered as before by either hub, and changes nothing", async () => {
    const [asked, again] = await repeated("ask", questionOf());
    expect(again).toEqual(JSON.parse(JSON.stringify(asked)));
    expect(asked).toMatchObject({ outcome: "asked", joined: false });
    const { id } = await askFor(crm);
    await approve(id);
    const [claimed, claimedAgain] = await repeated("claim", claimOf((await hub.get(id)) ?? questionOfId(id)));
    expect([claimed, claimedAgain]).toMatchObject([{ outcome: "claimed" }, { outcome: "claimed" }]);
    const [begun, begunAgain] = await repeated("beginKey", { use });
    expect([begun, begunAgain]).toEqual([{ outcome: "begin" }, { outcome: "begin" }]);
    const sessions = await repeated("openSession", { requester: { issuer: AGENT.issuer, subject: AGENT.subject } });
    expect(sessions[1]).toEqual(JSON.parse(JSON.stringify(sessions[0])));
    const types = world.lines.map(({ type }) => type);
    expect(types).toEqual(["approval.asked", "approval.voted", "approval.claimed", "session.opened"]);
  });

  test("reads a task that is due once", async () => {
    const { id: approvalId } = await askFor(crm);
    const { id = "" } = (await crm.createTask({ requester: AGENT, approvalId, call: task })) ?? {};
    await approve(approvalId);
    const both = await repeated("readTask", { id, requester: AGENT });
    expect(both).toMatchObject([{ state: "due" }, { state: "due" }]);
    expect(await crm.readTask(id, AGENT)).toMatchObject({ state: "running" });
  });

  test("ends no claim that was made since", async () => {
    const claimed = async (planDigest: string) => {
      const { id } = await askFor(crm, { planDigest });
      await approve(id);
      await crm.claim({ id, requester: AGENT, planDigest });
      return id;
    };
    const before = await claimed("1".repeat(64));
    await repeated("doubtClaimsOf", { instance: "log-1" });
    const since = await claimed("2".repeat(64));
    await repeated("doubtClaimsOf", { instance: "log-1" });
    expect([(await hub.get(before))?.state, (await hub.get(since))?.state]).toEqual(["in_doubt", "claimed"]);
  });

  test("has an id of its own: another request, or another member, gets nothing of its answer", async () => {
    const [first, second] = hubs;
    const send = (hubUsed: Hub | undefined, method: ApprovalMethodName, input: object, member = "crm") =>
      hubUsed?.get(`approvals.${method}`)?.handle(APPROVAL_INPUTS[method].parse(input), {
        member: { name: member, instance: "log-1", speaksFor: () => true },
        ...{ id: "one-id", digest: sha256Hex(method + JSON.stringify(input)), signal: new AbortController().signal },
      }) ?? Promise.reject(new Error("there is no hub"));
    const asked = (await send(first, "ask", questionOf())).value as { approval: { id: string } };
    const { id } = asked.approval;
    await approve(id);
    const used = { status: 409, code: "REQUEST_ID_USED" };
    for (const [method, input] of [
      ["ask", questionOf({ planDigest: "d".repeat(64) })],
      ["claim", { id, requester: AGENT, planDigest: questionOf().planDigest }],
      ["beginKey", { use }],
      ["readTask", { id: "t", requester: AGENT }],
    ] as const) {
      expect(await send(second, method, input).catch((error: unknown) => error)).toMatchObject(used);
    }
    expect((await hub.get(id))?.state).toBe("approved");
    const other = (await send(second, "ask", questionOf(), "billing")).value as { approval: { id: string } };
    expect(other.approval.id).not.toBe(id);
  });

  test("is refused when its answer was too large to keep, and has changed nothing", async () => {
    const view = { text: "x".repeat(1_040_000), more: "y".repeat(8_000) };
    const asked = repeated("ask", questionOf({ view }));
    await expect(asked).rejects.toThrow("its answer was not kept");
    expect((await hub.list({ limit: 10 })).approvals).toHaveLength(1);
  });

  test("is forgotten after ten minutes", async () => {
    await repeated("ask", questionOf());
    world.now += 600_001;
    await hub.sweep();
    // The request itself has expired meanwhile.
    expect((await repeated("ask", questionOf()))[0]).toMatchObject({ outcome: "asked", joined: false });
    expect((await hub.list({ limit: 10 })).approvals).toHaveLength(2);
  });
});

const questionOfId = (id: string): never => {
  throw new Error(`${id} is unknown`);
};

describe("waiting at a member", () => {
  test("a decision at either hub ends the wait, and many waits are one request", async () => {
    const ids = ["1", "2", "3"].map(async (digit) => (await askFor(crm, { planDigest: digit.repeat(64) })).id);
    const asked = await Promise.all(ids);
    const waits = asked.map((id) => crm.wait(id, { timeoutMs: 3_000_000 }));
    await until("the request for events", () => sent.includes("approvals.awaitEvents") || undefined);
    for (const id of asked) await approve(id);
    const states = (await Promise.all(waits)).map((approval) => approval?.state);
    expect(states).toEqual(["approved", "approved", "approved"]);
  });

  test("a caller that leaves does not wait for the hub", async () => {
    const { id } = await askFor(crm);
    const stuck: HubClient = { ...clientOf(hubs), call: () => new Promise(() => {}) };
    const away = hubApprovals(stuck, { hub: HUB_URL });
    opened.push(away);
    const left = new AbortController();
    const waiting = away.wait(id, { timeoutMs: 3_000_000, signal: left.signal });
    left.abort();
    expect(await waiting).toBeUndefined();
  });

  test("a listener is called when an own request changes", async () => {
    const { id } = await askFor(crm);
    let heard = 0;
    const stop = crm.onEvents(() => (heard += 1));
    await until("the first look", () => heard > 0 || undefined);
    heard = 0;
    await approve(id);
    await until("the approval", () => heard > 0 || undefined);
    stop();
  });
});

test("the ends of calls and keys, and resolved doubts, are reports, which the client repeats", async () => {
  const reports: string[] = [];
  const client: HubClient = {
    ...clientOf(hubs),
    async call(method, _input, { isReport = false } = {}) {
      if (isReport) reports.push(method.replace("approvals.", ""));
      return { value: null, now: world.now };
    },
  };
  const member = hubApprovals(client, { hub: HUB_URL });
  await member.settle("a", "executed");
  await member.endKey(use, "not_run");
  await member.resolveDoubt({ claimant: "log-1", approvalId: "a", key: undefined, startedAt: 1, isDone: true });
  expect(reports).toEqual(["settle", "endKey", "resolveDoubt"]);
  await member.close();
});

describe("an outcome that is under way", () => {
  /** A member whose outcomes wait for `arrive`, and whose other requests are answered with nothing. */
  const slow = () => {
    const requests: string[] = [];
    const { promise, resolve } = Promise.withResolvers<void>();
    const client: HubClient = {
      ...clientOf(hubs),
      async call(method) {
        if (method === "approvals.settle") await promise;
        else requests.push(method.replace("approvals.", ""));
        return { value: null, now: world.now };
      },
    };
    return { member: hubApprovals(client, { hub: HUB_URL }), requests, arrive: resolve };
  };

  test("comes before every later request of its member that could see it", async () => {
    const { member, requests, arrive } = slow();
    const settling = member.settle("a", "executed");
    const reports = ["settle", "endKey"];
    const offered = (Object.keys(FOR_MEMBERS) as (keyof Methods)[]).filter(
      (name) => FOR_MEMBERS[name] === "offered" && !reports.includes(name),
    );
    const inputs: Readonly<Record<string, readonly unknown[]>> = {
      ask: [questionOf()],
      claim: [{ id: "a", requester: AGENT, planDigest: "d" }],
      revokeGrantsFor: [["deploy"]],
      list: [{ limit: 1, requester: AGENT }],
      findGrant: [{ ...AGENT, session: "s" }, "g"],
      endSession: ["s", AGENT],
    };
    const atOnce = [
      "endKey",
      "openSession",
      "findSession",
      "hasSessionEnded",
      "findGrant",
      "boundedGrants",
      "useGrant",
      "revokeGrantsFor",
    ];
    const asked = offered.map((name) => {
      const ask = member[name] as (...args: readonly unknown[]) => Promise<unknown>;
      return ask(...(inputs[name] ?? [AGENT, AGENT])).catch(() => {});
    });
    const read = member.wait("a", { timeoutMs: 0 }).catch(() => {});
    await member.endKey(use, "not_run");
    await turns();
    const sentAtOnce = requests.splice(0).filter((name) => name !== "awaitEvents");
    expect(sentAtOnce.toSorted()).toEqual(atOnce.toSorted());
    arrive();
    await Promise.all([settling, read, ...asked]);
    const sentLater = new Set(requests.filter((name) => name !== "awaitEvents"));
    const renamed = (name: string) => (name === "findBoundedGrants" ? "boundedGrants" : name);
    const later = offered.map(renamed).filter((name) => !sentAtOnce.includes(name));
    expect([...sentLater].toSorted()).toEqual(later.toSorted());
    await member.close();
  });

  test("arrives before its member ends", async () => {
    const { member, arrive } = slow();
    let hasArrived = false;
    void member.settle("a", "executed").then(() => {
      hasArrived = true;
    });
    const closing = member.close().then(() => hasArrived);
    expect(await Promise.race([closing, turns().then(() => "waits")])).toBe("waits");
    arrive();
    expect(await closing).toBe(true);
  });
});

test("while claims are held, requests that claim are refused without the hub, and all others are sent", async () => {
  let isHeld = true;
  const client = clientOf(hubs, { sent: (method) => sent.push(method) });
  const member = hubApprovals(client, { hub: HUB_URL, isClaimHeld: () => isHeld });
  opened.push(member);
  const approval = await askFor(crm);
  await approve(approval.id);
  sent = [];
  const claiming = [
    () => member.claim(claimOf(approval)),
    () => member.beginKey(use),
    () => member.ask({ ...questionOf(), attach: "any", shownPriors: [], claims: true }),
  ];
  for (const claim of claiming) await expect(claim()).rejects.toBeInstanceOf(HubUnavailable);
  expect(sent).toEqual([]);
  expect((await member.get(approval.id))?.state).toBe("approved");
  expect(await member.claimsOf("log-1")).toEqual([]);
  isHeld = false;
  expect(await member.claim(claimOf(approval))).toMatchObject({ outcome: "claimed" });
  // The refused ones hold nothing.
  expect(await member.claim(claimOf(approval))).toMatchObject({ outcome: "not_approved" });
});

test("a member learns which claims a process of its own has left, and of no other's", async () => {
  const { id, ...approval } = await askFor(crm);
  await approve(id);
  await crm.claim(claimOf({ ...approval, id }));
  const all = [crm.claimsOf("log-1"), crm.claimsOf("log-2"), billing.claimsOf("log-1"), billing.claimsOf("crm/log-1")];
  expect(await Promise.all(all)).toEqual([[{ id, state: "claimed" }], [], [], []]);
  await crm.settle(id, "executed");
  expect(await crm.claimsOf("log-1")).toEqual([]);
});

test("operators see which member asked: in the request, and in the journal's lines", async () => {
  await approvedBy(hub, { planDigest: "d".repeat(64) });
  const { id } = await askFor(crm);
  await approve(id);
  await crm.claim({ id, requester: AGENT, planDigest: questionOf().planDigest });
  const asked = await hub.get(id);
  if (asked === undefined) throw new Error("the request is gone");
  const operator = { ...OPERATOR, actors: [], permissions: [] } as unknown as CallerContext;
  expect(forList(asked, operator)["members"]).toEqual(["crm"]);
  expect(forRequester(asked)).not.toHaveProperty("members");
  const lines = world.lines.filter((line) => ["approval.asked", "approval.claimed"].includes(line.type));
  expect(lines.map(({ type, member }) => [type, member])).toEqual([
    ["approval.asked", undefined],
    ["approval.asked", "crm"],
    ["approval.claimed", "crm"],
  ]);
});

test("what a hub keeps of a request opens with the request's id alone", async () => {
  const { id: approvalId } = await askFor(crm);
  const { id = "" } = (await crm.createTask({ requester: AGENT, approvalId, call: task })) ?? {};
  await approve(approvalId);
  expect(await crm.readTask(id, AGENT)).toMatchObject({ state: "due", call: task });
  const file = new Bun.SQL(world.url);
  try {
    const kept = JSON.stringify(await file`SELECT * FROM hub_requests`);
    expect(JSON.parse(kept)).toHaveLength(3);
    for (const secret of [id, "prod", "deploy", "request-"]) expect(kept).not.toContain(secret);
  } finally {
    await file.close();
  }
});

describe("a hub that answers too late", () => {
  const slow = () => {
    let fate: Fate = "answer too late";
    const client = clientOf(hubs, { fate: () => fate });
    const member = hubApprovals(client, { hub: HUB_URL });
    opened.push(member);
    return {
      member,
      arrive: () => {
        fate = "arrives";
      },
    };
  };

  test("leaves the key of a call that was refused for its next use", async () => {
    const { member, arrive } = slow();
    await expect(member.beginKey(use)).rejects.toBeInstanceOf(HubUnavailable);
    arrive();
    const again = await until("the key", async () => {
      const { outcome } = await member.beginKey(use);
      return outcome === "running" ? undefined : outcome;
    });
    expect(again).toBe("begin");
  });

  test("does not end another call that has begun with the same key", async () => {
    await crm.beginKey(use);
    const { member, arrive } = slow();
    await expect(member.beginKey(use)).rejects.toBeInstanceOf(HubUnavailable);
    arrive();
    await Bun.sleep(0);
    await member.lastSeq();
    expect(await member.beginKey(use)).toEqual({ outcome: "running" });
  });

  const USES: readonly (readonly [string, (member: Approvals, approval: Approval) => Promise<unknown>])[] = [
    ["names", (member, approval) => member.claim(claimOf(approval))],
    ["finds", (member) => member.ask({ ...questionOf(), attach: "any", shownPriors: [], claims: true })],
  ];

  test.each(USES)("leaves the approval that a refused call %s for its next use", async (_title, use) => {
    const approval = await askFor(crm);
    await approve(approval.id);
    const { member, arrive } = slow();
    await expect(use(member, approval)).rejects.toBeInstanceOf(HubUnavailable);
    arrive();
    await until("the approval", async () => ((await hub.get(approval.id))?.state === "approved" ? true : undefined));
    expect(await member.claim(claimOf(approval))).toMatchObject({ outcome: "claimed" });
  });

  test.each(USES)("does not report the approval that a refused call %s as used", async (_title, use) => {
    const approval = await askFor(crm);
    await approve(approval.id);
    let arrive = (): void => {};
    let fate: Fate = "answer too late";
    const later = (late: () => void): void => {
      arrive = late;
    };
    const member = hubApprovals(clientOf(hubs, { fate: () => fate, later }), { hub: HUB_URL });
    opened.push(member);
    await expect(use(member, approval)).rejects.toBeInstanceOf(HubUnavailable);
    fate = "arrives";
    await expect(member.claim(claimOf(approval))).rejects.toBeInstanceOf(HubUnavailable);
    // Only this process knows of the request without an answer.
    expect(await crm.claim(claimOf(approval))).toMatchObject({ outcome: "not_approved" });
    arrive();
    await until("the approval", async () => ((await hub.get(approval.id))?.state === "approved" ? true : undefined));
    expect(await member.claim(claimOf(approval))).toMatchObject({ outcome: "claimed" });
    // A call runs with it now.
    expect(await member.claim(claimOf(approval))).toMatchObject({ outcome: "not_approved" });
  });

  test("a claim waits to see whether another one, which has no answer yet, gets it in time", async () => {
    const approval = await askFor(crm);
    await approve(approval.id);
    const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()] as const;
    const answered: string[] = [];
    for (const [round, { promise, resolve }] of gates.entries()) {
      const client = clientOf(hubs);
      let isFirst = true;
      const slowly: HubClient = {
        ...client,
        async call(method, input, options) {
          const isHeld = isFirst && method === "approvals.claim";
          isFirst = false;
          const answer = await client.call(method, input, options);
          if (isHeld) await promise;
          if (isHeld && round === 0) {
            setImmediate(() => options?.late?.(answer));
            throw new HubUnavailable("no answer");
          }
          return answer;
        },
      };
      const member = hubApprovals(slowly, { hub: HUB_URL });
      opened.push(member);
      const first = member.claim(claimOf(approval)).catch(() => "refused");
      const second = member.claim(claimOf(approval)).catch(() => "to be repeated");
      void second.then((claimed) => answered.push(typeof claimed === "string" ? claimed : claimed.outcome));
      await until("the claim", async () => ((await hub.get(approval.id))?.state === "claimed" ? true : undefined));
      expect(answered).toHaveLength(round);
      resolve();
      await Promise.all([first, second]);
      await until("the end", async () =>
        round === 1 || (await hub.get(approval.id))?.state === "approved" ? true : undefined,
      );
    }
    expect(answered).toEqual(["to be repeated", "not_approved"]);
  });
});
