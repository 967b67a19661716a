import { canonicalJson, sha256Hex } from "../../core/digest.ts";
import { conditionsHold, type RuleConditions } from "../../core/rule-conditions.ts";
import { APPROVAL_SCOPES, type ApprovalScope, type Tool } from "../../core/types.ts";
import { RISKS, type Risk } from "../types.ts";
import type {
  EligibleApprovers,
  EscalationStep,
  PolicyStage,
  ReasonRequired,
  RequiredPolicy,
  Requirement,
} from "./requirement.ts";

interface WrittenDeciders {
  readonly permissions?: EligibleApprovers["permissions"] | undefined;
  readonly subjects?: EligibleApprovers["subjects"];
}

interface WrittenStep extends Pick<EscalationStep, "afterSeconds" | "webhooks"> {
  /** Name of the stage that `deciders` are added to; the policy's only stage when absent. */
  readonly stage?: string | undefined;
  readonly deciders?: WrittenDeciders | undefined;
}

/** A policy about who approves, as operators write it. It neither makes a call need an approval nor allows a call. */
export interface ApproverPolicy {
  readonly name: string;
  /** Requests that the policy applies to. */
  readonly when: RuleConditions;
  /** Either `stages`, or the short form with `deciders` and `count` for a single stage. */
  readonly require: {
    readonly deciders?: WrittenDeciders | undefined;
    readonly count?: number | undefined;
    readonly stages?:
      | readonly (Pick<PolicyStage, "name" | "count"> & { readonly deciders: WrittenDeciders })[]
      | undefined;
  };
  readonly escalate?: readonly WrittenStep[] | undefined;
  readonly distinctPeople: boolean;
  readonly reasonRequired: ReasonRequired;
  readonly scopes: readonly ApprovalScope[];
  readonly decideBySeconds?: number | undefined;
  readonly executeBySeconds?: number | undefined;
  readonly callback: boolean;
}

export interface ApproverPolicies {
  /** Returns what a request needs; undefined when no policy applies, and one approver is enough. */
  requirementFor(call: { readonly tool: Tool; readonly risk: Risk }): Requirement | undefined;
  /** Returns the hex SHA-256 over the policies that may apply to the tool; empty when there are none. */
  versionFor(tool: Tool): string;
}

/** Stage name for a policy in the short form. */
const ONLY_STAGE = "deciders";
const REASONS: readonly ReasonRequired[] = ["never", "deny", "always"];
const LIMITS = { depthMax: 16, nodesMax: 200_000, bytesMax: 4_194_304 } as const;

/**
 * Compiles the policies. All policies that apply to a request must be satisfied, so that none weakens another and their order
 * does not matter. One vote of a person counts in every policy that accepts that person.
 */
export function createApproverPolicies(policies: readonly ApproverPolicy[]): ApproverPolicies {
  const known = new WeakMap<Tool, ToolPolicies>();
  const of = (tool: Tool): ToolPolicies => {
    const found = known.get(tool);
    if (found !== undefined) return found;
    const made = toolPolicies(
      policies.filter(({ when }) => conditionsHold(when, { tool })),
      tool,
    );
    known.set(tool, made);
    return made;
  };
  return {
    requirementFor: ({ tool, risk }) => of(tool).byRisk.get(risk),
    versionFor: (tool) => of(tool).version,
  };
}

interface ToolPolicies {
  readonly version: string;
  readonly byRisk: ReadonlyMap<Risk, Requirement>;
}

function toolPolicies(policies: readonly ApproverPolicy[], tool: Tool): ToolPolicies {
  const byRisk = new Map<Risk, Requirement>();
  for (const risk of RISKS) {
    const matching = policies.filter(({ when }) => conditionsHold(when, { tool, risk }));
    if (matching.length > 0) byRisk.set(risk, joined(matching));
  }
  const version = policies.length === 0 ? "" : digestOf("stc/policies/v1", policies);
  return { version, byRisk };
}

function joined(policies: readonly ApproverPolicy[]): Requirement {
  const wanted = {
    policies: policies.map(requiredOf),
    reasonRequired: REASONS[Math.max(...policies.map((policy) => REASONS.indexOf(policy.reasonRequired)))] ?? "always",
    scopes: policies.reduce<readonly ApprovalScope[]>(
      (left, { scopes }) => left.filter((scope) => scopes.includes(scope)),
      APPROVAL_SCOPES,
    ),
    ...shortest("decideBySeconds", policies),
    ...shortest("executeBySeconds", policies),
    callback: policies.every(({ callback }) => callback),
  };
  return { digest: digestOf("stc/requirement/v1", wanted), ...wanted };
}

export function requiredOf({ name, distinctPeople, require, escalate }: ApproverPolicy): RequiredPolicy {
  const { deciders = {}, count = 1, stages = [{ name: ONLY_STAGE, deciders, count }] } = require;
  return {
    name,
    distinctPeople,
    stages: stages.map((stage) => ({ ...stage, deciders: eligibleOf(stage.deciders) })),
    ...(escalate !== undefined && { escalate: escalate.map((step) => stepOf(step, stages)) }),
  };
}

function stepOf(
  { afterSeconds, stage, deciders, webhooks }: WrittenStep,
  stages: readonly { readonly name: string }[],
): EscalationStep {
  const at = stage === undefined ? 0 : stages.findIndex(({ name }) => name === stage);
  return {
    afterSeconds,
    ...(deciders !== undefined && { adds: { stage: at, deciders: eligibleOf(deciders) } }),
    ...(webhooks !== undefined && { webhooks }),
  };
}

function eligibleOf({ permissions = [], subjects }: WrittenDeciders): EligibleApprovers {
  return { permissions, ...(subjects !== undefined && { subjects }) };
}

function shortest(key: "decideBySeconds" | "executeBySeconds", policies: readonly ApproverPolicy[]) {
  const given = policies.flatMap((policy) => policy[key] ?? []);
  return given.length === 0 ? {} : { [key]: Math.min(...given) };
}

function digestOf(t: string, wanted: unknown): string {
  return sha256Hex(canonicalJson({ t, wanted }, LIMITS));
}
