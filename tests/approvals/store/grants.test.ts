import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import fc from "fast-check";
import { type BoundedCall, type GrantBounds, offerFor } from "../../../src/approvals/grants.ts";
import type { Approval, Approvals, Claimed } from "../../../src/approvals/types.ts";
import { AGENT, type ApprovalWorld, askFor, claimOf, createApprovalWorld, OPERATOR } from "../../support/approvals.ts";

const MINUTE_MS = 60_000;
const OFFERED = { runs: 5, minutes: 30, arguments: { note: "any" } } as const;

const CALL: BoundedCall = {
  ...{ requester: AGENT, boundsKey: "7".repeat(64), input: { to: "ann", note: "first" }, isElevated: false },
  ...{ risk: "medium", rules: ["default"] },
};

let world: ApprovalWorld;
beforeEach(() => {
  world = createApprovalWorld();
});
afterEach(() => world.end());

/** Asks with an offer, and approves with a grant of this many runs and minutes. */
async function granted(store: Approvals, { runs = 5, minutes = 30, plan = "d" } = {}): Promise<Approval> {
  const planDigest = plan.repeat(64);
  const offer = offerFor(CALL, OFFERED, planDigest) as GrantBounds;
  const { id } = await askFor(store, { planDigest, offer, scopes: ["once", "session", "bounded"] });
  const decided = await store.decide({
    ...{ id, by: OPERATOR, decision: "approve", scope: "bounded", grant: { runs, minutes } },
  });
  if (decided.outcome !== "decided") throw new Error(`not decided but ${decided.outcome}`);
  return decided.approval;
}

/** Uses a run, as the gate does. */
async function run(store: Approvals, call: BoundedCall = CALL): Promise<boolean> {
  for (const { id } of await store.findBoundedGrants(call)) {
    if ((await store.useGrant(id, "trace")) !== undefined) return true;
  }
  return false;
}

const stateOf = (claimed: Claimed) => ("approval" in claimed ? claimed.approval.state : claimed.outcome);

test("a grant is used as often as it says, and the journal has each run before it counts", async () => {
  const store = await world.open();
  await granted(store, { runs: 2 });
  expect([await run(store), await run(store), await run(store)]).toEqual([true, true, false]);
  const used = world.lines.filter(({ type }) => type === "grant.used");
  expect(used.map((line) => [line["run"], line["of"]])).toEqual([
    [1, 2],
    [2, 2],
  ]);
  expect(await store.listGrants({})).toEqual([]);
});

test("a run that cannot be journaled is not counted, and does not happen", async () => {
  const store = await world.open();
  await granted(store, { runs: 1 });
  world.journal = () => Promise.reject(new Error("disk full"));
  await expect(run(store)).rejects.toThrow("disk full");
  world.journal = undefined;
  expect([await run(store), await run(store)]).toEqual([true, false]);
});

test("a run that was counted before a crash is lost", async () => {
  const before = await world.open();
  await granted(before, { runs: 2 });
  const [grant] = await before.findBoundedGrants(CALL);
  await before.useGrant(grant?.id ?? "", "trace");
  const after = await world.open();
  expect([await run(after), await run(after)]).toEqual([true, false]);
});

test("a grant ends after its minutes, by the store's clock, and no later than grants of sessions", async () => {
  const store = await world.open({ grantSeconds: 600 });
  await granted(store, { minutes: 5 });
  world.now += 5 * MINUTE_MS - 1;
  expect(await run(store)).toBe(true);
  world.now += 1;
  expect(await run(store)).toBe(false);
  await granted(store, { minutes: 30, plan: "e" });
  world.now += 10 * MINUTE_MS;
  expect(await run(store)).toBe(false);
});

test("an approval cannot be claimed after the minutes of its grant", async () => {
  const store = await world.open();
  const approval = await granted(store, { minutes: 1 });
  expect((approval.executeBy ?? 0) - world.now).toBe(MINUTE_MS);
  world.now += MINUTE_MS;
  expect(stateOf(await store.claim(claimOf(approval)))).toBe("expired");
});

test("two grants within the same bounds have runs of their own, and the one that ends first is used first", async () => {
  const store = await world.open();
  await granted(store, { runs: 1, minutes: 20 });
  await granted(store, { runs: 1, minutes: 10, plan: "e" });
  const [first, second] = await store.findBoundedGrants(CALL);
  expect((first?.expiresAt ?? 0) - (second?.expiresAt ?? 0)).toBe(-10 * MINUTE_MS);
  expect([await run(store), await run(store), await run(store)]).toEqual([true, true, false]);
});

test("another session of the caller finds nothing, whatever key it has", async () => {
  const store = await world.open();
  await granted(store);
  for (const session of ["sid-2", undefined]) {
    expect(await store.findBoundedGrants({ ...CALL, requester: { ...AGENT, session } })).toEqual([]);
  }
  expect(await store.findBoundedGrants({ ...CALL, requester: { ...AGENT, subject: "other" } })).toEqual([]);
});

