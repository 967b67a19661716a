import { canonical } from "../core/digest.ts";
import { isTable } from "../core/json.ts";
import type { Category, ExecutionPlan, Risk } from "../core/types.ts";

export interface ToolUse {
  readonly name: string;
  /** The parsed arguments; a copy. */
  readonly params: Readonly<Record<string, unknown>>;
  readonly approvalId: string;
  /** Id that the model gave the call, if any. */
  readonly callId: string | undefined;
  readonly category: Category;
  readonly sessionId: string | undefined;
  readonly risk: Risk;
  /** The rules for which the call needs an approval, and the risk rules that matched. */
  readonly rules: readonly string[];
  /** A copy of the plan that will run. May contain secrets from the arguments, as `params` may. */
  readonly plan: ExecutionPlan;
  /** Hex SHA-256 of exactly what will run. */
  readonly planDigest: string;
  readonly signal: AbortSignal;
}

/** A decision of the callback. `params` replace all arguments, and run the pipeline again before anything runs. */
export type ToolApprovalResult =
  | boolean
  | {
      readonly approved: boolean;
      readonly params?: Readonly<Record<string, unknown>> | undefined;
      readonly denyReason?: string | undefined;
      /** Required when the request wants an answer (`approval.answer`): without it the approval does not count. */
      readonly answer?: string | undefined;
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
    return read(await Promise.race([Promise.try(callback, { ...use, signal: over.signal }), promise]));
  } catch (cause) {
    return { approved: false, cause };
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", onAbort);
  }
}

function read(answer: unknown): CallbackAnswer {
  if (answer === true) return { approved: true };
  if (typeof answer !== "object" || answer === null) return { approved: false };
  const { approved, params, denyReason, answer: text } = answer as Record<string, unknown>;
  const reason = typeof denyReason === "string" ? denyReason.slice(0, REASON_CHARACTERS_MAX) : undefined;
  if (approved !== true) return { approved: false, reason };
  const answered = typeof text === "string" ? { answer: text } : {};
  if (params === undefined) return { approved: true, ...answered };
  return isTable(params) ? { approved: true, params: copyOf(params), ...answered } : { approved: false };
}

/** Copies the parameters, because the callback may change its object later. @throws {NotJsonError} */
function copyOf(params: object): Readonly<Record<string, unknown>> {
  return JSON.parse(canonical(params, PARAMS_LIMITS).text) as Record<string, unknown>;
}

export interface ApprovalRequest {
  readonly approvalId: string;
  readonly command: string;
  readonly workingDir?: string | undefined;
  readonly sessionKey?: string | undefined;
}

export class DeniedError extends Error {
  override readonly name = "DeniedError";

  constructor(reason?: string) {
    super(reason ?? "");
  }
}

export interface ApprovalManagerOptions {
  /** Called for each request of `onToolApprove`; decide it with `resolve` or `reject`. */
  readonly onRequest?: (request: ApprovalRequest, use: ToolUse) => void | Promise<void>;
}

const PENDING_MAX = 1_000;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

interface Waiter {
  resolve(answer: string | undefined): void;
  reject(error: DeniedError): void;
}

/**
 * Keeps approval requests inside one process: each is a promise that is settled by its id. A request lives as long as its call;
 * for requests that must outlive the process, use a store (`approvals.store`).
 */
export class ApprovalManager {
  readonly #pending = new Map<string, Waiter>();
  readonly #options: ApprovalManagerOptions;

  constructor(options: ApprovalManagerOptions = {}) {
    this.#options = options;
  }

  /**
   * Waits for a decision. Resolves on an approval to the answer that came with it. Rejects with a DeniedError on a denial and
   * when the signal fires.
   */
  request(request: ApprovalRequest, { signal }: { readonly signal?: AbortSignal } = {}): Promise<string | undefined> {
    const { approvalId } = request;
    if (!UUID.test(approvalId)) return Promise.reject(new TypeError("approvalId must be a UUID"));
    if (this.#pending.has(approvalId)) return Promise.reject(new TypeError("this approvalId is pending already"));
    if (this.#pending.size >= PENDING_MAX)
      return Promise.reject(new DeniedError("too many approval requests are pending"));
    const { promise, resolve, reject } = Promise.withResolvers<string | undefined>();
    this.#pending.set(approvalId, { resolve, reject });
    const giveUp = (): void => void this.reject(approvalId, "no caller waits for the answer any more");
    signal?.addEventListener("abort", giveUp, { once: true });
    if (signal?.aborted) giveUp();
    return promise.finally(() => {
      this.#pending.delete(approvalId);
      signal?.removeEventListener("abort", giveUp);
    });
  }

  /** Approves a request, with an answer when the request wants one. Returns false when no such request is pending. */
  resolve(approvalId: string, answer?: string): boolean {
    const waiter = this.#take(approvalId);
    waiter?.resolve(answer);
    return waiter !== undefined;
  }

  /** Denies a request. Returns false when no such request is pending. */
  reject(approvalId: string, reason?: string): boolean {
    const waiter = this.#take(approvalId);
    waiter?.reject(new DeniedError(reason));
    return waiter !== undefined;
  }

  hasPending(approvalId: string): boolean {
    return this.#pending.has(approvalId);
  }

  /** Callback to pass as `SafeToolCall.create({ onToolApprove: manager.onToolApprove })`. */
  readonly onToolApprove: ApprovalCallback = async (use) => {
    const { command, workingDir } = use.params;
    const request: ApprovalRequest = {
      approvalId: use.approvalId,
      command: typeof command === "string" ? command : use.name,
      workingDir: typeof workingDir === "string" ? workingDir : undefined,
      sessionKey: use.sessionId,
    };
    const answer = this.request(request, { signal: use.signal });
    try {
      // `onRequest` may still run after the decision; its failure counts only before the decision.
      const requested = this.#notify(request, use);
      const answered = await Promise.race([answer, requested.then(() => answer)]);
      return answered === undefined ? true : { approved: true, answer: answered };
    } catch (error) {
      this.reject(request.approvalId, "the approval request could not be created");
      await answer.catch(() => {});
      return { approved: false, ...(error instanceof DeniedError && { denyReason: error.message }) };
    }
  };

  async #notify(request: ApprovalRequest, use: ToolUse): Promise<void> {
    await this.#options.onRequest?.(request, use);
  }

  /** Removes the waiter, so that a request is decided once. */
  #take(approvalId: string): Waiter | undefined {
    const waiter = this.#pending.get(approvalId);
    this.#pending.delete(approvalId);
    return waiter;
  }
}
