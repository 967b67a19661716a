import { Refusal, type RefusalOptions } from "../../core/errors.ts";
import type { PartialAnswer } from "../../core/partial-answer.ts";
import type { ExitMeaning, TargetStatus, Tool } from "../../core/types.ts";

/** Every way in which a child ends. */
export type Ending = Exited | Signalled | TimedOut | Cancelled | MemoryBound | SpawnFailed;

/** Returns whether a run gave an answer: exit 0, or a code that the manifest declares to be `"OK"`. */
export function isAnswer({ ending }: ChildResult, exitCodes: ExitCodes): boolean {
  return ending.kind === "exit" && meaningOf(ending.code, exitCodes) === "OK";
}

interface Failing {
  readonly exitCodes?: ExitCodes;
  /** Output of a run that its deadline ended. */
  readonly outputSoFar?: PartialAnswer | undefined;
}

/**
 * Returns the refusal for a run without an answer. A changing tool that ran and was cut off has an unknown outcome. The message
 * contains none of the program's output.
 */
export function refusalOf(tool: Tool, result: ChildResult, more: Failing): Refusal {
  const { ending, stderrBytes, stderrStatus } = result;
  const { exitCodes = {}, outputSoFar } = more;
  const isDefinite = tool.classification === "read" || !result.started;
  const said = tool.errors === "filtered" ? saidIn(result.stderrTail) : undefined;
  const cause = operatorText(result);
  const told: Told = { tool, exitCodes, stderrStatus, stderrBytes, said, outputSoFar, isDefinite, cause };
  switch (ending.kind) {
    case "exit":
      return exitedRefusal(ending, told);
    case "signal":
      return signalledRefusal(ending, told);
    case "deadline":
      return timedOutRefusal(told);
    case "cancelled":
      return cancelledRefusal(told);
    case "memoryBound":
      return memoryBoundRefusal(ending, told);
    case "spawnError":
      return spawnFailedRefusal(told);
  }
}

function saidIn(tail: Uint8Array): string | undefined {
  return tail.byteLength === 0 ? undefined : Buffer.from(tail).toString("utf8");
}

/**
 * Returns how a program ended, for the operator. Contains only the length of stderr: the text has not been checked for secrets or
 * personal data.
 */
export function operatorText({ ending, stderrBytes, survivors }: ChildResult): Error {
  const how = ending.kind === "exit" ? `exit ${ending.code}` : ending.kind;
  const outlived = survivors === 0 ? "" : `, ${survivors} processes survived the kill of its group`;
  const options = ending.kind === "spawnError" ? { cause: ending.cause } : {};
  return new Error(`${how}, ${stderrBytes} bytes on stderr${outlived}`, options);
}

type ExitCodes = Readonly<Record<number, ExitMeaning>>;

/** Facts that a refusal needs in addition to the ending. */
interface Told {
  readonly tool: Tool;
  readonly exitCodes: ExitCodes;
  /** Meaning of the program's stderr by the manifest's literals. */
  readonly stderrStatus: TargetStatus | undefined;
  readonly stderrBytes: number;
  /** End of the program's stderr, when the manifest allows it to be returned. */
  readonly said: string | undefined;
  /** Output before the deadline. */
  readonly outputSoFar: PartialAnswer | undefined;
  /** True when it is certain that nothing was changed: the tool only reads, or its program never ran. */
  readonly isDefinite: boolean;
  /** Cause of the refusal, for the operator. */
  readonly cause: unknown;
}

/** Returns the refusal, unless a change was cut off: then its outcome is unknown. `details` say what cut it off. */
function unlessUnknown(
  { isDefinite, outputSoFar, cause }: Told,
  refuse: () => Refusal,
  details?: RefusalOptions["details"],
): Refusal {
  if (isDefinite) return refuse();
  const message = "It is not known whether the change happened. Check before you call again.";
  return new Refusal("OUTCOME_UNKNOWN", message, { outputSoFar, cause, ...(details && { details }) });
}

