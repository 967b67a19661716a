import { folded } from "../identities.ts";
import type { EligibleApprovers, PolicyStage, RequiredPolicy } from "./requirement.ts";

/** The settings of an issuer that determine who may approve. */
export interface KnownIssuer {
  readonly issuer: string;
  readonly operators: boolean;
  /** Permissions by subject; set when the issuer's tokens do not list permissions. */
  readonly subjectPermissions?: Readonly<Record<string, readonly string[]>> | undefined;
}

/** Permission that every approver's token has. */
export const DECIDE = "approvals:decide";

/** Possible approvers: the names in the configuration, or `anybody` when only tokens determine who may approve. */
type Supply = ReadonlySet<string> | "anybody";

export interface Shortage {
  readonly stage: string;
  readonly needed: number;
  /** Number of people left for the stage, without those that other stages of the policy need. */
  readonly available: number;
}

/**
 * Returns the stage for which a policy can never be satisfied, because its stages need more people than exist; undefined when
 * it can be. `without` lists the requesters, who may not approve.
 */
export function shortageOf(
  { stages, distinctPeople }: RequiredPolicy,
  issuers: readonly KnownIssuer[],
  without: readonly string[] = [],
): Shortage | undefined {
  const asking = new Set(without.map(folded));
  const supplies = stages.map((stage) => {
    const people = new Set<string>();
    for (const eligible of approversOf(stage)) {
      const supply = supplyOf(eligible, issuers);
      if (supply === "anybody") return undefined;
      for (const person of supply) people.add(person);
    }
    return [...people].filter((person) => !asking.has(person));
  });
  const stageByPerson = new Map<string, number>();
  for (const [at, { name, count }] of stages.entries()) {
    if (supplies[at] === undefined) continue;
    if (!distinctPeople) stageByPerson.clear();
    let available = 0;
    while (available < count && assignOne(at, { supplies, stageByPerson, tried: new Set() })) available += 1;
    if (available < count) return { stage: name, needed: count, available };
  }
  return undefined;
}

/** Returns who is eligible in a stage: its own approvers, and those whom escalation steps have added. */
export function approversOf({ deciders, also = [] }: PolicyStage): readonly EligibleApprovers[] {
  return [deciders, ...also];
}

interface Assignment {
  /** Possible approvers of each stage; undefined when they are not known. */
  readonly supplies: readonly (readonly string[] | undefined)[];
  /** Maps a person to the index of the stage that counts this person's vote. */
  readonly stageByPerson: Map<string, number>;
  /** People who were considered in this attempt. */
  readonly tried: Set<string>;
}

/** Assigns one more person to the stage: an unassigned one, or one whom another person can replace (augmenting path). */
function assignOne(at: number, assignment: Assignment): boolean {
  const { supplies, stageByPerson, tried } = assignment;
  for (const person of supplies[at] ?? []) {
    if (tried.has(person)) continue;
    tried.add(person);
    const assigned = stageByPerson.get(person);
    if (assigned !== undefined && !assignOne(assigned, assignment)) continue;
    stageByPerson.set(person, at);
    return true;
  }
  return false;
}

function supplyOf({ permissions, subjects }: EligibleApprovers, issuers: readonly KnownIssuer[]): Supply {
  const operators = issuers.filter((issuer) => issuer.operators);
  const needed = [DECIDE, ...permissions];
  if (subjects === undefined && operators.some(({ subjectPermissions }) => subjectPermissions === undefined)) {
    return "anybody";
  }
  const named = subjects ?? operators.flatMap(subjectsOf);
  const able = named.filter(({ issuer, subject }) => {
    const profile = operators.find((one) => one.issuer === issuer);
    if (profile === undefined) return false;
    const { subjectPermissions: table } = profile;
    if (table === undefined) return true;
    const held = Object.hasOwn(table, subject) ? (table[subject] ?? []) : [];
    return needed.every((permission) => held.includes(permission));
  });
  return new Set(able.map(({ subject }) => folded(subject)));
}

function subjectsOf({ issuer, subjectPermissions = {} }: KnownIssuer) {
  return Object.keys(subjectPermissions).map((subject) => ({ issuer, subject }));
}
