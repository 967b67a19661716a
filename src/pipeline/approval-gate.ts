import { answerProblem, type WantedAnswer, wantedAnswer } from "../approvals/answer.ts";
import { type ApprovalCallback, askCallback } from "../approvals/callback.ts";
import type { Verdict } from "../approvals/floor.ts";
import { type BoundedCall, boundsKeyOf, type GrantBounds, offerFor, termsInWords } from "../approvals/grants.ts";
import type { Requester } from "../approvals/identities.ts";
import type { RiskAssessment } from "../approvals/risk.ts";
import type {
  Approval,
  Approvals,
  Attachable,
  Grant,
  Mode,
  NewApproval,
  NotAsked,
  PriorCall,
} from "../approvals/types.ts";
import { renderView } from "../approvals/view.ts";
import { type PolicyFinding, Refusal } from "../core/errors.ts";
import { type Approved, type Judged, mint, type Planned } from "../core/evidence.ts";
import { copyOf } from "../core/json.ts";
import type { GivenApproval } from "../core/policy-point.ts";
import type { RefusalCode } from "../core/refusals.ts";
import type { GivenAnswer, Tool } from "../core/types.ts";
import { namesSecret } from "../detection/sanitize-args.ts";
import type { Detector } from "../detection/sensitive.ts";
import type { CallBudget } from "../quotas/quotas.ts";
import {
  approvalsUnavailable,
  claimRefusal,
  deniedRefusal,
  inProgress,
  pendingRefusal,
  unanswered,
} from "./approval-refusals.ts";
import type { CallRequest } from "./call-request.ts";
import type { CallScope } from "./call-scope.ts";
import { type CallSession, callSession } from "./call-session.ts";
import { isElevated } from "./permission-engine.ts";
import { digestInAnySession } from "./planner.ts";
import type { Assessed, PolicyEvaluator } from "./policy-points.ts";
import { secretsOf } from "./redactor.ts";
import { deepFreeze } from "./schema-validator.ts";

interface GateOptions {
  /** Stores approval requests. Without it and without a callback, a call that needs an approval is denied. */
  readonly approvals?: Approvals | undefined;
  /** Mode of sessions for which no operator has set another one. */
  readonly mode: Mode;
  /** Whether the same call again uses the approval that was given for it. */
  readonly attaches: boolean;
  readonly onToolApprove?: ApprovalCallback | undefined;
  readonly callbackTimeoutMs: number;
  /** Hides secrets in what an approver sees. */
  readonly detector: Detector;
  readonly newId: () => string;
  /** Asks the points that required an approval again, before it is used. Default: an approval is enough. */
  readonly confirmation?: PolicyEvaluator["confirmation"] | undefined;
}

/** Facts about a call that its plan does not contain. */
export interface GateContext {
  readonly request: CallRequest;
  readonly traceId: string;
  readonly scope: CallScope;
  /** Runs other arguments through the stages from VALIDATION to PLAN, and asks the policy points about the plan. */
  replan(args: unknown): Promise<Assessed>;
  /**
   * Verifies the token again.
   * @throws {Refusal} UNAUTHENTICATED, AUTH_UNAVAILABLE
   */
  verifyAgain(): Promise<unknown>;
  /** Takes what the call needs of the quotas, before an approval is used or the call passes. Undefined: there are none. */
  readonly budget?: CallBudget | undefined;
  /** Receives the mode that an operator has set for the session, when it is read. */
  noteMode?(mode: Mode): void;
}

/** Decides whether a plan may run, or requests an approval for it. */
export interface ApprovalGate {
  /**
   * @throws {Refusal} APPROVAL_REQUIRED while an approver is asked, APPROVAL_DENIED, or another APPROVAL_… code
   * when `approvalId` does not approve this plan
   */
  approve(assessed: Assessed, context: GateContext): Approved | Promise<Approved>;
  /**
   * Returns what `approve` would do, without requesting, claiming or writing anything and without asking the callback.
   * @throws {Refusal} that of `approve`, except APPROVAL_REQUIRED
   */
  judge(assessed: Assessed, context: GateContext): Promise<Judged>;
}

