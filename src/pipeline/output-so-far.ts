import { Refusal } from "../core/errors.ts";
import type { RegisteredTool, Released } from "../core/evidence.ts";
import { isTable } from "../core/json.ts";
import { releaseOutputSoFar } from "./output-filter.ts";

/** Apart from the refusals, so that nothing that writes a refusal down writes what a target has written. */
const released = new WeakMap<Refusal, Released>();

/** Filters the output of a run that was cut off, as the tool's whole answer would be, and keeps what may leave beside its refusal. */
export function keepOutputSoFar(registered: RegisteredTool, refusal: Refusal): void {
  const soFar = Refusal.outputSoFarOf(refusal);
  const shown = soFar && releaseOutputSoFar(registered, soFar);
  if (shown !== undefined && isTable(shown.result)) released.set(refusal, shown);
}

export function outputReleasedWith(refusal: Refusal): Released | undefined {
  return released.get(refusal);
}

/** The output so far as members of `error.details`. */
export function outputShown(refusal: Refusal): Readonly<Record<string, unknown>> | undefined {
  const result = released.get(refusal)?.result;
  return isTable(result) ? { ...result, untrusted: true } : undefined;
}
