import { isAmongAskers } from "../requesters.ts";
import type {
  ApproverIdentity,
  Deciders,
  PolicyStage,
  RequiredPolicy,
  Requirement,
  Vote,
  VotePosition,
} from "./requirement.ts";
import { type KnownIssuer, shortageOf } from "./supply.ts";

/** Who votes: verified, with what the token holds. */
export interface Voter extends ApproverIdentity {
  readonly permissions: readonly string[];
  /** Of the token's `act` chain. */
  readonly actors: readonly string[];
}

/** A stage that still lacks somebody. */
export interface Lacking {
  readonly policy: string;
  readonly stage: string;
  readonly have: number;
  readonly needed: number;
}

/** Why somebody's answer does not count. */
export type Objection =
  | {
      readonly outcome: "not_eligible";
      readonly lacking: Lacking;
      readonly missingPermissions: readonly string[];
      /** Whether the stage names people, and not this one. */
      readonly isNotNamed: boolean;
    }
  /** The voter's stage comes after one that still lacks somebody. */
  | { readonly outcome: "later_stage"; readonly lacking: Lacking; readonly stage: string }
  | { readonly outcome: "already_voted"; readonly lacking: readonly Lacking[] };

/** Where a yes of the voter would count, or why it would not. */
export type VoteResult = { readonly places: readonly VotePosition[] } | Objection;

/** How far one policy has come. */
export interface PolicyProgress {
  readonly policy: RequiredPolicy;
  /** Of each stage, in order. */
  readonly voters: readonly (readonly Vote[])[];
  /** The stage that votes are counted in now; undefined when the policy has what it wants. */
  readonly open: number | undefined;
}

/**
 * By name, whatever the issuer, as askers are: one person may have accounts at two, or hold the token of another, and counts once.
 */
function isSamePerson(a: Named, b: Named): boolean {
  return isAmongAskers(a, [b.subject, ...b.actors]);
}

type Named = Pick<Voter, "subject" | "actors">;

export function progressOf(requirement: Requirement, votes: readonly Vote[]): readonly PolicyProgress[] {
  return requirement.policies.map((policy, at) => {
    const voters = policy.stages.map((_, stage) =>
      votes.filter(({ places }) => places.some((place) => place.policy === at && place.stage === stage)),
    );
    const open = policy.stages.findIndex(({ count }, stage) => (voters[stage]?.length ?? 0) < count);
    return { policy, voters, open: open === -1 ? undefined : open };
  });
}

/** What is missing for a yes; nothing when there is enough. */
export function lackingOf(requirement: Requirement, votes: readonly Vote[]): readonly Lacking[] {
  return progressOf(requirement, votes).flatMap((progress) => lackingIn(progress) ?? []);
}

function lackingIn({ policy, voters, open }: PolicyProgress): Lacking | undefined {
  const stage = open === undefined ? undefined : policy.stages[open];
  if (open === undefined || stage === undefined) return undefined;
  return { policy: policy.name, stage: stage.name, have: voters[open]?.length ?? 0, needed: stage.count };
}

/** Where the yes counts: in the open stage of each policy that takes this voter, unless a later one cannot do without them. */
export function standingOf(requirement: Requirement, votes: readonly Vote[], voter: Voter): VoteResult {
  const mine = votes.filter((vote) => isSamePerson(vote, voter));
  const progress = progressOf(requirement, votes);
  const places = progress.flatMap((one, policy) => {
    const stage = one.open;
    const open = stage === undefined ? undefined : one.policy.stages[stage];
    if (stage === undefined || open === undefined || !isEligible(open.deciders, voter)) return [];
    if (hasCounted(mine, one.policy, { policy, stage }) || isNeededLater(one, votes, { at: policy, voter })) return [];
    return [{ policy, stage }];
  });
  return places.length > 0 ? { places } : objectionTo(progress, voter, mine.length > 0);
}

function hasCounted(
  mine: readonly Vote[],
  { distinctPeople }: RequiredPolicy,
  { policy, stage }: VotePosition,
): boolean {
  return mine.some(({ places }) =>
    places.some((place) => place.policy === policy && (distinctPeople || place.stage === stage)),
  );
}