/**
 * Creates a gate that denies by default: anything that fails, is late or is unknown needs an approval, and an approval request
 * without an answer is a denial.
 */
export function createApprovalGate(options: GateOptions): ApprovalGate {
  return {
    approve({ planned, assessment, findings = NONE, flow }, context) {
      const early = findings.length === 0 ? verdictBeforeManifest(planned.tool, "default") : undefined;
      if (early !== undefined && context.request.approvalId === undefined)
        return pass(planned, { by: early.by }, context);
      return consider(options, { planned, assessment, findings, flow, ...context });
    },
    async judge({ planned, assessment, findings = NONE, flow }, context) {
      const isEarly = findings.length === 0 && verdictBeforeManifest(planned.tool, "default") !== undefined;
      if (isEarly) return judgedAllowed(planned, context);
      const call = { planned, assessment, findings, flow, ...context };
      const ruled = await ruleOn(options, call);
      if ("by" in ruled || ruled.bounded.length > 0) return judgedAllowed(planned, context);
      const isAsked = mayUseCallback(callbackOf(options, call), call) || (await isAskable(options, call, ruled));
      return isAsked ? mint<Judged>({ verdict: "ask" }) : judgedAllowed(planned, context);
    },
  };
}

interface Call extends GateContext {
  readonly planned: Planned;
  readonly assessment: RiskAssessment;
  /** These require an approval: no mode, manifest or callback weakens them. */
  readonly findings: readonly PolicyFinding[];
  readonly flow: Assessed["flow"];
}

const NONE: readonly PolicyFinding[] = [];

async function consider(options: GateOptions, call: Call): Promise<Approved> {
  const { planned, request } = call;
  // A call that names an approval claims that approval, even if another rule would allow the call.
  if (request.approvalId !== undefined) {
    const { id: session } = await guarded(() => sessionOf(options, call));
    const requester = { ...identity(planned), session };
    return claim(options, call, { requester, id: request.approvalId });
  }
  const ruled = await ruleOn(options, call);
  if ("by" in ruled) return pass(planned, ruled, call);
  const grant = await useBoundedGrant(options, call, ruled.bounded);
  if (grant !== undefined) return pass(planned, { by: grantedBy(grant) }, call);
  const callback = callbackOf(options, call);
  if (mayUseCallback(callback, call)) return decideByCallback({ ...options, callback }, call, ruled);
  return useOrRequest(options, call, ruled);
}

/** Returns the rule, the mode or the grant that lets the call pass; otherwise which rules require an approval. Writes nothing. */
async function ruleOn(options: GateOptions, call: Call): Promise<Pick<Approved, "by"> | RuledOrder> {
  const { planned, findings } = call;
  const isOptional = findings.length === 0;
  // If the manifest allows the call in every mode, the mode is not read: the store may be slow or unavailable.
  const manifestPasses =
    isOptional && mayHaveMode(options, call) ? await doesManifestPassInAnyMode(planned) : undefined;
  if (manifestPasses === true) return { by: "needsApproval" };
  const session = await guarded(() => sessionOf(options, call));
  const requester = { ...identity(planned), session: session.id };
  const requiring = findings.map(ruleOf);
  const verdict =
    requiring.length > 0 ? undefined : await stepVerdict(call, { mode: session.mode ?? options.mode, manifestPasses });
  if (verdict?.verdict === "allow") return { by: verdict.by };
  const order = { requester, session, rules: verdict === undefined ? [...new Set(requiring)] : [verdict.by] };
  const { exact, bounded } = await guarded(() => coveringGrants(options, call, order));
  return exact === undefined ? { ...order, bounded } : { by: grantedBy(exact) };
}

/** Returns the name of the rule that requires the approval. The risk rules name theirs themselves. */
export function ruleOf({ point, reason }: Pick<PolicyFinding, "point" | "reason">): string {
  return point === "risk" ? reason : `policy:${point}`;
}

/** Returns the callback of the call itself, otherwise that of all calls. */
function callbackOf({ onToolApprove }: GateOptions, { request }: Call): ApprovalCallback | undefined {
  return request.onToolApprove ?? onToolApprove;
}

