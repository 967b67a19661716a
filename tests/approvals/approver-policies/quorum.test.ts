import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { escalatedRequirement } from "../../../src/approvals/approver-policies/escalation.ts";
import {
  lackingOf,
  objectionToDenial,
  type Voter,
  voteResultOf,
} from "../../../src/approvals/approver-policies/quorum.ts";
import type {
  EligibleApprovers,
  RequiredPolicy,
  Requirement,
  Vote,
} from "../../../src/approvals/approver-policies/requirement.ts";
import { shortageOf } from "../../../src/approvals/approver-policies/supply.ts";

const ISSUER = "https://people.example";

function voterOf(subject: string, permissions: readonly string[] = [], more: Partial<Voter> = {}): Voter {
  return { issuer: ISSUER, subject, permissions, actors: [], ...more };
}

function holding(...permissions: readonly string[]): EligibleApprovers {
  return { permissions };
}

function stage(name: string, count: number, deciders: EligibleApprovers = holding()) {
  return { name, count, deciders };
}

function needing(...policies: readonly Partial<RequiredPolicy>[]): Requirement {
  return {
    ...{ digest: "d", reasonRequired: "never", scopes: ["once"], callback: false },
    policies: policies.map((policy, at) => ({ name: `p${at}`, distinctPeople: true, stages: [], ...policy })),
  };
}

/** Votes one after another, as far as they count; who is told what. */
function poll(requirement: Requirement, voters: readonly Voter[]) {
  const votes: Vote[] = [];
  const told = voters.map((voter) => {
    if (lackingOf(requirement, votes).length === 0) return "over";
    const standing = voteResultOf(requirement, votes, voter);
    if ("outcome" in standing) return standing.outcome;
    const { issuer, subject, actors } = voter;
    const { places } = standing;
    votes.push({ issuer, subject, actors, places, at: 0, scope: "once", viewDigest: "v", version: votes.length + 1 });
    return lackingOf(requirement, votes).length === 0 ? "approved" : "counted";
  });
  return { told, votes };
}

const TEAM = holding("team");
const SECOPS = holding("secops");
const anna = voterOf("anna", ["team", "secops"]);
const bert = voterOf("bert", ["team"]);
const cleo = voterOf("cleo", ["secops"]);
const two = [stage("team", 1, TEAM), stage("secops", 1, SECOPS)];

function named(...subjects: readonly string[]): EligibleApprovers {
  return { permissions: [], subjects: subjects.map((subject) => ({ issuer: ISSUER, subject })) };
}

