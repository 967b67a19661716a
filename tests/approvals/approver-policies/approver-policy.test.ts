import { describe, expect, test } from "bun:test";
import { z } from "zod";
import {
  type ApproverPolicy,
  createApproverPolicies,
} from "../../../src/approvals/approver-policies/approver-policy.ts";
import type { Risk } from "../../../src/approvals/types.ts";
import type { Tool } from "../../../src/core/types.ts";
import { defineTool } from "../../../src/index.ts";

function toolOf(more: Record<string, unknown> = {}): Tool {
  return defineTool({
    ...({ name: "deploy_app", description: "Deploys", classification: "write", category: "command" } as const),
    permissions: { required: ["apps:deploy"], elevatedIf: { when: () => false, required: ["apps:deploy:prod"] } },
    ...{ input: z.strictObject({}), output: z.object({}), outputPolicy: {}, handler: () => ({}) },
    ...more,
  } as never) as unknown as Tool;
}

function policyOf(more: Partial<ApproverPolicy> = {}): ApproverPolicy {
  return {
    ...{ name: "p", when: { tools: ["*"] }, require: { count: 1 }, distinctPeople: true, reasonRequired: "never" },
    ...{ scopes: ["once", "session"], callback: false },
    ...more,
  };
}

const CONDITIONS: readonly (readonly [title: string, when: ApproverPolicy["when"], risk: Risk, matches: boolean])[] = [
  ["the name", { tools: ["scale", "deploy_*"] }, "low", true],
  ["another name", { tools: ["scale"] }, "low", false],
  ["the category", { categories: ["network", "command"] }, "low", true],
  ["another category", { categories: ["network"] }, "low", false],
  ["the classification", { classifications: ["write"] }, "low", true],
  ["another classification", { classifications: ["destructive"] }, "low", false],
  ["the system", { systems: ["inline"] }, "low", true],
  ["another system", { systems: ["git"] }, "low", false],
  ["a permission that it requires", { permissions: ["x", "apps:deploy"] }, "low", true],
  ["a permission that some arguments require", { permissions: ["apps:deploy:prod"] }, "low", true],
  ["another permission", { permissions: ["apps"] }, "low", false],
  ["the risk", { risk: "high" }, "high", true],
  ["a higher risk", { risk: "high" }, "critical", true],
  ["a lower risk", { risk: "high" }, "medium", false],
  ["all of it", { tools: ["*"], categories: ["command"], risk: "medium" }, "medium", true],
  ["all but one of it", { tools: ["*"], categories: ["command"], risk: "medium", systems: ["x"] }, "medium", false],
];

test.each(CONDITIONS)("a policy selects a tool by %s", (_title, when, risk, matches) => {
  const { requirementFor } = createApproverPolicies([policyOf({ when })]);
  expect(requirementFor({ tool: toolOf(), risk }) !== undefined).toBe(matches);
});

describe("several policies for one approval request", () => {
  const strict = policyOf({
    ...{ name: "strict", require: { count: 2, deciders: { permissions: ["approvals:prod"] } }, scopes: ["once"] },
    ...{ reasonRequired: "always", decideBySeconds: 60, executeBySeconds: 300, distinctPeople: false },
  });
  const loose = policyOf({ name: "loose", reasonRequired: "deny", executeBySeconds: 30, callback: true });

  test("must all be satisfied: the strictest of each applies", () => {
    const { requirementFor } = createApproverPolicies([loose, strict]);
    expect(requirementFor({ tool: toolOf(), risk: "low" })).toMatchObject({
      ...{ reasonRequired: "always", scopes: ["once"], decideBySeconds: 60, executeBySeconds: 30, callback: false },
      policies: [
        { name: "loose", distinctPeople: true, stages: [{ count: 1, deciders: { permissions: [] } }] },
        {
          name: "strict",
          distinctPeople: false,
          stages: [{ count: 2, deciders: { permissions: ["approvals:prod"] } }],
        },
      ],
    });
  });

  test("a field that one leaves out keeps the service's default", () => {
    const found = createApproverPolicies([policyOf()]).requirementFor({ tool: toolOf(), risk: "low" });
    expect(found?.decideBySeconds).toBeUndefined();
    expect(found?.scopes).toEqual(["once", "session"]);
  });
});

test("APR-51: the version of a tool's policies changes only with policies that may apply to it", () => {
  const tool = toolOf();
  const version = (...policies: ApproverPolicy[]) => createApproverPolicies(policies).versionFor(tool);
  const own = policyOf({ when: { tools: ["deploy_app"], risk: "critical" } });
  const others = policyOf({ name: "other", when: { tools: ["scale"] } });
  expect(version()).toBe("");
  expect(version(others)).toBe("");
  expect(version(own)).toMatch(/^[0-9a-f]{64}$/);
  expect(version(own, others)).toBe(version(own));
  expect(version({ ...own, require: { count: 2 } })).not.toBe(version(own));
  expect(version({ ...own, when: { tools: ["deploy_app"], risk: "high" } })).not.toBe(version(own));
});

describe("escalation steps", () => {
  const DIGEST = "f2b8b064bb5d2921fb918c2183d57bc9213f3832d0d1b0dd288ca0bd1442570e";
  const digestOf = (policy: ApproverPolicy) =>
    createApproverPolicies([policy]).requirementFor({ tool: toolOf(), risk: "low" })?.digest;

  test("a policy without them has the digest that approvals of earlier versions carry", () => {
    expect(digestOf(policyOf())).toBe(DIGEST);
  });

  test("they name their stage, and change the digest and the version", () => {
    const staged = policyOf({ require: { stages: ["a", "b"].map((name) => ({ name, count: 1, deciders: {} })) } });
    const policy = {
      ...staged,
      escalate: [{ afterSeconds: 60, stage: "b", deciders: { permissions: ["oncall"] } }, { afterSeconds: 90 }],
    };
    const { requirementFor, versionFor } = createApproverPolicies([policy]);
    const found = requirementFor({ tool: toolOf(), risk: "low" });
    expect(found?.policies[0]?.escalate).toEqual([
      { afterSeconds: 60, adds: { stage: 1, deciders: { permissions: ["oncall"] } } },
      { afterSeconds: 90 },
    ]);
    expect(found?.digest).not.toBe(digestOf(staged));
    expect(versionFor(toolOf())).not.toBe(createApproverPolicies([staged]).versionFor(toolOf()));
  });
});