/** Returns whether the callback may decide. A policy that requires people accepts the callback only if the policy says so. */
function mayUseCallback(
  callback: ApprovalCallback | undefined,
  { assessment: { requirement }, findings = NONE }: Pick<Assessed, "assessment" | "findings">,
): callback is ApprovalCallback {
  if (callback === undefined || findings.some(({ peopleOnly }) => peopleOnly === true)) return false;
  return requirement === undefined || requirement.callback;
}

/** Steps 1 and 2. The rule for `read` ignores the mode, so that a read does not need a session lookup. */
function verdictBeforeManifest({ category }: Tool, mode: Mode): Verdict | undefined {
  if (category === "read") return { verdict: "allow", by: "category:read" };
  return mode === "yolo" ? { verdict: "allow", by: "mode:yolo" } : undefined;
}

/** Step 4. The manifest's own setting is step 3. */
function verdictAfterManifest({ category }: Tool, mode: Mode): Verdict | undefined {
  return mode === "autoEdit" && category === "write" ? { verdict: "allow", by: "mode:autoEdit" } : undefined;
}

interface ModeAndManifest {
  readonly mode: Mode;
  /** Whether the manifest allows the call without approval; undefined when its function was not called yet. */
  readonly manifestPasses: boolean | undefined;
}

/** Runs steps 1 to 4 of the approval rules. */
async function stepVerdict(
  { planned }: { readonly planned: Ruled },
  { mode, manifestPasses }: ModeAndManifest,
): Promise<Verdict> {
  const { tool } = planned;
  const before = verdictBeforeManifest(tool, mode);
  if (before !== undefined) return before;
  if (manifestPasses ?? (await doesManifestPass(planned, { mode, onModeRead: () => {} })))
    return { verdict: "allow", by: "needsApproval" };
  return verdictAfterManifest(tool, mode) ?? { verdict: "ask", by: "default" };
}

type Ruled = Pick<Planned, "tool" | "input" | "caller">;

/**
 * Returns what the rules say about a call that no policy point denies, without grants and earlier approvals. `isRequired`: a
 * policy point requires an approval.
 */
export async function ruleByMode(planned: Ruled, mode: Mode, isRequired: boolean): Promise<Verdict> {
  return isRequired ? { verdict: "ask", by: "policy" } : stepVerdict({ planned }, { mode, manifestPasses: undefined });
}

/** Returns whether a store may know a mode of the call's session. */
function mayHaveMode({ approvals }: GateOptions, { planned: { caller }, request }: Call): boolean {
  return approvals !== undefined && (caller.session ?? request.session) !== undefined;
}

async function sessionOf({ approvals, mode }: GateOptions, call: Call): Promise<CallSession> {
  const session = await callSession(approvals, { caller: call.planned.caller, named: call.request.session }, mode);
  if (session.mode !== undefined) call.noteMode?.(session.mode);
  return session;
}

function identity({ caller }: Planned): Omit<Requester, "session"> {
  return { issuer: caller.issuer, subject: caller.subject, actors: caller.actors };
}

type Confirm = NonNullable<ReturnType<PolicyEvaluator["confirmation"]>>;

interface ClaimOrder {
  readonly requester: Requester;
  readonly id: string;
}

async function claim(options: GateOptions, call: Call, order: ClaimOrder): Promise<Approved> {
  const { approvals } = options;
  const { requester, id } = order;
  const { planned } = call;
  const { tool, digest: planDigest } = planned;
  if (approvals === undefined) throw claimRefusal({ outcome: "not_found" }, tool);
  await call.budget?.reserve(planned);
  // A disconnected caller consumes no approval.
  call.scope.assertOpen();
  const confirm = options.confirmation?.(call);
  if (confirm !== undefined) await confirmApproval(options, call, { ...order, confirm });
  const requirementDigest = call.assessment.requirement?.digest;
  const claimed = await guarded(() => approvals.claim({ id, requester, planDigest, requirementDigest }));
  if (claimed.outcome !== "claimed") throw claimRefusal(claimed, tool);
  const { approval } = claimed;
  const answer = answerIn(approval, planned);
  return pass(planned, { by: approversOf(approval), approvalId: id, answer }, call);
}

