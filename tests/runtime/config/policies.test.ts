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
      ...{ scopes: ["once", "session", "bounded"], callback: false },
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
  [
    "escalation steps",
    { escalate: [{ afterSeconds: 60, deciders: { permissions: ["oncall"] } }, { afterSeconds: 599 }] },
  ],
  [
    "a step for one stage",
    { require: { stages: [{ name: "team" }] }, escalate: [{ afterSeconds: 1, stage: "team", deciders: {} }] },
  ],
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
  [
    "steps out of order",
    { escalate: [{ afterSeconds: 60 }, { afterSeconds: 60 }] },
    "escalate[1].afterSeconds: must be more than 60, the time of the step before it",
  ],
  ["no steps", { escalate: [] }, "escalate: "],
  ["a step at once", { escalate: [{ afterSeconds: 0 }] }, "escalate[0].afterSeconds: "],
  [
    "a step after the expiry",
    { escalate: [{ afterSeconds: 600 }] },
    "escalate[0].afterSeconds: must be less than 600: the approval request expires then",
  ],
  [
    "a step after the policy's own expiry",
    { decideBySeconds: 100, escalate: [{ afterSeconds: 99 }, { afterSeconds: 100 }] },
    "escalate[1].afterSeconds: must be less than 100: ",
  ],
  [
    "a step for a stage that is not there",
    { require: { stages: [{ name: "team" }] }, escalate: [{ afterSeconds: 1, stage: "prod", deciders: {} }] },
    "escalate[0].stage: prod is not a stage of the policy",
  ],
  [
    "a step for none of the stages",
    { require: { stages: [{ name: "team" }] }, escalate: [{ afterSeconds: 1, deciders: {} }] },
    "escalate[0].stage: is missing: it says which stage the deciders are added to",
  ],
  [
    "a stage of a policy without stages",
    { escalate: [{ afterSeconds: 1, stage: "team", deciders: {} }] },
    "escalate[0].stage: is not needed: the policy has no stages",
  ],
  [
    "a stage of a step that adds nobody",
    { require: { stages: [{ name: "team" }] }, escalate: [{ afterSeconds: 1, stage: "team" }] },
    "escalate[0].stage: needs deciders: a step without them only notifies",
  ],
  [
    "an unknown webhook",
    { escalate: [{ afterSeconds: 1, webhooks: ["pager"] }] },
    "escalate[0].webhooks[0]: pager is not a webhook of approvals.webhooks",
  ],
  ["a count of a step", { escalate: [{ afterSeconds: 1, count: 1 }] }, "escalate[0].count: is not a known key"],
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

test("a step names webhooks that are sent to", () => {
  const out = { name: "pager", url: "https://pager.example", secretFile: "./key" };
  const decides = { name: "desk", decisions: { secretFile: "./key", people: {} } };
  const written = (webhook: string) =>
    problemsOf({
      approvals: {
        policies: [policy({ escalate: [{ afterSeconds: 1, webhooks: [webhook] }] })],
        webhooks: [out, decides],
      },
    });
  expect(written("pager")).toEqual([]);
  expect(written("desk")).toEqual([
    "approvals.policies[0].escalate[0].webhooks[0]: desk has no url or urlFile: nothing can be sent there",
  ]);
});
