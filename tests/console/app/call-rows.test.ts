import { expect, test } from "bun:test";
import { argumentsOf, whyOf } from "../../../src/console/app/calls/model.ts";
import { NOT_LOGGED } from "../../../src/core/audit-fields.ts";

test("a row has the logged arguments on one line, without those that are not in the log", () => {
  const args = { command: "git push", token: NOT_LOGGED, note: "x".repeat(500) };
  const text = argumentsOf({ request: { args } }) ?? "";
  expect(text).toStartWith('command: "git push", note: "xxx');
  expect(text.length).toBeLessThan(160);
  expect(text).not.toContain("token");
  expect(argumentsOf({ request: { args: { token: NOT_LOGGED } } })).toBeUndefined();
  expect(argumentsOf({})).toBeUndefined();
});

test("a row says which rule refused, or what the agent was told; of an allowed call nothing", () => {
  const decisionReasons = [{ point: "risk", verdict: "deny", reason: "floor:operator:no-push" }];
  const denial = { reason: "The arguments do not fit." };
  expect(whyOf({ decision: "DENIED", decisionReasons, denial })).toBe("The operators' rule no-push matches the call.");
  expect(whyOf({ decision: "DENIED", denial })).toBe("The arguments do not fit.");
  expect(whyOf({ decision: "ALLOWED", decisionReasons, denial })).toBeUndefined();
});
