import { expect, test } from "bun:test";
import { type ToolCallResult, type ToolResult, toToolResult } from "../../src/core/call-result.ts";

const common = { traceId: "t", tool: "fs_read", untrusted: true, filteredFields: [], durationMs: 1 } as const;
const refusal = {
  code: "TARGET_REFUSED",
  stage: "EXECUTION",
  message: "There is no such file.",
  retryable: false,
} as const;

const rows: readonly (readonly [string, ToolCallResult, ToolResult])[] = [
  ["data", { status: "success", ...common, result: { content: "x" } }, { ok: true, untrusted: true, content: "x" }],
  ["a list", { status: "success", ...common, result: [1] }, { ok: true, untrusted: true, data: [1] }],
  ["nothing", { status: "success", ...common, result: null }, { ok: true, untrusted: true, data: null }],
  [
    "data that says ok itself",
    { status: "success", ...common, result: { ok: false } },
    { ok: true, untrusted: true, data: { ok: false } },
  ],
  [
    "data that calls itself trusted",
    { status: "success", ...common, result: { untrusted: false } },
    { ok: true, untrusted: true, data: { untrusted: false } },
  ],
  [
    "a part",
    { status: "success", ...common, truncated: true, result: { content: "x" } },
    { ok: true, untrusted: true, truncated: true, content: "x" },
  ],
  [
    "a part that says so itself",
    { status: "success", ...common, truncated: true, result: { truncated: true } },
    { ok: true, untrusted: true, truncated: true },
  ],
  [
    "a part that means something else by it",
    { status: "success", ...common, truncated: true, result: { truncated: "trunk" } },
    { ok: true, untrusted: true, truncated: true, data: { truncated: "trunk" } },
  ],
  [
    "a part that says nothing by it",
    { status: "success", ...common, truncated: true, result: { truncated: null } },
    { ok: true, untrusted: true, truncated: true, data: { truncated: null } },
  ],
  [
    "a result that is withheld",
    { status: "success", ...common, truncated: true, result: null },
    { ok: true, untrusted: true, truncated: true, data: null },
  ],
  [
    "a tool's own code",
    { status: "error", error: { ...refusal, details: { status: "NOT_FOUND", code: "ENOENT" } }, traceId: "t" },
    {
      ok: false,
      error: { code: "ENOENT", message: refusal.message, details: { status: "NOT_FOUND", code: "ENOENT" } },
    },
  ],
  [
    "a refusal without one",
    { status: "error", error: refusal, traceId: "t" },
    { ok: false, error: { code: "TARGET_REFUSED", message: refusal.message } },
  ],
  [
    "a question",
    {
      status: "pending",
      approval: { id: "1", decideBy: "d", statusUrl: "/approvals/1", options: ["cancel"], message: "asked" },
      traceId: "t",
    },
    {
      ok: false,
      error: {
        code: "APPROVAL_REQUIRED",
        message: "asked",
        details: { approval: { id: "1", decideBy: "d", statusUrl: "/approvals/1", options: ["cancel"] } },
      },
    },
  ],
];

test.each(rows)("%s", (_title, result, want) => {
  expect(toToolResult(result)).toEqual(want);
});

test("a key of the data cannot become a prototype", () => {
  const result = toToolResult({ status: "success", ...common, result: JSON.parse('{"__proto__":{"ok":false},"a":1}') });
  expect(result.ok).toBe(true);
  expect(Object.getPrototypeOf(result)).toBe(Object.prototype);
});
