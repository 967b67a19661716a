import type { Refusal } from "../../core/errors.ts";
import type { PartialAnswer } from "../../core/partial-answer.ts";
import type { Tool } from "../../core/types.ts";
import type { ChildResult } from "./child.ts";
import { type Cancelled, cancelledRefusal } from "./ending-cancelled.ts";
import { type Exited, exitedRefusal, meaningOf } from "./ending-exited.ts";
import { type MemoryBound, memoryBoundRefusal } from "./ending-memory-bound.ts";
import { type Signalled, signalledRefusal } from "./ending-signalled.ts";
import { type SpawnFailed, spawnFailedRefusal } from "./ending-spawn-failed.ts";
import { type TimedOut, timedOutRefusal } from "./ending-timed-out.ts";
import type { ExitCodes, Told } from "./ending-told.ts";

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
