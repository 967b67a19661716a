import { type WantedAnswer, wantedAnswer } from "../../approvals/answer.ts";
import type { Mode } from "../../approvals/types.ts";
import type { Planned } from "../../core/evidence.ts";
import { copyOf } from "../../core/json.ts";
import { deepFreeze } from "../schema-validator.ts";

/** How long a manifest may take to decide whether its call needs an approval. */
const NEEDS_APPROVAL_TIMEOUT_MS = 1_000;

type ManifestCall = Pick<Planned, "tool" | "input" | "caller">;

/** Asks the manifest of a call's tool whether the call needs an approval. */
export class ManifestRule {
  readonly #call: ManifestCall;
  /** Undefined when the answer may depend on the mode, or was not asked for. */
  #inEveryMode: boolean | undefined;

  constructor(call: ManifestCall) {
    this.#call = call;
  }

  /** Returns whether the manifest passes the call and has not read the mode. */
  async passesInEveryMode(): Promise<boolean> {
    let isModeRead = false;
    const onModeRead = (): void => {
      isModeRead = true;
    };
    const passes = await doesManifestPass(this.#call, { mode: "default", onModeRead });
    this.#inEveryMode = isModeRead ? undefined : passes;
    return this.#inEveryMode === true;
  }

  async passesIn(mode: Mode): Promise<boolean> {
    return this.#inEveryMode ?? (await doesManifestPass(this.#call, { mode, onModeRead: () => {} }));
  }
}

/** Returns whether `needsApproval` returned `false` in time. An exception, a timeout or any other value requires an approval. */
async function doesManifestPass(
  { tool, input, caller }: ManifestCall,
  { mode, onModeRead }: { readonly mode: Mode; readonly onModeRead: () => void },
): Promise<boolean> {
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
    const timeout = new Promise((resolve) => {
      timer = setTimeout(resolve, NEEDS_APPROVAL_TIMEOUT_MS);
    });
    return (await Promise.race([answer, timeout])) === false;
  } catch {
    return false;
  } finally {
    clearTimeout(timer);
  }
}

/** Returns what an approver must answer for this call to run. Undefined: an approval is enough. */
export function wantedAnswerOf({ tool, input }: Pick<Planned, "tool" | "input">): WantedAnswer | undefined {
  const { answer } = tool.approval;
  return answer && wantedAnswer(answer.choices?.(deepFreeze(ownCopy(input)) as never));
}

/**
 * Returns a copy for a manifest function. The plan is sealed by now, and dates cannot be frozen: a function that changes its
 * argument changes only its own copy. An input that cannot be copied is passed on itself: no plan of a function contains one, so
 * changing it does not change what runs.
 */
function ownCopy(input: unknown): unknown {
  try {
    return copyOf(input);
  } catch {
    return input;
  }
}
