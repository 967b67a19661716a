import { expect, test } from "bun:test";
import { z } from "zod";
import type { Tool } from "../../../src/core/types.ts";
import { defineTool } from "../../../src/index.ts";
import { ruleProblems } from "../../../src/runtime/composition/approver-policies.ts";
import { readConfig } from "../../support/build.ts";

function toolOf(name: string, input: z.ZodObject): Tool {
  return defineTool({
    ...{ name, description: "Does it", classification: "read", permissions: { required: ["do"] }, input },
    ...{ output: z.object({}), outputPolicy: {}, handler: () => ({}) },
  } as never) as unknown as Tool;
}

const TOOLS = [
  toolOf("echo", z.strictObject({ text: z.string().max(9), "a.b": z.string().max(9).optional() })),
  toolOf("list", z.strictObject({})),
];

const WHOLE = { tools: TOOLS, notRegistered: [], problems: [] };

function problemsOf(rule: Record<string, unknown>, loaded: Partial<typeof WHOLE> = {}): readonly string[] {
  const rules = [{ name: "r", verdict: "deny", ...rule }];
  const written = {
    ...{ tools: ["./tools"], audit: { dir: "./audit" }, approvals: { rules } },
    jwt: { issuers: [{ issuer: "https://agents.example", publicKeyFile: "./a.pem" }] },
  };
  return ruleProblems(readConfig(written, { folder: "/srv", environment: {}, origin: "test" }), {
    ...WHOLE,
    ...loaded,
  });
}

const TOOL = "approvals.rules[0].when.tool: no tool is called";
const ARGS = "approvals.rules[0].when.args";

test.each([
  ["a slip", { when: { tool: "ehco" } }, [`${TOOL} ehco; did you mean echo?`]],
  ["a slip that asks", { when: { tool: "Echo" }, verdict: "ask" }, [`${TOOL} Echo; did you mean echo?`]],
  ["a name like none", { when: { tool: "transfer_money", args: { text: "x" } } }, [`${TOOL} transfer_money`]],
  ["a tool that is there", { when: { tool: "echo" } }, []],
  ["no tool", { when: { category: "write", args: { anything: "x" } } }, []],
  ["an argument that is there", { when: { tool: "echo", args: { text: ["x"] } } }, []],
  ["a key with a dot", { when: { tool: "echo", args: { "a.b": ["x"] } } }, []],
  ["a path", { when: { tool: "echo", args: { "text.deep": ["x"] } } }, []],
  [
    "a misspelt argument",
    { when: { tool: "echo", args: { txet: ["x"] } } },
    [`${ARGS}.txet: echo has no such argument; it has text, a.b; did you mean text?`],
  ],
  [
    "a path that begins nowhere",
    { when: { tool: "echo", args: { "customer.id": ["x"] } } },
    [`${ARGS}.customer.id: echo has no such argument; it has text, a.b`],
  ],
  [
    "an argument of a tool that takes none",
    { when: { tool: "list", args: { id: 1 } } },
    [`${ARGS}.id: list has no such argument; it has none`],
  ],
  ["a rule that cannot be read: said elsewhere", { when: { tool: "ehco" }, verdict: "allow" }, []],
])("a rule with %s", (_title, rule, problems) => {
  expect(problemsOf(rule)).toEqual(problems);
});

test.each([
  ["were left out on this machine", { notRegistered: ["tool ehco: no repository"] as never[] }],
  ["could not be read", { problems: ["tools[0]: cannot be loaded"] as never[] }],
])("a rule may name one of the tools that %s", (_title, loaded) => {
  expect(problemsOf({ when: { tool: "ehco" } }, loaded)).toEqual([]);
});
