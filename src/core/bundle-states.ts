/**
 * State of the newest bundle of a fleet at one member. `current`: it is in force. `held`: its rollout keeps it from this member.
 * `refused`, `unreachable`: the last attempt failed. `expired`: nobody has vouched for the bundle in force in time.
 */
export const BUNDLE_STATES = ["current", "held", "refused", "unreachable", "expired"] as const;

export type BundleState = (typeof BUNDLE_STATES)[number];
