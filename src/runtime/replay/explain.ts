import type { Approvals, Grant } from "../../approvals/types.ts";
import type { Change, Explanation, Statement } from "../../core/api/explain.ts";
import { errorText } from "../../core/error-text.ts";
import { Refusal } from "../../core/errors.ts";
import { closestName } from "../../core/nearest.ts";
import type { CallerContext, ExecutionPlan, Tool } from "../../core/types.ts";
import type { DataFlowPolicy, FlowJudgement } from "../../data-flow/flow.ts";
import { boundedCallOf } from "../../pipeline/approval/grants.ts";
import { modesThatPass } from "../../pipeline/approval/order.ts";
import { renderCall } from "../../pipeline/approval/view.ts";
import { permissionsFor } from "../../pipeline/built-in-points.ts";
import { sourcesOf } from "../../pipeline/call-flow.ts";
import { type CallSession, callSession } from "../../pipeline/call-session.ts";
import { DATA_FLOW } from "../../pipeline/policy-points.ts";
import { readInput } from "../../pipeline/schema-validator.ts";
import type { Quotas } from "../../quotas/quotas.ts";
import type { Parts } from "../composition/assembly.ts";
import type { Config } from "../config/config.ts";
import { agentIssuers, callersTenant } from "../config/tenants.ts";
import { type FlowJudge, liveFlowJudge, recordedFlowJudge } from "./flow.ts";
import { type CallVerdict, type Judgement, judge } from "./judge.ts";

/** A call that an operator asks about. */
export interface ExplainedCall {
  readonly tool: string;
  readonly args: unknown;
  readonly caller: CallerContext;
  /** Session that the call names. */
  readonly session?: string | undefined;
  /** Mode of the session; default: what operators have set for it, otherwise the configuration's. */
  readonly mode?: Config["approvals"]["mode"] | undefined;
  /** Whether planning may ask the target. */
  readonly lookups: boolean;
}

interface ExplainParts {
  readonly parts: Parts;
  readonly config: Config;
  /** Digest of the configuration, as audit entries name it. */
  readonly policyVersion: string;
  /** What a running service knows besides; a configuration alone knows nothing of it. */
  readonly known?: KnownState | undefined;
}

interface KnownCall {
  readonly tool: Tool;
  readonly caller: CallerContext;
}

/** What a running service knows of callers and their calls. */
export interface KnownState {
  /** Returns why operators have stopped such calls. */
  haltOf(call: KnownCall & { readonly session: string | undefined }): Refusal | undefined;
  /** What callers have read; undefined: data flow is off. */
  readonly dataFlow: DataFlowPolicy | undefined;
  /** Undefined: there are no quotas. */
  readonly quotas: Pick<Quotas, "judge"> | undefined;
  /** Sessions with their modes, and grants; undefined without a store. */
  readonly approvals: Pick<Approvals, "findSession" | "hasSessionEnded" | "findBoundedGrants"> | undefined;
}

const PLAN_TIMEOUT_MS = 30_000;

/**
 * Returns what every policy says about a call, and what would have to change. Asks the policy points, and plans where planning
 * needs no target or `lookups` allows it. Runs, writes and counts nothing.
 */
