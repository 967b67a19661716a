import type { BundleState } from "../core/bundle-states.ts";
import type { EpochMs } from "../core/types.ts";
import type { BundleError, BundleFault } from "./bundle-error.ts";
import { type Accepted, isExpired } from "./checks.ts";

/** State of a member's bundle, for operators. */
export interface BundleStatus {
  readonly version: number;
  readonly digest: string;
  readonly state: BundleState;
  /** Highest version that was offered and verified. */
  readonly offered: number;
  /** ISO 8601. */
  readonly expires: string;
  readonly lastError: string | null;
  /** The reason of `lastError` that programs compare. */
  readonly fault: BundleFault | null;
}

/** `failure`: the last attempt failed with it; undefined after one that succeeded. */
export function statusOf(
  { version, digest, timestamp }: Accepted,
  failure: BundleError | undefined,
  now: EpochMs,
): BundleStatus {
  const otherwise = timestamp.version > version ? "held" : "current";
  const attempted = failure === undefined ? otherwise : stateAfter(failure);
  return {
    version,
    digest,
    state: isExpired(timestamp, now) ? "expired" : attempted,
    offered: timestamp.version,
    expires: timestamp.expires,
    lastError: failure?.message ?? null,
    fault: failure?.fault ?? null,
  };
}

function stateAfter({ fault }: BundleError): BundleState {
  return fault === "unreachable" ? "unreachable" : "refused";
}
