import { afterEach, beforeEach, expect, test } from "bun:test";
import type { Requester } from "../../../src/approvals/identities.ts";
import type { Approvals } from "../../../src/approvals/types.ts";
import {
  AGENT,
  type ApprovalWorld,
  askFor,
  createApprovalWorld,
  OPERATOR,
  questionOf,
} from "../../support/approvals.ts";

let world: ApprovalWorld;
let store: Approvals;
beforeEach(async () => {
  world = createApprovalWorld();
  store = await world.open();
});
afterEach(() => world.end());

const KEY = questionOf().grantKey ?? "";
const HOUR_MS = 3_600_000;

async function granted(requester: Requester = AGENT): Promise<void> {
  const { id } = await askFor(store, { requester });
  const decided = await store.decide({ id, by: OPERATOR, decision: "approve", scope: "session" });
  expect(decided.outcome).toBe("decided");
}

test("an approval for a session is stored with its origin", async () => {
  await granted();
  const grant = await store.findGrant(AGENT, KEY);
  expect(grant).toMatchObject({ session: "sid-1", grantKey: KEY, tool: "deploy", grantedBy: OPERATOR });
  expect(grant?.expiresAt).toBe(world.now + 8 * HOUR_MS);
  expect(await store.listGrants({ requester: AGENT })).toEqual(grant === undefined ? [] : [grant]);
  expect(world.lines.map(({ type }) => type)).toEqual([
    ...["approval.asked", "approval.voted", "session.opened", "grant.created"],
  ]);
});

const OTHERS: readonly (readonly [title: string, requester: Requester, key: string])[] = [
  ["session", { ...AGENT, session: "sid-2" }, KEY],
  ["session, written otherwise", { ...AGENT, session: "SID-1" }, KEY],
  ["session: none", { ...AGENT, session: undefined }, KEY],
  ["session: an empty one", { ...AGENT, session: "" }, KEY],
  ["subject", { ...AGENT, subject: "agent-2" }, KEY],
  ["issuer", { ...AGENT, issuer: "https://other.example" }, KEY],
  ["call", AGENT, "0".repeat(64)],
  ["call: a pattern", AGENT, "%"],
  ["call: the beginning of the key", AGENT, KEY.slice(0, 32)],
];

test.each(OTHERS)("APR-40, APR-41: it does not cover another %s", async (_title, requester, key) => {
  await granted();
  expect(await store.findGrant(requester, key)).toBeUndefined();
});

test("APR-42: sessions of two callers with the same name are separate", async () => {
  const other = { ...AGENT, subject: "agent-2" };
  await store.setMode({ id: "sid-1", requester: AGENT, mode: "yolo", until: world.now + HOUR_MS, by: OPERATOR });
  expect(await store.findSession("sid-1", other)).toBeUndefined();
  await store.setMode({ id: "sid-1", requester: other, mode: "autoEdit", until: world.now + HOUR_MS, by: OPERATOR });
  expect((await store.findSession("sid-1", AGENT))?.mode).toBe("yolo");
  expect((await store.findSession("sid-1", other))?.mode).toBe("autoEdit");
  const ambiguous = { id: "sid-1", mode: "yolo" as const, until: world.now + HOUR_MS, by: OPERATOR };
  expect(await store.setMode(ambiguous)).toBeUndefined();
  expect(await store.endSession("sid-1", OPERATOR)).toBe(false);
  expect(await store.endSession("sid-1", other)).toBe(true);
  expect((await store.findSession("sid-1", AGENT))?.mode).toBe("yolo");
});

test("ending a session does not end another caller's session with the same name", async () => {
  const other = { ...AGENT, subject: "agent-2" };
  for (const requester of [AGENT, other]) {
    await store.setMode({ id: "sid-1", requester, mode: "yolo", until: world.now + HOUR_MS, by: OPERATOR });
  }
  const ended = await Promise.all([1, 2, 3].map(() => store.endSession("sid-1", AGENT)));
  expect(ended.filter((isEnded) => isEnded)).toHaveLength(1);
  expect((await store.findSession("sid-1", other))?.mode).toBe("yolo");
  expect(await store.endSession("sid-1", OPERATOR)).toBe(true);
});