export async function explainCall(
  { parts, config, policyVersion, known }: ExplainParts,
  call: ExplainedCall,
): Promise<Explanation> {
  const { caller, tool } = call;
  const { registered: named } = parts.registry.find(tool);
  const halt = named && known?.haltOf({ tool: named.tool, caller, session: call.session });
  const usual = config.approvals.mode;
  const session = await callSession(known?.approvals, { caller, named: call.session }, usual).catch(asRefusal);
  const isEnded = session instanceof Refusal;
  const mode = call.mode ?? (isEnded ? usual : (session.mode ?? usual));
  const planned = await planOf(parts, call);
  let seen: FlowJudgement | undefined;
  const judged = await judge(
    { parts, config, asks: () => true, flow: await flowJudgeOf({ parts, config, known }, (found) => (seen = found)) },
    {
      tool,
      caller,
      mode,
      hasSession: (caller.session ?? call.session) !== undefined,
      args: { kind: "sent", value: call.args },
      plan: planned.plan,
    },
  );
  const granted = isEnded ? undefined : await byGrant(known, { call, judged, planned, session });
  const ended = isEnded && judged.isInAnySession !== true ? session : undefined;
  const [only = "unknown", ...others] = granted?.verdict === "allow" ? ["allow" as const] : judged.verdicts;
  const ruled = others.length > 0 ? "unknown" : only;
  const permitted = ended !== undefined && isOpen(ruled) ? ended.code : ruled;
  const isPermitted = isOpen(permitted);
  const quota = named && isPermitted ? await known?.quotas?.judge({ tool: named.tool, caller }) : undefined;
  // A request for an approval takes nothing of a quota; the call that uses the approval does.
  const verdict = permitted === "allow" && quota !== undefined ? quota.code : permitted;
  const isVerdict = isOpen(verdict);
  const { assessment, registered } = judged;
  const required = registered === undefined ? [] : requiredBy(registered.tool, call.args);
  return {
    tool,
    policyVersion,
    caller: { iss: caller.issuer, sub: caller.subject, permissions: caller.permissions },
    mode,
    verdict: isVerdict && halt === undefined ? verdict : "deny",
    code: halt?.code ?? (isVerdict ? undefined : verdict),
    statements: [
      ...(halt === undefined ? [] : [refusedBy("halts", "PERMISSION", halt)]),
      ...judged.statements,
      ...(ended === undefined ? [] : [refusedBy("session", "APPROVAL", ended)]),
      ...(granted === undefined ? [] : [granted]),
      ...(quota === undefined ? [] : [refusedBy("quotas", "LIMIT", quota)]),
    ],
    permissions: { required, missing: required.filter((name) => !caller.permissions.includes(name)) },
    risk: assessment?.risk,
    rules: assessment?.rules ?? [],
    approvalPolicies: (assessment?.requirement?.policies ?? []).map((policy) => ({ ...policy })),
    ...(seen !== undefined && { dataFlow: { labels: seen.labels, sources: sourcesOf(seen) } }),
    ...shownPlan(parts, judged, { call, planned }),
    changes: [
      ...(halt === undefined ? [] : [LIFT]),
      ...(ended === undefined ? [] : [ANOTHER_SESSION]),
      ...(permitted === "allow"
        ? []
        : changesFor(judged, { parts, config, call, missing: missingIn(required, caller) })),
      ...(quota === undefined ? [] : [changeOfQuota(quota)]),
    ],
  };
}

/** Returns whether a verdict may still let the call run. */
function isOpen(verdict: CallVerdict | "unknown"): verdict is "allow" | "ask" | "unknown" {
  return verdict === "allow" || verdict === "ask" || verdict === "unknown";
}

function asRefusal(error: unknown): Refusal {
  if (error instanceof Refusal) return error;
  throw error;
}

const ANOTHER_SESSION: Change = {
  kind: "approval",
  names: ["session"],
  text: "the call names a session that is open (POST /sessions), or none",
};

const LIFT: Change = { kind: "halts", names: ["halts"], text: "the halt ends, or is lifted (stc halts, stc resume)" };

function refusedBy(point: string, stage: Statement["stage"], { code, findings = [] }: Refusal): Statement {
  return { stage, point, verdict: "deny", reasons: findings.map(({ reason }) => reason), code };
}

function changeOfQuota({ code, details = {} }: Refusal): Change {
  if (code !== "QUOTA_EXCEEDED")
    return { kind: "quotas", names: [], text: "the database of policies answers again, so that quotas can be read" };
  const { quota, resetsAt } = details as { readonly quota: string; readonly resetsAt: string };
  const text = `the quota is available again at ${resetsAt}, its limit is raised, or its use is set to zero (stc quotas)`;
  return { kind: "quotas", names: [quota], text };
}

/** Judges by what the caller has read: as the service remembers it, otherwise only by what is possible. */
async function flowJudgeOf(
  { parts, config, known }: Pick<ExplainParts, "parts" | "config" | "known">,
  seen: (judgement: FlowJudgement) => void,
): Promise<FlowJudge | undefined> {
  if (known?.dataFlow !== undefined) return liveFlowJudge(known.dataFlow, seen);
  return (await recordedFlowJudge(config, parts))?.({ before: undefined, sources: [] });
}

interface GrantableCall {
  readonly call: ExplainedCall;
  readonly judged: Judgement;
  readonly planned: Planned;
  readonly session: CallSession;
}

/** Returns which bounded grants cover the call; undefined when none does, or its tool offers none. */
async function byGrant(
  known: ExplainParts["known"],
  { call: { caller }, judged, planned: { plan, input }, session }: GrantableCall,
): Promise<Statement | undefined> {
  const { registered, assessment, grantableRules: rules } = judged;
  if (known?.approvals === undefined || registered?.tool.approval.grants === undefined) return undefined;
  if (assessment === undefined || rules === undefined) return undefined;
  const said = { stage: "APPROVAL", point: "grants" } as const;
  if (plan === undefined) return { ...said, verdict: "unknown", reasons: ["depends on the plan: allow lookups"] };
  const { issuer, subject, actors } = caller;
  const order = { requester: { issuer, subject, actors, session: session.id }, session, rules };
  const wanted = boundedCallOf({ planned: { ...registered, plan, input }, assessment }, order);
  const found = wanted === undefined ? [] : await known.approvals.findBoundedGrants(wanted);
  return found.length === 0 ? undefined : { ...said, verdict: "allow", reasons: found.map(grantText) };
}