/**
 * Asks the points that required the approval about it, while it is approved and not used. A pending request ends the call here: it
 * could be approved between this question and the claim. In any other state it can never be claimed.
 *
 * @throws {Refusal} the denial of a point, or APPROVAL_REQUIRED
 */
async function confirmApproval(
  { approvals }: GateOptions,
  { planned, scope }: Call,
  { requester, id, confirm }: ClaimOrder & { readonly confirm: Confirm },
): Promise<void> {
  const approval = await guarded(async () => approvals?.get(id));
  const isOwn = approval?.requester.issuer === requester.issuer && approval.requester.subject === requester.subject;
  if (approval === undefined || !isOwn || approval.planDigest !== planned.digest) return;
  if (approval.state === "pending") throw pendingRefusal(approval);
  if (approval.state !== "approved") return;
  const { votes, decidedBy, decidedAt = 0, executeBy } = approval;
  const people = votes.length > 0 ? votes : [decidedBy ?? { issuer: "", subject: "" }];
  const approvers = people.map(({ issuer, subject }) => ({ issuer, subject }));
  await confirm({ id, approvers, decidedAt, usableUntil: executeBy });
  // A caller that has disconnected meanwhile consumes no approval.
  scope.assertOpen();
}

/** @throws {Error} when an approval lacks the answer that the manifest requires */
function answerIn({ answer, decidedAt }: Approval, planned: Planned): GivenAnswer | undefined {
  if (answer?.text !== undefined) return { text: answer.text, at: decidedAt ?? 0 };
  if (answer === undefined && planned.tool.approval.answer === undefined) return undefined;
  throw new Error("an approval lacks the answer that its request needs");
}

function approversOf({ votes, decidedBy }: Approval): string {
  const people = votes.length > 0 ? votes : [{ issuer: decidedBy?.issuer ?? "", subject: decidedBy?.subject ?? "" }];
  return people.map(({ issuer, subject }) => `human:${issuer}|${subject}`).join(", ");
}

/** Returns whether an approval may cover later calls: never where the rules or a finding want a person for each call. */
function isRememberable({ assessment, findings }: Call): boolean {
  return assessment.rememberable && findings.every(({ rememberable }) => rememberable);
}

/** Returns the key of a session grant, which covers only the same plan of the same caller in that session. */
function grantKeyOf(call: Call): string | undefined {
  const { tool, digest } = call.planned;
  const isOffered = tool.approval.scopes?.includes("session") ?? true;
  return isRememberable(call) && isOffered ? digest : undefined;
}

/** Returns the grants that cover the call: that of the session for exactly this call, otherwise bounded ones. */
async function coveringGrants({ approvals }: GateOptions, call: Call, order: ApprovalOrder): Promise<CoveringGrants> {
  if (approvals === undefined) return { bounded: [] };
  const { requester } = order;
  const grantKey = grantKeyOf(call);
  const isKeyed = grantKey !== undefined && requester.session !== undefined;
  const exact = isKeyed ? await approvals.findGrant(requester, grantKey) : undefined;
  const wanted = exact === undefined && isRememberable(call) ? boundedCallOf(call, order) : undefined;
  return { exact, bounded: wanted === undefined ? [] : await approvals.findBoundedGrants(wanted) };
}

/** Counts a run of one of the grants, which is used up although the call may not start: the count is durable before anything runs. */
async function useBoundedGrant(
  { approvals }: GateOptions,
  call: Call,
  bounded: readonly Grant[],
): Promise<Grant | undefined> {
  for (const { id } of bounded) {
    // A quota that refuses the call, or a caller that has disconnected, uses no run.
    await call.budget?.reserve(call.planned);
    call.scope.assertOpen();
    const used = await guarded(async () => approvals?.useGrant(id, call.traceId));
    if (used !== undefined) return used;
  }
  return undefined;
}

function grantedBy({ id }: Grant): string {
  return `grant:${id}`;
}

