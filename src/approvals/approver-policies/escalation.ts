import type { Approval } from "../types.ts";
import type { Escalation, EscalationStep, PolicyStage, RequiredPolicy, Requirement } from "./requirement.ts";

const SECOND_MS = 1_000;

/** A step of an approval request's policies, and when it is due. */
export interface PlannedEscalation extends Pick<Escalation, "policy" | "step">, EscalationStep {
  readonly policyName: string;
  /** Undefined when the step only notifies. */
  readonly stageName: string | undefined;
  /** Unix milliseconds. */
  readonly dueAt: number;
}

type Planned = Pick<Approval, "requirement" | "createdAt" | "decideBy">;

/**
 * Returns the steps of all policies in the order in which they are taken. Leaves out steps that another policy's shorter time
 * limit prevents, because the request expires before.
 */
export function escalationPlanOf({ requirement, createdAt, decideBy }: Planned): readonly PlannedEscalation[] {
  return (requirement?.policies ?? [])
    .flatMap(({ name: policyName, escalate = [], stages }, policy) =>
      escalate.map((own, step) => {
        const dueAt = createdAt + own.afterSeconds * SECOND_MS;
        return { ...own, policy, step, policyName, dueAt, stageName: own.adds && stages[own.adds.stage]?.name };
      }),
    )
    .filter(({ dueAt }) => dueAt < decideBy)
    .sort((one, other) => one.dueAt - other.dueAt || one.policy - other.policy);
}

/**
 * Returns the requirement with the approvers of the steps taken. Counts and the other policies stay as they are: a step makes
 * more people eligible in one stage of its own policy, and changes nothing else.
 */
export function escalatedRequirement(requirement: Requirement, taken: readonly Escalation[]): Requirement {
  if (taken.length === 0) return requirement;
  const policies = requirement.policies.map((policy, at) => {
    const steps = taken.flatMap((one) => (one.policy === at ? (policy.escalate?.[one.step] ?? []) : []));
    return { ...policy, stages: policy.stages.map((stage, index) => escalatedStage(stage, index, steps)) };
  });
  return { ...requirement, policies };
}

function escalatedStage(
  stage: PolicyStage,
  index: number,
  steps: NonNullable<RequiredPolicy["escalate"]>,
): PolicyStage {
  const also = steps.flatMap(({ adds }) => (adds?.stage === index ? [adds.deciders] : []));
  return also.length === 0 ? stage : { ...stage, also };
}
