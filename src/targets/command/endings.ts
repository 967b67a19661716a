import { Refusal, type RefusalOptions } from "../../core/errors.ts";
import type { PartialAnswer } from "../../core/partial-answer.ts";
import { isTimeout } from "../../core/time-limits.ts";
import type { ExitMeaning, TargetStatus, Tool } from "../../core/types.ts";

/** The ways in which a child ends. */
export type Ending =
  /** The program exited by itself. */
  | { readonly kind: "exit"; readonly code: number }
  /** A signal that the service did not send ended the program. */
  | { readonly kind: "signal"; readonly signal: string }
  | { readonly kind: "deadline"; readonly timeoutMs?: number }
  /** The client disconnected, or the service is shutting down. */
  | { readonly kind: "cancelled" }
  /** The program and its descendants used more memory than is allowed, and were killed. */
  | { readonly kind: "memoryBound"; readonly memoryBytesMax: number }
  /** The program could not be started, or its output could not be read. */
  | { readonly kind: "spawnError"; readonly cause: unknown };

export interface ChildResult {
  readonly ending: Ending;
  /** True when the program ran. */
  readonly started: boolean;
  readonly stdout: Uint8Array;
  /** True when `stdout` is only the beginning of the output. */
  readonly truncated: boolean;
  /** Number of bytes on stderr. */
  readonly stderrBytes: number;
  /** Last complete lines of stderr, if requested. They must be filtered before they are passed on. */
  readonly stderrTail: Uint8Array;
  /** Meaning of stderr by the manifest's literals. */
  readonly stderrStatus: TargetStatus | undefined;
  /** Number of descendants that had left the process group and were killed separately. */
  readonly survivors: number;
}

/** Returns the refusal of a command that a manifest must never produce. `fault` is for the operator. */
export function unbuildable(fault: string): Refusal {
  return new Refusal("INTERNAL", "The command could not be built.", { cause: new Error(fault) });
}

type ExitCodes = Readonly<Record<number, ExitMeaning>>;

export function endingOfAbort(signal: AbortSignal): Ending {
  return { kind: isTimeout(signal) ? "deadline" : "cancelled" };
}

/** Returns whether a run succeeded: exit code 0, or one that the manifest maps to `"OK"`. */
export function isAnswer({ ending }: ChildResult, exitCodes: ExitCodes): boolean {
  return ending.kind === "exit" && meaningOf(ending.code, exitCodes) === "OK";
}

function meaningOf(code: number, exitCodes: ExitCodes): ExitMeaning | undefined {
  const declared = Object.hasOwn(exitCodes, code) ? exitCodes[code] : undefined;
  return declared ?? (code === 0 ? "OK" : undefined);
}

interface FailureContext {
  readonly exitCodes?: ExitCodes;
  /** Output of a run that its deadline ended. */
  readonly outputSoFar?: PartialAnswer | undefined;
}

/** Returns the refusal for a run that did not succeed. The outcome of an interrupted change is unknown. */
export function refusalOf(tool: Tool, result: ChildResult, { exitCodes = {}, outputSoFar }: FailureContext): Refusal {
  const { ending, stderrBytes, stderrStatus, stderrTail } = result;
  const cause = operatorText(result);
  const targetText =
    tool.errors === "filtered" && stderrTail.byteLength > 0 ? Buffer.from(stderrTail).toString("utf8") : undefined;
  const unlessUnknown = (refusal: Refusal, details?: RefusalOptions["details"], happened = ""): Refusal => {
    if (tool.classification === "read" || !result.started) return refusal;
    const message = `${happened}It is not known whether the change happened. Check before you call again.`;
    return new Refusal("OUTCOME_UNKNOWN", message, { outputSoFar, cause, ...(details && { details }) });
  };
  switch (ending.kind) {
    case "exit": {
      const { code: exitCode } = ending;
      // The code's meaning takes precedence over that of stderr.
      const status = meaningOf(exitCode, exitCodes) ?? stderrStatus;
      if (status === undefined) {
        return new Refusal("TARGET_FAILED", "The command failed.", {
          details: { exitCode, stderrBytes },
          targetText,
          cause,
        });
      }
      const details = { status, exitCode };
      return new Refusal("TARGET_REFUSED", `The command refused: ${status}.`, { details, targetText, cause });
    }
    case "signal": {
      const options = { details: { signal: ending.signal, stderrBytes }, targetText, cause };
      return unlessUnknown(new Refusal("TARGET_FAILED", "The command was ended by a signal.", options));
    }
    case "deadline": {
      if (outputSoFar === undefined) {
        return unlessUnknown(new Refusal("DEADLINE_EXCEEDED", "The command did not end in time.", { cause }));
      }
      const { timeoutMs } = ending;
      const details = { timedOut: true, ...(timeoutMs !== undefined && { timeoutMs }) };
      const limit = timeoutMs === undefined ? "in time" : `within ${timeoutMs} ms`;
      const message = `The command did not end ${limit}, and was ended.`;
      const late = new Refusal("DEADLINE_EXCEEDED", message, { details, outputSoFar, cause });
      return unlessUnknown(late, details, `${message} `);
    }
    case "cancelled":
      return new Refusal("CANCELLED", "The client disconnected before the answer.", { cause });
    case "memoryBound": {
      const details = { limit: "memory", memoryBytesMax: ending.memoryBytesMax };
      const message = "The command used more memory than is allowed, and was ended. Let it process less at once.";
      return unlessUnknown(new Refusal("TARGET_FAILED", message, { details, cause }), details);
    }
    case "spawnError":
      return unlessUnknown(new Refusal("TARGET_UNAVAILABLE", "The command could not be run.", { cause }));
  }
}

/** Describes how a program ended, for the operator. The text of stderr is left out: it may contain secrets. */
export function operatorText({ ending, stderrBytes, survivors }: ChildResult): Error {
  const how = ending.kind === "exit" ? `exit ${ending.code}` : ending.kind;
  const survived = survivors === 0 ? "" : `, ${survivors} processes survived the kill of its group`;
  const options = ending.kind === "spawnError" ? { cause: ending.cause } : {};
  return new Error(`${how}, ${stderrBytes} bytes on stderr${survived}`, options);
}
