import { type Approver, isAmongRequesters } from "../identities.ts";
import type { PolicyStage, RequiredPolicy, Requirement, Vote, VotePosition } from "./requirement.ts";
import { approversOf, type KnownIssuer, shortageOf } from "./supply.ts";

/** An authenticated approver who votes, with the permissions of the token. */
export interface Voter extends Approver {
  readonly permissions: readonly string[];
  /** `sub`s of the token's `act` chain. */
  readonly actors: readonly string[];
}

export interface Lacking {
  readonly policy: string;
  readonly stage: string;
  readonly have: number;
  readonly needed: number;
}

/** Reason why a vote or a denial does not count. */
export type Objection =
  | {
      readonly outcome: "not_eligible";
      readonly lacking: Lacking;
      readonly missingPermissions: readonly string[];
      /** True when the stage names people, and this voter is not one of them. */
      readonly isNotNamed: boolean;
    }
  /** The voter's stage comes after one that still needs votes. */
  | { readonly outcome: "later_stage"; readonly lacking: Lacking; readonly stage: string }
  | { readonly outcome: "already_voted"; readonly lacking: readonly Lacking[] };

/** Stages in which the vote counts, or the reason why it does not count. */
export type VoteResult = { readonly places: readonly VotePosition[] } | Objection;

export interface PolicyProgress {
  readonly policy: RequiredPolicy;
  readonly voters: readonly (readonly Vote[])[];
  /** Index of the stage that currently takes votes; undefined when the policy is satisfied. */
  readonly open: number | undefined;
}

/**
 * Compares people by name and ignores the issuer, as for requesters: one person may have accounts at two issuers, or hold
 * another person's token, and counts once.
 */
function isSamePerson(a: Named, b: Named): boolean {
  return isAmongRequesters(a, [b.subject, ...b.actors]);
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

/** Returns the stages that still need votes; empty when all policies are satisfied. */
export function lackingOf(requirement: Requirement, votes: readonly Vote[]): readonly Lacking[] {
  return progressOf(requirement, votes).flatMap((progress) => lackingIn(progress) ?? []);
}

function lackingIn({ policy, voters, open }: PolicyProgress): Lacking | undefined {
  const stage = open === undefined ? undefined : policy.stages[open];
  if (open === undefined || stage === undefined) return undefined;
  return { policy: policy.name, stage: stage.name, have: voters[open]?.length ?? 0, needed: stage.count };
}

/** Returns where the vote counts: the open stage of each policy that accepts the voter, unless a later stage needs the voter. */
export function voteResultOf(requirement: Requirement, votes: readonly Vote[], voter: Voter): VoteResult {
  const mine = votes.filter((vote) => isSamePerson(vote, voter));
  const progress = progressOf(requirement, votes);
  const places = progress.flatMap((one, policy) => {
    const stage = one.open;
    const open = stage === undefined ? undefined : one.policy.stages[stage];
    if (stage === undefined || open === undefined || !isEligible(open, voter)) return [];
    if (hasCounted(mine, one.policy, { policy, stage }) || isNeededLater(one, votes, { at: policy, voter })) return [];
    return [{ policy, stage }];
  });
  return places.length > 0 ? { places } : objectionTo(progress, voter, mine.length > 0);
}

/** Returns whether this person's approval ends the request without any other one, before or after it. */
export function isEnoughAlone(
  { requirement, votes }: { readonly requirement?: Requirement | undefined; readonly votes: readonly Vote[] },
  voter: Voter,
): boolean {
  if (votes.length > 0) return false;
  if (requirement === undefined) return true;
  const result = voteResultOf(requirement, votes, voter);
  if (!("places" in result)) return false;
  const votesNeeded = requirement.policies.flatMap(({ stages }) => stages).reduce((sum, { count }) => sum + count, 0);
  return votesNeeded === result.places.length;
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
  readonly at: number;
  readonly voter: Voter;
}

/**
 * Returns whether counting the voter in the open stage would leave a later stage short: that stage may name just enough
 * people. Looks at names only, because other people's permissions are not known here.
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

/** Returns the issuers of all named people; the empty one represents stages that name nobody. */
function namedIn({ stages }: RequiredPolicy): readonly KnownIssuer[] {
  const named = stages.flatMap(approversOf).flatMap(({ subjects = [] }) => subjects.map(({ issuer }) => issuer));
  return [...new Set(["", ...named])].map((issuer) => ({ issuer, operators: true }));
}

function objectionTo(progress: readonly PolicyProgress[], voter: Voter, hasVoted: boolean): Objection {
  const waiting = progress.flatMap((one) => {
    const lacking = lackingIn(one);
    return lacking === undefined ? [] : [{ ...one, lacking }];
  });
  if (hasVoted) return { outcome: "already_voted", lacking: waiting.map(({ lacking }) => lacking) };
  for (const { policy, open = 0, lacking } of waiting) {
    // A voter who is eligible in the open stage but was not counted is reserved for a later stage.
    const [own, ...rest] = policy.stages.slice(open);
    const isReserved = own !== undefined && isEligible(own, voter);
    const later = rest.find((stage) => isEligible(stage, voter)) ?? (isReserved ? rest[0] : undefined);
    if (later !== undefined) return { outcome: "later_stage", lacking, stage: later.name };
  }
  const [first] = waiting;
  // Cannot happen for a pending request: one that needs no more votes is no longer pending.
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

/** Returns why the voter may not deny. Anybody eligible in any stage may deny at any time, which ends the request. */
export function objectionToDenial(
  requirement: Requirement,
  votes: readonly Vote[],
  voter: Voter,
): Objection | undefined {
  const stages = requirement.policies.flatMap((policy) => policy.stages);
  if (stages.some((stage) => isEligible(stage, voter))) return undefined;
  return objectionTo(progressOf(requirement, votes), voter, false);
}

function isEligible(stage: PolicyStage, voter: Voter): boolean {
  return approversOf(stage).some(
    ({ permissions, subjects }) =>
      permissions.every((permission) => voter.permissions.includes(permission)) &&
      (subjects === undefined || isNamed(subjects, voter)),
  );
}

function isNamed(subjects: readonly Approver[], { issuer, subject }: Approver): boolean {
  return subjects.some((named) => named.issuer === issuer && named.subject === subject);
}
