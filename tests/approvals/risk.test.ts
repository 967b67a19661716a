import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { z } from "zod";
import { createRiskRules, type RiskAssessment, type RiskRules, riskRuleProblems } from "../../src/approvals/risk.ts";
import { StartupError } from "../../src/core/errors.ts";
import type { ApprovalPolicy, ExecutionPlan, Tool, ToolClassification } from "../../src/core/types.ts";
import { defineTool } from "../../src/index.ts";

function toolOf(classification: ToolClassification, approval: ApprovalPolicy = {}): Tool {
  return defineTool({
    name: `a_${classification}`,
    description: "a tool of the tests",
    classification,
    category: classification === "read" ? "read" : "network",
    permissions: { required: ["test:run"] },
    input: z.strictObject({}),
    output: z.strictObject({}),
    outputPolicy: {},
    approval,
    target: { system: "ledger", handler: () => ({}) },
  });
}

const inline: ExecutionPlan = { kind: "inline" };

function shellPlan(command: string, more: Readonly<Record<string, never>> | object = {}): ExecutionPlan {
  return {
    kind: "cli",
    command: "/bin/bash",
    argv: ["--noprofile", "--norc", "-c", "--", command],
    cwd: "/ws",
    environment: { HOME: "/ws" },
    files: {},
    unhashed: [],
    ...more,
  };
}

const ours = createRiskRules({ rules: [] });
const write = toolOf("write");

function assess(command: string, more: object = {}): RiskAssessment {
  return ours.assess({ tool: write, input: { command }, plan: shellPlan(command, more) });
}

describe("tools that are no shell", () => {
  test.each([
    ["read", {}, "low"],
    ["write", {}, "medium"],
    ["destructive", {}, "high"],
    ["read", { risk: "high" }, "high"],
    ["destructive", { risk: "medium" }, "high"],
    ["write", { risk: "critical" }, "critical"],
  ] as const)("%s with %j", (classification, approval, risk) => {
    const assessment = ours.assess({ tool: toolOf(classification, approval), input: {}, plan: inline });
    expect(assessment).toEqual({
      risk,
      rules: [],
      verdict: "none",
      rememberable: risk === "low" || risk === "medium",
      notes: [],
    });
  });

  test("are judged once", () => {
    const request = { tool: write, input: {}, plan: inline };
    expect(ours.assess(request)).toBe(ours.assess({ ...request, input: { other: 1 } }));
  });

  test("an argument that looks like a command is text", () => {
    expect(ours.assess({ tool: write, input: { command: "rm -rf /" }, plan: inline }).verdict).toBe("none");
  });
});

describe("shell commands", () => {
  test.each([
    ["ls", "medium", "none", true],
    ["git status", "medium", "none", true],
    ["rm a", "medium", "none", true],
    ["bash -c ls", "medium", "none", false],
    ["python3 x.py", "high", "ask", false],
    ["make", "high", "ask", false],
    ["rm -rf build", "high", "ask", false],
    ["rm -rf /", "critical", "deny", false],
    ["$x", "high", "ask", false],
  ] as const)("%s", (command, risk, verdict, rememberable) => {
    // The tool's own classification is a floor: what writes is never low.
    expect(assess(command)).toMatchObject({ risk, verdict, rememberable });
  });

  test("say which rules matched, and why, in our own words", () => {
    const { rules, notes } = assess("sudo rm -rf / \u202e");
    expect(rules).toEqual(expect.arrayContaining(["removes-everything", "gains-privileges", "cannot-classify"]));
    expect(notes).toContain("Cannot be classified: control characters.");
    expect(notes.join("")).not.toContain("\u202e");
  });

  test("that name files of the workspace are not remembered", () => {
    expect(assess("ls a", { files: { a: "00" } }).rememberable).toBe(false);
    expect(assess("ls a", { unhashed: ["a/"] }).rememberable).toBe(false);
    expect(assess("ls a", { files: { a: "00" } }).notes).toHaveLength(1);
  });

  test("the workspace is where `..` and `~` are counted from", () => {
    expect(assess("rm -rf ..", { cwd: "/ws/a/b", environment: { HOME: "/ws" } }).verdict).toBe("ask");
    expect(assess("rm -rf ../..", { cwd: "/srv/ws/a", environment: { HOME: "/srv/ws" } }).verdict).toBe("deny");
    expect(assess("echo x > ../b", { cwd: "/ws/a", environment: { HOME: "/ws" } }).risk).toBe("medium");
    expect(assess("echo x > ../../b", { cwd: "/ws/a", environment: { HOME: "/ws" } }).risk).toBe("high");
  });
});

const RULE = {
  name: "no-payments",
  when: { tool: "a_write", args: { "account.kind": ["payments", "ledger"] } },
  verdict: "deny",
  risk: "critical",
  examples: {
    matches: [{ account: { kind: "ledger" } }],
    misses: [{ account: { kind: "demo" } }, {}, { account: [] }],
  },
};

