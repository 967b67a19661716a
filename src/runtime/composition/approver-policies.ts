import { requiredOf } from "../../approvals/approver-policies/approver-policy.ts";
import type { RequiredPolicy } from "../../approvals/approver-policies/requirement.ts";
import { DECIDE, type KnownIssuer, type Shortage, shortageOf } from "../../approvals/approver-policies/supply.ts";
import { type OperatorRule, readOperatorRules } from "../../approvals/operator-rules.ts";
import { hint, listed } from "../../core/nearest.ts";
import { conditionsHold } from "../../core/rule-conditions.ts";
import type { Tool } from "../../core/types.ts";
import type { Config } from "../config/config.ts";
import { operatorIssuer, ownJwt } from "../config/tenants.ts";
import type { LoadedTools } from "../manifests/sources.ts";
import type { ResolvedBinding } from "./roles.ts";

type Policy = Config["approvals"]["policies"][number];
type Webhook = Config["approvals"]["webhooks"][number];

const NAMED_MAX = 5;

interface PolicyFindings {
  /** Policies that nobody could ever satisfy: the service does not start. */
  readonly problems: readonly string[];
  /** Policies that are valid but probably not intended. */
  readonly notes: readonly string[];
}

interface PolicyContext {
  readonly tools: readonly Tool[];
  /** True when the embedder of the library determines the approvers: its issuers and store are unknown here. */
  readonly isEmbedded: boolean;
  /** True when the build has policy points of its own: they may require an approval for any tool. */
  readonly hasOwnPoints?: boolean;
  /** Roles that are bound to operators and to agents. */
  readonly bindings?: readonly ResolvedBinding[] | undefined;
}

/** Returns whether the policies can be satisfied, as far as the configuration tells. */
export function policyFindings(config: Config, context: PolicyContext): PolicyFindings {
  const { approvals } = config;
  const { tools, isEmbedded, hasOwnPoints = false, bindings = [] } = context;
  const { policies, rules } = approvals;
  const issuers = withIntegrationUsers(withBoundRoles(ownJwt(config).issuers, bindings), approvals.webhooks);
  const known = isEmbedded ? undefined : { issuers, named: operatorIssuer(config) };
  const askable = tools.filter((tool) => rules.length > 0 || hasOwnPoints || mayNeedApproval(tool));
  const hasStore = approvals.store !== undefined || approvals.storeUrlFile !== undefined;
  const problems =
    policies.length > 0 && !hasStore && !isEmbedded
      ? ["approvals.policies: needs approvals.store, which is not set"]
      : [];
  const notes = isEmbedded || !hasStore ? [] : [...uncoveredNotes(askable, policies, issuers)];
  for (const [index, policy] of policies.entries()) {
    const field = `approvals.policies[${index}] (${policy.name})`;
    const affected = askable.filter((tool) => conditionsHold(policy.when, { tool }));
    if (affected.length === 0) notes.push(`${field}: matches no tool that could need an approval`);
    notes.push(...unknownTools(policy, tools).map((name) => `${field}.when.tools: ${name} is not a registered tool`));
    if (affected.length === 0) continue;
    const problem = unsatisfiedBecause(requiredOf(policy), known);
    if (problem !== undefined) problems.push(`${field}: nobody can approve ${namesOf(affected)}: ${problem}`);
    else if (!isEmbedded) notes.push(...requesterNotes(policy, affected, issuers).map((note) => `${field}: ${note}`));
    const escalating = escalationFindings(policy, { approvals, affected, known });
    problems.push(...escalating.problems.map((text) => `${field}.${text}`));
    notes.push(...escalating.notes.map((text) => `${field}.${text}`));
    const unanswerable = affected.filter(({ approval }) =>
      approval.scopes?.every((scope) => !policy.scopes.includes(scope)),
    );
    if (unanswerable.length > 0)
      problems.push(`${field}.scopes: ${namesOf(unanswerable)} can be answered with none of them`);
  }
  return { problems, notes };
}

/**
 * Adds what roles give to subjects. Who holds a role by a claim is known only to the issuer: then a table no longer says who the
 * operators are.
 */
function withBoundRoles(issuers: readonly KnownIssuer[], bindings: readonly ResolvedBinding[]): readonly KnownIssuer[] {
  return issuers.map((profile) => {
    const { operators, subjectPermissions } = profile;
    const bound = bindings.filter((one) => one.issuer === profile.issuer && one.isForOperators === operators);
    if (bound.length === 0 || (operators && subjectPermissions === undefined)) return profile;
    const isClaimed = bound.some(({ callers }) => "claims" in callers);
    if (operators && isClaimed) return { ...profile, subjectPermissions: undefined };
    const held = new Map(Object.entries(subjectPermissions ?? {}));
    for (const { callers, permissions } of bound) {
      if ("subject" in callers) held.set(callers.subject, [...(held.get(callers.subject) ?? []), ...permissions]);
    }
    return { ...profile, subjectPermissions: Object.fromEntries(held) };
  });
}

