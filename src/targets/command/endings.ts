import { Refusal, type RefusalOptions } from "../../core/errors.ts";
import type { PartialAnswer } from "../../core/partial-answer.ts";
import type { ExitMeaning, TargetStatus, Tool } from "../../core/types.ts";

/** Every way in which a child ends; each has a file. */
export type Ending = Exited | Signalled | TimedOut | Cancelled | MemoryBound | SpawnFailed;

/** Whether a run gave an answer: exit 0, or a code that the manifest declares to be `"OK"`. */
export function isAnswer({ ending }: ChildResult, exitCodes: ExitCodes): boolean {
  return ending.kind === "exit" && meaningOf(ending.code, exitCodes) === "OK";
}

interface Failing {
  readonly exitCodes?: ExitCodes;
  /** Of a run that its deadline ended. */
  readonly outputSoFar?: PartialAnswer | undefined;
}

/**
 * What a run without an answer is called. A changing tool that ran and was cut off has an unknown outcome. Nothing that the
 * program said is in the message.
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
 * How a program ended, for the operator. Of what it said on stderr only the length: nobody has looked yet whether secrets or
 * personal data stand in it.
 */
export function operatorText({ ending, stderrBytes, survivors }: ChildResult): Error {
  const how = ending.kind === "exit" ? `exit ${ending.code}` : ending.kind;
  const outlived = survivors === 0 ? "" : `, ${survivors} processes outlived the kill of its group`;
  const options = ending.kind === "spawnError" ? { cause: ending.cause } : {};
  return new Error(`${how}, ${stderrBytes} bytes on stderr${outlived}`, options);
}

type ExitCodes = Readonly<Record<number, ExitMeaning>>;

/** What a refusal needs to know beside the ending itself. */
interface Told {
  readonly tool: Tool;
  readonly exitCodes: ExitCodes;
  /** What the program's stderr means by the manifest's own literals. */
  readonly stderrStatus: TargetStatus | undefined;
  readonly stderrBytes: number;
  /** The end of what it said there, where the manifest lets it be heard. */
  readonly said: string | undefined;
  /** What it wrote before its time was over. */
  readonly outputSoFar: PartialAnswer | undefined;
  /** Whether it is known that nothing was changed: the tool reads, or its program never ran. */
  readonly isDefinite: boolean;
  /** For the operator. */
  readonly cause: unknown;
}

/** The refusal, unless a change was cut off: then nobody knows what has happened. `details` say what cut it off. */
function unlessUnknown(
  { isDefinite, outputSoFar, cause }: Told,
  refuse: () => Refusal,
  details?: RefusalOptions["details"],
): Refusal {
  if (isDefinite) return refuse();
  const message = "Whether the change happened is not known. Look before you call again.";
  return new Refusal("OUTCOME_UNKNOWN", message, { outputSoFar, cause, ...(details && { details }) });
}

/** The program came to its own end. */
interface Exited {
  readonly kind: "exit";
  readonly code: number;
}

export function exited(code: number): Exited {
  return { kind: "exit", code };
}

/** What the manifest says of an exit code; 0 is "OK" unless it says otherwise. */
function meaningOf(code: number, exitCodes: ExitCodes): ExitMeaning | undefined {
  const declared = Object.hasOwn(exitCodes, code) ? exitCodes[code] : undefined;
  return declared ?? (code === 0 ? "OK" : undefined);
}

/** A code that means something says what; where it means nothing, the manifest's literals for stderr may. */
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

/** A signal ended the program, and it was not ours. */
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

/** The deadline passed, and the program was killed, or never started. */
interface TimedOut {
  readonly kind: "deadline";
}

export const TIMED_OUT: TimedOut = { kind: "deadline" };

function timedOutRefusal(told: Told): Refusal {
  const { outputSoFar, cause } = told;
  const message = "The command did not end in time.";
  return unlessUnknown(told, () => new Refusal("DEADLINE_EXCEEDED", message, { outputSoFar, cause }));
}

/** Whoever asked is gone, or the service ends; the program was killed, or never started. */
interface Cancelled {
  readonly kind: "cancelled";
}

/** A signal that timed out says so in its reason, as `AbortSignal.timeout` does; any other is somebody who went away. */
export function endingOfAbort({ reason }: AbortSignal): Cancelled | TimedOut {
  return reason instanceof Error && reason.name === "TimeoutError" ? TIMED_OUT : { kind: "cancelled" };
}

function cancelledRefusal({ cause }: Told): Refusal {
  return new Refusal("CANCELLED", "The client went away before the answer.", { cause });
}

/** The program and what it started used more memory than is allowed, and were killed. */
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
  /** Whether the program ever ran. */
  readonly started: boolean;
  readonly stdout: Uint8Array;
  /** Whether `stdout` is only the beginning of what it wrote. */
  readonly truncated: boolean;
  /** How much it said on stderr. What it said is dropped unless the order says otherwise: nobody may hand it on unlooked at. */
  readonly stderrBytes: number;
  /** The whole last lines of it, where the order keeps them. */
  readonly stderrTail: Uint8Array;
  /** What its stderr means by the order's literals. */
  readonly stderrStatus: TargetStatus | undefined;
  /** Descendants that had left its group, and so outlived the kill of it. */
  readonly survivors: number;
}
