import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { changes } from "./policy-changes.ts";
import { expectReported, mixture, ReplayWorld, usualPolicy } from "./replay-world.ts";

const CALLS = 300;
const world = new ReplayWorld();
const calls = mixture(CALLS, 1);
let before: ReadonlyMap<string, string>;
beforeAll(async () => {
  await world.start(usualPolicy(), "audit");
  before = await world.play(calls);
  await world.stop();
}, 120_000);
afterAll(() => world.end());

test("the recorded calls are a mixture", () => {
  const counts = Map.groupBy(before.values(), (outcome) => outcome);
  for (const outcome of ["allow", "ask", "PERMISSION_DENIED", "POLICY_DENIED", "INVALID_INPUT", "TOOL_NOT_FOUND"])
    expect([outcome, (counts.get(outcome)?.length ?? 0) > 5]).toEqual([outcome, true]);
});

test("an unchanged configuration changes no verdict, and judges every call", async () => {
  const report = await world.replay(usualPolicy(), "audit");
  const { changed, notJudged, leftOut, unchanged } = report;
  expect({ changed, notJudged, leftOut }).toEqual({ changed: 0, notJudged: {}, leftOut: {} });
  expect(unchanged).toBe(before.size);
  expect(report.calls).toBe(before.size);
});

describe("each policy change is reported with the verdicts that a rerun shows", () => {
  test.each(changes(8))(
    "%s",
    async (_name, change) => {
      const policy = change(usualPolicy());
      const report = await world.replay(policy, "audit");
      await world.start(policy, "audit-again");
      const after = await world.play(calls);
      await world.stop();
      world.removeAudit("audit-again");
      expectReported({ calls, before, after }, report);
    },
    60_000,
  );
});