/** A call whose bounded grants are looked up. */
interface GrantableCall {
  readonly planned: Pick<Planned, "tool" | "identity" | "binding" | "plan" | "input">;
  readonly assessment: Pick<RiskAssessment, "risk" | "rules">;
}

/**
 * Returns what a bounded grant for the call depends on; undefined when its tool offers none. Only for calls that are rememberable:
 * otherwise a person decides about each.
 */
export function boundedCallOf(
  { planned, assessment }: GrantableCall,
  { requester, session, rules }: ApprovalOrder,
): BoundedCall | undefined {
  const { tool, identity: toolIdentity, binding, plan, input } = planned;
  if (tool.approval.grants === undefined || !session.hasGrants) return undefined;
  const fixed = binding.fixedParts?.(plan);
  if (fixed === undefined) return undefined;
  const { risk, rules: matched } = assessment;
  return {
    requester,
    input,
    risk,
    rules: [...rules, ...matched],
    isElevated: isElevated(tool, input),
    boundsKey: boundsKeyOf(requester, { identity: toolIdentity, fixed, within: session.within }),
  };
}

/** Returns the widest bounded grant that approvers of the call may give; undefined when none. */
function grantOffer(call: Call, order: ApprovalOrder): GrantBounds | undefined {
  const { tool, digest } = call.planned;
  const { grants } = tool.approval;
  const isAllowed = call.assessment.requirement?.scopes.includes("bounded") ?? true;
  const bounded = isAllowed && isRememberable(call) ? boundedCallOf(call, order) : undefined;
  return bounded && grants && offerFor(bounded, grants, digest);
}

/** The embedding program, as the approver that points see. */
const CALLBACK = { issuer: "safe-tool-call", subject: "onToolApprove" };

type GateWithCallback = GateOptions & { readonly callback: ApprovalCallback };

async function decideByCallback(
  options: GateWithCallback,
  call: Call,
  { requester, rules }: ApprovalOrder,
): Promise<Approved> {
  const { planned, assessment, request, scope } = call;
  const { tool, input, plan, digest: planDigest } = planned;
  const use = {
    name: tool.name,
    params: structuredClone(input) as Record<string, unknown>,
    approvalId: options.newId(),
    callId: request.callId,
    category: tool.category,
    sessionId: requester.session,
    risk: assessment.risk,
    rules: [...rules, ...assessment.rules],
    plan: structuredClone(plan),
    planDigest,
  };
  const { callback, callbackTimeoutMs: timeoutMs } = options;
  // An approver's time to think does not count as the tool's run time.
  const answer = await scope.hold((signal) => askCallback(callback, use, { timeoutMs, signal }));
  if (!answer.approved) {
    // When the call itself is over, no approver has denied it.
    scope.assertOpen();
    throw answer.cause === undefined ? deniedRefusal(tool, answer) : unanswered(answer.cause);
  }
  // The token may have expired or been revoked while the approver decided.
  await call.verifyAgain();
  const given: GivenApproval = { id: use.approvalId, approvers: [CALLBACK], decidedAt: scope.now() };
  if (answer.params === undefined) {
    await options.confirmation?.(call)?.(given);
    return pass(planned, { by: "callback", answer: answerFrom(answer, planned, scope) }, call);
  }
  const changed = await call.replan(answer.params);
  const { planned: amended, findings = NONE } = changed;
  if (!mayUseCallback(callback, changed))
    throw unanswered(new Error("a policy requires approvers for the changed arguments"));
  await options.confirmation?.({ planned: amended, findings, traceId: call.traceId })?.(given);
  return pass(amended, { by: "callback:amended", answer: answerFrom(answer, amended, scope) }, call);
}

interface ApprovalOrder {
  readonly requester: Requester;
  readonly session: Pick<CallSession, "within" | "hasGrants">;
  readonly rules: readonly string[];
}

interface CoveringGrants {
  readonly exact?: Grant | undefined;
  readonly bounded: readonly Grant[];
}

/** A call that needs an approval, unless a bounded grant has a run left for it. */
type RuledOrder = ApprovalOrder & Pick<CoveringGrants, "bounded">;

/** Beyond this number of changes of the call's approvals while it looks at them, the call is refused. */
const LOOKS_MAX = 8;

