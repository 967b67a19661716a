import { type WantedAnswer, wantedAnswer } from "../approvals/answer.ts";
import type { Mode } from "../approvals/types.ts";
import { copyOf } from "../core/copy.ts";
import type { Planned } from "../core/evidence.ts";
import { deepFreeze } from "./schema-validator.ts";

/** How long a manifest may think about whether its call asks. */
const NEEDS_APPROVAL_TIMEOUT_MS = 1_000;

/** What a manifest's `needsApproval` says: only a plain `false` in time passes; a throw, silence or anything else asks. */
export type ManifestAnswer = "passes" | "asks";

/** Asks the manifest whether the call passes in this mode. */
export async function askManifest(planned: Planned, mode: Mode): Promise<ManifestAnswer> {
  return (await answerOf(planned, { mode, onModeRead: () => {} })) ? "passes" : "asks";
}

/** Returns the answer that holds in every mode; undefined when the manifest looked at the mode. */
export async function askManifestInAnyMode(planned: Planned): Promise<ManifestAnswer | undefined> {
  let isModeRead = false;
  const onModeRead = (): void => {
    isModeRead = true;
  };
  const passes = await answerOf(planned, { mode: "default", onModeRead });
  if (isModeRead) return undefined;
  return passes ? "passes" : "asks";
}

interface ManifestQuestion {
  readonly mode: Mode;
  onModeRead(): void;
}

async function answerOf({ tool, input, caller }: Planned, { mode, onModeRead }: ManifestQuestion): Promise<boolean> {
  const { needsApproval } = tool.approval;
  if (needsApproval === undefined) return false;
  const { issuer, subject, permissions } = caller;
  const context = {
    get mode() {
      onModeRead();
      return mode;
    },
    caller: { issuer, subject, permissions },
  };
  let timer: ReturnType<typeof setTimeout> | undefined;
  try {
    const answer: unknown = needsApproval(deepFreeze(ownCopy(input)) as never, context);
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