/** The program ended by itself. */
interface Exited {
  readonly kind: "exit";
  readonly code: number;
}

export function exited(code: number): Exited {
  return { kind: "exit", code };
}

/** Returns the manifest's meaning of an exit code; 0 is "OK" unless the manifest says otherwise. */
function meaningOf(code: number, exitCodes: ExitCodes): ExitMeaning | undefined {
  const declared = Object.hasOwn(exitCodes, code) ? exitCodes[code] : undefined;
  return declared ?? (code === 0 ? "OK" : undefined);
}

/** Returns a refusal with the meaning of the exit code or, when the code has none, of stderr by the manifest's literals. */
function exitedRefusal({ code: exitCode }: Exited, told: Told): Refusal {
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

/** A signal that the service did not send ended the program. */
interface Signalled {
  readonly kind: "signal";
  readonly signal: string;
}

export function signalled(signal: string): Signalled {
  return { kind: "signal", signal };
}

function signalledRefusal({ signal }: Signalled, told: Told): Refusal {
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

/** The deadline passed; the program was killed or never started. */
interface TimedOut {
  readonly kind: "deadline";
}

export const TIMED_OUT: TimedOut = { kind: "deadline" };

function timedOutRefusal(told: Told): Refusal {
  const { outputSoFar, cause } = told;
  const message = "The command did not end in time.";
  return unlessUnknown(told, () => new Refusal("DEADLINE_EXCEEDED", message, { outputSoFar, cause }));
}

/** The client disconnected or the service ends; the program was killed or never started. */
interface Cancelled {
  readonly kind: "cancelled";
}

/**
 * Returns the ending for an aborted signal. The reason of a signal that timed out says so, as with `AbortSignal.timeout`; any
 * other signal means that the client disconnected or the service ends.
 */
export function endingOfAbort({ reason }: AbortSignal): Cancelled | TimedOut {
  return reason instanceof Error && reason.name === "TimeoutError" ? TIMED_OUT : { kind: "cancelled" };
}

function cancelledRefusal({ cause }: Told): Refusal {
  return new Refusal("CANCELLED", "The client disconnected before the answer.", { cause });
}

/** The program and its descendants used more memory than is allowed, and were killed. */
interface MemoryBound {
  readonly kind: "memoryBound";
  readonly memoryBytesMax: number;
}

export function memoryBound(memoryBytesMax: number): MemoryBound {
  return { kind: "memoryBound", memoryBytesMax };
}

function memoryBoundRefusal({ memoryBytesMax }: MemoryBound, told: Told): Refusal {
  const { cause } = told;
  const details = { limit: "memory", memoryBytesMax };
  const message = "The command used more memory than is allowed, and was ended. Let it process less at once.";
  return unlessUnknown(told, () => new Refusal("TARGET_FAILED", message, { details, cause }), details);
}

/** The program could not be started, or its output could not be read. */
interface SpawnFailed {
  readonly kind: "spawnError";
  readonly cause: unknown;
}

export function spawnFailed(cause: unknown): SpawnFailed {
  return { kind: "spawnError", cause };
}

function spawnFailedRefusal(told: Told): Refusal {
  const { cause } = told;
  return unlessUnknown(told, () => new Refusal("TARGET_UNAVAILABLE", "The command could not be run.", { cause }));
}

export interface ChildResult {
  readonly ending: Ending;
  /** True when the program ran. */
  readonly started: boolean;
  readonly stdout: Uint8Array;
  /** True when `stdout` is only the beginning of the output. */
  readonly truncated: boolean;
  /** Number of bytes on stderr. The text is dropped unless the order keeps it: it must not be passed on unchecked. */
  readonly stderrBytes: number;
  /** Last complete lines of stderr, when the order keeps them. */
  readonly stderrTail: Uint8Array;
  /** Meaning of stderr by the order's literals. */
  readonly stderrStatus: TargetStatus | undefined;
  /** Number of descendants that had left the group and so survived its kill. */
  readonly survivors: number;
}
