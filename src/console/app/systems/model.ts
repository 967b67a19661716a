import type { SystemShown } from "../../../core/api/inventory.ts";
import type { MemberListing } from "../../../core/api/members.ts";
import type { BundleState } from "../../../core/bundle-states.ts";
import { compareNames } from "../words.ts";

/** The states and times in which a system, a certificate or a bundle needs somebody. */

/** States in which a call may fail. */
const FAILING: ReadonlySet<string> = new Set(
  ["open", "half-open", "failed", "TRANSIENT_FAILURE", "NOT_SERVING", "UNREACHABLE", "SERVICE_UNKNOWN"], //
);

export const EXPIRES_SOON_DAYS = 14;
export const EXPIRES_SOON_MS = EXPIRES_SOON_DAYS * 86_400_000;

export function isFailing(state: string): boolean {
  return FAILING.has(state);
}

/** Returns the states of a system in which its calls may fail. */
export function failingStates({ state, circuit, health }: SystemShown): readonly string[] {
  const states = [state, circuit && `circuit ${circuit}`, health ? `health: ${health.toLowerCase()}` : undefined];
  return [state, circuit, health].flatMap((each, at) => (each && isFailing(each) ? (states[at] ?? each) : []));
}

export const BUNDLE_TONES: Readonly<Record<BundleState, "good" | "plain" | "warn" | "bad">> = {
  current: "good",
  held: "plain",
  unreachable: "warn",
  refused: "bad",
  expired: "bad",
};

export type MemberShown = MemberListing["members"][number];

/** Positions in the list of members. A held version is an older one: the version decides. */
const RANKS: Readonly<Record<BundleState, number>> = { refused: 0, expired: 1, unreachable: 2, held: 3, current: 3 };
const WITHOUT_BUNDLE = 4;

/**
 * Sorts members for a list: first those whose bundle was refused, has expired or cannot be fetched, then those with older versions.
 * Nothing is compared with the highest version: a member can claim any.
 */
export function membersInOrder(members: readonly MemberShown[]): readonly MemberShown[] {
  const rank = ({ bundle }: MemberShown): number => (bundle === undefined ? WITHOUT_BUNDLE : RANKS[bundle.state]);
  return members.toSorted(
    (one, other) =>
      rank(one) - rank(other) ||
      (one.bundle?.version ?? 0) - (other.bundle?.version ?? 0) ||
      compareNames(one.name, other.name) ||
      compareNames(one.instance, other.instance),
  );
}
