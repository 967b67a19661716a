import { z } from "zod";
import { ANSWER_CHARACTERS_MAX, type AnswerProblem } from "../approvals/answer.ts";
import { escalationPlanOf } from "../approvals/approver-policies/escalation.ts";
import {
  isEnoughAlone,
  type Lacking,
  lackingOf,
  type Objection,
  objectionToDenial,
  progressOf,
  voteResultOf,
} from "../approvals/approver-policies/quorum.ts";
import type { EligibleApprovers, PolicyStage, Vote } from "../approvals/approver-policies/requirement.ts";
import { boundInWords, termsJson } from "../approvals/grants.ts";
import { type Approver, isAmongRequesters } from "../approvals/identities.ts";
import type { ReceiptedApprovals } from "../approvals/receipts/receipts.ts";
import type { Approval, Decided, EarlierDecision, Grant, Session } from "../approvals/types.ts";
import { Refusal } from "../core/errors.ts";
import { isTable, mapStrings } from "../core/json.ts";
import { sanitizeInput } from "../core/manifest/input-policy.ts";
import type { RefusalCode } from "../core/refusals.ts";
import type { CallerContext, Json } from "../core/types.ts";
import { vouchableIn } from "../core/vouching.ts";
import type { Registry } from "../pipeline/registry.ts";
import type { EndpointServices } from "./endpoint.ts";

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** Returns true when the text has the form of an approval or grant id; the store is queried only for such ids. */
export function isId(text: string): boolean {
  return UUID.test(text);
}

export const idParams = z.object({ id: z.string().refine(isId) });

export const REASON_CHARACTERS_MAX = 500;

/** Rejects with APPROVAL_UNAVAILABLE when the store fails; the operators' log has the cause. */
export async function inStore<T>({ logError }: EndpointServices, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof Refusal) throw error;
    logError(error);
    throw new Refusal(
      "APPROVAL_UNAVAILABLE",
      "Approvals are not available at the moment: check the state, then repeat.",
      {
        cause: error,
      },
    );
  }
}

type Identity = Pick<CallerContext, "issuer" | "subject">;

/** UTF-16 units; a subject has at most 256 characters. */
const OWNER_NAME_LENGTH_MAX = 512;

/** Members that name one caller, where operators ask about it or change what belongs to it. */
export const ownerMembers = {
  issuer: z.string().min(1).max(OWNER_NAME_LENGTH_MAX).optional(),
  subject: z.string().min(1).max(OWNER_NAME_LENGTH_MAX).optional(),
} as const;

type Named = { readonly [Member in keyof Identity]?: Identity[Member] | undefined };

export function isWholeOwner({ issuer, subject }: Named): boolean {
  return (issuer === undefined) === (subject === undefined);
}

export const WHOLE_OWNER = { message: "issuer and subject belong together: they name a caller" } as const;

/** Returns the caller that a request names. */
export function ownerIn({ issuer, subject }: Named): Identity | undefined {
  return issuer === undefined || subject === undefined ? undefined : { issuer, subject };
}

/** Returns issuer and subject, which identify a caller, and nothing else of the token. */
export function identityOf({ issuer, subject }: CallerContext): Identity {
  return { issuer, subject };
}

export function isSame(a: Identity, b: Identity): boolean {
  return a.issuer === b.issuer && a.subject === b.subject;
}

/** Returns what the requester may see: the state of the approval, and nothing about who decides. */
export function forRequester(approval: Approval): Json {
  const { id, state, tool, summary, decideBy, executeBy, scope, decisionReason, scopes, createdAt } = approval;
  return {
    id,
    state,
    tool,
    summary,
    createdAt: iso(createdAt),
    decideBy: iso(decideBy),
    ...(executeBy !== undefined && { executeBy: iso(executeBy) }),
    ...(scope !== undefined && { scope }),
    ...(decisionReason !== undefined && { decisionReason }),
    ...(approval.granted !== undefined && { granted: termsJson(approval.granted) }),
    options: ["cancel", ...scopes],
  };
}

