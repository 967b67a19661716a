import { describe, expect, test } from "bun:test";
import { conditionWords, rulesInForce, rulesThatDecided } from "../../../src/console/app/policy/rules.ts";

describe("the conditions of a rule in words", () => {
  test.each([
    [{ tool: "announce" }, "where tool is announce"],
    [{ tools: ["a", "b"], risk: "high" }, "where tool is a or b and risk is at least high"],
    [
      { args: { currency: ["EUR", "CHF"], amount: 5 } },
      "where argument currency is EUR or CHF and argument amount is 5",
    ],
    [{ shell: { programs: ["git"], subcommands: ["push"] } }, "where a script calls programs git, subcommands push"],
    [undefined, "of every kind"],
  ])("%j", (when, words) => {
    expect(conditionWords(when)).toBe(words);
  });
});

describe("the rules in force", () => {
  const values = {
    approvals: {
      mode: "autoEdit",
      rules: [{ name: "refunds", when: { tool: "refund" }, verdict: "deny", risk: "high" }],
      policies: [
        {
          name: "two",
          when: { tools: ["pay"] },
          require: { count: 2, deciders: { subjects: [{ issuer: "i", subject: "alice" }] } },
        },
      ],
    },
    decisionPoints: [{ name: "company", cedar: {} }],
    dataFlow: { default: "on", rules: [{ after: ["private"], before: "outside", unless: "vouched", verdict: "ask" }] },
  };
  const rules = rulesInForce(values).flatMap((group) => group.rules);
  const found = (rule: string) => rules.filter((each) => each.rule === rule);

  test("say what they do, and where they are set", () => {
    expect(found("operator:refunds")).toEqual([
      expect.objectContaining({
        does: "denies",
        text: "refunds: calls where tool is refund; their risk is at least high",
        setting: "approvals.rules[0]",
      }),
    ]);
    expect(found("approvals:two")[0]?.text).toBe("two: calls where tool is pay need 2 people of alice");
    expect(found("policy:company")[0]).toMatchObject({ text: "company: cedar decides about all calls" });
    expect(found("policy:data-flow").map(({ setting }) => setting)).toEqual(["dataFlow.default", "dataFlow.rules[0]"]);
    expect(found("mode:yolo")[0]?.setting).toContain("now autoEdit");
  });

  test("have every rule that a story can link to, built-in ones too", () => {
    for (const rule of [
      "permissions",
      "elevation",
      "halts",
      "default",
      "destructive",
      "risk:high",
      "network",
      "category:read",
    ])
      expect([rule, found(rule).length]).toEqual([rule, 1]);
  });

  test("are read from values of any form", () => {
    for (const broken of [{}, { approvals: 3, decisionPoints: {}, dataFlow: [] }, { approvals: { rules: [null, {}] } }])
      expect(rulesInForce(broken).length).toBeGreaterThan(3);
  });
});

describe("the rules that decided about a call", () => {
  const reason = { point: "risk", verdict: "requireApproval", reason: "floor:network,operator:refunds" };
  test.each([
    [{ decisionReasons: [reason, reason] }, ["network", "operator:refunds"]],
    [{ approval: { by: "mode:yolo" } }, ["mode:yolo"]],
    [{ approval: { by: "human:alice" } }, ["default"]],
    [{ error: { code: "APPROVAL_REQUIRED" } }, ["default"]],
    [{ decisionReasons: [{ point: "permissions", verdict: "deny", reason: "a:b" }] }, ["permissions"]],
    [{ approval: { by: "APPROVAL_DENIED" } }, []],
    [{}, []],
  ])("%j", (line, rules) => {
    expect(rulesThatDecided(line)).toEqual(rules);
  });
});
