import { Refusal } from "../../core/errors.ts";
import { type Told, unlessUnknown } from "./ending-told.ts";

/** The program could not be started, or its output could not be read. */
export interface SpawnFailed {
  readonly kind: "spawnError";
  readonly cause: unknown;
}

export function spawnFailed(cause: unknown): SpawnFailed {
  return { kind: "spawnError", cause };
}

export function spawnFailedRefusal(told: Told): Refusal {
  const { cause } = told;
  return unlessUnknown(told, () => new Refusal("TARGET_UNAVAILABLE", "The command could not be run.", { cause }));
}
