import { Refusal } from "../../core/errors.ts";
import { TIMED_OUT, type TimedOut } from "./ending-timed-out.ts";
import type { Told } from "./ending-told.ts";

/** Whoever asked is gone, or the service ends; the program was killed, or never started. */
export interface Cancelled {
  readonly kind: "cancelled";
}

/** A signal that timed out says so in its reason, as `AbortSignal.timeout` does; any other is somebody who went away. */
export function endingOfAbort({ reason }: AbortSignal): Cancelled | TimedOut {
  return reason instanceof Error && reason.name === "TimeoutError" ? TIMED_OUT : { kind: "cancelled" };
}

export function cancelledRefusal({ cause }: Told): Refusal {
  return new Refusal("CANCELLED", "The client went away before the answer.", { cause });
}