/**
 * Adds people on whose behalf an integration decides: they need no permissions in tokens, because the integration's table lists
 * their permissions.
 */
function withIntegrationUsers(issuers: readonly KnownIssuer[], webhooks: readonly Webhook[]): readonly KnownIssuer[] {
  const people = webhooks.flatMap(({ decisions }) => Object.values(decisions?.people ?? {}));
  return issuers.map((profile) => {
    if (!profile.operators || profile.subjectPermissions === undefined) return profile;
    const held = new Map(Object.entries(profile.subjectPermissions));
    for (const { issuer, subject, permissions } of people) {
      if (issuer !== profile.issuer) continue;
      held.set(subject, [...(held.get(subject) ?? []), DECIDE, ...permissions]);
    }
    return { ...profile, subjectPermissions: Object.fromEntries(held) };
  });
}

/** Any single approver: the requirement for an approval request that no policy covers. */
const ANY_APPROVER = {
  name: "",
  distinctPeople: true,
  stages: [{ name: "", count: 1, deciders: { permissions: [] } }],
};

/**
 * Returns notes on tools that no policy covers and that nobody can approve. A configuration without operators is noted
 * elsewhere.
 */
function uncoveredNotes(
  askable: readonly Tool[],
  policies: readonly Policy[],
  issuers: readonly KnownIssuer[],
): readonly string[] {
  if (!issuers.some(({ operators }) => operators) || shortageOf(ANY_APPROVER, issuers) === undefined) return [];
  const uncovered = askable.filter((tool) => !policies.some((policy) => alwaysApplies(policy, tool)));
  if (uncovered.length === 0) return [];
  return [
    `approvals: nobody can approve ${namesOf(uncovered)}: jwt.issuers[].subjectPermissions gives no operator approvals:decide`,
  ];
}

function alwaysApplies(policy: Policy, tool: Tool): boolean {
  return conditionsHold(policy.when, { tool, risk: "low" });
}

function mayNeedApproval({ category, classification, approval }: Tool): boolean {
  return category !== "read" || classification === "destructive" || approval.required === true || isRaised(approval);
}

function isRaised({ risk }: Tool["approval"]): boolean {
  return risk === "high" || risk === "critical";
}

function unknownTools({ when }: Policy, tools: readonly Tool[]): readonly string[] {
  const names = new Set(tools.map(({ name }) => name));
  return (when.tools ?? []).filter((pattern) => !pattern.includes("*") && !names.has(pattern));
}

interface KnownApprovers {
  readonly issuers: readonly KnownIssuer[];
  /** The words for an issuer of approvers, for messages. */
  readonly named: string;
}

interface EscalationContext {
  readonly approvals: Config["approvals"];
  /** Tools that the policy applies to. */
  readonly affected: readonly Tool[];
  /** Undefined when the embedder of the library determines the approvers. */
  readonly known: KnownApprovers | undefined;
}

/** Returns what is wrong with a policy's escalation steps, and what is valid but probably not intended. */
function escalationFindings(policy: Policy, { approvals, affected, known }: EscalationContext): PolicyFindings {
  const problems: string[] = [];
  const notes: string[] = [];
  const { policies, webhooks } = approvals;
  const others = policies.filter(({ when }) => affected.some((tool) => conditionsHold(when, { tool })));
  const expiry = Math.min(...others.map(({ decideBySeconds = approvals.decideBySeconds }) => decideBySeconds));
  const isSubscribed = webhooks.some(({ events }) => events.includes("approval.escalated"));
  for (const [at, { afterSeconds, adds, webhooks: named }] of (requiredOf(policy).escalate ?? []).entries()) {
    const field = `escalate[${at}]`;
    const stages = [{ name: "escalation", count: 1, deciders: adds?.deciders ?? { permissions: [] } }];
    const problem = adds && unsatisfiedBecause({ ...ANY_APPROVER, stages }, known);
    if (problem !== undefined) problems.push(`${field}.deciders: nobody is one of them: ${problem}`);
    if (afterSeconds >= expiry)
      notes.push(`${field}: another policy may let the request expire after ${expiry} s, before`);
    if (named === undefined && !isSubscribed && known !== undefined)
      notes.push(`${field}: notifies no webhook: name one in webhooks, or add approval.escalated to the events of one`);
  }
  return { problems, notes };
}

