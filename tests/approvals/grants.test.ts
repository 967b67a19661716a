import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import {
  type BoundedCall,
  chosenTerms,
  type GrantBounds,
  type GrantTerms,
  isCovered,
  narrowest,
  offerFor,
  readBounds,
  termsInWords,
  type VaryingBound,
} from "../../src/approvals/grants.ts";
import type { ArgumentBound } from "../../src/core/types.ts";

const REQUESTER = { issuer: "i", subject: "s", actors: [], session: undefined };
const SALT = "5".repeat(64);

function callOf(input: unknown, more: Partial<BoundedCall> = {}): BoundedCall {
  return {
    ...{ requester: REQUESTER, boundsKey: "k", input, isElevated: false, risk: "medium", rules: ["default"] },
    ...more,
  };
}

const value = fc.oneof(
  fc.constantFrom("a", "b", "A", "", "a\u200b", "1", "true", "constructor", "__proto__"),
  fc.integer({ min: -3, max: 12 }),
  fc.constantFrom(0.5, -0, 1e3, Number.MAX_SAFE_INTEGER),
  fc.boolean(),
  fc.constant(null),
  fc.array(fc.constantFrom("a", 1), { maxLength: 2 }),
  fc.record({ a: fc.constantFrom(1, 2) }),
);
const name = fc.constantFrom("x", "y", "z", "constructor", "toString");
const input = fc.dictionary(name, value, { maxKeys: 4 });
const range = fc
  .tuple(fc.integer({ min: -2, max: 6 }), fc.integer({ min: 0, max: 6 }))
  .map(([min, more]) => ({ min, max: min + more }));
const scalar = fc.constantFrom<(string | number | boolean | null)[]>("a", "b", "1", 0, 1, 5, true, null);
const varying: fc.Arbitrary<VaryingBound> = fc.oneof(
  fc.constant("any" as const),
  fc.uniqueArray(scalar, { minLength: 1, maxLength: 4 }).map((oneOf) => ({ oneOf })),
  range,
);
const terms: fc.Arbitrary<GrantTerms> = fc.record({
  runs: fc.integer({ min: 1, max: 9 }),
  minutes: fc.integer({ min: 1, max: 9 }),
  arguments: fc.dictionary(name, varying, { maxKeys: 3 }),
});

/** What the documentation says of one argument. */
function isAllowed(bound: ArgumentBound, given: unknown, approved: unknown): boolean {
  if (bound === "any") return true;
  if (bound === "equal") return JSON.stringify(given) === JSON.stringify(approved);
  if ("oneOf" in bound) return bound.oneOf.includes(given as never);
  return typeof given === "number" && given >= (bound.min ?? 0) && given <= bound.max;
}

function boundOf({ arguments: bounds }: GrantTerms, of: string): ArgumentBound {
  return Object.hasOwn(bounds, of) ? (bounds[of] ?? "equal") : "equal";
}

function areAllowed(granted: GrantTerms, given: Record<string, unknown>, approved: Record<string, unknown>): boolean {
  const names = new Set([...Object.keys(given), ...Object.keys(approved), ...Object.keys(granted.arguments)]);
  const of = (table: Record<string, unknown>, key: string) => (Object.hasOwn(table, key) ? table[key] : undefined);
  return [...names].every((key) => isAllowed(boundOf(granted, key), of(given, key), of(approved, key)));
}

