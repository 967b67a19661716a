import { isAmongAskers } from "../approvals/askers.ts";
import {
  type Lacking,
  lackingOf,
  type Objection,
  objectionToNo,
  progressOf,
  standingOf,
} from "../approvals/policies/quorum.ts";
import type { Stage, Vote } from "../approvals/policies/requirement.ts";
import type { Approval } from "../approvals/types.ts";
import type { Caller, Json } from "../core/types.ts";

/** Whether somebody of those who ask stands among those who would decide: a token that was handed on to the asker decides nothing. */
export function isOwnQuestion({ requester }: Approval, { subject, actors }: Caller): boolean {
  return isAmongAskers(requester, [subject, ...actors]);
}

/** What this operator may say to the question now, and why not. */
export interface Rights {
  readonly approve: boolean;
  readonly deny: boolean;
  /** Of a yes that would not count. */
  readonly because?: string | undefined;
}

export function rightsOf(approval: Approval, operator: Caller): Rights {
  const { requirement, votes, state } = approval;
  if (state !== "pending") return { approve: false, deny: false, because: `It is ${state}.` };
  if (isOwnQuestion(approval, operator)) return { approve: false, deny: false, because: OWN_QUESTION };
  if (requirement === undefined) return { approve: true, deny: true };
  const standing = standingOf(requirement, votes, operator);
  const deny = objectionToNo(requirement, votes, operator) === undefined;
  if ("places" in standing) return { approve: true, deny };
  return { approve: false, deny, because: sentenceOf(standing) };
}

export const OWN_QUESTION = "Nobody decides what they ask themselves, or what is asked in their name.";

/** Why somebody's answer does not count, in one sentence that says what would. */
export function sentenceOf(objection: Objection): string {
  if (objection.outcome === "already_voted") {
    const { lacking } = objection;
    return `You have said yes to this already.${lacking.length === 0 ? "" : ` It waits for others: ${lackingText(lacking)}.`}`;
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

/** `prod-writes, team: 1 of 2`, and so on. */
export function lackingText(lacking: readonly Lacking[]): string {
  return lacking.map(({ policy, stage, have, needed }) => `${policy}, ${stage}: ${have} of ${needed}`).join("; ");
}

/** The policies of a question and how far each has come, for operators alone; where one is shown by itself, with who may decide. */
export function quorumOf(
  { requirement, votes }: Approval,
  { isWhole }: { readonly isWhole: boolean },
): Json | undefined {
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

interface StageProgress {
  readonly voters: readonly Vote[];
  readonly at: number;
  readonly open: number | undefined;
  readonly isWhole: boolean;
}

function stageShown({ name, count, deciders }: Stage, { voters, at, open, isWhole }: StageProgress): Json {
  const state = open === undefined || at < open ? "complete" : "later";
  const { permissions, subjects } = deciders;
  return {
    name,
    state: at === open ? "open" : state,
    have: voters.length,
    needed: count,
    ...(isWhole && { deciders: { permissions, ...(subjects !== undefined && { subjects: subjects.map(person) }) } }),
    voters: voters.map((vote) => ({
      ...person(vote),
      at: new Date(vote.at).toISOString(),
      scope: vote.scope,
      ...(vote.reason !== undefined && { reason: vote.reason }),
    })),
  };
}

function person({ subject, issuer }: { readonly subject: string; readonly issuer: string }) {
  return { sub: subject, iss: issuer };
}