/**
 * Returns the version that requesters see. It counts neither escalations nor votes before the final one, which requesters are
 * not shown.
 */
export function versionForRequester({ version, votes, escalations, decidedBy, state }: Approval): number {
  const hasLastVote = votes.length > 0 && decidedBy !== undefined && state !== "denied";
  return version - escalations.length - votes.length + (hasLastVote ? 1 : 0);
}

/** Returns what a list shows operators of a request without its view. */
export function forList(approval: Approval, operator: CallerContext): Record<string, Json> {
  const { version, risk, rules, requester, classification, category, planDigest, viewDigest, traceId } = approval;
  const { decidedAt, decidedBy } = approval;
  const quorum = quorumOf(approval, { isWhole: false });
  const { approve, deny, because } = rightsOf(approval, operator);
  const mayVouch =
    approve &&
    operator.permissions.includes(VOUCH_PERMISSION) &&
    isEnoughAlone(approval, operator) &&
    vouchableIn(approval).length > 0;
  return {
    ...(forRequester(approval) as Record<string, Json>),
    version,
    risk,
    rules,
    classification,
    category,
    planDigest,
    viewDigest,
    traceId,
    requester: {
      sub: requester.subject,
      iss: requester.issuer,
      act: requester.actors,
      ...(requester.session !== undefined && { session: requester.session }),
    },
    ...(approval.members !== undefined && { members: approval.members }),
    ...(decidedAt !== undefined && { decidedAt: iso(decidedAt) }),
    ...(decidedBy !== undefined && { decidedBy: person(decidedBy) }),
    ...(quorum !== undefined && { quorum }),
    ...escalationsOf(approval, { isWhole: false }),
    ...(approval.answer !== undefined && { answer: answerShown(approval.answer) }),
    ...(approval.offer !== undefined && { offer: termsJson(approval.offer.terms) }),
    decidable: approve,
    canDecide: { approve, deny, ...(mayVouch && { vouch: true }), ...(because !== undefined && { because }) },
  };
}

/** Needed, besides the permission to decide, to vouch for a value in later calls. */
export const VOUCH_PERMISSION = "data-flow:vouch";

/** Longer texts are shortened in a list (UTF-16 units); the view has them whole. */
const LISTED_CHARACTERS_MAX = 256;
/** Arguments whose JSON is longer are left out of a list (UTF-16 units). */
const LISTED_JSON_MAX = 4_096;

/**
 * Returns the arguments that the tool's `inputPolicy` allows the audit to hold, in short. Taken from the view, so that secrets are
 * hidden; nothing for a tool that is not registered any more.
 */
export function argumentsInList({ tool, view }: Approval, registry: Pick<Registry, "find">): { arguments?: Json } {
  const { registered } = registry.find(tool);
  if (registered === undefined || !isTable(view)) return {};
  const shown = mapStrings(sanitizeInput(registered.inputPolicy, view["arguments"]), shortText) as Json;
  return JSON.stringify(shown).length > LISTED_JSON_MAX ? {} : { arguments: shown };
}

/** Returns what a request's call does in one line, as the view says it; nothing for a request of an older version. */
export function headlineInList({ view }: Approval): { headline?: Json } {
  const headline = isTable(view) ? view["headline"] : undefined;
  return headline === undefined ? {} : { headline: headline as Json };
}

function shortText(text: string): string {
  return text.length > LISTED_CHARACTERS_MAX ? `${text.slice(0, LISTED_CHARACTERS_MAX).toWellFormed()}…` : text;
}

function answerShown({ choices, text }: NonNullable<Approval["answer"]>): Json {
  return { ...(choices !== undefined && { choices }), ...(text !== undefined && { text }) };
}

/** Adds the receipt to a decided approval when the service signs receipts, for a client that may pass it on. */
export async function withReceipt(
  shown: Json,
  approval: Approval,
  { receiptOf }: Pick<ReceiptedApprovals, "receiptOf">,
): Promise<Json> {
  const receipt = await receiptOf?.(approval);
  return { approval: shown, ...(receipt !== undefined && { receipt }) };
}

