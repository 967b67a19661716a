import { canonicalJson, sha256Hex } from "../../core/digest.ts";
import type { Category, Classification, Tool } from "../../core/types.ts";
import type { Scope } from "../identities.ts";
import type { Risk } from "../types.ts";
import type { Deciders, PolicyStage, ReasonRequired, RequiredPolicy, Requirement } from "./requirement.ts";

/** Which questions a policy is about. Everything that is named must hold; of a list, one of its members. */
export interface PolicyConditions {
  /** Names, in which a star stands for any letters. */
  readonly tools?: readonly string[] | undefined;
  readonly categories?: readonly Category[] | undefined;
  readonly systems?: readonly string[] | undefined;
  /** At least. */
  readonly risk?: Risk | undefined;
  /** That the tool requires of its callers. */
  readonly permissions?: readonly string[] | undefined;
  readonly classifications?: readonly Classification[] | undefined;
}

interface WrittenDeciders {
  readonly permissions?: Deciders["permissions"] | undefined;
  readonly subjects?: Deciders["subjects"];
}

/** Who decides, as operators write it. It makes no call ask, and lets none through. */
export interface ApprovalPolicy {
  readonly name: string;
  readonly when: PolicyConditions;
  /** `stages`, or one stage in short. */
  readonly require: {
    readonly deciders?: WrittenDeciders | undefined;
    readonly count?: number | undefined;
    readonly stages?: readonly (Omit<PolicyStage, "deciders"> & { readonly deciders: WrittenDeciders })[] | undefined;
  };
  readonly distinctPeople: boolean;
  readonly reasonRequired: ReasonRequired;
  readonly scopes: readonly Scope[];
  readonly decideBySeconds?: number | undefined;
  readonly executeBySeconds?: number | undefined;
  readonly callback: boolean;
}

export interface ApprovalPolicies {
  /** What the question needs; undefined: no policy is about it, and one decider is enough. */
  requirementFor(call: { readonly tool: Tool; readonly risk: Risk }): Requirement | undefined;
  /** Hex SHA-256 over the policies that may be about the tool; empty when none is. */
  versionFor(tool: Tool): string;
}

/** Of a policy that names one stage only in short. */
const ONLY_STAGE = "deciders";
const RISKS: readonly Risk[] = ["low", "medium", "high", "critical"];
const REASONS: readonly ReasonRequired[] = ["never", "deny", "always"];
const LIMITS = { depthMax: 16, nodesMax: 200_000, bytesMax: 4_194_304 } as const;

/**
 * Every policy that is about a question must have what it wants, so that none softens another and their order means nothing. A
 * person's one yes counts in each of them that takes it.
 */
export function createApprovalPolicies(policies: readonly ApprovalPolicy[]): ApprovalPolicies {
  const known = new WeakMap<Tool, ToolPolicies>();
  const of = (tool: Tool): ToolPolicies => {
    const found = known.get(tool);
    if (found !== undefined) return found;
    const made = toolPolicies(policies.filter((policy) => mayConcern(policy, tool)));
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

function toolPolicies(policies: readonly ApprovalPolicy[]): ToolPolicies {
  const byRisk = new Map<Risk, Requirement>();
  for (const [at, risk] of RISKS.entries()) {
    const matching = policies.filter(({ when }) => RISKS.indexOf(when.risk ?? "low") <= at);
    if (matching.length > 0) byRisk.set(risk, joined(matching));
  }
  const version = policies.length === 0 ? "" : digestOf("stc/policies/v1", policies);
  return { version, byRisk };
}

function joined(policies: readonly ApprovalPolicy[]): Requirement {
  const wanted = {
    policies: policies.map(requiredOf),
    reasonRequired: REASONS[Math.max(...policies.map((policy) => REASONS.indexOf(policy.reasonRequired)))] ?? "always",
    scopes: policies.reduce<readonly Scope[]>(
      (left, { scopes }) => left.filter((scope) => scopes.includes(scope)),
      ["once", "session"],
    ),
    ...shortest("decideBySeconds", policies),
    ...shortest("executeBySeconds", policies),
    callback: policies.every(({ callback }) => callback),
  };
  return { digest: digestOf("stc/requirement/v1", wanted), ...wanted };
}

/** What a policy wants, whichever way it was written. */
export function requiredOf({ name, distinctPeople, require }: ApprovalPolicy): RequiredPolicy {
  const { deciders = {}, count = 1, stages = [{ name: ONLY_STAGE, deciders, count }] } = require;
  return {
    name,
    distinctPeople,
    stages: stages.map((stage) => {
      const { permissions = [], subjects } = stage.deciders;
      return { ...stage, deciders: { permissions, ...(subjects !== undefined && { subjects }) } };
    }),
  };
}

function shortest(key: "decideBySeconds" | "executeBySeconds", policies: readonly ApprovalPolicy[]) {
  const given = policies.flatMap((policy) => policy[key] ?? []);
  return given.length === 0 ? {} : { [key]: Math.min(...given) };
}

function digestOf(t: string, wanted: unknown): string {
  return sha256Hex(canonicalJson({ t, wanted }, LIMITS));
}

/** Whether the policy is about the tool, as far as no call is needed to know it. */
export function mayConcern({ when }: Pick<ApprovalPolicy, "when">, tool: Tool): boolean {
  const { tools, categories, systems, permissions, classifications } = when;
  return (
    (tools === undefined || tools.some((pattern) => matchesToolName(pattern, tool.name))) &&
    (categories === undefined || categories.includes(tool.category)) &&
    (systems === undefined || systems.includes(tool.target.system)) &&
    (classifications === undefined || classifications.includes(tool.classification)) &&
    (permissions === undefined || permissionsOf(tool).some((needed) => permissions.includes(needed)))
  );
}

/** Those that only some arguments need are counted in: the policy holds for all of the tool's calls. */
function permissionsOf({ permissions }: Tool): readonly string[] {
  return [...permissions.required, ...(permissions.elevatedIf?.required ?? [])];
}

/** In time of the name's length times the pattern's: each part takes its first place. */
export function matchesToolName(pattern: string, name: string): boolean {
  const [head = "", ...rest] = pattern.split("*");
  const tail = rest.pop();
  if (tail === undefined) return pattern === name;
  if (name.length < head.length + tail.length || !name.startsWith(head) || !name.endsWith(tail)) return false;
  const end = name.length - tail.length;
  let at = head.length;
  for (const part of rest) {
    const found = name.indexOf(part, at);
    if (found === -1 || found + part.length > end) return false;
    at = found + part.length;
  }
  return true;
}
