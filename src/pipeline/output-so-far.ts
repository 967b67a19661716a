import { Refusal } from "../core/errors.ts";
import type { RegisteredTool, Released } from "../core/evidence.ts";
import { isTable } from "../core/json.ts";
import type { Detector } from "../detection/sensitive.ts";
import { releaseOutputSoFar } from "./output-filter.ts";

/** Kept apart from the refusals, so that code that writes a refusal down never writes a target's output. */
const released = new WeakMap<Refusal, Released>();

/** Filters the output of a run that was cut off like a complete answer, and keeps what may be released with the refusal. */
export function keepOutputSoFar(registered: RegisteredTool, refusal: Refusal, detector?: Detector): void {
  const soFar = Refusal.outputSoFarOf(refusal);
  const shown = soFar && releaseOutputSoFar(registered, soFar, detector);
  if (shown !== undefined && isTable(shown.result)) released.set(refusal, shown);
}

export function outputReleasedWith(refusal: Refusal): Released | undefined {
  return released.get(refusal);
}

/** Returns the output so far as members of `error.details`. */
export function outputShown(refusal: Refusal): Readonly<Record<string, unknown>> | undefined {
  const result = released.get(refusal)?.result;
  return isTable(result) ? { ...result, untrusted: true } : undefined;
}