/** Returns everything about an approval: with its view, who may decide, and the last decisions on the same tool. */
export function forApprover(approval: Approval, operator: CallerContext, earlier: readonly EarlierDecision[]): Json {
  const quorum = quorumOf(approval, { isWhole: true });
  return {
    ...forList(approval, operator),
    ...(quorum !== undefined && { quorum }),
    ...escalationsOf(approval, { isWhole: true }),
    earlierDecisions: earlier.map(({ id, decision, at, by, reason }) => ({
      id,
      decision,
      at: iso(at),
      by: person(by),
      ...(reason !== undefined && { reason }),
    })),
    view: approval.view,
  };
}

/** Returns a remembered approval as its owner sees it; only operators see who granted it. */
export function grantForOwner(grant: Grant): Json {
  const { id, issuer, subject, session, tool, summary, approvalId, createdAt, expiresAt, bounded } = grant;
  const times = { createdAt: iso(createdAt), expiresAt: iso(expiresAt) };
  const held = { id, issuer, subject, ...(session !== "" && { session }), tool, summary, approvalId, ...times };
  if (bounded === undefined) return held;
  const { runs, arguments: bounds } = bounded.bounds.terms;
  const words = Object.entries(bounds).map(([name, bound]) => [name, boundInWords(bound)]);
  return { ...held, bounded: { runs, runsUsed: bounded.runsUsed, arguments: Object.fromEntries(words) } };
}

export function grantForOperator(grant: Grant): Json {
  return { ...(grantForOwner(grant) as object), grantedBy: person(grant.grantedBy) };
}

export function sessionForOwner({ id, expiresAt, mode }: Session): Json {
  return { id, expiresAt: iso(expiresAt), mode };
}

export function sessionForOperator(session: Session): Json {
  const { subject, issuer, modeUntil, modeSetBy, createdAt } = session;
  return {
    ...(sessionForOwner(session) as object),
    issuer,
    subject,
    createdAt: iso(createdAt),
    ...(modeUntil !== undefined && { modeUntil: iso(modeUntil) }),
    ...(modeSetBy !== undefined && { modeSetBy: person(modeSetBy) }),
  };
}

function person({ subject, issuer }: Pick<Approver, "subject" | "issuer">) {
  return { sub: subject, iss: issuer };
}

export function iso(ms: number): string {
  return new Date(ms).toISOString();
}

const ENDED = {
  pending: ["APPROVAL_MISMATCH", "This is still pending: deny it instead."],
  approved: ["APPROVAL_CONSUMED", "This was already decided."],
  denied: ["APPROVAL_CONSUMED", "This was already decided."],
  claimed: ["APPROVAL_CONSUMED", "This was already decided, and its call is running."],
  executed: ["APPROVAL_CONSUMED", "This was already decided, and its call has run."],
  failed: ["APPROVAL_CONSUMED", "This was already decided, and its call has failed."],
  in_doubt: ["APPROVAL_CONSUMED", "This was already decided; it is not known whether its call has run."],
  expired: ["APPROVAL_EXPIRED", "This approval request has expired."],
  cancelled: ["APPROVAL_CANCELLED", "The caller has cancelled this approval request."],
  revoked: ["APPROVAL_REVOKED", "This approval was revoked."],
} as const satisfies Record<Approval["state"], readonly [RefusalCode, string]>;

/** Returns the same refusal for unknown ids and for ids of other callers. */
export function notFound(what = "approval"): Refusal {
  return new Refusal("APPROVAL_NOT_FOUND", `There is no such ${what}.`);
}

/** Refuses an action on an approval that has ended; `undefined` is an unknown approval. */
export function endedRefusal(approval: Approval | undefined): Refusal {
  if (approval === undefined) return notFound();
  const { id, state } = approval;
  const [code, message] = ENDED[state];
  return new Refusal(code, message, { details: { approval: { id, state } } });
}