function grantText({ id, expiresAt, bounded }: Grant): string {
  const until = new Date(expiresAt).toISOString();
  if (bounded === undefined) return `grant ${id} until ${until}`;
  const { bounds, runsUsed } = bounded;
  return `grant ${id}: ${runsUsed} of ${bounds.terms.runs} runs used, until ${until}`;
}

function missingIn(required: readonly string[], { permissions }: CallerContext): readonly string[] {
  return required.filter((name) => !permissions.includes(name));
}

/** Returns the permissions that these arguments need; of arguments that the schema refuses, those that any call needs. */
function requiredBy(tool: NonNullable<Judgement["registered"]>["tool"], args: unknown): readonly string[] {
  try {
    return permissionsFor(tool, readInput(tool, args));
  } catch {
    return tool.permissions.required;
  }
}

interface Planned {
  readonly plan?: ExecutionPlan | undefined;
  /** The parsed arguments of a plan. */
  readonly input?: unknown;
  readonly noPlan?: string | undefined;
}

async function planOf({ registry }: Parts, { tool: name, args, lookups }: ExplainedCall): Promise<Planned> {
  const { registered } = registry.find(name);
  if (registered === undefined) return { noPlan: "there is no such tool" };
  const { tool, binding } = registered;
  if (!lookups && binding.plansFromArguments !== true && binding.planIsInput !== true)
    return { noPlan: "planning reads the target: allow lookups to see the plan" };
  try {
    const input = readInput(tool, args);
    return { input, plan: await binding.plan(input, { signal: AbortSignal.timeout(PLAN_TIMEOUT_MS) }) };
  } catch (error) {
    return { noPlan: error instanceof Refusal ? `${error.code}: ${error.message}` : errorText(error) };
  }
}

/** Returns the plan as an approver sees it, without secrets. */
function shownPlan(
  { detector }: Parts,
  { registered, assessment }: Judgement,
  { call, planned: { plan, noPlan } }: { readonly call: ExplainedCall; readonly planned: Planned },
): Pick<Explanation, "plan" | "noPlan"> {
  if (registered === undefined || plan === undefined) return { noPlan };
  const { tool, binding } = registered;
  const { issuer, subject, actors } = call.caller;
  const rendered = renderCall(detector, {
    planned: { tool, binding, plan, digest: "", input: readInput(tool, call.args) },
    requester: { issuer, subject, actors, session: undefined },
    assessment: assessment ?? { risk: "low", rules: [], notes: [] },
  });
  return rendered === undefined ? { noPlan: "it is too large to show to a person" } : { plan: rendered.view };
}

interface ChangeContext {
  readonly parts: Parts;
  readonly config: Config;
  readonly call: ExplainedCall;
  readonly missing: readonly string[];
}

function changesFor({ statements, verdicts, refusal, unknown }: Judgement, context: ChangeContext): readonly Change[] {
  const { parts, config, call, missing } = context;
  const changes: Change[] = [];
  const add = (kind: Change["kind"], names: readonly string[], text: string): void =>
    void changes.push({ kind, names, text });
  if (verdicts.has("TOOL_NOT_FOUND")) add("tool", nearestTools(parts, call.tool), "call a tool that is registered");
  if (missing.length > 0) add("permissions", missing, permissionsText(config, call.caller));
  if (refusal?.code === "INVALID_INPUT") add("arguments", [], refusal.message);
  for (const { point, verdict, reasons } of statements) {
    if (verdict === "allow" || point === "permissions" || point === "elevation" || point === "registry") continue;
    if (point === "risk") for (const reason of reasons) changes.push(changeOfRule(reason));
    else if (point === "approval") changes.push(...byApproval(parts, call));
    else if (point === DATA_FLOW) add("dataFlow", [DATA_FLOW], verdict === "unknown" ? FLOW_UNKNOWN : FLOW_ASKS);
    else if (point !== "schema")
      add("points", [point], `the policy point ${point} must ${verdict === "unknown" ? "be asked" : "allow it"}`);
  }
  if (verdicts.has("APPROVAL_DENIED"))
    add("store", ["approvals.store"], "set approvals.store, so that a person can be asked");
  if (unknown.has("plan")) add("nothing", [], "the verdict depends on the plan: allow lookups to see it");
  return changes;
}

function nearestTools({ registry }: Parts, name: string): readonly string[] {
  const found = closestName(
    name,
    registry.list().map(({ tool }) => tool.name),
  );
  return found === undefined ? [] : [found];
}

