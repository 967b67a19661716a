import { expect, test } from "bun:test";
import { problemsOf, read } from "./reading.ts";

const ISSUER = "https://people.example";

const policy = (more: Record<string, unknown> = {}) => ({
  ...{ name: "p", when: { tools: ["deploy_*"] }, require: { count: 2 } },
  ...more,
});

test("settings that are left out", () => {
  expect(read({}).approvals.policies).toEqual([]);
  expect(
    read({ approvals: { policies: [policy({ require: { stages: [{ name: "team" }] } })] } }).approvals.policies,
  ).toEqual([
    {
      ...{ name: "p", when: { tools: ["deploy_*"] }, distinctPeople: true, reasonRequired: "never" },
      ...{ scopes: ["once", "session"], callback: false },
      require: { stages: [{ name: "team", count: 1, deciders: {} }] },
    },
  ]);
});

const ACCEPTED: readonly (readonly [title: string, more: Record<string, unknown>])[] = [
  [
    "every condition",
    {
      when: {
        tools: ["*"],
        categories: ["write"],
        systems: ["git"],
        risk: "high",
        permissions: ["a:b"],
        classifications: ["destructive"],
      },
    },
  ],
  ["people by name", { require: { deciders: { subjects: [{ issuer: ISSUER, subject: "anna" }] } } }],
  ["a permission", { require: { deciders: { permissions: ["approvals:prod"] }, count: 3 } }],
  ["clocks as long as the service's", { decideBySeconds: 600, executeBySeconds: 300 }],
  ["a callback that is the one decider", { callback: true, require: { count: 1 } }],
];

test.each(ACCEPTED)("accepted: %s", (_title, more) => {
  expect(problemsOf({ approvals: { policies: [policy(more)] } })).toEqual([]);
});

const REFUSED: readonly (readonly [title: string, more: Record<string, unknown>, problem: string])[] = [
  ["no condition", { when: {} }, 'when: must name at least one condition; tools: ["*"] means every tool'],
  ["an empty list", { when: { tools: [] } }, "when.tools: "],
  ["another key", { when: { tools: ["x"], tool: "x" } }, "when.tool: is not a known key"],
  ["a pattern that is none", { when: { tools: ["deploy.*"] } }, "when.tools[0]: must be a tool's name"],
  ["nobody", { require: {} }, "require: must say who approves: deciders, count, or both; or stages"],
  ["no people", { require: { count: 0 } }, "require.count: "],
  ["a crowd", { require: { count: 21 } }, "require.count: "],
  ["nobody by name", { require: { deciders: { subjects: [] } } }, "require.deciders.subjects: "],
  [
    "both ways at once",
    { require: { count: 1, stages: [{ name: "a" }] } },
    "require.count: cannot be combined with stages",
  ],
  ["no stages", { require: { stages: [] } }, "require.stages: "],
  ["nine stages", { require: { stages: [..."abcdefghi"].map((name) => ({ name })) } }, "require.stages: "],
  [
    "two stages of a name",
    { require: { stages: [{ name: "a" }, { name: "a" }] } },
    "require.stages[1].name: is already used by an earlier stage",
  ],
  ["no scope", { scopes: [] }, "scopes: must contain once"],
  ["session alone", { scopes: ["session"] }, "scopes: must contain once"],
  [
    "a longer clock",
    { decideBySeconds: 601 },
    "decideBySeconds: must not be longer than approvals.decideBySeconds, which is 600",
  ],
  [
    "a longer second clock",
    { executeBySeconds: 301 },
    "executeBySeconds: must not be longer than approvals.executeBySeconds",
  ],
  ["a callback that counts for two", { callback: true }, "callback: cannot be true with more than one approver"],
  [
    "a callback with a permission",
    { callback: true, require: { deciders: { permissions: ["a"] } } },
    "callback: cannot be true",
  ],
  [
    "a callback by name",
    { callback: true, require: { deciders: { subjects: [{ issuer: "i", subject: "s" }] } } },
    "callback: cannot be true",
  ],
  ["a callback in stages", { callback: true, require: { stages: [{ name: "a" }] } }, "callback: cannot be true"],
  ["a word for a rule", { reasonRequired: "yes" }, "reasonRequired: must be one of never, deny, always"],
  ["a verdict", { verdict: "allow" }, "verdict: is not a known key"],
  ["a name that is none", { name: "a b" }, "name: must be a name of letters"],
];

test.each(REFUSED)("APR-63: refused: %s", (_title, more, problem) => {
  const problems = problemsOf({ approvals: { policies: [policy(more)] } });
  expect(problems).toHaveLength(1);
  expect(problems[0]).toStartWith(`approvals.policies[0].${problem}`);
});

test("two of one name, and more than an approval request may carry", () => {
  expect(problemsOf({ approvals: { policies: [policy(), policy()] } })).toEqual([
    "approvals.policies[1].name: is already used by an earlier policy",
  ]);
  const subjects = Array.from({ length: 50 }, (_, index) => ({ issuer: "x".repeat(2_000), subject: `${index}` }));
  const many = ["a", "b"].map((name) => policy({ name, require: { deciders: { subjects } } }));
  expect(problemsOf({ approvals: { policies: many } })).toEqual([
    "approvals.policies: has more than 131072 characters in all",
  ]);
});