describe("operators' rules", () => {
  const rules = createRiskRules({
    rules: [RULE, { name: "all-writes", when: { classification: "write", system: "ledger" }, verdict: "ask" }],
  });

  test.each([
    ["a value of the list", { account: { kind: "payments" } }, "deny", ["operator:all-writes", "operator:no-payments"]],
    ["one of several", { account: [{ kind: "x" }, { kind: "ledger" }] }, "deny", undefined],
    ["another value", { account: { kind: "demo" } }, "ask", ["operator:all-writes"]],
    ["a value of another type", { account: { kind: ["x"] } }, "ask", undefined],
    ["no such field", {}, "ask", undefined],
    ["no object", null, "ask", undefined],
  ])("%s", (_title, input, verdict, names) => {
    const assessment = rules.assess({ tool: write, input, plan: inline });
    expect(assessment.verdict).toBe(verdict as "ask");
    if (names !== undefined) expect(assessment.rules).toEqual(names);
  });

  test("speak of other tools' calls only when they say so", () => {
    expect(rules.assess({ tool: toolOf("read"), input: {}, plan: inline }).rules).toEqual([]);
  });

  test.each(["constructor", "hasOwnProperty", "toString", "account.constructor.name", "length"])(
    "%s is a name like any other",
    (field) => {
      const odd = createRiskRules({
        rules: [{ name: "odd", when: { args: Object.fromEntries([[field, "x"]]) }, verdict: "deny" }],
      });
      expect(odd.assess({ tool: write, input: { account: "y" }, plan: inline }).verdict).toBe("none");
      const input: unknown = JSON.parse(`{${JSON.stringify(field)}:"x"}`);
      expect(odd.assess({ tool: write, input, plan: inline }).verdict).toBe("deny");
    },
  );

  test("never soften what is there", () => {
    const soft = createRiskRules({
      rules: [{ name: "soft", when: { tool: "a_write" }, verdict: "ask", risk: "medium" }],
    });
    for (const command of ["ls", "rm -rf /", "rm -rf x"]) {
      const request = { tool: write, input: { command }, plan: shellPlan(command) };
      const order = ["none", "ask", "deny"];
      const [before, after] = [ours.assess(request), soft.assess(request)];
      expect(order.indexOf(after.verdict)).toBeGreaterThanOrEqual(order.indexOf(before.verdict));
      expect(after.rules).toEqual(expect.arrayContaining([...before.rules]));
    }
  });
});

const HELM = {
  name: "no-uninstall",
  when: {
    tool: "a_write",
    shell: { programs: ["helm"], subcommands: ["uninstall"], options: ["--purge"], arguments: ["prod-*"] },
  },
  verdict: "deny",
  examples: {
    matches: ["sudo helm uninstall --purge prod-web"],
    misses: ["helm list", "echo helm uninstall --purge prod-x"],
  },
};

describe("operators' rules about the calls in a script", () => {
  const rules = createRiskRules({ rules: [HELM] });
  const verdictOf = (command: string) =>
    rules.assess({ tool: write, input: { command }, plan: shellPlan(command) }).verdict;

  test.each([
    ["helm uninstall prod-web --purge", "deny"],
    ["ls && (helm --kube-context x uninstall prod-web --purge)", "deny"],
    ["bash -c 'helm uninstall --purge prod-web'", "deny"],
    ["helm uninstall --purge test-web", "ask"],
    ["helm uninstall prod-web", "ask"],
    ["helm uninstall --purge $x", "ask"],
    ["$helm uninstall --purge prod-web", "ask"],
    ["echo helm uninstall --purge prod-web", "none"],
  ])("%s: %s", (command, verdict) => {
    expect(verdictOf(command)).toBe(verdict as "deny");
  });

  test("are not about tools that run no shell", () => {
    expect(rules.assess({ tool: write, input: { command: "helm" }, plan: inline }).rules).toEqual([]);
  });

  test("change the version of tools whose kind starts shells, and of no others", () => {
    const other = { ...HELM, when: { ...HELM.when, shell: { ...HELM.when.shell, options: undefined } } };
    const plain = JSON.parse(JSON.stringify({ ...other, examples: {} })) as unknown;
    const changed = createRiskRules({ rules: [plain] });
    const version = (all: RiskRules, kind: object) => all.versionFor(write, kind);
    expect(version(changed, { startsShells: true })).not.toBe(version(rules, { startsShells: true }));
    expect(version(changed, {})).toBe(version(rules, {}));
  });

  test.each([
    [
      "an example that does not match",
      { examples: { matches: ["helm ls"] } },
      "[0].examples.matches[0]: is not matched by the rule",
    ],
    [
      "an example that must not match",
      { examples: { misses: ["helm uninstall --purge prod-1"] } },
      "[0].examples.misses[0]: is matched by the rule",
    ],
    [
      "arguments of a tool as an example",
      { examples: { matches: [{}] } },
      "[0].examples.matches[0]: must be a shell script",
    ],
    [
      "conditions on arguments too",
      { when: { ...HELM.when, args: { a: 1 } } },
      "[0].when: must not name both args and shell",
    ],
    ["a program with its folder", { when: { shell: { programs: ["/bin/rm"] } } }, "[0].when.shell.programs[0]: "],
    ["no program", { when: { shell: { options: ["-f"] } } }, "[0].when.shell.programs: "],
    [
      "an option without a dash",
      { when: { shell: { programs: ["rm"], options: ["f"] } } },
      "[0].when.shell.options[0]: ",
    ],
  ])("are reported with their field: %s", (_title, change, problem) => {
    expect(riskRuleProblems([{ ...HELM, ...change }])[0]).toStartWith(problem);
  });
});