type Unaccepted = Exclude<Decided, { readonly outcome: "decided" | "counted" }>;

export function decisionRefusal(decided: Unaccepted): Refusal {
  switch (decided.outcome) {
    case "not_pending":
      return endedRefusal(decided.approval);
    case "stale_view":
      return new Refusal(
        "APPROVAL_MISMATCH",
        "The approval request differs from the one you were shown: read it again.",
      );
    case "scope_not_offered":
      return new Refusal("INVALID_INPUT", "This approval request does not offer that scope.", {
        details: { offered: decided.offered },
      });
    case "reason_missing":
      return new Refusal("INVALID_INPUT", "A policy requires a reason: send one with the decision.", {
        details: { field: "reason" },
      });
    case "answer_refused":
      return answerRefusal(decided);
    case "grant_refused": {
      const { field, message } = decided.problem;
      return new Refusal("INVALID_INPUT", `${field} ${message}.`, { details: { field } });
    }
    case "vouch_refused":
      return new Refusal("INVALID_INPUT", VOUCHING[decided.fault], { details: { field: "vouch" } });
    case "own_question":
      return new Refusal("PERMISSION_DENIED", OWN_REQUEST);
    case "replayed":
      return new Refusal("APPROVAL_CONSUMED", "This message was received before: it counts once.");
    default:
      return objectionRefusal(decided);
  }
}

const ANSWERS = {
  missing: "This approval request needs an answer: send it with the approval.",
  not_wanted: "This approval request takes no answer: send the decision without one.",
  too_long: `The answer has more than ${ANSWER_CHARACTERS_MAX} characters.`,
  no_choice: "The answer is not one of those that the approval request offers.",
  differs: "Another answer was given before: approve without an answer of your own, or deny.",
} as const satisfies Record<AnswerProblem, string>;

const VOUCHING = {
  not_offered: "This approval request does not offer to vouch for that value: read view.vouchable again.",
  several_approvers: "Others have to approve this as well: send the approval without vouch.",
} as const;

function answerRefusal({ fault, wanted }: Extract<Unaccepted, { readonly outcome: "answer_refused" }>): Refusal {
  const offered = wanted?.choices === undefined ? {} : { offered: wanted.choices };
  return new Refusal("INVALID_INPUT", ANSWERS[fault], { details: { field: "answer", ...offered } });
}

function objectionRefusal(objection: Objection): Refusal {
  const message = objectionText(objection);
  if (objection.outcome === "already_voted") {
    return new Refusal("APPROVAL_CONSUMED", message, { details: { missing: objection.lacking } });
  }
  const { policy, stage } = objection.lacking;
  const { outcome } = objection;
  const missing =
    outcome === "not_eligible" ? { missingPermissions: objection.missingPermissions } : { yours: objection.stage };
  return new Refusal("PERMISSION_DENIED", message, { details: { policy, stage, ...missing } });
}

/**
 * Returns true when the operator, or an actor in their token, is among the requesters: a token that was passed on to the
 * requester must not decide.
 */
export function isOwnRequest({ requester }: Approval, { subject, actors }: CallerContext): boolean {
  return isAmongRequesters(requester, [subject, ...actors]);
}

interface Rights {
  readonly approve: boolean;
  readonly deny: boolean;
  readonly because?: string | undefined;
}

export function rightsOf(approval: Approval, operator: CallerContext): Rights {
  const { requirement, votes, state } = approval;
  if (state !== "pending") return { approve: false, deny: false, because: `It is ${state}.` };
  if (isOwnRequest(approval, operator)) return { approve: false, deny: false, because: OWN_REQUEST };
  if (requirement === undefined) return { approve: true, deny: true };
  const vote = voteResultOf(requirement, votes, operator);
  const deny = objectionToDenial(requirement, votes, operator) === undefined;
  if ("places" in vote) return { approve: true, deny };
  return { approve: false, deny, because: objectionText(vote) };
}

