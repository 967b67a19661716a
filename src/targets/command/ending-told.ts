import { Refusal, type RefusalOptions } from "../../core/errors.ts";
import type { PartialAnswer } from "../../core/partial-answer.ts";
import type { ExitMeaning, TargetStatus, Tool } from "../../core/types.ts";

export type ExitCodes = Readonly<Record<number, ExitMeaning>>;

/** What a refusal needs to know beside the ending itself. */
export interface Told {
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
export function unlessUnknown(
  { isDefinite, outputSoFar, cause }: Told,
  refuse: () => Refusal,
  details?: RefusalOptions["details"],
): Refusal {
  if (isDefinite) return refuse();
  const message = "Whether the change happened is not known. Look before you call again.";
  return new Refusal("OUTCOME_UNKNOWN", message, { outputSoFar, cause, ...(details && { details }) });
}