test("adding a rule never loosens the verdict, and the order does not matter", () => {
  const RISKS = ["low", "medium", "high", "critical"];
  const VERDICTS = ["none", "ask", "deny"];
  const rule = fc.record({
    when: fc.constantFrom(
      { tool: "a_write" },
      { tool: "other" },
      { system: "ledger" },
      { args: { x: 1 } },
      { args: { x: [2, 3] } },
    ),
    verdict: fc.constantFrom("ask", "deny"),
    risk: fc.constantFrom("medium", "high", "critical", undefined),
  });
  const named = (list: readonly object[]) =>
    list.map((one, index) => JSON.parse(JSON.stringify({ name: `r${index}`, ...one })) as unknown);
  fc.assert(
    fc.property(fc.array(rule, { maxLength: 6 }), rule, fc.constantFrom(0, 1, 2), (list, more, x) => {
      const request = { tool: write, input: { x }, plan: inline };
      const before = createRiskRules({ rules: named(list) }).assess(request);
      const after = createRiskRules({ rules: named([...list, more]) }).assess(request);
      const turned = createRiskRules({ rules: named([more, ...list.toReversed()]) }).assess(request);
      expect(RISKS.indexOf(after.risk)).toBeGreaterThanOrEqual(RISKS.indexOf(before.risk));
      expect(VERDICTS.indexOf(after.verdict)).toBeGreaterThanOrEqual(VERDICTS.indexOf(before.verdict));
      expect(after.rememberable && !before.rememberable).toBe(false);
      expect([turned.risk, turned.verdict, turned.rememberable]).toEqual([
        after.risk,
        after.verdict,
        after.rememberable,
      ]);
    }),
  );
});

describe("rules that lie do not load", () => {
  test.each([
    [
      "a match that is none",
      { ...RULE, examples: { matches: [{}] } },
      "[0].examples.matches[0]: is not matched by the rule",
    ],
    [
      "a miss that is none",
      { ...RULE, examples: { misses: [{ account: { kind: "ledger" } }] } },
      "[0].examples.misses[0]: is matched by the rule",
    ],
    ["no condition", { ...RULE, when: {} }, "[0].when: must name at least one condition"],
    ["a verdict that softens", { ...RULE, verdict: "allow" }, "[0].verdict: "],
    ["a risk that softens", { ...RULE, risk: "low" }, "[0].risk: "],
    ["an unknown key", { ...RULE, unless: {} }, "[0]: "],
    [
      "a field that no tool has",
      { ...RULE, when: JSON.parse('{"args":{"__proto__":"x"}}') as unknown },
      "[0].when.args: __proto__ is no field of any tool",
    ],
    ["no object", "deny", "[0]: "],
    ["no name", { ...RULE, name: "" }, "[0].name: "],
  ])("%s", (_title, rule, problem) => {
    expect(riskRuleProblems([rule])[0]).toStartWith(problem);
    expect(() => createRiskRules({ rules: [rule] })).toThrow(StartupError);
  });

  test("everything is reported at once", () => {
    const lying = { ...RULE, examples: { matches: [{}, {}] } };
    expect(riskRuleProblems([lying, RULE, "x"])).toHaveLength(4);
    expect(riskRuleProblems([RULE])).toEqual([]);
  });
});

test("the version of a tool changes with the rules about it, and with nothing else", () => {
  const version = (rules: readonly unknown[], tool = write) => createRiskRules({ rules }).versionFor(tool, {});
  const destructive = toolOf("destructive");
  const other = { name: "another", when: { classification: "destructive" }, verdict: "ask" };
  expect(version([])).toMatch(/^[0-9a-f]{64}$/);
  expect(version([])).toBe(ours.versionFor(write, {}));
  expect(version([RULE])).not.toBe(version([]));
  expect(version([{ ...RULE, verdict: "ask" }])).not.toBe(version([RULE]));
  expect(version([{ ...RULE, examples: {} }])).toBe(version([RULE]));
  expect(version([RULE, other])).toBe(version([RULE]));
  expect(version([RULE], destructive)).toBe(version([], destructive));
  expect(version([RULE, other], destructive)).not.toBe(version([], destructive));
});
