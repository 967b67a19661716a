import { expect, test } from "bun:test";
import fc from "fast-check";
import type { EligibleApprovers, RequiredPolicy } from "../../../src/approvals/approver-policies/requirement.ts";
import { type KnownIssuer, shortageOf } from "../../../src/approvals/approver-policies/supply.ts";

const PEOPLE = "https://people.example";
const AGENTS: KnownIssuer = {
  issuer: "https://agents.example",
  operators: false,
  subjectPermissions: { x: ["approvals:decide"] },
};
const OPEN: KnownIssuer = { issuer: PEOPLE, operators: true };
const TABLE: KnownIssuer = {
  ...{ issuer: PEOPLE, operators: true },
  subjectPermissions: {
    anna: ["approvals:decide", "team"],
    bert: ["approvals:decide", "team", "secops"],
    cleo: ["approvals:decide", "secops"],
    dora: ["team", "secops"],
  },
};

const named = (...subjects: readonly string[]): EligibleApprovers => ({
  permissions: [],
  subjects: subjects.map((subject) => ({ issuer: PEOPLE, subject })),
});
const holding = (...permissions: readonly string[]): EligibleApprovers => ({ permissions });
const policyOf = (...stages: readonly (readonly [EligibleApprovers, number])[]): RequiredPolicy => ({
  ...{ name: "p", distinctPeople: true },
  stages: stages.map(([deciders, count], at) => ({ name: `s${at}`, deciders, count })),
});

const ROWS: readonly (readonly [
  title: string,
  policy: RequiredPolicy,
  issuers: readonly KnownIssuer[],
  shortage: unknown,
])[] = [
  ["tokens alone say who holds what", policyOf([holding("team"), 20]), [AGENTS, OPEN], undefined],
  ["there are no operators", policyOf([holding(), 1]), [AGENTS], { stage: "s0", needed: 1, available: 0 }],
  ["the table has enough", policyOf([holding("team"), 2]), [TABLE], undefined],
  ["the table has too few", policyOf([holding("team"), 3]), [TABLE], { stage: "s0", needed: 3, available: 2 }],
  ["nobody of the table holds it", policyOf([holding("prod"), 1]), [TABLE], { stage: "s0", needed: 1, available: 0 }],
  [
    "without approvals:decide nobody decides",
    policyOf([named("dora"), 1]),
    [TABLE],
    { stage: "s0", needed: 1, available: 0 },
  ],
  [
    "another operators' issuer knows nobody's",
    policyOf([holding("prod"), 1]),
    [TABLE, { ...OPEN, issuer: "https://b.example" }],
    undefined,
  ],
  ["enough are named", policyOf([named("x", "y"), 2]), [OPEN], undefined],
  ["too few are named", policyOf([named("x", "y"), 3]), [OPEN], { stage: "s0", needed: 3, available: 2 }],
  ["one is named twice", policyOf([named("x", "X"), 2]), [OPEN], { stage: "s0", needed: 2, available: 1 }],
  [
    "the named are of no issuer",
    policyOf([named("x"), 1]),
    [{ ...OPEN, issuer: "https://b.example" }],
    { stage: "s0", needed: 1, available: 0 },
  ],
  [
    "the named are agents",
    policyOf([named("x"), 1]),
    [{ ...OPEN, operators: false }],
    { stage: "s0", needed: 1, available: 0 },
  ],
  [
    "two stages, one person",
    policyOf([named("x"), 1], [named("x"), 1]),
    [OPEN],
    { stage: "s1", needed: 1, available: 0 },
  ],
  ["two stages, who may sit in both moves", policyOf([named("x", "y"), 1], [named("x"), 1]), [OPEN], undefined],
  ["a chain of moves", policyOf([named("x", "y"), 1], [named("y", "z"), 1], [named("x"), 1]), [OPEN], undefined],
  ["a stage of anybody takes nobody away", policyOf([named("x"), 1], [holding("any"), 1]), [OPEN], undefined],
];

test.each(ROWS)("%s", (_title, policy, issuers, shortage) => {
  expect(shortageOf(policy, issuers)).toEqual(shortage as never);
});

test("one person may fill two stages where the policy allows it", () => {
  const policy = policyOf([named("x"), 1], [named("x"), 1]);
  expect(shortageOf({ ...policy, distinctPeople: false }, [OPEN])).toBeUndefined();
});

test("the requester is not counted, in any spelling of their name", () => {
  const policy = policyOf([named("x", "y"), 2]);
  expect(shortageOf(policy, [OPEN], ["z"])).toBeUndefined();
  expect(shortageOf(policy, [OPEN], ["Y"])).toEqual({ stage: "s0", needed: 2, available: 1 });
});

/** Whether everybody finds a seat, by trying all of it. */
function canSeat(seats: readonly (readonly string[])[], taken: ReadonlySet<string>): boolean {
  const [people, ...rest] = seats;
  if (people === undefined) return true;
  return people.some((person) => !taken.has(person) && canSeat(rest, new Set([...taken, person])));
}

test("its result for every policy equals that of trying every combination", () => {
  const stage = fc.tuple(fc.subarray([..."uvwxy"], { minLength: 1 }), fc.integer({ min: 1, max: 3 }));
  fc.assert(
    fc.property(fc.array(stage, { minLength: 1, maxLength: 3 }), (stages) => {
      const policy = policyOf(...stages.map(([people, count]) => [named(...people), count] as const));
      const seats = stages.flatMap(([people, count]) => Array.from({ length: count }, () => people));
      expect(shortageOf(policy, [OPEN]) === undefined).toBe(canSeat(seats, new Set()));
    }),
    { numRuns: 500 },
  );
});
