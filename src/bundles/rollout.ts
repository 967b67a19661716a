import { sha256Hex } from "../core/digest.ts";
import type { Rollout } from "./metadata.ts";

/** The properties of a member that a rollout selects by. */
export interface RolloutMember {
  /** Name of the member, which is the same after a restart. */
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
}

const PERCENT = 100;
const HASH_DIGITS = 8;
const HASHES = 16 ** HASH_DIGITS;

/**
 * Returns whether a bundle is meant for a member. The share of a member depends on its name and the fleet alone, so that a higher
 * percentage adds members and takes none away.
 */
export function isMeantFor({ labels = {}, percent = PERCENT }: Rollout, fleet: string, member: RolloutMember): boolean {
  const hasLabels = Object.entries(labels).every(
    ([key, value]) => Object.hasOwn(member.labels, key) && member.labels[key] === value,
  );
  return hasLabels && shareOf(fleet, member.name) * PERCENT < percent;
}

/** Returns a number from 0 (inclusive) to 1 (exclusive), always the same for a member. */
export function shareOf(fleet: string, name: string): number {
  return Number.parseInt(sha256Hex(`${fleet}\n${name}`).slice(0, HASH_DIGITS), 16) / HASHES;
}
