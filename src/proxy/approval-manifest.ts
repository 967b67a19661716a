import { type WantedAnswer, wantedAnswer } from "../approvals/answer.ts";
import type { Mode } from "../approvals/types.ts";
import { copyOf } from "../core/copy.ts";
import type { Planned } from "../core/evidence.ts";
import { deepFreeze } from "./schema-validator.ts";

/** How long a manifest may think about whether its call asks. */
const NEEDS_APPROVAL_TIMEOUT_MS = 1_000;

/** Only a plain `false` in time is a no; a throw, silence or anything else asks. */
export async function needsNoApproval({ tool, input, caller }: Planned, mode: Mode): Promise<boolean> {
  const { needsApproval } = tool.approval;
  if (needsApproval === undefined) return false;
  const { issuer, subject, permissions } = caller;
  let timer: ReturnType<typeof setTimeout> | undefined;
  try {
    const answer: unknown = needsApproval(deepFreeze(ownCopy(input)) as never, {
      mode,
      caller: { issuer, subject, permissions },
    });
    if (!(answer instanceof Promise)) return answer === false;
    const silence = new Promise((resolve) => {
      timer = setTimeout(resolve, NEEDS_APPROVAL_TIMEOUT_MS);
    });
    return (await Promise.race([answer, silence])) === false;
  } catch {
    return false;
  } finally {
    clearTimeout(timer);
  }
}

/** What a person must answer for this call to run; undefined: a yes is enough. */
export function answerWantedBy({ tool, input }: Pick<Planned, "tool" | "input">): WantedAnswer | undefined {
  const { answer } = tool.approval;
  return answer && wantedAnswer(answer.choices?.(deepFreeze(ownCopy(input)) as never));
}

/**
 * The plan is sealed by now, and dates cannot be frozen: whoever changes what they are asked about changes their own copy. What
 * cannot be copied is in no function's plan.
 */
function ownCopy(input: unknown): unknown {
  try {
    return copyOf(input);
  } catch {
    return input;
  }
}
