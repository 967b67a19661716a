import { Refusal } from "../../core/errors.ts";
import { type Told, unlessUnknown } from "./ending-told.ts";

/** The deadline passed, and the program was killed, or never started. */
export interface TimedOut {
  readonly kind: "deadline";
}

export const TIMED_OUT: TimedOut = { kind: "deadline" };

export function timedOutRefusal(told: Told): Refusal {
  const { outputSoFar, cause } = told;
  const message = "The command did not end in time.";
  return unlessUnknown(told, () => new Refusal("DEADLINE_EXCEEDED", message, { outputSoFar, cause }));
}