/**
 * Uses the approval that was given for the same call before, or requests one.
 *
 * @throws {Refusal} CALL_IN_PROGRESS while the same call runs
 */
async function useOrRequest(options: GateOptions, call: Call, order: ApprovalOrder): Promise<Approved> {
  const { approvals } = options;
  if (approvals === undefined) throw nobodyToAsk(order);
  const { requester } = order;
  const prior = priorCallOf(options, call, order);
  const { attach } = prior;
  for (let looks = 0; looks < LOOKS_MAX; looks += 1) {
    const { usable, earlier } = await guarded(() => approvals.priorOf(prior));
    if (usable === undefined) {
      const { callDigest } = prior;
      const asked = await requestApproval({ ...options, approvals }, call, { ...order, callDigest, attach, earlier });
      if (asked !== "outdated") throw asked;
    } else {
      if (usable.state === "claimed") throw inProgress(usable.id);
      const used = await claimAttached(options, call, { requester, id: usable.id });
      if (used !== undefined) return used;
    }
  }
  throw approvalsUnavailable(new Error("the approvals of a call changed each time it looked at them"));
}

function nobodyToAsk({ rules }: ApprovalOrder): Refusal {
  return new Refusal("APPROVAL_DENIED", "This call needs a person's approval, and no approver is configured.", {
    details: { rule: rules[0] },
  });
}

function priorCallOf(options: GateOptions, call: Call, { requester }: ApprovalOrder): PriorCall {
  const { planned, assessment } = call;
  const same = { requester, planDigest: planned.digest, requirementDigest: assessment.requirement?.digest };
  return { ...same, callDigest: digestInAnySession(planned), attach: attachableBy(options, call) };
}

/**
 * Returns whether a person would be asked; false when the call would use an approval that was given for it before.
 *
 * @throws {Refusal} when the request for an approval would be refused
 */
async function isAskable(options: GateOptions, call: Call, order: ApprovalOrder): Promise<boolean> {
  const { approvals } = options;
  if (approvals === undefined) throw nobodyToAsk(order);
  const prior = priorCallOf(options, call, order);
  const { usable, earlier } = await guarded(() => approvals.priorOf(prior));
  if (usable?.state === "claimed") throw inProgress(usable.id);
  if (usable !== undefined) return false;
  const { callDigest = "", attach } = prior;
  const wanted = newApprovalOf(options, call, { ...order, callDigest, attach, earlier });
  if (wanted instanceof Refusal) throw wanted;
  const refused = await guarded(() => approvals.foresee(wanted));
  if (refused !== undefined) throw notAsked(call.planned.tool, refused);
  return true;
}

/** Returns which approvals the call may use that names none. An idempotency key uses only the one that was requested with it. */
function attachableBy({ attaches }: GateOptions, { planned, request }: Call): Attachable | undefined {
  if (!attaches || request.newApproval === true) return undefined;
  if (planned.keyUse === undefined) return "any";
  return planned.keyApprovalId === undefined ? undefined : { id: planned.keyApprovalId };
}

/**
 * Claims an approval that the call does not name. Returns undefined when the approval has expired or was taken back meanwhile.
 *
 * @throws {Refusal} CALL_IN_PROGRESS when a concurrent identical call has claimed it first
 */
async function claimAttached(options: GateOptions, call: Call, order: ClaimOrder): Promise<Approved | undefined> {
  try {
    return await claim(options, call, order);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    if (error.code === "APPROVAL_CONSUMED") throw inProgress(order.id);
    if (ENDED_UNUSED.has(error.code)) return undefined;
    throw error;
  }
}

const ENDED_UNUSED: ReadonlySet<RefusalCode> = new Set(["APPROVAL_EXPIRED", "APPROVAL_CANCELLED", "APPROVAL_REVOKED"]);

interface RequestOrder extends ApprovalOrder {
  readonly callDigest: string;
  readonly attach: Attachable | undefined;
  readonly earlier: readonly Approval[];
}

type GateWithStore = GateOptions & { readonly approvals: Approvals };

