import { expect } from "bun:test";
import type { ApprovalState, Approvals } from "../../src/approvals/types.ts";
import { type ApprovalWorld, approvedBy, askFor, claimedFrom } from "./approvals.ts";
import { childCommand, DYING_ACTS, type DyingAct } from "./approvals-child.ts";

const ENDS: Readonly<Record<DyingAct, readonly [before: ApprovalState | "nothing", after: ApprovalState]>> = {
  ask: ["nothing", "pending"],
  approve: ["pending", "approved"],
  deny: ["pending", "denied"],
  claim: ["approved", "claimed"],
  settle: ["claimed", "executed"],
  cancel: ["pending", "cancelled"],
  revoke: ["approved", "revoked"],
  sweep: ["pending", "expired"],
};

/** Each act, killed before its commit and after its answer. */
export const KILLS = DYING_ACTS.flatMap((act) =>
  (["journaling", "answered"] as const).map((when) => [act, when] as const),
);

function prepare(store: Approvals, before: ApprovalState | "nothing"): Promise<{ readonly id: string }> {
  if (before === "approved") return approvedBy(store);
  if (before === "claimed") return claimedFrom(store);
  return before === "nothing" ? Promise.resolve({ id: "nothing" }) : askFor(store);
}

/** A process of its own dies in the act: the state is the one before or the one after, and the store works. */
export async function expectKillSurvived(
  world: ApprovalWorld,
  act: DyingAct,
  when: "journaling" | "answered",
): Promise<void> {
  const [before, after] = ENDS[act];
  const store = await world.open();
  const { id } = await prepare(store, before);
  await store.close();
  const asked = world.now;
  if (act === "sweep") world.now += 600_000;
  const child = Bun.spawn(childCommand(world, world.now, { kind: "die", act, id, when }), { stderr: "inherit" });
  await child.exited;
  expect(child.signalCode).toBe("SIGKILL");
  world.now = asked;
  const next = await world.open();
  const [only] = (await next.list({ limit: 10 })).approvals;
  // At the time of the asking nothing has expired by the clock: what is told is what was written down.
  expect(only?.state ?? "nothing").toBe(when === "answered" ? after : before);
  await askFor(next, { planDigest: "another" });
}
