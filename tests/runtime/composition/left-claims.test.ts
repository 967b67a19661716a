import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import type { Approvals } from "../../../src/approvals/types.ts";
import type { AuditLog } from "../../../src/audit/audit-log.ts";
import type { EntryDraft } from "../../../src/audit/entry.ts";
import { intentLine } from "../../../src/audit/journal/journal.ts";
import { HubRefusal, HubUnavailable } from "../../../src/hub/errors.ts";
import { endLeftClaims } from "../../../src/runtime/composition/left-claims.ts";
import type { Config } from "../../../src/runtime/config/config.ts";
import { createWorld, draftOf, type World } from "../../audit/support/open.ts";
import { type ApprovalWorld, claimedFrom, createApprovalWorld } from "../../support/approvals.ts";
import { byHub, WAYS } from "../../support/hub-approvals.ts";
import { turns } from "../../support/until.ts";

let log: World;
let world: ApprovalWorld;
let store: Approvals;
let audit: AuditLog;

async function open(makeWorld: () => ApprovalWorld): Promise<void> {
  world = makeWorld();
  store = await world.open();
  audit = log.open();
  await audit.journal({ type: "service.started" });
  world.claimant = audit.id();
}

beforeEach(() => {
  log = createWorld();
});
afterEach(async () => {
  await log.end();
  await world.end();
});

/** Makes a claim of the process that writes the log, each for another plan. */
let plans = 0;
async function claimed(): Promise<string> {
  plans += 1;
  return (await claimedFrom(store, { planDigest: String(plans).padStart(64, "0") })).id;
}

const { caller, request } = draftOf("");
const tool = { name: "add", classification: "write", targetSystem: "shop" } as const;

/** Writes the lines that a call with this approval leaves in the log. */
const intended = (id: string) =>
  audit.journal(intentLine({ traceId: `t-${id}`, caller, tool, request, approval: { id, by: "human:bob" } }));
const ended = (id: string, more: Partial<EntryDraft> = {}) =>
  audit.append(draftOf(`t-${id}`, { approval: { id, by: "human:bob" }, ...more }));

/** The process is killed, and starts again. */
async function restarted(approvals: Approvals, isConnected?: () => boolean) {
  await log.stop();
  audit = log.open();
  const errors: unknown[] = [];
  const config = { audit: { dir: log.dir }, folder: "/" } as unknown as Config;
  const logError = (...error: readonly unknown[]) => void errors.push(error[0]);
  const isUnavailable = (error: unknown) => error instanceof HubUnavailable;
  const member = isConnected && { isConnected, isUnavailable };
  return { errors, left: await endLeftClaims(config, { audit, approvals, clock: () => log.now, logError, member }) };
}

async function nextStart(approvals: Approvals = store): Promise<readonly unknown[]> {
  const { errors, left } = await restarted(approvals);
  expect(left.open).toBeUndefined();
  return errors;
}

const stateOf = async (id: string) => (await store.get(id))?.state;

test.each(WAYS)(
  "by way of %s, the next start knows which calls were answered; all others are in doubt",
  async (_way, make) => {
    await open(make);
    const [before, running, answered, refused] = [await claimed(), await claimed(), await claimed(), await claimed()];
    for (const id of [running, answered, refused]) await intended(id);
    await ended(answered);
    await ended(refused, { decision: "ERROR", error: { code: "TARGET_UNAVAILABLE" } });
    world.claimant = "another log";
    const others = await claimed();
    world.claimant = audit.id();
    expect(await nextStart()).toEqual([]);
    const states = await Promise.all([before, running, answered, refused, others].map(stateOf));
    expect(states).toEqual(["in_doubt", "in_doubt", "executed", "in_doubt", "claimed"]);
  },
);