describe("the calls that a grant covers", () => {
  test("are those in which every argument is within its bound, and the others as they were", () => {
    let covered = 0;
    fc.assert(
      fc.property(input, input, fc.boolean(), terms, (approved, other, isNear, offered) => {
        const offer = offerFor(callOf(approved), offered, SALT);
        expect(offer !== undefined).toBe(areAllowed(offered, approved, approved));
        if (offer === undefined) return;
        const given = isNear ? { ...approved, ...other } : other;
        const expected = areAllowed(offered, given, approved);
        if (expected) covered += 1;
        expect(isCovered(offer, callOf(given))).toBe(expected);
        // As it is stored.
        const stored = readBounds(JSON.parse(JSON.stringify(offer))) as GrantBounds;
        expect(isCovered(stored, callOf(given))).toBe(expected);
      }),
      { numRuns: 3_000, seed: 19 },
    );
    expect(covered).toBeGreaterThan(100);
  });

  test.each([
    ["of another tool, caller or session", { boundsKey: "other" }],
    ["of higher risk", { risk: "high" }],
    ["with a rule that did not match then", { rules: ["default", "operator:new"] }],
    ["that need more permissions", { isElevated: true }],
  ] as const)("are none %s", (_title, more) => {
    const offer = offerFor(callOf({ x: 1 }), { runs: 1, minutes: 1 }, SALT);
    expect(offer && isCovered(offer, callOf({ x: 1 }))).toBe(true);
    expect(offer && isCovered(offer, callOf({ x: 1 }, more))).toBe(false);
  });

  test("are none whose approved arguments were not JSON, and no later value that is not JSON is equal", () => {
    expect(offerFor(callOf({ x: new Map() }), { runs: 1, minutes: 1 }, SALT)).toBeUndefined();
    expect(offerFor(callOf({ x: 1n }), { runs: 1, minutes: 1 }, SALT)).toBeUndefined();
    const offer = offerFor(callOf({ x: 1 }), { runs: 1, minutes: 1 }, SALT);
    expect(offer && isCovered(offer, callOf({ x: 1n }))).toBe(false);
    expect(offer && isCovered(offer, callOf({ x: Number.NaN }))).toBe(false);
  });

  test("hold no argument, and equal arguments of two calls look different", () => {
    const [one, other] = [SALT, "6".repeat(64)].map((salt) =>
      JSON.stringify(offerFor(callOf({ account: "DE02120300000000202051" }), { runs: 1, minutes: 1 }, salt)?.digests),
    );
    expect(one).not.toContain("DE0212");
    expect(one).not.toBe(other);
  });
});

describe("several approvers", () => {
  test("agree on what each of them would have covered alone, or on the approved call", () => {
    fc.assert(
      fc.property(fc.array(terms, { minLength: 1, maxLength: 4 }), input, (all, given) => {
        const agreed = narrowest(all as [GrantTerms, ...GrantTerms[]]);
        expect(agreed.runs).toBe(Math.min(...all.map(({ runs }) => runs)));
        expect(agreed.minutes).toBe(Math.min(...all.map(({ minutes }) => minutes)));
        for (const key of Object.keys(given)) {
          const bound = boundOf(agreed, key);
          const own = Object.hasOwn(given, key) ? given[key] : undefined;
          if (bound === "equal" || !isAllowed(bound, own, undefined)) continue;
          for (const one of all) expect(isAllowed(boundOf(one, key), own, undefined)).toBe(true);
        }
      }),
      { numRuns: 2_000, seed: 19 },
    );
  });

  test("agree on the same, in whatever order they vote", () => {
    fc.assert(
      fc.property(terms, terms, input, (one, other, given) => {
        const [there, back] = [narrowest([one, other]), narrowest([other, one])];
        for (const key of Object.keys(given)) {
          const allows = (agreed: GrantTerms) => isAllowed(boundOf(agreed, key), given[key], Symbol("approved"));
          expect(allows(there)).toBe(allows(back));
        }
      }),
      { numRuns: 1_000, seed: 19 },
    );
  });

  test("can choose nothing that covers a call outside the offer", () => {
    let chosen = 0;
    fc.assert(
      fc.property(terms, terms, fc.array(value, { maxLength: 6 }), (offered, wanted, values) => {
        const given = chosenTerms(offered, wanted);
        if ("field" in given) return;
        chosen += 1;
        expect(given.runs).toBeLessThanOrEqual(offered.runs);
        expect(given.minutes).toBeLessThanOrEqual(offered.minutes);
        for (const key of Object.keys(given.arguments)) {
          for (const one of values) {
            if (!isAllowed(boundOf(given, key), one, undefined)) continue;
            expect(isAllowed(boundOf(offered, key), one, undefined)).toBe(true);
          }
        }
      }),
      { numRuns: 4_000, seed: 19 },
    );
    expect(chosen).toBeGreaterThan(100);
  });
});

test("words name every argument, and show what would not be seen", () => {
  const offered = { runs: 1, minutes: 1, arguments: { b: { oneOf: ["x\u202ey", 1, null] } } };
  expect(termsInWords(offered, { tool: "t", session: "s", names: ["a", "b"] })).toEqual({
    covers:
      "Up to 1 run of t by this caller in this session within 1 minute of the approval, this call included, without asking again. You may grant less.",
    ...{ runs: 1, minutes: 1 },
    arguments: { a: "as in this call", b: 'one of "x\\u{202e}y", 1, null' },
  });
});
