import { expect, test } from "bun:test";
import { z } from "zod";
import {
  type ApprovalDecision,
  type ApprovalPolicy,
  type ApprovalScope,
  type AuditEntry,
  type CallerContext,
  defineTool,
  filterSecrets,
  type OutputFieldPolicy,
  type SafeToolCall,
  type ToolCallResult,
  type ToolClassification,
  type ToolDefinition,
  type ToolHandler,
  type ToolTarget,
} from "../../src/index.ts";

const input = z.object({ id: z.string().max(10) });
const output = z.object({ found: z.boolean() });

const find: ToolHandler<z.output<typeof input>, z.input<typeof output>> = ({ id }, { caller }) => {
  const { subject, permissions }: Pick<CallerContext, "subject" | "permissions"> = caller;
  return { found: id === subject && permissions.length > 0 };
};

const approval: ApprovalPolicy = { required: true, message: "Looks the customer up.", scopes: ["once"] };

test("a manifest can be put together from the exported types", () => {
  const classification: ToolClassification = "read";
  const outputPolicy: OutputFieldPolicy = { "*": "allow" };
  const target: ToolTarget<z.output<typeof input>> = { system: "customers", handler: find };
  const manifest: ToolDefinition<typeof input, typeof output> = {
    name: "find_customer",
    description: "Find a customer by id.",
    classification,
    permissions: { required: ["customers:read"] },
    input,
    output,
    outputPolicy,
    target,
    approval,
  };
  const tool = defineTool(manifest);
  expect(tool).toMatchObject({ classification, approval, target: { system: "customers", handler: find } });
});

test("filterSecrets returns the text alone", () => {
  const key = ["sk", "ant", "Abc0Def1Ghi2Jkl3Mno4Pqr5"].join("-");
  expect(filterSecrets(`key ${key} end`)).toBe("key [REDACTED] end");
  expect(filterSecrets("sk-ant is a prefix")).toBe("sk-ant is a prefix");
});

/** Uses of the types that must compile, and those that must not. */
export async function uses(proxy: SafeToolCall, entry: AuditEntry): Promise<void> {
  const result: ToolCallResult = await proxy.call("find_customer", { id: "ada" }, "token");
  if (result.status === "success") void result.filteredFields;
  if (entry.decision === "DENIED") void entry.denial?.stage;
  // @ts-expect-error a call that was refused has no result
  void result.result;
  ["approve", "deny"] satisfies readonly ApprovalDecision[];
  // @ts-expect-error no other word is a decision
  "approved" satisfies ApprovalDecision;
  ["once", "session", "bounded"] satisfies readonly ApprovalScope[];
  // @ts-expect-error no approval is unlimited
  "always" satisfies ApprovalScope;
}
