import { Refusal } from "../../core/errors.ts";
import { type Told, unlessUnknown } from "./ending-told.ts";

/** The program wrote more than is taken, and was killed. */
export interface OutputBound {
  readonly kind: "outputBound";
}

export const OUTPUT_BOUND: OutputBound = { kind: "outputBound" };

export function outputBoundRefusal(told: Told): Refusal {
  const { tool, cause } = told;
  const details = { outputBytesMax: tool.limits.outputBytesMax };
  const message = "The command wrote more than is allowed. Ask for less.";
  return unlessUnknown(told, () => new Refusal("OUTPUT_TOO_LARGE", message, { details, cause }));
}
