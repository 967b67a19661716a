import type { Approvals } from "../approvals/types.ts";
import type { CallOutcome } from "../core/evidence.ts";
import type { Caller } from "../core/types.ts";
import { approvalIdOf } from "./approval-refusals.ts";
import type { CallRequest } from "./call-request.ts";

/** Maximum number of calls held open for an approver's answer (`Prefer: wait`). Beyond it, a call gets its 202 immediately. */
const WAITERS_MAX = 1_000;

/**
 * Holds calls whose approval request is open. It makes no decisions: after an answer, the call runs the pipeline again with the
 * id of its approval.
 */
export interface WaitingRoom {
  /** Returns the request to run again; undefined when nobody answered in time or the client disconnected. */
  untilAnswered(outcome: CallOutcome, waiting: WaitingCall): Promise<CallRequest | undefined>;
  /** Ends the waits: every waiting call gets its 202. */
  releaseAll(): void;
}

interface Wait extends Pick<CallRequest, "disconnect"> {
  readonly waitMs: number;
}

interface WaitingCall {
  readonly request: CallRequest;
  readonly caller: Caller | undefined;
}

export function createWaitingRoom(approvals: Approvals | undefined): WaitingRoom {
  const closing = new AbortController();
  let waiting = 0;

  async function hold(store: Approvals, id: string, { waitMs, disconnect }: Wait): Promise<boolean> {
    const disconnecting = new AbortController();
    const unlisten = disconnect?.listen(() => disconnecting.abort());
    if (disconnect?.disconnected === true) disconnecting.abort();
    waiting += 1;
    try {
      const signal = AbortSignal.any([disconnecting.signal, closing.signal]);
      const approval = await store.wait(id, { timeoutMs: waitMs, signal });
      return approval !== undefined && approval.state !== "pending" && !signal.aborted;
    } catch {
      return false;
    } finally {
      waiting -= 1;
      unlisten?.();
    }
  }

  return {
    async untilAnswered(outcome, { request, caller }) {
      const id = approvalIdOf(outcome);
      const { waitMs, disconnect } = request;
      if (approvals === undefined || id === undefined || !waitMs || waiting >= WAITERS_MAX) return undefined;
      const held =
        request.hold === undefined || caller === undefined ? { waitMs } : await request.hold.begin(caller, id);
      if (held === undefined) return undefined;
      try {
        const isAnswered = await hold(approvals, id, { waitMs: held.waitMs, disconnect });
        return isAnswered ? { ...claimOf(request), approvalId: id } : undefined;
      } finally {
        if ("end" in held) held.end();
      }
    },
    releaseAll: () => closing.abort(),
  };
}

/** Copies members by name: a request may be an object with lazy getters. */
function claimOf(request: CallRequest): CallRequest {
  const { tool, args, authorization, session, callId, reason, traceparent, source, body, disconnect } = request;
  const { idempotencyKey, certificate, resultBytesMax } = request;
  const names = { session, callId, reason, traceparent, idempotencyKey, resultBytesMax };
  return { tool, args, authorization, certificate, ...names, source, body, disconnect };
}
