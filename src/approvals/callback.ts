import { canonical } from "../core/digest.ts";
import { isTable } from "../core/json.ts";
import type { Category } from "../core/types.ts";

/** A call that an embedder's own callback is asked about. */
export interface ToolUse {
  readonly name: string;
  /** The parsed arguments; a copy. */
  readonly params: Readonly<Record<string, unknown>>;
  /** A UUID: which question this is. */
  readonly approvalId: string;
  /** The model's own id of the call, when it gave one. */
  readonly callId: string | undefined;
  readonly category: Category;
  readonly sessionId: string | undefined;
  /** Hex SHA-256 of exactly what will run. */
  readonly planDigest: string;
  /** Fires when nobody waits for the answer any more. */
  readonly signal: AbortSignal;
}

/** `params` replace the arguments whole, and walk the road again before anything runs. */
export type ToolApprovalResult =
  | boolean
  | {
      readonly approved: boolean;
      readonly params?: Readonly<Record<string, unknown>>;
      readonly denyReason?: string;
      /** To a question that wants one (`approval.answer`): without it the yes is none. */
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
 * Asks, until the time is over. Only `true` and `{ approved: true }` are a yes: a throw, silence, and whatever else comes back
 * are a no.
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

/** In a promise, so that a callback that throws at once is told like one that rejects. */
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

/** Whoever answered may go on changing what they gave. @throws {NotJsonError} */
function copyOf(params: object): Readonly<Record<string, unknown>> {
  return JSON.parse(canonical(params, PARAMS_LIMITS).text) as Record<string, unknown>;
}
