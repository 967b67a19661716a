import { Refusal } from "../../core/errors.ts";
import { type Told, unlessUnknown } from "./ending-told.ts";

/** A signal ended the program, and it was not ours. */
export interface Signalled {
  readonly kind: "signal";
  readonly signal: string;
}

export function signalled(signal: string): Signalled {
  return { kind: "signal", signal };
}

export function signalledRefusal({ signal }: Signalled, told: Told): Refusal {
  const { stderrBytes, said, cause } = told;
  return unlessUnknown(
    told,
    () =>
      new Refusal("TARGET_FAILED", "The command was ended by a signal.", {
        details: { signal, stderrBytes },
        said,
        cause,
      }),
  );
}
