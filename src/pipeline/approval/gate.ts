import { NO_PRIOR } from "../../approvals/types.ts";
import { type Approved, type Judged, mint, type Planned } from "../../core/evidence.ts";
import type { Assessed } from "../policy-points.ts";
import type { GateContext, GateOptions } from "./call.ts";
import { callbackOf, decideByCallback } from "./callback.ts";
import { claim, claimUnnamed, mayClaimAtOnce, usedBy } from "./claim.ts";
import { CallFacts } from "./facts.ts";
import { useBoundedGrant } from "./grants.ts";
import { type ApprovalStep, grantedBy, type Ruling, ruleOn } from "./order.ts";
import { assertAskable, requestApproval } from "./request.ts";

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
 * without an answer is a denial. Who decides about a call is the order in `order.ts`.
 */
export function createApprovalGate(options: GateOptions): ApprovalGate {
  return {
    approve(assessed, context) {
      const facts = new CallFacts(options, assessed, context);
      // Most calls have no earlier approval. A remote store is asked at once: its answer says what it has found.
      if (options.approvals?.isRemote === true) facts.found = NO_PRIOR;
      const ruling = ruleOn(facts);
      return ruling instanceof Promise ? ruling.then((found) => carryOut(facts, found)) : carryOut(facts, ruling);
    },
    async judge(assessed, context) {
      const facts = new CallFacts(options, assessed, context);
      return foresee(facts, await ruleOn(facts));
    },
  };
}

/** Carries a ruling out: lets the call pass, claims its approval, or asks. */
function carryOut(facts: CallFacts, { step, at }: Ruling): Approved | Promise<Approved> {
  switch (step.does) {
    case "pass":
      return pass(facts, step);
    case "claim":
      return claimNamed(facts, step);
    case "useGrant":
      return passByGrant(facts, step, at);
    case "askCallback":
      return passByCallback(facts);
    case "useApproval":
      return passByApproval(facts, step, at);
    case "askPeople":
      return askPeople(facts, step, at);
    case "refuse":
      throw step.refusal;
  }
}

/** Says what `carryOut` would do with a ruling. */
async function foresee(facts: CallFacts, { step }: Ruling): Promise<Judged> {
  switch (step.does) {
    case "pass":
    case "useGrant":
    case "useApproval":
      // Nothing is taken of the quota, so that no other call is refused.
      await facts.context.budget?.judge(facts.planned);
      return mint<Judged>({ verdict: "allow" });
    case "askPeople":
      await assertAskable(askingOptions(facts), facts.call, await requestOf(facts, step));
      return mint<Judged>({ verdict: "ask" });
    case "askCallback":
      return mint<Judged>({ verdict: "ask" });
    case "claim":
      throw new Error("a dry run cannot name an approval");
    case "refuse":
      throw step.refusal;
  }
}

type StepTo<Does extends ApprovalStep["does"]> = Extract<ApprovalStep, { readonly does: Does }>;

async function claimNamed(facts: CallFacts, { id }: StepTo<"claim">): Promise<Approved> {
  const { requester } = await facts.need();
  return pass(facts, await claim(facts.options, facts.call, { requester, id }));
}

/** Uses one run of a grant. If none has a run left by now, the next rules decide. */
async function passByGrant(facts: CallFacts, { grants }: StepTo<"useGrant">, at: number): Promise<Approved> {
  const used = await useBoundedGrant(facts.options.approvals, facts.call, grants);
  return used === undefined ? carryOut(facts, await ruleOn(facts, at + 1)) : pass(facts, { by: grantedBy(used) });
}

async function passByCallback(facts: CallFacts): Promise<Approved> {
  const { options, call } = facts;
  const callback = callbackOf(options, call);
  if (callback === undefined) throw new Error("there is no callback to ask");
  return pass(facts, await decideByCallback({ ...options, callback }, call, await facts.need()));
}

/** Claims the approval that was given for the same call before. If it has ended meanwhile, its rule decides again. */
async function passByApproval(facts: CallFacts, { id }: StepTo<"useApproval">, at: number): Promise<Approved> {
  const { requester } = await facts.need();
  const used = await claimUnnamed(facts.options, facts.call, { requester, id });
  return used === undefined ? carryOut(facts, await ruleOn(facts, at)) : pass(facts, used);
}

/**
 * Requests an approval, or uses the one that a remote store finds. If there are others than those that the request names, their rule
 * decides again.
 *
 * @throws {Refusal} APPROVAL_REQUIRED
 */
async function askPeople(facts: CallFacts, step: StepTo<"askPeople">, at: number): Promise<Approved> {
  const claims = mayClaimAtOnce(facts.options, facts.call);
  const request = { ...(await requestOf(facts, step)), claims };
  const asked = await requestApproval(askingOptions(facts), facts.call, request);
  if (asked.outcome === "claimed") return pass(facts, usedBy(facts.planned, asked.approval));
  facts.found = asked.prior;
  return carryOut(facts, await ruleOn(facts, at));
}

async function requestOf(facts: CallFacts, { earlier }: StepTo<"askPeople">) {
  return { need: await facts.need(), prior: await facts.priorCall(), earlier };
}

function askingOptions({ options: { approvals, detector } }: CallFacts) {
  if (approvals === undefined) throw new Error("there is no store to ask people through");
  return { approvals, detector };
}

interface Passed extends Pick<Approved, "by" | "approvalId" | "answer"> {
  /** Default: the call's own plan. */
  readonly planned?: Planned;
}

/** @throws {Refusal} QUOTA_EXCEEDED, POLICY_STATE_UNAVAILABLE */
function pass(
  facts: CallFacts,
  { by, approvalId, answer, planned = facts.planned }: Passed,
): Approved | Promise<Approved> {
  const approve = (): Approved => mint<Approved>({ ...planned, by, approvalId, answer });
  return facts.context.budget?.reserve(planned)?.then(approve) ?? approve();
}
