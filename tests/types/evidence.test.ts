import { expect, test } from "bun:test";
import type {
  Admitted,
  Approved,
  Authorized,
  Elevated,
  Executed,
  Found,
  Fresh,
  Known,
  Parsed,
  Planned,
  Receipt,
  Released,
} from "../../src/core/evidence.ts";
import type { Admission } from "../../src/pipeline/admission.ts";
import { refused, succeeded } from "../../src/pipeline/answer.ts";
import type { ApprovalGate } from "../../src/pipeline/approval/gate.ts";
import type { Executor } from "../../src/pipeline/executor.ts";
import { release } from "../../src/pipeline/output-filter.ts";
import { makePlan } from "../../src/pipeline/planner.ts";
import type { PolicyEvaluator } from "../../src/pipeline/policy-points.ts";
import type { Registry } from "../../src/pipeline/registry.ts";
import { checkRepeat } from "../../src/pipeline/repeats.ts";
import { parseInput } from "../../src/pipeline/schema-validator.ts";

/** Rows that must not compile: each leaves out a step of the road. The type checker is the test; this function never runs. */
export function shortCuts(
  have: {
    found: Found;
    admitted: Admitted;
    known: Known;
    authorized: Authorized;
    parsed: Parsed;
    elevated: Elevated;
    fresh: Fresh;
    planned: Planned;
    approved: Approved;
    executed: Executed;
    released: Released;
    receipt: Receipt;
  },
  parts: { admission: Admission; executor: Executor; registry: Registry; policy: PolicyEvaluator; gate: ApprovalGate },
): void {
  const nothing = undefined as never;
  // @ts-expect-error a tool that was only found is not known to the caller
  parts.policy.permit(have.found);
  // @ts-expect-error the caller must have been admitted
  parts.registry.known(have.found, have.known);
  // @ts-expect-error permissions come before the tool's own limits: they would tell that it exists
  parts.admission.limitRate(have.known);
  // @ts-expect-error how often comes before the arguments are read
  parseInput(have.authorized, {});
  // @ts-expect-error elevation is assessed on parsed input
  parts.policy.elevate(have.authorized);
  // @ts-expect-error what is looked up by its Idempotency-Key has been elevated
  checkRepeat(have.parsed, nothing, undefined);
  // @ts-expect-error what is planned was not run already
  makePlan(have.elevated, nothing, nothing);
  // @ts-expect-error the policy points judge a plan
  parts.policy.assess(have.fresh);
  // @ts-expect-error only a plan that the policy points have assessed can be approved
  parts.gate.approve(have.planned, nothing);
  // @ts-expect-error only an approved plan runs
  parts.executor.execute(have.planned, nothing);
  // @ts-expect-error only what a handler answered is released
  release(have.approved, nothing);
  // @ts-expect-error no receipt, no reply
  succeeded({ traceId: "x" }, have.released, nothing);
  // @ts-expect-error no receipt, no refusal either
  refused(undefined, nothing, nothing);
  // @ts-expect-error what was released is not a raw answer
  succeeded(have.receipt, have.executed, nothing);
  // @ts-expect-error evidence cannot be written down
  const forged: Approved = { ...have.planned, by: "me" };
  void forged;
}

test("the rows above are checked by the type checker", () => {
  expect(typeof shortCuts).toBe("function");
});