test.each(WAYS)("by way of %s, a start after the leases have ended settles the answered calls", async (_way, make) => {
  await open(make);
  const [answered, also, refused] = [await claimed(), await claimed(), await claimed()];
  for (const id of [answered, also, refused]) await intended(id);
  await ended(answered);
  await ended(refused, { decision: "ERROR", error: { code: "TARGET_UNAVAILABLE" } });
  await ended(also);
  world.now += 16 * 60_000;
  await store.sweep();
  const all = [answered, also, refused];
  expect(await Promise.all(all.map(stateOf))).toEqual(["in_doubt", "in_doubt", "in_doubt"]);
  expect(await nextStart()).toEqual([]);
  expect(await Promise.all(all.map(stateOf))).toEqual(["executed", "executed", "in_doubt"]);
});

test("of many claims, each answered one is settled", async () => {
  await open(() => createApprovalWorld());
  const ids: string[] = [];
  for (let call = 0; call < 20; call += 1) {
    const id = await claimed();
    ids.push(id);
    if (call % 2 === 0) await ended(id);
    await audit.append(draftOf(`other-${call}`));
  }
  expect(await nextStart()).toEqual([]);
  const states = await Promise.all(ids.map(stateOf));
  expect(states).toEqual(ids.map((_, call) => (call % 2 === 0 ? "executed" : "in_doubt")));
});

test("a start that is killed, or has no store, before it has settled an answered call leaves it to the next one", async () => {
  await open(() => createApprovalWorld(undefined, byHub));
  const answered = await claimed();
  await intended(answered);
  await ended(answered);
  const away = (name: "claimsOf" | "settle"): Approvals => ({
    ...store,
    [name]: () => Promise.reject(new Error("the store is away")),
  });
  for (const name of ["claimsOf", "settle"] as const) {
    expect(await nextStart(away(name))).toEqual(["the claims that a crash has left could not be settled"]);
    expect(await stateOf(answered)).toBe("claimed");
  }
  expect(await nextStart()).toEqual([]);
  expect(await stateOf(answered)).toBe("executed");
});

describe("a member that starts while its hub is away", () => {
  const away = () => Promise.reject(new HubUnavailable("no answer"));

  test.each(["claimsOf", "settle", "doubtClaimsOf"] as const)(
    "settles what it has left when the hub is back, from %s on",
    async (name) => {
      await open(() => createApprovalWorld(undefined, byHub));
      const [answered, running] = [await claimed(), await claimed()];
      await intended(answered);
      await ended(answered);
      let isBack = false;
      const calls: string[] = [];
      const reach = store[name] as (...of: readonly unknown[]) => Promise<unknown>;
      const approvals: Approvals = {
        ...store,
        [name]: (...of: readonly unknown[]) => (isBack ? reach(...of) : away()),
      };
      approvals.resolveDoubt = async () => void calls.push("resolveDoubt");
      const { errors, left } = await restarted(approvals, () => isBack);
      expect(left.open).toBeDefined();
      await left.resolveDoubt({ claimant: "a", approvalId: answered, key: undefined, startedAt: 0, isDone: true });
      expect(await stateOf(running)).toBe("claimed");
      expect(calls).toEqual([]);
      isBack = true;
      await left.open;
      expect([await stateOf(answered), await stateOf(running), errors]).toEqual(["executed", "in_doubt", []]);
      await turns();
      expect(calls).toEqual(["resolveDoubt"]);
      await left.close();
    },
  );

  test("logs what is left, and does not try again, when the hub is back and refuses it", async () => {
    await open(() => createApprovalWorld(undefined, byHub));
    const running = await claimed();
    let isBack = false;
    const refused = () => Promise.reject(new HubRefusal(401, "UNAUTHENTICATED", "unknown"));
    const approvals: Approvals = { ...store, claimsOf: () => (isBack ? refused() : away()) };
    const { errors, left } = await restarted(approvals, () => isBack);
    isBack = true;
    await left.open;
    expect([await stateOf(running), errors]).toEqual([
      "claimed",
      ["the claims that a crash has left could not be settled"],
    ]);
  });

  test("ends without having reached the hub", async () => {
    await open(() => createApprovalWorld(undefined, byHub));
    const running = await claimed();
    const { errors, left } = await restarted({ ...store, claimsOf: away }, () => false);
    await left.close();
    expect([await stateOf(running), errors]).toEqual(["claimed", []]);
  });
});
