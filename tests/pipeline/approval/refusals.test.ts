import { expect, test } from "bun:test";
import type { Approval } from "../../../src/approvals/types.ts";
import { stateRefusal } from "../../../src/pipeline/approval/refusals.ts";

const told = (state: Approval["state"]): Readonly<Record<string, unknown>> | undefined => {
  const approval = { id: "a-1", state, decisionReason: "as always" } as Approval;
  return stateRefusal(approval, { category: "write" }).details;
};

test("the reason of a denial is reported", () => {
  expect(told("denied")).toEqual({ approval: { id: "a-1", state: "denied" }, reason: "as always" });
});

test.each(["revoked", "expired", "cancelled", "executed"] as const)(
  "an approval's comment is not the reason why it is %s",
  (state) => {
    expect(told(state)).toEqual({ approval: { id: "a-1", state } });
  },
);
