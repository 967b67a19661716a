import { describe, expect, test } from "bun:test";
import { storyLines, storyOf } from "../../src/core/call-story.ts";

const ASKED = { decision: "ALLOWED", approval: { id: "a-1", by: "human:https://idp.example|alice" } };
const vote = (more: object) => ({
  type: "approval.voted",
  decider: { issuer: "https://idp.example", subject: "alice" },
  ...more,
});

describe("the story of a call", () => {
  test("names the person and what the approval covers", () => {
    const { decisions, approving, outcome } = storyOf(ASKED, [vote({ decision: "approve", scope: "session" })]);
    expect(decisions.map(({ does, meanings }) => [does, meanings.map(({ rule }) => rule)])).toEqual([
      ["asks", ["default"]],
    ]);
    expect(approving?.text).toBe("Approved by alice for this session.");
    expect(outcome).toBe("The call ran and was answered.");
  });

  test("never takes a refusal's code for somebody who approved", () => {
    const line = { decision: "DENIED", approval: { by: "APPROVAL_DENIED" }, error: { code: "APPROVAL_DENIED" } };
    expect(storyOf(line, []).approving).toBeUndefined();
  });

  test("says a denial of several rules once, and not again as the end", () => {
    const reason = { point: "risk", verdict: "deny", reason: "floor:network,installs" };
    const line = { decision: "DENIED", error: { code: "POLICY_DENIED" }, decisionReasons: [reason, reason] };
    const { decisions, outcome, noObjection } = storyOf({ ...line, denial: { stage: "PERMISSION" } }, []);
    expect(decisions.map(({ does, meanings }) => [does, meanings.length])).toEqual([["denies", 2]]);
    expect([outcome, noObjection]).toEqual(["The call was refused. Nothing ran.", undefined]);
  });

  test("says that nothing objected", () => {
    expect(storyOf({ decision: "ALLOWED" }, []).noObjection).toContain("no approval was needed");
    const refused = { decision: "ERROR", error: { code: "TARGET_FAILED" }, denial: { stage: "EXECUTION" } };
    expect(storyOf(refused, []).outcome).toBe("The target failed. It may have changed something.");
  });

  test("counts the votes of this approval alone", () => {
    const line = { decision: "DENIED", approval: { id: "a-1" }, error: { code: "APPROVAL_DENIED" } };
    const votes = [vote({ decision: "deny", id: "a-1", reason: "no" }), vote({ decision: "approve", id: "a-2" })];
    expect(storyOf(line, votes).votes.map(({ text, comment }) => [text, comment])).toEqual([
      ["Denied by alice.", "no"],
    ]);
  });

  test("ends with what a database said later about an interrupted change", () => {
    const line = {
      traceId: "t-1",
      decision: "ERROR",
      error: { code: "OUTCOME_UNKNOWN" },
      denial: { stage: "EXECUTION" },
    };
    const found = (outcome: string, traceId = "t-1") => [
      { type: "change.resolved", traceId, system: "shop", transaction: "766", outcome },
    ];
    const { outcome: asBefore } = storyOf(line, []);
    const later = (outcome: string) => storyOf(line, found(outcome)).outcome.slice(asBefore.length);
    expect(later("committed")).toBe(" The service asked shop later: the change was made (transaction 766).");
    expect(later("aborted")).toContain("the change was not made");
    expect(later("unknown")).toContain("it is no longer known");
    expect(storyOf(line, found("committed", "t-2")).outcome).toBe(asBefore);
  });

  test("survives lines of any form", () => {
    for (const line of [{}, { denial: 3, approval: [], decisionReasons: [null, { point: 4 }] }])
      expect(() => storyLines(line, [{}, { type: "approval.voted" }])).not.toThrow();
  });

  test("is a few lines of text in a terminal", () => {
    const line = {
      ...ASKED,
      decision: "DENIED",
      tool: { name: "pay" },
      caller: { sub: "agent-7" },
      request: { session: "s-1" },
    };
    const reason = { point: "risk", verdict: "requireApproval", reason: "floor:operator:night,risk:high" };
    const denied = vote({ decision: "deny", reason: "not tonight" });
    const refusal = { denial: { stage: "APPROVAL" }, error: { code: "APPROVAL_DENIED" }, approval: {} };
    expect(storyLines({ ...line, ...refusal, decisionReasons: [reason] }, [denied])).toEqual([
      "agent-7 asked to run pay in the session s-1.",
      "asks, because of at least one of these rules:",
      "- The operators' rule night matches the call.",
      "- The risk of the call is high: a person decides about each such call.",
      "Denied by alice.",
      'alice: "not tonight"',
      "The call was denied, or nobody could be asked. Nothing ran.",
    ]);
  });
});
