import { folded } from "../requesters.ts";
import type { Deciders, RequiredPolicy } from "./requirement.ts";

/** An issuer, as far as it matters who may decide. */
export interface KnownIssuer {
  readonly issuer: string;
  readonly operators: boolean;
  /** Everybody who holds anything, when its tokens list nothing. */
  readonly subjectPermissions?: Readonly<Record<string, readonly string[]>> | undefined;
}

/** What every decider's token holds. */
export const DECIDE = "approvals:decide";

/** Who could ever decide: everybody that the configuration knows of, by name, or `anybody` when tokens alone can say. */
type Supply = ReadonlySet<string> | "anybody";

/** A stage that can never have all its people. */
export interface Shortage {
  readonly stage: string;
  readonly needed: number;
  /** How many there are, the others that the policy needs left aside. */
  readonly available: number;
}

/**
 * Why a policy can never be satisfied, whoever comes: its stages want more people than there can be. `without` are names that may
 * not decide, since they ask. Undefined: it may be satisfied.
 */
export function shortageOf(
  { stages, distinctPeople }: RequiredPolicy,
  issuers: readonly KnownIssuer[],
  without: readonly string[] = [],
): Shortage | undefined {
  const asking = new Set(without.map(folded));
  const supplies = stages.map(({ deciders }) => {
    const supply = supplyOf(deciders, issuers);
    return supply === "anybody" ? undefined : [...supply].filter((person) => !asking.has(person));
  });
  const seats = new Map<string, number>();
  for (const [at, { name, count }] of stages.entries()) {
    if (supplies[at] === undefined) continue;
    if (!distinctPeople) seats.clear();
    let available = 0;
    while (available < count && seatOne(at, { supplies, seats, tried: new Set() })) available += 1;
    if (available < count) return { stage: name, needed: count, available };
  }
  return undefined;
}

interface Seating {
  /** Of each stage; undefined where nobody knows who comes. */
  readonly supplies: readonly (readonly string[] | undefined)[];
  /** The stage that each person sits in. */
  readonly seats: Map<string, number>;
  readonly tried: Set<string>;
}

/** One more person for the stage: one who sits nowhere, or whom another can replace. */
function seatOne(at: number, seating: Seating): boolean {
  const { supplies, seats, tried } = seating;
  for (const person of supplies[at] ?? []) {
    if (tried.has(person)) continue;
    tried.add(person);
    const sitsIn = seats.get(person);
    if (sitsIn !== undefined && !seatOne(sitsIn, seating)) continue;
    seats.set(person, at);
    return true;
  }
  return false;
}

function supplyOf({ permissions, subjects }: Deciders, issuers: readonly KnownIssuer[]): Supply {
  const operators = issuers.filter((issuer) => issuer.operators);
  const needed = [DECIDE, ...permissions];
  if (subjects === undefined && operators.some(({ subjectPermissions }) => subjectPermissions === undefined)) {
    return "anybody";
  }
  const named = subjects ?? operators.flatMap(known);
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

function known({ issuer, subjectPermissions = {} }: KnownIssuer) {
  return Object.keys(subjectPermissions).map((subject) => ({ issuer, subject }));
}
