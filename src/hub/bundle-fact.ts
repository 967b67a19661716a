import { BUNDLE_STATES, type BundleState } from "../core/bundle-states.ts";

/** The bundle of a member, as it tells its hub: `version.digest.state` or `version.digest.state.fault`. */
export interface BundleFact {
  /** Version of the bundle in force. */
  readonly version: number;
  /** First characters of its digest. */
  readonly digest: string;
  readonly state: BundleState;
  /** Why the last attempt failed. */
  readonly fault?: string | undefined;
}

const DIGEST_CHARACTERS = 12;
/** Accepts any fault: a newer member may have others. */
const FACT = new RegExp(
  String.raw`^([1-9]\d{0,15})\.([0-9a-f]{${DIGEST_CHARACTERS}})\.(${BUNDLE_STATES.join("|")})(?:\.([a-z]{1,20}))?$`,
);

export function bundleFactText({ version, digest, state, fault }: BundleFact): string {
  const text = `${version}.${digest.slice(0, DIGEST_CHARACTERS)}.${state}`;
  return fault === undefined ? text : `${text}.${fault}`;
}

/** Returns undefined for a malformed text. */
export function parseBundleFact(text: string): BundleFact | undefined {
  const [, version, digest = "", state, fault] = FACT.exec(text) ?? [];
  if (!isState(state) || !Number.isSafeInteger(Number(version))) return undefined;
  return { version: Number(version), digest, state, ...(fault !== undefined && { fault }) };
}

function isState(text: string | undefined): text is BundleState {
  return (BUNDLE_STATES as readonly (string | undefined)[]).includes(text);
}