test("grants of some tools are revoked together for all callers, and no others", async () => {
  await granted();
  await granted({ ...AGENT, subject: "agent-2" });
  const before = world.lines.length;
  await store.revokeGrantsFor(["rollback"], OPERATOR);
  expect(await store.listGrants({})).toHaveLength(2);
  expect(world.lines).toHaveLength(before);
  await store.revokeGrantsFor(["rollback", "deploy"], OPERATOR);
  expect(await store.listGrants({})).toEqual([]);
  expect(world.lines.slice(before).map(({ type }) => type)).toEqual(["grant.revoked", "grant.revoked"]);
});

test("a grant ends when it expires, is revoked or is replaced by a newer one", async () => {
  await granted();
  const first = await store.findGrant(AGENT, KEY);
  await granted();
  const second = await store.findGrant(AGENT, KEY);
  expect(second?.id).not.toBe(first?.id);
  expect(world.lines.slice(-2).map(({ type, id }) => [type, id])).toEqual([
    ["grant.revoked", first?.id],
    ["grant.created", second?.id],
  ]);
  expect(await store.revokeGrant(first?.id ?? "", OPERATOR)).toBe(false);
  expect(await store.revokeGrant(second?.id ?? "", OPERATOR)).toBe(true);
  expect(await store.revokeGrant(second?.id ?? "", OPERATOR)).toBe(false);
  expect(await store.findGrant(AGENT, KEY)).toBeUndefined();
  await granted();
  world.now += 8 * HOUR_MS - 1;
  expect(await store.findGrant(AGENT, KEY)).toBeDefined();
  world.now += 1;
  expect(await store.findGrant(AGENT, KEY)).toBeUndefined();
  expect(await store.listGrants({})).toEqual([]);
});

test.each([
  ["its owner", AGENT],
  ["an operator", OPERATOR],
] as const)("APR-43: when %s ends a session, its mode and grants end too", async (_title, by) => {
  const { id } = await store.openSession(AGENT);
  const requester = { ...AGENT, session: id };
  await store.setMode({ id, mode: "yolo", until: world.now + HOUR_MS, by: OPERATOR });
  await granted(requester);
  expect(await store.endSession(id, by)).toBe(true);
  expect(await store.findGrant(requester, KEY)).toBeUndefined();
  expect(await store.findSession(id, AGENT)).toBeUndefined();
  expect(await store.listSessions()).toEqual([]);
  expect(await store.endSession(id, by)).toBe(false);
  expect(world.lines.slice(-2).map(({ type }) => type)).toEqual(["grant.revoked", "session.ended"]);
});

test("APR-43: a token's session with grants can be ended, and stays ended", async () => {
  await granted();
  expect(await store.endSession("sid-1", OPERATOR)).toBe(true);
  expect(await store.findGrant(AGENT, KEY)).toBeUndefined();
  const change = { id: "sid-1", requester: AGENT, mode: "yolo" as const, until: world.now + HOUR_MS, by: OPERATOR };
  expect(await store.setMode(change)).toBeUndefined();
});

test("APR-43: an approval for a session that ended meanwhile is not remembered", async () => {
  const session = await store.openSession(AGENT);
  const { id } = await askFor(store, { requester: { ...AGENT, session: session.id } });
  await store.endSession(session.id, AGENT);
  const decision = { id, by: OPERATOR, decision: "approve" as const };
  expect(await store.decide({ ...decision, scope: "session" })).toEqual({
    outcome: "scope_not_offered",
    offered: ["once"],
  });
  expect((await store.decide(decision)).outcome).toBe("decided");
});

