import { expect, test } from "bun:test";
import type { Statement } from "../../src/core/api/explain.ts";
import { statementSentences } from "../../src/core/statement-words.ts";

const said = (more: Partial<Statement>): readonly string[] =>
  statementSentences({ stage: "APPROVAL", point: "approval", verdict: "ask", reasons: [], ...more });

test.each<readonly [what: string, statement: Partial<Statement>, sentences: readonly string[]]>([
  ["the default", { reasons: ["default"] }, ["No rule lets this call run by itself, so a person decides."]],
  ["a mode", { verdict: "allow", reasons: ["mode:yolo"] }, ["Approved by the mode of the session: yolo asks nobody."]],
  [
    "permissions",
    { point: "permissions", verdict: "deny", reasons: ["a:b", "c:d"], code: "PERMISSION_DENIED" },
    ["The caller's token lacks the permissions a:b, c:d."],
  ],
  [
    "risk rules",
    { point: "risk", reasons: ["floor:operator:night,destructive"] },
    [
      "The operators' rule night matches the call.",
      "The tool is destructive: a person decides about each of its calls.",
    ],
  ],
  [
    "a decision point",
    { point: "cedar", verdict: "deny", reasons: ["p1"] },
    ["The decision point cedar denies the call: p1."],
  ],
  ["an unknown tool", { point: "registry", verdict: "deny", code: "TOOL_NOT_FOUND" }, ["There is no such tool."]],
  [
    "an ended session",
    { point: "session", verdict: "deny", code: "APPROVAL_REVOKED" },
    ["The approval was revoked, or the session had ended."],
  ],
  [
    "a quota",
    { point: "quotas", verdict: "deny", reasons: ["the quota reads is used up"], code: "QUOTA_EXCEEDED" },
    ["the quota reads is used up"],
  ],
  ["what was not asked", { point: "cedar", verdict: "unknown", reasons: ["was not asked"] }, ["was not asked"]],
  ["nothing", { point: "permissions", verdict: "allow" }, []],
])("a statement about %s is said in sentences", (_, statement, sentences) => {
  expect(said(statement)).toEqual([...sentences]);
});
