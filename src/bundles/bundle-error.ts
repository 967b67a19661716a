import { printable } from "../core/printable.ts";

/** Reason for which a bundle is refused, and the part of the refusal that programs compare. */
export type BundleFault =
  /** Not a bundle: bounds, tar entries, JSON, members. */
  | "malformed"
  | "signature"
  /** Belongs to another fleet or environment. */
  | "foreign"
  /** Needs a newer version of this program. */
  | "reader"
  /** Below the highest version that was accepted, or below `minVersion`. */
  | "rollback"
  /** The timestamp has expired, or was signed in the future. */
  | "expired"
  /** Parts that do not belong together: digests, sizes, versions, the previous bundle. */
  | "mixed"
  /** A setting or a file that a bundle must not hold. */
  | "policy"
  /** No answer, or an unusable one. */
  | "unreachable";

/** Messages hold names and keys that the author of a bundle chooses, and may be long. */
const CHARACTERS_MAX = 1_000;

/**
 * The refusal of a bundle. The message is one line, printable and short. Paths and texts of the server are only in the `cause`.
 */
export class BundleError extends Error {
  override readonly name = "BundleError";
  readonly fault: BundleFault;

  constructor(fault: BundleFault, message: string, cause?: unknown) {
    super(printable(message).slice(0, CHARACTERS_MAX), cause === undefined ? {} : { cause });
    this.fault = fault;
  }
}

/** @throws {BundleError} when the condition does not hold */
export function assertBundle(condition: boolean, fault: BundleFault, message: string): asserts condition {
  if (!condition) throw new BundleError(fault, message);
}
