import { afterAll, beforeAll, expect, test } from "bun:test";
import { changes, KINDS } from "../runtime/replay/policy-changes.ts";
import { expectReported, mixture, ReplayWorld, usualPolicy } from "../runtime/replay/replay-world.ts";
import { rounds } from "../support/rounds.ts";

/**
 * A call has a tool, a caller, a tier, a range of its amount, and may be in a session, approved, or wrong: these are some hundreds of
 * combinations, each of which comes often among ten thousand calls.
 */
const MANY = rounds({ few: 10_000, many: 100_000 });
const CALLS = 400;
/** Each kind of change, with values of its own each time. */
const CHANGES = KINDS.length * rounds({ few: 2, many: 4 });
const AT_ONCE = 64;

const world = new ReplayWorld();
const calls = mixture(CALLS, 7);
let before: ReadonlyMap<string, string>;
const counts: number[] = [];
beforeAll(async () => {
  await world.start(usualPolicy(), "audit");
  before = await world.play(calls, AT_ONCE);
  await world.stop();
}, 300_000);
afterAll(() => world.end());

test.each(changes(CHANGES))(
  "a replay reports exactly the verdicts that a rerun shows to differ: %s",
  async (_name, change) => {
    const policy = change(usualPolicy());
    const report = await world.replay(policy, "audit");
    await world.start(policy, "audit-again");
    const after = await world.play(calls, AT_ONCE);
    await world.stop();
    world.removeAudit("audit-again");
    counts.push(expectReported({ calls, before, after }, report));
  },
  120_000,
);

test("most of these changes alter verdicts", () => {
  expect(counts.filter((count) => count > 0).length).toBeGreaterThan(CHANGES * 0.6);
});

test(`an unchanged configuration shows no difference on ${MANY} recorded calls`, async () => {
  await world.start(usualPolicy(), "audit-many");
  const played = await world.play(mixture(MANY, 11), AT_ONCE);
  await world.stop();
  const heapBefore = process.memoryUsage().rss;
  const startedAt = performance.now();
  const report = await world.replay(usualPolicy(), "audit-many");
  const seconds = (performance.now() - startedAt) / 1_000;
  console.log(
    `replayed ${report.calls} calls in ${seconds.toFixed(1)} s, ${((process.memoryUsage().rss - heapBefore) / 1e6).toFixed(0)} MB more`,
  );
  const { changed, notJudged, leftOut } = report;
  expect({ changed, notJudged, leftOut }).toEqual({ changed: 0, notJudged: {}, leftOut: {} });
  expect(report.calls).toBe(played.size);
  expect(report.unchanged).toBe(played.size);
  expect(played.size).toBeGreaterThanOrEqual(MANY);
}, 1_200_000);