function permissionsText(config: Config, { issuer, subject }: CallerContext): string {
  const hasTable = agentIssuers(config).some((one) => one.issuer === issuer && one.subjectPermissions !== undefined);
  return hasTable
    ? `add them to jwt.issuers[].subjectPermissions of ${subject}`
    : "the issuer must put them into the caller's token";
}

const BUILT_IN = "a built-in rule: no setting changes it, so change the call";
const FLOOR: Readonly<Record<string, Omit<Change, "names">>> = {
  "floor:destructive": {
    kind: "manifest",
    text: "destructive tools always ask: only another classification changes that",
  },
  "floor:approval.required": { kind: "manifest", text: "approval.required: true in the manifest always asks" },
  "floor:category": { kind: "manifest", text: "category: ask in the manifest always asks" },
  "floor:risk:high": { kind: "manifest", text: "calls of high risk always ask: see rules for what raised it" },
  "floor:risk:critical": { kind: "manifest", text: "calls of critical risk always ask: see rules for what raised it" },
};

/** `reason`: `floor:` and a fixed word, or the names of the rules that decided. */
function changeOfRule(reason: string): Change {
  const fixed = Object.hasOwn(FLOOR, reason) ? FLOOR[reason] : undefined;
  if (fixed !== undefined) return { ...fixed, names: [reason] };
  const rules = reason.replace(/^floor:/, "").split(",");
  const own = rules.filter((rule) => rule.startsWith("operator:")).map((rule) => rule.slice("operator:".length));
  return own.length === rules.length
    ? { kind: "rules", names: own, text: "these approvals.rules must not match the call" }
    : { kind: "rules", names: rules, text: BUILT_IN };
}

const FLOW_ASKS =
  "another destination, one that the user or a trusted field names; the caller's labels end or are cleared (stc flow); or other rules in dataFlow";
const FLOW_UNKNOWN = "only a running service knows what the caller has read: ask it with --service";

function byApproval({ registry }: Parts, { tool: name }: ExplainedCall): readonly Change[] {
  const { registered } = registry.find(name);
  if (registered === undefined) return [];
  const { tool } = registered;
  const text = `a session in one of these modes, needsApproval in the manifest, or an approval: stc approvals list`;
  const byMode: Change = { kind: "approval", names: modesThatPass(tool), text };
  return tool.approval.grants === undefined ? [byMode] : [byMode, OFFERED];
}

const OFFERED: Change = {
  kind: "approval",
  names: ["bounded"],
  text: "an approver of such a call may cover further ones within bounds: stc grants list",
};

/** Who would make the call: a token that is verified, or a subject as the operator states it. */
export interface StatedCaller {
  readonly token?: string | undefined;
  readonly sub?: string | undefined;
  /** Default: the only issuer of agents. */
  readonly iss?: string | undefined;
  /** Default: those of `jwt.issuers[].subjectPermissions`. */
  readonly permissions?: readonly string[] | undefined;
}

/**
 * Returns the caller whose call is explained.
 *
 * @throws {Refusal} UNAUTHENTICATED for a token that is not valid, MALFORMED_REQUEST when it is not clear who calls
 */
export async function callerOf(
  { parts, config }: Pick<ExplainParts, "parts" | "config">,
  { token, sub, iss, permissions }: StatedCaller,
): Promise<CallerContext> {
  if (token !== undefined) return (await parts.callers.verifyToken(token, "agents")).caller;
  if (sub === undefined) throw malformed("sub: required, unless there is a token.");
  const agents = agentIssuers(config);
  const [first, another] = agents;
  if (iss === undefined && another !== undefined)
    throw malformed(
      `iss: required, because there are several issuers: ${agents.map(({ issuer }) => issuer).join(", ")}.`,
    );
  const profile = iss === undefined ? first : agents.find(({ issuer }) => issuer === iss);
  if (profile === undefined) throw malformed(`iss: ${iss ?? "nobody"} is not an issuer of agents' tokens here.`);
  const stated = {
    issuer: profile.issuer,
    subject: sub,
    tenant: callersTenant(config),
    actors: [],
    session: undefined,
  };
  const expiresAt = Number.MAX_SAFE_INTEGER;
  if (permissions !== undefined) return { ...stated, permissions, expiresAt };
  const known = parts.callers.configuredAgent(stated);
  if (profile.subjectPermissions === undefined && known.permissions.length === 0)
    throw malformed("permissions: required, because the configuration does not list them for this issuer.");
  return { ...known, expiresAt };
}

function malformed(message: string): Refusal {
  return new Refusal("MALFORMED_REQUEST", message);
}