const ROWS: readonly (readonly [
  title: string,
  requirement: Requirement,
  voters: readonly Voter[],
  told: readonly string[],
])[] = [
  ["one of anybody", needing({ stages: [stage("s", 1)] }), [voterOf("x")], ["approved"]],
  [
    "whom a later stage cannot do without is not used up by an earlier one",
    needing({ stages: [stage("team", 1, named("anna", "bert")), stage("secops", 1, named("anna"))] }),
    [anna, bert, anna],
    ["later_stage", "counted", "approved"],
  ],
  [
    "nor are two whom it wants both",
    needing({ stages: [stage("team", 1), stage("secops", 2, named("anna", "bert"))] }),
    [anna, bert, voterOf("x"), bert, anna],
    ["later_stage", "later_stage", "counted", "counted", "approved"],
  ],
  [
    "who cannot be spared, under the name of somebody who acts for them",
    needing({ stages: [stage("team", 1), stage("secops", 1, named("anna"))] }),
    [voterOf("x", [], { actors: ["ANNA"] }), bert, anna],
    ["later_stage", "counted", "approved"],
  ],
  ["2 of n", needing({ stages: [stage("s", 2)] }), [bert, cleo], ["counted", "approved"]],
  [
    "APR-33: one person counts once",
    needing({ stages: [stage("s", 2)] }),
    [bert, bert, cleo],
    ["counted", "already_voted", "approved"],
  ],
  [
    "APR-33: in another spelling, too",
    needing({ stages: [stage("s", 2)] }),
    [voterOf("René"), voterOf("RENE\u0301"), voterOf("\uff32\uff45ne\u0301"), voterOf("Rene")],
    ["counted", "already_voted", "already_voted", "approved"],
  ],
  [
    "APR-33: and with an account at another issuer",
    needing({ stages: [stage("s", 2)] }),
    [bert, voterOf("bert", [], { issuer: "https://other.example" }), cleo],
    ["counted", "already_voted", "approved"],
  ],
  [
    "APR-33: and with somebody else's token",
    needing({ stages: [stage("s", 2)] }),
    [bert, voterOf("dora", [], { actors: ["bert"] }), voterOf("emil", [], { actors: ["dora"] })],
    ["counted", "already_voted", "approved"],
  ],
  [
    "APR-33: two stages need two people",
    needing({ stages: two }),
    [anna, anna, cleo],
    ["counted", "already_voted", "approved"],
  ],
  [
    "unless one may count in each",
    needing({ stages: two, distinctPeople: false }),
    [anna, anna],
    ["counted", "approved"],
  ],
  [
    "but never twice in one stage",
    needing({ stages: [stage("team", 2, TEAM)], distinctPeople: false }),
    [anna, anna, bert],
    ["counted", "already_voted", "approved"],
  ],
  ["a later stage waits", needing({ stages: two }), [cleo, bert, cleo], ["later_stage", "counted", "approved"]],
  [
    "a stage that is over takes nobody",
    needing({ stages: two }),
    [bert, voterOf("b2", ["team"]), cleo],
    ["counted", "not_eligible", "approved"],
  ],
  ["who holds nothing is not taken", needing({ stages: two }), [voterOf("x")], ["not_eligible"]],
  [
    "who holds one of two is not taken",
    needing({ stages: [stage("s", 1, holding("team", "secops"))] }),
    [bert, cleo, anna],
    ["not_eligible", "not_eligible", "approved"],
  ],
  [
    "people by name: letter by letter, and by their issuer",
    needing({ stages: [stage("s", 1, { permissions: [], subjects: [{ issuer: ISSUER, subject: "anna" }] })] }),
    [voterOf("Anna"), voterOf("\u0430nna"), voterOf("anna", [], { issuer: "https://evil.example" }), anna],
    ["not_eligible", "not_eligible", "not_eligible", "approved"],
  ],
  [
    "people by name who must hold something, too",
    needing({ stages: [stage("s", 1, { permissions: ["team"], subjects: [{ issuer: ISSUER, subject: "anna" }] })] }),
    [voterOf("anna"), bert, anna],
    ["not_eligible", "not_eligible", "approved"],
  ],
  [
    "two policies: a yes counts in both",
    needing({ stages: [stage("s", 1)] }, { stages: [stage("s", 2)] }),
    [bert, cleo],
    ["counted", "approved"],
  ],
  [
    "two policies: each must have what it wants",
    needing({ stages: [stage("s", 1, TEAM)] }, { stages: [stage("s", 1, SECOPS)] }),
    [bert, voterOf("b2", ["team"]), cleo],
    ["counted", "not_eligible", "approved"],
  ],
  [
    "who counted in one policy may still be needed in another",
    needing({ stages: [stage("s", 2, SECOPS)] }, { stages: two }),
    [cleo, bert, cleo, anna],
    ["counted", "counted", "counted", "approved"],
  ],
];

test.each(ROWS)("%s", (_title, requirement, voters, told) => {
  expect(poll(requirement, voters).told as readonly string[]).toEqual(told);
});

describe("a denial", () => {
  const requirement = needing({ stages: two });
  const { votes } = poll(requirement, [anna]);
  test.each([
    ["of the open stage", cleo, undefined],
    ["of a stage that is over", bert, undefined],
    ["of one who said yes: it is never too late", anna, undefined],
    ["of nobody's", voterOf("x"), "not_eligible"],
  ])("%s", (_title, voter, outcome) => {
    expect(objectionToDenial(requirement, votes, voter)?.outcome).toBe(outcome as never);
  });
});

const PERMISSIONS = ["a", "b"] as const;
const eligible = fc.record({ permissions: fc.subarray([...PERMISSIONS]) });
const stages = fc.array(
  fc.record({
    name: fc.constant("s"),
    count: fc.integer({ min: 1, max: 3 }),
    deciders: eligible,
    // Approvers whom escalation steps have added.
    also: fc.array(eligible, { maxLength: 2 }),
  }),
  { minLength: 1, maxLength: 3 },
);
const policy = fc.record({ name: fc.constant("p"), distinctPeople: fc.boolean(), stages });
const voters = fc.array(
  fc.record({ subject: fc.constantFrom(..."rstuvwxyz"), permissions: fc.subarray([...PERMISSIONS]) }),
  { maxLength: 20 },
);
const asVoters = (list: readonly { subject: string; permissions: readonly string[] }[]): readonly Voter[] =>
  list.map(({ subject, permissions }) => voterOf(subject, permissions));

test("APR-22, APR-33: another policy never lets an approval request through sooner", () => {
  fc.assert(
    fc.property(fc.array(policy, { minLength: 1, maxLength: 2 }), policy, voters, (some, further, list) => {
      const at = (policies: readonly RequiredPolicy[]) => {
        const { told } = poll(needing(...policies), asVoters(list));
        const found = told.indexOf("approved");
        return found === -1 ? Number.POSITIVE_INFINITY : found;
      };
      expect(at([...some, further])).toBeGreaterThanOrEqual(Math.max(at(some), at([further])));
    }),
    { numRuns: 300 },
  );
});

