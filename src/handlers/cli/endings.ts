import { Refusal } from "../../core/errors.ts";
import type { ExitMeaning, Tool } from "../../core/types.ts";
import type { ChildResult } from "./child.ts";

export type ExitCodes = Readonly<Record<number, ExitMeaning>>;

/** Whether a run gave an answer: exit 0, or a code that the manifest declares to be `"OK"`. */
export function isAnswer({ ending }: ChildResult, exitCodes: ExitCodes): boolean {
  return ending.kind === "exit" && meaningOf(ending.code, exitCodes) === "OK";
}

/**
 * What a run without an answer is called. A changing tool that ran and was cut off has an unknown outcome. Nothing that the
 * program said is in the message; the operator finds it in the cause.
 */
export function refusalOf(tool: Tool, result: ChildResult, exitCodes: ExitCodes): Refusal {
  const { ending, stderrBytes } = result;
  const cause = operatorText(result);
  const isDefinite = tool.classification === "read" || !result.started;
  switch (ending.kind) {
    case "exit":
      return exitRefusal(ending.code, { meaning: meaningOf(ending.code, exitCodes), stderrBytes, cause });
    case "cancelled":
      return new Refusal("CANCELLED", "The client went away before the answer.", { cause });
    case "spawnError":
      if (!isDefinite) return outcomeUnknown(cause);
      return new Refusal("TARGET_UNAVAILABLE", "The command could not be run.", { cause });
    case "deadline":
      if (!isDefinite) return outcomeUnknown(cause);
      return new Refusal("DEADLINE_EXCEEDED", "The command did not end in time.", { cause });
    case "outputBound":
      if (!isDefinite) return outcomeUnknown(cause);
      return new Refusal("OUTPUT_TOO_LARGE", "The command wrote more than is allowed. Ask for less.", {
        details: { outputBytesMax: tool.limits.outputBytesMax },
        cause,
      });
    case "signal":
      if (!isDefinite) return outcomeUnknown(cause);
      return new Refusal("TARGET_FAILED", "The command was ended by a signal.", {
        details: { signal: ending.signal, stderrBytes },
        cause,
      });
  }
}

interface ExitContext {
  readonly meaning: ExitMeaning | undefined;
  readonly stderrBytes: number;
  readonly cause: unknown;
}

function exitRefusal(exitCode: number, { meaning, stderrBytes, cause }: ExitContext): Refusal {
  if (meaning === undefined) {
    return new Refusal("TARGET_FAILED", "The command failed.", { details: { exitCode, stderrBytes }, cause });
  }
  return new Refusal("TARGET_REFUSED", `The command refused: ${meaning}.`, {
    details: { status: meaning, exitCode },
    cause,
  });
}

function outcomeUnknown(cause: unknown): Refusal {
  const message = "Whether the change happened is not known. Look before you call again.";
  return new Refusal("OUTCOME_UNKNOWN", message, { cause });
}

function meaningOf(code: number, exitCodes: ExitCodes): ExitMeaning | undefined {
  const declared = Object.hasOwn(exitCodes, code) ? exitCodes[code] : undefined;
  return declared ?? (code === 0 ? "OK" : undefined);
}

/**
 * How a program ended, for the operator. Of what it said on stderr only the length: nobody has looked yet whether secrets or
 * personal data stand in it.
 */
export function operatorText({ ending, stderrBytes }: ChildResult): Error {
  const how = ending.kind === "exit" ? `exit ${ending.code}` : ending.kind;
  const options = ending.kind === "spawnError" ? { cause: ending.cause } : {};
  return new Error(`${how}, ${stderrBytes} bytes on stderr`, options);
}