/** Returns why a policy can never be satisfied. Without known approvers, only the people that the policy itself names count. */
function unsatisfiedBecause(required: RequiredPolicy, known: KnownApprovers | undefined): string | undefined {
  const { stages } = required;
  const people = stages.flatMap(({ deciders }) => deciders.subjects ?? []);
  if (known === undefined) return shortageText(shortageOf(required, embedderIssuers(people)));
  const { issuers, named } = known;
  if (!issuers.some(({ operators }) => operators)) return `there is no ${named}`;
  const unknownIssuers = [...new Set(people.map(({ issuer }) => issuer))].filter(
    (name) => !issuers.some(({ issuer, operators }) => operators && issuer === name),
  );
  const shortage = shortageText(shortageOf(required, issuers));
  if (shortage === undefined || unknownIssuers.length === 0) return shortage;
  return `${shortage}; ${unknownIssuers.join(", ")} is not an ${named}`;
}

function embedderIssuers(named: readonly { readonly issuer: string }[]): readonly KnownIssuer[] {
  const issuers = new Set(["", ...named.map(({ issuer }) => issuer)]);
  return [...issuers].map((issuer) => ({ issuer, operators: true }));
}

function shortageText(shortage: Shortage | undefined): string | undefined {
  if (shortage === undefined) return undefined;
  const { stage, needed, available } = shortage;
  return `stage ${stage} needs ${needed}, and ${available} of those who may decide can be left for it`;
}

/** Returns notes on callers that would be needed as approvers of their own requests. */
function requesterNotes(policy: Policy, tools: readonly Tool[], issuers: readonly KnownIssuer[]): readonly string[] {
  return tools.flatMap((tool) => {
    const unanswerable = callersOf(tool, issuers).filter(
      (caller) => shortageOf(requiredOf(policy), issuers, [caller]) !== undefined,
    );
    if (unanswerable.length === 0) return [];
    return [
      `nobody can approve ${tool.name} when ${firstOf(unanswerable)} requests it: requesters cannot decide their own requests`,
    ];
  });
}

/** Returns the possible callers of a tool: subjects in the permission tables of the agents' issuers. */
function callersOf({ permissions }: Tool, issuers: readonly KnownIssuer[]): readonly string[] {
  return issuers
    .filter(({ operators }) => !operators)
    .flatMap(({ subjectPermissions = {} }) => Object.entries(subjectPermissions))
    .filter(([, held]) => permissions.required.every((permission) => held.includes(permission)))
    .map(([subject]) => subject);
}

function namesOf(tools: readonly Tool[]): string {
  return firstOf(tools.map(({ name }) => name));
}

function firstOf(names: readonly string[]): string {
  const more = names.length - NAMED_MAX;
  return `${names.slice(0, NAMED_MAX).join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}

type Loaded = Pick<LoadedTools, "tools" | "notRegistered" | "problems">;

/**
 * Reports rules that can never match, because a tool or an argument is misspelt. Tool names are not checked while a manifest
 * cannot be read or a target is missing: the name may be one of those tools'.
 */
export function ruleProblems({ approvals }: Config, { tools, notRegistered, problems }: Loaded): readonly string[] {
  const { rules, problems: unread } = readOperatorRules(approvals.rules);
  if (unread.length > 0) return [];
  const known = new Map(tools.map((tool) => [tool.name, tool]));
  const areAllKnown = notRegistered.length === 0 && problems.length === 0;
  return rules.flatMap(({ when }, index) => {
    const field = `approvals.rules[${index}].when`;
    if (when.tool === undefined) return [];
    const tool = known.get(when.tool);
    if (tool !== undefined) return argumentProblems(when, tool).map((problem) => `${field}.args.${problem}`);
    return areAllKnown ? [`${field}.tool: no tool is called ${when.tool}${hint(when.tool, known.keys())}`] : [];
  });
}

/**
 * Returns the unknown arguments of a rule. A field is matched literally or by path: the first step of the path can be checked
 * when the input allows no other keys.
 */
function argumentProblems({ args = {} }: OperatorRule["when"], { name, input }: Tool): readonly string[] {
  if (input.def.catchall?._zod.def.type !== "never") return [];
  const own = Object.keys(input.shape);
  return Object.keys(args).flatMap((field) => {
    const [first = field] = field.split(".", 1);
    if (own.includes(field) || own.includes(first)) return [];
    return [`${field}: ${name} has no such argument; it has ${listed(own)}${hint(first, own)}`];
  });
}