test("an approved request has in every stage its approvers, each once, permitted and in order", () => {
  fc.assert(
    fc.property(fc.array(policy, { minLength: 1, maxLength: 3 }), voters, (policies, list) => {
      const requirement = needing(...policies);
      const all = asVoters(list);
      const { told, votes } = poll(requirement, all);
      if (!told.includes("approved")) return;
      for (const [at, { stages: wanted, distinctPeople }] of policies.entries()) {
        const seats = wanted.map((_, index) =>
          votes.flatMap((vote, order) =>
            vote.places.some((place) => place.policy === at && place.stage === index) ? [{ ...vote, order }] : [],
          ),
        );
        expect(seats.map((seated) => seated.length)).toEqual(wanted.map(({ count }) => count));
        for (const seated of seats) expect(new Set(seated.map(({ subject }) => subject)).size).toBe(seated.length);
        for (const [index, { deciders, also }] of wanted.entries()) {
          // The same name may come with several tokens: one of them was permitted.
          const isPermitted = (subject: string) =>
            [deciders, ...also].some(({ permissions }) =>
              list.some(
                (one) => one.subject === subject && permissions.every((each) => one.permissions.includes(each as "a")),
              ),
            );
          expect(seats[index]?.filter(({ subject }) => !isPermitted(subject))).toEqual([]);
        }
        const everybody = seats.flat().map(({ subject }) => subject);
        if (distinctPeople) expect(new Set(everybody).size).toBe(everybody.length);
        const orders = seats.flatMap((seated) => seated.map(({ order }) => order));
        expect(orders).toEqual(orders.toSorted((a, b) => a - b));
      }
    }),
    { numRuns: 300 },
  );
});

test("an escalation step widens one stage of its own policy, and keeps every count", () => {
  const step = fc.record({ policy: fc.nat({ max: 2 }), stage: fc.nat({ max: 2 }), deciders: eligible });
  fc.assert(
    fc.property(
      fc.array(policy, { minLength: 1, maxLength: 3 }),
      fc.array(step, { maxLength: 4 }),
      (policies, steps) => {
        const written = policies.map((one, at) => ({
          ...one,
          stages: one.stages.map(({ also: _, ...stage }) => stage),
          escalate: steps.flatMap(({ policy: of, stage, deciders }, index) =>
            of === at && stage < one.stages.length ? [{ afterSeconds: index + 1, adds: { stage, deciders } }] : [],
          ),
        }));
        const taken = written.flatMap(({ escalate }, at) =>
          escalate.map((_, index) => ({ policy: at, step: index, at: 0 })),
        );
        const before = needing(...written);
        const after = escalatedRequirement(before, taken);
        const narrowed = after.policies.map((one) => ({
          ...one,
          stages: one.stages.map(({ also: _, ...stage }) => stage),
        }));
        expect<readonly unknown[]>(narrowed).toEqual([...before.policies]);
        expect({ ...after, policies: [] }).toEqual({ ...before, policies: [] });
        for (const [at, { stages: now }] of after.policies.entries()) {
          for (const [index, { also = [] }] of now.entries()) {
            const own = written[at]?.escalate.filter(({ adds }) => adds.stage === index) ?? [];
            expect([...also]).toEqual(own.map(({ adds }) => adds.deciders));
          }
        }
      },
    ),
    { numRuns: 200 },
  );
});

test("approvers who can satisfy a policy satisfy it in any order", () => {
  const people = ["anna", "bert", "cleo", "dora", "emil"];
  const stages = fc.array(fc.tuple(fc.subarray(people, { minLength: 1 }), fc.integer({ min: 1, max: 3 })), {
    minLength: 1,
    maxLength: 3,
  });
  fc.assert(
    fc.property(stages, fc.array(fc.constantFrom(...people), { maxLength: 12 }), (wanted, order) => {
      const policy: RequiredPolicy = {
        ...{ name: "p", distinctPeople: true },
        stages: wanted.map(([subjects, count], at) => stage(`s${at}`, count, named(...subjects))),
      };
      fc.pre(shortageOf(policy, [{ issuer: ISSUER, operators: true }]) === undefined);
      // As often as it takes: each round opens a stage at least.
      const everybody = wanted.flatMap(() => people);
      const { told } = poll(
        needing(policy),
        [...order, ...everybody].map((name) => voterOf(name)),
      );
      expect(told).toContain("approved");
    }),
    { numRuns: 500 },
  );
});