const OWN_REQUEST = "You cannot decide your own approval requests, or those made on your behalf.";

export function objectionText(objection: Objection): string {
  if (objection.outcome === "already_voted") {
    const { lacking } = objection;
    return `You have already approved this.${lacking.length === 0 ? "" : ` It waits for others: ${lackingText(lacking)}.`}`;
  }
  const { policy, stage } = objection.lacking;
  if (objection.outcome === "later_stage") {
    return `Your stage (${objection.stage}) comes later: policy ${policy} waits for stage ${stage} first.`;
  }
  const { missingPermissions, isNotNamed } = objection;
  const wants = [
    ...(missingPermissions.length > 0 ? [`a token that holds ${missingPermissions.join(", ")}`] : []),
    ...(isNotNamed ? ["one of the people that it names"] : []),
  ];
  return `Policy ${policy}, stage ${stage}, wants ${wants.join(" and ")}.`;
}

export function lackingText(lacking: readonly Lacking[]): string {
  return lacking.map(({ policy, stage, have, needed }) => `${policy}, ${stage}: ${have} of ${needed}`).join("; ");
}

/**
 * Returns the policies of an approval request and their progress, for operators only. With `isWhole`, includes who may
 * decide.
 */
function quorumOf({ requirement, votes }: Approval, { isWhole }: { readonly isWhole: boolean }): Json | undefined {
  if (requirement === undefined) return undefined;
  const progress = progressOf(requirement, votes);
  return {
    reasonRequired: requirement.reasonRequired,
    policies: progress.map(({ policy: { name, distinctPeople, stages }, voters, open }) => ({
      name,
      distinctPeople,
      stages: stages.map((stage, at) => stageShown(stage, { voters: voters[at] ?? [], at, open, isWhole })),
    })),
    missing: lackingOf(requirement, votes).map((lacking) => ({ ...lacking })),
  };
}

/**
 * Returns the escalation steps of the policies in the order in which they are taken; `takenAt` is set for those that were. With
 * `isWhole`, includes who may decide from then on.
 */
function escalationsOf(
  approval: Approval,
  { isWhole }: { readonly isWhole: boolean },
): { readonly escalations?: Json } {
  const plan = escalationPlanOf(approval);
  if (plan.length === 0) return {};
  const escalations = plan.map(({ policyName, stageName, afterSeconds, adds, webhooks, dueAt }, index) => {
    const taken = approval.escalations[index];
    return {
      policy: policyName,
      ...(stageName !== undefined && { stage: stageName }),
      afterSeconds,
      dueAt: iso(dueAt),
      ...(taken !== undefined && { takenAt: iso(taken.at) }),
      ...(webhooks !== undefined && { webhooks: [...webhooks] }),
      ...(isWhole && adds !== undefined && { deciders: approversShown(adds.deciders) }),
    };
  });
  return { escalations };
}

function approversShown({ permissions, subjects }: EligibleApprovers): Json {
  return { permissions: [...permissions], ...(subjects !== undefined && { subjects: subjects.map(person) }) };
}

function stageShown(
  { name, count, deciders, also = [] }: PolicyStage,
  { voters, at, open, isWhole }: { voters: readonly Vote[]; at: number; open: number | undefined; isWhole: boolean },
): Json {
  const state = open === undefined || at < open ? "complete" : "later";
  return {
    name,
    state: at === open ? "open" : state,
    have: voters.length,
    needed: count,
    ...(isWhole && { deciders: approversShown(deciders) }),
    ...(isWhole && also.length > 0 && { also: also.map(approversShown) }),
    voters: voters.map((vote) => ({
      ...person(vote),
      at: new Date(vote.at).toISOString(),
      scope: vote.scope,
      ...(vote.grant !== undefined && { grant: termsJson(vote.grant) }),
      ...(vote.reason !== undefined && { reason: vote.reason }),
    })),
  };
}