test.each([
  [
    "is revoked",
    async (store: Approvals, { id }: Approval) => void (await store.revokeGrant(await grantOf(store, id), OPERATOR)),
  ],
  ["ends with its approval", async (store: Approvals, { id }: Approval) => void (await store.revoke(id, OPERATOR))],
  ["ends with its tool's grants", async (store: Approvals) => store.revokeGrantsFor(["deploy"], OPERATOR)],
  ["ends with its session", async (store: Approvals) => void (await store.endSession(AGENT.session ?? "", OPERATOR))],
])("a grant that %s has no run left, and its approval cannot be claimed", async (_title, end) => {
  const store = await world.open();
  const approval = await granted(store);
  const [grant] = await store.findBoundedGrants(CALL);
  await end(store, approval);
  expect(await store.findBoundedGrants(CALL)).toEqual([]);
  expect(await store.useGrant(grant?.id ?? "", "trace")).toBeUndefined();
  expect(stateOf(await store.claim(claimOf(approval)))).toBe("revoked");
  expect(world.lines.some(({ type }) => type === "grant.revoked")).toBe(true);
});

async function grantOf(store: Approvals, approvalId: string): Promise<string> {
  return (await store.listGrants({})).find((grant) => grant.approvalId === approvalId)?.id ?? "";
}

describe("whatever the order of runs, claims, revocations, restarts and the clock,", () => {
  type Step = {
    readonly kind: "run" | "claim" | "stale" | "revoke" | "reopen" | "clock" | "journal";
    readonly at: number;
  };
  const step: fc.Arbitrary<Step> = fc.record({
    kind: fc.constantFrom(
      ...(["run", "run", "run", "run", "claim", "stale", "stale", "reopen", "clock", "journal", "revoke"] as const),
    ),
    at: fc.nat({ max: 1 }),
  });

  test("no more calls run than were granted, and none after the grant has ended", async () => {
    let runs = 0;
    let refusals = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 5 }),
        fc.array(fc.array(step, { minLength: 1, maxLength: 6 }), { minLength: 1, maxLength: 6 }),
        async (max, batches) => {
          const own = createApprovalWorld();
          try {
            const stores = [await own.open(), await own.open()];
            const approval = await granted(stores[0] as Approvals, { runs: max, minutes: 2 });
            const endsAt = own.now + 2 * MINUTE_MS;
            const [grant] = await (stores[0] as Approvals).findBoundedGrants(CALL);
            let done = 0;
            let isRevoked = false;
            const take = async (one: Step): Promise<void> => {
              const store = stores[one.at] as Approvals;
              const wasOver = own.now >= endsAt || isRevoked;
              let isRun = false;
              if (one.kind === "run") isRun = await run(store);
              // A grant that was found a while ago, by a call that lost the race.
              if (one.kind === "stale") isRun = (await store.useGrant(grant?.id ?? "", "trace")) !== undefined;
              if (one.kind === "claim") isRun = (await store.claim(claimOf(approval))).outcome === "claimed";
              if (isRun) {
                expect(wasOver).toBe(false);
                done += 1;
                runs += 1;
              } else refusals += 1;
            };
            for (const batch of batches) {
              for (const { kind, at } of batch) {
                if (kind === "clock") own.now += 30_000;
                if (kind === "revoke" && batch.length > 4)
                  isRevoked ||= await (stores[at] as Approvals).revokeGrant(grant?.id ?? "", OPERATOR);
                if (kind === "reopen") {
                  await stores[at]?.close();
                  stores[at] = await own.open();
                }
              }
              const isFailing = batch.some(({ kind }) => kind === "journal");
              own.journal = isFailing ? () => Promise.reject(new Error("disk full")) : undefined;
              const settled = await Promise.allSettled(batch.map(take));
              own.journal = undefined;
              const problems = settled.flatMap((one) => (one.status === "rejected" ? [String(one.reason)] : []));
              expect(problems.filter((problem) => !problem.includes("disk full"))).toEqual([]);
              expect(done).toBeLessThanOrEqual(max);
            }
            const isOver = own.now >= endsAt || isRevoked;
            const left = isOver ? 0 : max - done;
            for (let more = 0; more < left; more += 1) expect(await run(stores[1] as Approvals)).toBe(true);
            expect(await run(stores[0] as Approvals)).toBe(false);
            expect((await (stores[0] as Approvals).claim(claimOf(approval))).outcome).toBe("not_approved");
          } finally {
            await own.end();
          }
        },
      ),
      { numRuns: 40, seed: 19 },
    );
    expect(runs).toBeGreaterThan(40);
    expect(refusals).toBeGreaterThan(40);
  });
});