/** Returns the refusal that tells of the request; "outdated" when approvals of the call have changed since `earlier` was read. */
async function requestApproval(options: GateWithStore, call: Call, order: RequestOrder): Promise<Refusal | "outdated"> {
  const wanted = newApprovalOf(options, call, order);
  if (wanted instanceof Refusal) return wanted;
  // Nobody is asked about a call that was halted while it was planned and judged.
  call.scope.assertNotHalted();
  const asked = await guarded(() => options.approvals.ask(wanted));
  if (asked.outcome === "outdated") return "outdated";
  if (asked.outcome === "asked") return pendingRefusal(asked.approval);
  return notAsked(call.planned.tool, asked);
}

/** Returns what approvers are asked; a refusal when they could not read it. */
function newApprovalOf(
  { detector }: GateOptions,
  call: Call,
  { requester, session: within, rules: requiring, callDigest, attach, earlier }: RequestOrder,
): NewApproval | Refusal {
  const { planned, assessment, request, traceId } = call;
  const { tool, digest: planDigest } = planned;
  const { risk, requirement } = assessment;
  const rules = [...requiring, ...assessment.rules];
  const notes = [
    ...earlier.map(priorNote),
    ...assessment.notes,
    ...call.findings.filter(({ point }) => point !== "risk").map(noteOf),
  ];
  const { plan, input, binding } = planned;
  const { reason } = request;
  const secrets = { ...secretsOf(detector), namesSecret };
  const offer = grantOffer(call, { requester, session: within, rules: requiring });
  const { session } = requester;
  const names = Object.keys(tool.input.shape);
  const grant = offer && termsInWords(offer.terms, { tool: tool.name, session, names });
  const origins = call.flow?.origins ?? [];
  const flow = { carried: call.flow?.labels, origins };
  const facts = { tool, plan, planDigest, binding, input, requester, reason, risk, rules, notes, grant, ...flow };
  const rendered = renderView({ ...facts, ...secrets });
  if (rendered === undefined) {
    return new Refusal("APPROVAL_DENIED", "This call is too large to show to an approver. Send less at once.");
  }
  const grantKey = requester.session === undefined ? undefined : grantKeyOf(call);
  return {
    requester,
    tool: tool.name,
    category: tool.category,
    classification: tool.classification,
    risk,
    rules,
    planDigest,
    callDigest,
    attach,
    shownPriors: earlier,
    ...rendered,
    scopes: [
      ...(grantKey === undefined ? (["once"] as const) : (tool.approval.scopes ?? (["once", "session"] as const))),
      ...(offer === undefined ? [] : (["bounded"] as const)),
    ],
    grantKey,
    offer,
    traceId,
    requirement,
    answer: wantedAnswerOf(planned),
  };
}

/** Returns the refusal of a call for which no person is asked, although it needs an approval. */
function notAsked(tool: Tool, asked: NotAsked): Refusal {
  const { retryAfterMs } = asked;
  if (asked.outcome === "denied_before") {
    const { askAgainAt, approval } = asked;
    const { id, decisionReason, decidedAt = askAgainAt - retryAfterMs } = approval;
    return deniedRefusal(tool, {
      reason: decisionReason,
      earlier: { decidedAt, askAgainAt },
      details: { approval: { id, state: "denied" }, askAgainAt: new Date(askAgainAt).toISOString() },
      retryAfterMs,
    });
  }
  return new Refusal(
    "RATE_LIMITED",
    "Too many of your approval requests are pending. Wait for their decisions first.",
    {
      details: { limit: "pendingApprovals", pendingApprovalsMax: asked.limit },
      retryAfterMs,
    },
  );
}

/** Returns the approver's note about an earlier approval of the same call. */
function priorNote({ decidedAt = 0, state, scope }: Approval): string {
  const at = new Date(decidedAt).toISOString();
  if (state === "approved" && scope === "session") return `The same call was approved at ${at} for the session.`;
  if (state === "approved" && scope === "bounded")
    return `The same call was approved at ${at}, with further calls within bounds.`;
  return `The same call was approved at ${at} and ${PRIOR[state] ?? "has run"}.`;
}

