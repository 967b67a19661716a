import { afterAll, beforeAll, expect, test } from "bun:test";
import fc from "fast-check";
import { BEFORE, KINDS, MANIFESTS, OrderWorld, type Session, type Situation } from "./order-world.ts";

const near = new OrderWorld();
const remote = new OrderWorld({ isRemote: true });
beforeAll(() => Promise.all([near.open(), remote.open()]));
afterAll(() => Promise.all([near.end(), remote.end()]));

const MODES = ["default", "autoEdit", "yolo"] as const;
const MANIFEST_NAMES = Object.keys(MANIFESTS) as (keyof typeof MANIFESTS)[];

/** Expects that the dry run says how the call ends, and so does the judgement where nothing was stored before. */
async function expectAgreement(world: OrderWorld, situation: Situation): Promise<string> {
  const { foreseen, judged, ended } = await world.endings(situation);
  const { verdict, message, details } = ended;
  expect(foreseen).toEqual(verdict === "allow" || verdict === "ask" ? { verdict } : { verdict, message, details });
  const { stored, session, isHalted } = situation;
  const isRemembered = stored !== undefined && (stored.before !== "nothing" || session === "ended");
  if (!isRemembered && !isHalted) expect(judged).toEqual([{ verdict, by: ended.by }]);
  return `${verdict} ${ended.by?.replace(/^grant:.*/, "grant") ?? ""}`.trim();
}

/** Every combination of one value of each list. */
function combinations(lists: { readonly [Name in keyof Situation]: readonly Situation[Name][] }): readonly Situation[] {
  return Object.entries(lists).reduce<readonly Partial<Situation>[]>(
    (all, [name, values]) => all.flatMap((one) => values.map((value) => ({ ...one, [name]: value }))),
    [{}],
  ) as readonly Situation[];
}

test("without a store, a dry run and the judgement say how every combination ends", async () => {
  const all = combinations({
    kind: KINDS,
    isRisky: [false],
    manifest: MANIFEST_NAMES,
    rule: ["none", "asks", "denies"],
    point: ["allows", "asks", "denies"],
    flow: ["none", "asks"],
    policy: ["none", "people"],
    mode: MODES,
    callback: ["none", "allows"],
    isHalted: [false],
    session: ["none", "of the token"],
  });
  const seen = new Set<string>();
  for (const situation of all) seen.add(await expectAgreement(near, situation));
  expect([...seen].sort()).toEqual([
    "APPROVAL_DENIED",
    "POLICY_DENIED",
    "allow category:read",
    "allow mode:autoEdit",
    "allow mode:yolo",
    "allow needsApproval",
    "ask",
  ]);
}, 120_000);

/** Mostly what decides nothing, so that most calls reach the later rules. */
const mostly = <Value>(usual: Value, ...others: readonly Value[]): fc.Arbitrary<Value> =>
  fc.oneof({ weight: 4, arbitrary: fc.constant(usual) }, { weight: 2, arbitrary: fc.constantFrom(...others) });

const situations: fc.Arbitrary<Situation> = fc.record({
  kind: mostly<Situation["kind"]>(["write", "write"], ...KINDS),
  isRisky: mostly(false, false, true),
  manifest: mostly<Situation["manifest"]>("none", ...MANIFEST_NAMES),
  rule: mostly<Situation["rule"]>("none", "asks", "denies"),
  point: mostly<Situation["point"]>("allows", "asks", "asks each time", "denies"),
  flow: mostly<Situation["flow"]>("none", "none", "asks"),
  policy: mostly<Situation["policy"]>("none", "people", "people or callback"),
  mode: mostly<Situation["mode"]>("default", "autoEdit", "yolo"),
  callback: mostly<Situation["callback"]>("none", "allows", "denies", "changes"),
  isHalted: mostly(false, false, true),
  session: mostly<Session>("of the token", "none", "opened", "invented", "ended"),
  stored: fc.record({
    sessionMode: mostly<(typeof MODES)[number] | undefined>(undefined, ...MODES),
    before: fc.constantFrom(...BEFORE),
    newApproval: mostly(false, false, true),
    attaches: mostly(true, true, false),
  }),
});

test.each([
  ["a store", near],
  ["a remote store", remote],
])(
  "with %s, a dry run says how the call ends, whatever happened to the same call before",
  async (_title, world) => {
    const seen = new Set<string>();
    await fc.assert(
      fc.asyncProperty(situations, async (situation) => {
        seen.add(await expectAgreement(world, situation));
      }),
      { numRuns: 400 },
    );
    // The situations that are drawn end in every way that the order has.
    expect([...seen].filter((ending) => !ending.startsWith("allow human:")).sort()).toEqual([
      "APPROVAL_DENIED",
      "APPROVAL_REVOKED",
      "CALL_IN_PROGRESS",
      "HALTED",
      "POLICY_DENIED",
      "allow category:read",
      "allow grant",
      "allow mode:autoEdit",
      "allow mode:yolo",
      "allow needsApproval",
      "ask",
    ]);
    expect([...seen].some((ending) => ending.startsWith("allow human:"))).toBe(true);
  },
  120_000,
);
