import { expect, test } from "bun:test";
import { Refusal } from "../../src/core/errors.ts";
import type { Planned } from "../../src/core/evidence.ts";
import type { Tool } from "../../src/core/types.ts";
import { approve } from "../../src/proxy/approval-gate.ts";

type Given = Pick<Tool, "classification" | "category"> & { readonly approval?: Record<string, unknown> };

function outcome({ approval = {}, ...tool }: Given): string {
  try {
    return `allow by ${approve({ tool: { ...tool, approval }, input: { status: "BLOCKED" } } as unknown as Planned).by}`;
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return `${error.code} by ${String(error.details?.["rule"])}`;
  }
}

const no = () => false;

const rows: readonly (readonly [string, Given, string])[] = [
  ["a read passes", { classification: "read", category: "read" }, "allow by category:read"],
  ["a read of another category asks", { classification: "read", category: "network" }, "APPROVAL_DENIED by default"],
  ["a write asks by default", { classification: "write", category: "write" }, "APPROVAL_DENIED by default"],
  [
    "a write that says it needs none passes",
    { classification: "write", category: "network", approval: { needsApproval: no } },
    "allow by needsApproval",
  ],
  [
    "a write that says yes asks",
    { classification: "write", category: "network", approval: { needsApproval: () => true } },
    "APPROVAL_DENIED by default",
  ],
  [
    "nothing but false is a no: undefined",
    { classification: "write", category: "write", approval: { needsApproval: () => undefined } },
    "APPROVAL_DENIED by default",
  ],
  [
    "nothing but false is a no: 0",
    { classification: "write", category: "write", approval: { needsApproval: () => 0 } },
    "APPROVAL_DENIED by default",
  ],
  [
    "nothing but false is a no: a promise of false",
    { classification: "write", category: "write", approval: { needsApproval: async () => false } },
    "APPROVAL_DENIED by default",
  ],
  [
    "a throw asks",
    {
      classification: "write",
      category: "write",
      approval: {
        needsApproval: () => {
          throw new Error("x");
        },
      },
    },
    "APPROVAL_DENIED by default",
  ],
  [
    "what destroys asks, whatever it says",
    { classification: "destructive", category: "write", approval: { needsApproval: no } },
    "APPROVAL_DENIED by floor:destructive",
  ],
  [
    "required asks, even for a read",
    { classification: "read", category: "read", approval: { required: true, needsApproval: no } },
    "APPROVAL_DENIED by floor:approval.required",
  ],
  [
    "a question is always asked",
    { classification: "read", category: "ask", approval: { needsApproval: no } },
    "APPROVAL_DENIED by floor:category",
  ],
];

test.each(rows)("%s", (_title, given, want) => {
  expect(outcome(given)).toBe(want);
});
