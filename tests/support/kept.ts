import { PartialAnswer } from "../../src/core/partial-answer.ts";

/** What a handler has kept of an answer, or the answer itself where it was whole. */
export function keptOf(answer: unknown): unknown {
  return PartialAnswer.is(answer) ? answer.kept : answer;
}