const PRIOR: Partial<Record<Approval["state"], string>> = {
  approved: "has not run yet",
  claimed: "is running",
  failed: "has run, and its outcome is a failure",
  in_doubt: "has run, and its outcome is unknown",
};

function noteOf({ point, reason }: PolicyFinding): string {
  return `The policy ${point} requires an approval: ${reason}`;
}

/** @throws {Refusal} when an approval lacks the answer that the manifest requires */
function answerFrom({ answer: text }: { readonly answer?: string | undefined }, planned: Planned, scope: CallScope) {
  const wanted = wantedAnswerOf(planned);
  const problem = wanted && answerProblem(wanted, text);
  if (problem !== undefined) throw unanswered(new Error(`the callback's answer: ${problem}`));
  return wanted === undefined || text === undefined ? undefined : { text, at: scope.now() };
}

type Passed = Pick<Approved, "by" | "approvalId" | "answer">;

/** @throws {Refusal} QUOTA_EXCEEDED, POLICY_STATE_UNAVAILABLE */
function pass(planned: Planned, passed: Passed, { budget }: Pick<GateContext, "budget">): Approved | Promise<Approved> {
  const { by, approvalId, answer } = passed;
  const approve = (): Approved => mint<Approved>({ ...planned, by, approvalId, answer });
  return budget?.reserve(planned)?.then(approve) ?? approve();
}

/** Says that the call would pass, unless a quota refuses it. Nothing is taken of the quota, so that no other call is refused. */
async function judgedAllowed(planned: Planned, { budget }: Pick<GateContext, "budget">): Promise<Judged> {
  await budget?.judge(planned);
  return mint<Judged>({ verdict: "allow" });
}

/** Runs work on the store. A store failure never approves a call. */
async function guarded<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw error instanceof Refusal ? error : approvalsUnavailable(error);
  }
}

/** How long a manifest may take to decide whether its call needs an approval. */
const NEEDS_APPROVAL_TIMEOUT_MS = 1_000;

/** Returns whether the manifest passes the call in every mode; undefined when the answer may depend on the mode. */
async function doesManifestPassInAnyMode(planned: Planned): Promise<boolean | undefined> {
  let isModeRead = false;
  const onModeRead = (): void => {
    isModeRead = true;
  };
  const passes = await doesManifestPass(planned, { mode: "default", onModeRead });
  return isModeRead ? undefined : passes;
}

/** Returns whether `needsApproval` returned `false` in time. An exception, a timeout or any other value requires an approval. */
async function doesManifestPass(
  { tool, input, caller }: Ruled,
  { mode, onModeRead }: { readonly mode: Mode; readonly onModeRead: () => void },
): Promise<boolean> {
  const { needsApproval } = tool.approval;
  if (needsApproval === undefined) return false;
  const { issuer, subject, permissions } = caller;
  const context = {
    get mode() {
      onModeRead();
      return mode;
    },
    caller: { issuer, subject, permissions },
  };
  let timer: ReturnType<typeof setTimeout> | undefined;
  try {
    const answer: unknown = needsApproval(deepFreeze(ownCopy(input)) as never, context);
    if (!(answer instanceof Promise)) return answer === false;
    const timeout = new Promise((resolve) => {
      timer = setTimeout(resolve, NEEDS_APPROVAL_TIMEOUT_MS);
    });
    return (await Promise.race([answer, timeout])) === false;
  } catch {
    return false;
  } finally {
    clearTimeout(timer);
  }
}

/** Returns what an approver must answer for this call to run. Undefined: an approval is enough. */
function wantedAnswerOf({ tool, input }: Pick<Planned, "tool" | "input">): WantedAnswer | undefined {
  const { answer } = tool.approval;
  return answer && wantedAnswer(answer.choices?.(deepFreeze(ownCopy(input)) as never));
}

/**
 * Returns a copy for a manifest function. The plan is sealed by now, and dates cannot be frozen: a function that changes its
 * argument changes only its own copy. An input that cannot be copied is passed on itself: no plan of a function contains one, so
 * changing it does not change what runs.
 */
function ownCopy(input: unknown): unknown {
  try {
    return copyOf(input);
  } catch {
    return input;
  }
}
