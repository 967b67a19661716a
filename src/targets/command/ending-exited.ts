import { Refusal } from "../../core/errors.ts";
import type { ExitMeaning } from "../../core/types.ts";
import type { ExitCodes, Told } from "./ending-told.ts";

/** The program came to its own end. */
export interface Exited {
  readonly kind: "exit";
  readonly code: number;
}

export function exited(code: number): Exited {
  return { kind: "exit", code };
}

/** What the manifest says of an exit code; 0 is "OK" unless it says otherwise. */
export function meaningOf(code: number, exitCodes: ExitCodes): ExitMeaning | undefined {
  const declared = Object.hasOwn(exitCodes, code) ? exitCodes[code] : undefined;
  return declared ?? (code === 0 ? "OK" : undefined);
}

/** A code that means something says what; where it means nothing, the manifest's literals for stderr may. */
export function exitedRefusal({ code: exitCode }: Exited, told: Told): Refusal {
  const { exitCodes, stderrStatus, stderrBytes, said, cause } = told;
  const status = meaningOf(exitCode, exitCodes) ?? stderrStatus;
  if (status === undefined) {
    return new Refusal("TARGET_FAILED", "The command failed.", { details: { exitCode, stderrBytes }, said, cause });
  }
  return new Refusal("TARGET_REFUSED", `The command refused: ${status}.`, {
    details: { status, exitCode },
    said,
    cause,
  });
}