interface Counting {
  /** Which policy. */
  readonly at: number;
  readonly voter: Voter;
}

/**
 * Whether a later stage would lack this very person, once they are counted in the open one: of people who are named there may
 * be just enough. Who holds what cannot be known here, so that only names count.
 */
function isNeededLater(
  { policy, voters, open }: PolicyProgress,
  votes: readonly Vote[],
  { at, voter }: Counting,
): boolean {
  const later = policy.stages.slice((open ?? 0) + 1);
  if (!policy.distinctPeople || open === undefined || later.every(({ deciders }) => deciders.subjects === undefined))
    return false;
  const issuers = namedIn(policy);
  const counted = votes.filter(({ places }) => places.some((place) => place.policy === at)).flatMap(namesOf);
  const left = policy.stages.slice(open).map((stage, index) => ({
    ...stage,
    count: stage.count - (index === 0 ? (voters[open]?.length ?? 0) : 0),
  }));
  const after = left.map((stage, index) => ({ ...stage, count: stage.count - (index === 0 ? 1 : 0) }));
  const isShort = (stages: readonly PolicyStage[], names: readonly string[]): boolean =>
    shortageOf({ ...policy, stages }, issuers, names) !== undefined;
  return isShort(after, [...counted, ...namesOf(voter)]) && !isShort(left, counted);
}

function namesOf({ subject, actors }: Named): readonly string[] {
  return [subject, ...actors];
}

/** Anybody of these may come; the one without a name stands for stages that name nobody. */
function namedIn({ stages }: RequiredPolicy): readonly KnownIssuer[] {
  const named = stages.flatMap(({ deciders }) => deciders.subjects ?? []).map(({ issuer }) => issuer);
  return [...new Set(["", ...named])].map((issuer) => ({ issuer, operators: true }));
}

function objectionTo(progress: readonly PolicyProgress[], voter: Voter, hasVoted: boolean): Objection {
  const waiting = progress.flatMap((one) => {
    const lacking = lackingIn(one);
    return lacking === undefined ? [] : [{ ...one, lacking }];
  });
  if (hasVoted) return { outcome: "already_voted", lacking: waiting.map(({ lacking }) => lacking) };
  for (const { policy, open = 0, lacking } of waiting) {
    // Who may vote here and is not counted is spared for what comes after.
    const [own, ...rest] = policy.stages.slice(open);
    const isSpared = own !== undefined && isEligible(own.deciders, voter);
    const later = rest.find(({ deciders }) => isEligible(deciders, voter)) ?? (isSpared ? rest[0] : undefined);
    if (later !== undefined) return { outcome: "later_stage", lacking, stage: later.name };
  }
  const [first] = waiting;
  // A question that lacks nobody is pending no more.
  if (first === undefined) return { outcome: "already_voted", lacking: [] };
  return notEligible(first.lacking, first.policy.stages[first.open ?? 0], voter);
}

function notEligible(lacking: Lacking, stage: PolicyStage | undefined, voter: Voter): Objection {
  const { permissions = [], subjects } = stage?.deciders ?? {};
  return {
    outcome: "not_eligible",
    lacking,
    missingPermissions: permissions.filter((permission) => !voter.permissions.includes(permission)),
    isNotNamed: subjects !== undefined && !isNamed(subjects, voter),
  };
}

/** A no ends the question whenever it comes: it is for whoever may say yes in any stage. */
export function objectionToNo(requirement: Requirement, votes: readonly Vote[], voter: Voter): Objection | undefined {
  const stages = requirement.policies.flatMap((policy) => policy.stages);
  if (stages.some(({ deciders }) => isEligible(deciders, voter))) return undefined;
  return objectionTo(progressOf(requirement, votes), voter, false);
}

export function isEligible({ permissions, subjects }: Deciders, voter: Voter): boolean {
  return (
    permissions.every((permission) => voter.permissions.includes(permission)) &&
    (subjects === undefined || isNamed(subjects, voter))
  );
}

function isNamed(subjects: readonly ApproverIdentity[], { issuer, subject }: ApproverIdentity): boolean {
  return subjects.some((named) => named.issuer === issuer && named.subject === subject);
}