test("APR-43: an expired session takes its grants with it, with and without the sweeper", async () => {
  await store.close();
  store = await world.open({ sessionSeconds: 3_600 });
  const session = await store.openSession(AGENT);
  const requester = { ...AGENT, session: session.id };
  await granted(requester);
  world.now = session.expiresAt;
  expect(await store.findSession(session.id, AGENT)).toBeUndefined();
  expect(await store.findGrant(requester, KEY)).toBeUndefined();
  const change = { id: session.id, mode: "yolo" as const, until: world.now + 1, by: OPERATOR };
  expect(await store.setMode(change)).toBeUndefined();
  expect(await store.setMode({ ...change, requester: AGENT })).toBeUndefined();
  await store.sweep();
  expect(world.lines.slice(-2).map(({ type }) => type)).toEqual(["grant.revoked", "session.ended"]);
  world.now -= 1_000;
  expect(await store.findSession(session.id, AGENT)).toBeUndefined();
  expect(await store.findGrant(requester, KEY)).toBeUndefined();
});

test("a generated session belongs to its caller only", async () => {
  const session = await store.openSession(AGENT);
  expect(session).toMatchObject({ issuer: AGENT.issuer, subject: AGENT.subject, mode: "default" });
  expect(await store.findSession(session.id, AGENT)).toEqual(session);
  expect(await store.findSession(session.id, { ...AGENT, subject: "agent-2" })).toBeUndefined();
  expect(await store.findSession(session.id, { ...AGENT, issuer: "https://other.example" })).toBeUndefined();
});

test("one session too many ends the caller's oldest and nobody else's", async () => {
  await store.close();
  store = await world.open({ sessionsPerCallerMax: 3 });
  const other = await store.openSession({ ...AGENT, subject: "agent-2" });
  const ids: string[] = [];
  for (let index = 0; index < 5; index += 1) {
    world.now += 1;
    ids.push((await store.openSession(AGENT)).id);
  }
  expect((await store.listSessions()).map(({ id }) => id)).toEqual([...ids.slice(2).reverse(), other.id]);
});

const MODES: readonly (readonly [
  title: string,
  mode: "default" | "autoEdit" | "yolo",
  forMs: number,
  want: unknown,
])[] = [
  ["for an hour", "yolo", HOUR_MS, { mode: "yolo", forMs: HOUR_MS }],
  ["for longer than allowed", "autoEdit", 100 * HOUR_MS, { mode: "autoEdit", forMs: 8 * HOUR_MS }],
  ["for ever", "yolo", Number.POSITIVE_INFINITY, { mode: "yolo", forMs: 8 * HOUR_MS }],
  ["until now", "yolo", 0, { mode: "default" }],
  ["until yesterday", "yolo", -24 * HOUR_MS, { mode: "default" }],
  ["until nobody knows when", "yolo", Number.NaN, { mode: "default" }],
  ["default", "default", HOUR_MS, { mode: "default" }],
];

test.each(MODES)("APR-27: a mode %s", async (_title, mode, forMs, want) => {
  const { id } = await store.openSession(AGENT);
  const session = await store.setMode({ id, mode, until: world.now + forMs, by: OPERATOR });
  const until = session?.modeUntil;
  expect({ mode: session?.mode, ...(until !== undefined && { forMs: until - world.now }) }).toEqual(want as never);
  expect(await store.findSession(id, AGENT)).toEqual(session);
});

test("APR-27: a mode expires, with and without the sweeper", async () => {
  const { id } = await store.openSession(AGENT);
  await store.setMode({ id, mode: "yolo", until: world.now + HOUR_MS, by: OPERATOR });
  world.now += HOUR_MS;
  const found = await store.findSession(id, AGENT);
  expect([found?.mode, found?.modeUntil]).toEqual(["default", undefined]);
  await store.sweep();
  world.now -= 1_000;
  expect((await store.findSession(id, AGENT))?.mode).toBe("default");
  expect(world.lines.at(-1)).toMatchObject({ type: "session.mode", id, mode: "default" });
});

test("a mode for an unknown session needs its owner's name", async () => {
  const change = { id: "sid-9", mode: "yolo" as const, until: world.now + HOUR_MS, by: OPERATOR };
  expect(await store.setMode(change)).toBeUndefined();
  expect((await store.setMode({ ...change, requester: AGENT }))?.mode).toBe("yolo");
  expect((await store.setMode({ ...change, mode: "autoEdit" }))?.mode).toBe("autoEdit");
});
