import type { Approval, Approvals } from "../../approvals/types.ts";
import type { HubCallOptions } from "../contract.ts";
import { HubRefusal } from "../errors.ts";
import { WAIT_MS_MAX } from "./approval-inputs.ts";

/** What a request may take longer than it waits at the hub. */
export const ANSWER_MS = 5_000;
/** Delay before a failed request is repeated: the client has repeated it itself until its limit. */
export const RETRY_MS = 1_000;
/** Longer than any endpoint lets a caller wait, and below the maximum of a timer (24 days). */
const TOTAL_MS_MAX = 3_600_000;

type LongRequest = (id: string, timeoutMs: number, options: HubCallOptions) => Promise<Approval | undefined>;

/** Waits by long requests, one after the other. Goes on while the hub is away, and ends at once when the signal fires. */
export function waitThrough(request: LongRequest): Approvals["wait"] {
  return async (id, { timeoutMs, signal }) => {
    const ms = Math.min(Math.max(timeoutMs, 0), TOTAL_MS_MAX);
    if (ms === 0 || signal?.aborted) return request(id, 0, { timeoutMs: ANSWER_MS });
    const over = new AbortController();
    const end = (): void => over.abort();
    const timer = setTimeout(end, ms);
    signal?.addEventListener("abort", end);
    try {
      return await repeat(request, { id, waitMs: Math.min(ms, WAIT_MS_MAX), over: over.signal, left: signal });
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
    }
  };
}

interface Repetition {
  readonly id: string;
  readonly waitMs: number;
  /** Fires at the time limit, and when the caller has left. */
  readonly over: AbortSignal;
  readonly left: AbortSignal | undefined;
}

async function repeat(request: LongRequest, { id, waitMs, over, left }: Repetition): Promise<Approval | undefined> {
  let last: Approval | undefined;
  while (!over.aborted) {
    try {
      last = await request(id, waitMs, { timeoutMs: waitMs + ANSWER_MS, signal: over });
      if (last?.state !== "pending") return last;
    } catch (problem) {
      if (problem instanceof HubRefusal) throw problem;
      if (!over.aborted) await pause(RETRY_MS, over);
    }
  }
  // At the time limit, the state may have changed since the last answer.
  return left?.aborted ? last : request(id, 0, { timeoutMs: ANSWER_MS });
}

/** Resolves after the delay, or when the signal fires. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const end = (): void => resolve();
  const timer = setTimeout(end, ms);
  signal.addEventListener("abort", end, { once: true });
  if (signal.aborted) end();
  return promise.finally(() => {
    clearTimeout(timer);
    signal.removeEventListener("abort", end);
  });
}
