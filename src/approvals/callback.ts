import { canonical } from "../core/digest.ts";
import { isTable } from "../core/json.ts";
import type { Category } from "../core/types.ts";

/** A call that the embedder's approval callback decides. */
export interface ToolUse {
  readonly name: string;
  /** The parsed arguments; a copy. */
  readonly params: Readonly<Record<string, unknown>>;
  /** UUID of the approval request. */
  readonly approvalId: string;
  /** Id that the model gave the call, if any. */
  readonly callId: string | undefined;
  readonly category: Category;
  readonly sessionId: string | undefined;
  /** Hex SHA-256 of exactly what will run. */
  readonly planDigest: string;
  /** Fires when the caller no longer waits for the decision. */
  readonly signal: AbortSignal;
}

/** A decision of the callback. `params` replace all arguments, and run the pipeline again before anything runs. */
export type ToolApprovalResult =
  | boolean
  | {
      readonly approved: boolean;
      readonly params?: Readonly<Record<string, unknown>>;
      readonly denyReason?: string;
      /** Required when the request wants an answer (`approval.answer`): without it the approval does not count. */
      readonly answer?: string;
    };

export type ApprovalCallback = (use: ToolUse) => ToolApprovalResult | Promise<ToolApprovalResult>;

export type CallbackAnswer =
  | {
      readonly approved: true;
      readonly params?: Readonly<Record<string, unknown>> | undefined;
      readonly answer?: string | undefined;
    }
  | { readonly approved: false; readonly reason?: string | undefined; readonly cause?: unknown };

const REASON_CHARACTERS_MAX = 500;
const PARAMS_LIMITS = { depthMax: 256, nodesMax: 1_000_000, bytesMax: 67_108_864 } as const;

/**
 * Calls the callback and waits until the timeout. Only `true` and `{ approved: true }` approve: an exception, a timeout and
 * any other value deny.
 */
export async function askCallback(
  callback: ApprovalCallback,
  use: Omit<ToolUse, "signal">,
  { timeoutMs, signal }: { readonly timeoutMs: number; readonly signal: AbortSignal },
): Promise<CallbackAnswer> {
  const over = new AbortController();
  const { promise, reject } = Promise.withResolvers<never>();
  const giveUp = (reason: unknown): void => {
    reject(reason);
    over.abort(reason);
  };
  const onAbort = (): void => giveUp(signal.reason);
  const timer = setTimeout(() => giveUp(new DOMException("nobody answered in time", "TimeoutError")), timeoutMs);
  signal.addEventListener("abort", onAbort, { once: true });
  if (signal.aborted) onAbort();
  try {
    return read(await Promise.race([ask(callback, { ...use, signal: over.signal }), promise]));
  } catch (cause) {
    return { approved: false, cause };
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", onAbort);
  }
}

/** Is async, so that a callback that throws synchronously is handled like one that rejects. */
async function ask(callback: ApprovalCallback, use: ToolUse): Promise<unknown> {
  return callback(use);
}

function read(answer: unknown): CallbackAnswer {
  if (answer === true) return { approved: true };
  if (typeof answer !== "object" || answer === null) return { approved: false };
  const { approved, params, denyReason, answer: said } = answer as Record<string, unknown>;
  const reason = typeof denyReason === "string" ? denyReason.slice(0, REASON_CHARACTERS_MAX) : undefined;
  if (approved !== true) return { approved: false, reason };
  const answered = typeof said === "string" ? { answer: said } : {};
  if (params === undefined) return { approved: true, ...answered };
  return isTable(params) ? { approved: true, params: copyOf(params), ...answered } : { approved: false };
}

/** Copies the parameters, because the callback may change its object later. @throws {NotJsonError} */
function copyOf(params: object): Readonly<Record<string, unknown>> {
  return JSON.parse(canonical(params, PARAMS_LIMITS).text) as Record<string, unknown>;
}
