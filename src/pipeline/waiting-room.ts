import type { Approvals } from "../approvals/types.ts";
import type { Refusal } from "../core/errors.ts";
import type { CallOutcome } from "../core/evidence.ts";
import type { CallerContext } from "../core/types.ts";
import type { HaltableCall } from "../halts/halt.ts";
import { approvalIdOf, stateRefusal } from "./approval/refusals.ts";
import type { Begun, CallRequest } from "./call-request.ts";

/** Maximum number of calls held open for an approver's answer (`Prefer: wait`). Beyond it, a call gets its 202 immediately. */
const WAITERS_MAX = 1_000;

/**
 * Holds calls whose approval request is open. It makes no decisions: after an answer, the call runs the pipeline again with the
 * id of its approval.
 */
export interface WaitingRoom {
  /** Returns the request to run again, or why it is halted; undefined when nobody answered in time or the client disconnected. */
  untilAnswered(outcome: CallOutcome, waiting: WaitingCall): Promise<CallRequest | Refusal | undefined>;
  /** Ends the waits of calls for which `refusalFor` returns a refusal. */
  halt(refusalFor: (call: HaltableCall) => Refusal | undefined): void;
  /** Ends the waits: every waiting call gets its 202. */
  releaseAll(): void;
}

interface Wait extends Pick<CallRequest, "disconnect"> {
  readonly waitMs: number;
  readonly halted: AbortSignal;
}

interface WaitingCall {
  readonly request: CallRequest;
  readonly caller: CallerContext | undefined;
  readonly haltable: HaltableCall | undefined;
}

/** A call on hold, which a halt may end. */
interface HeldCall {
  readonly call: HaltableCall | undefined;
  readonly halting: AbortController;
  refusal: Refusal | undefined;
}

export function createWaitingRoom(
  approvals: Approvals | undefined,
  refusalFor: (call: HaltableCall) => Refusal | undefined = () => undefined,
): WaitingRoom {
  const closing = new AbortController();
  const held = new Set<HeldCall>();
  /** Number of waiting calls for each approval request. */
  const waiters = new Map<string, number>();
  let waiting = 0;

  async function hold(store: Approvals, id: string, { waitMs, disconnect, halted }: Wait): Promise<boolean> {
    const disconnecting = new AbortController();
    const unlisten = disconnect?.listen(() => disconnecting.abort());
    if (disconnect?.disconnected === true) disconnecting.abort();
    waiting += 1;
    waiters.set(id, (waiters.get(id) ?? 0) + 1);
    try {
      const signal = AbortSignal.any([disconnecting.signal, closing.signal, halted]);
      const approval = await store.wait(id, { timeoutMs: waitMs, signal });
      return approval !== undefined && approval.state !== "pending" && !signal.aborted;
    } catch {
      return false;
    } finally {
      waiting -= 1;
      const others = (waiters.get(id) ?? 1) - 1;
      if (others === 0) waiters.delete(id);
      else waiters.set(id, others);
      unlisten?.();
    }
  }

  /** Withdraws the open request of a cancelled call, which approvers need not read, unless another call waits for it. */
  async function withdraw(store: Approvals, id: string, caller: CallerContext): Promise<Refusal | undefined> {
    if (waiters.has(id)) return undefined;
    try {
      const approval = await store.get(id);
      const cancelled = approval?.state === "pending" ? await store.cancel(id, caller) : undefined;
      return cancelled && stateRefusal(cancelled, { category: cancelled.category });
    } catch {
      // The request ends at its deadline.
      return undefined;
    }
  }

  return {
    async untilAnswered(outcome, { request, caller, haltable }) {
      const id = approvalIdOf(outcome);
      const { waitMs, disconnect } = request;
      if (approvals === undefined || id === undefined || !waitMs || waiting >= WAITERS_MAX) return undefined;
      const begun: (Pick<Begun, "waitMs"> & Partial<Begun>) | undefined =
        request.hold === undefined || caller === undefined ? { waitMs } : await request.hold.begin(caller, id);
      if (begun === undefined) return undefined;
      const holding: HeldCall = { call: haltable, halting: new AbortController(), refusal: undefined };
      held.add(holding);
      try {
        // A halt that came since the call was judged has not ended this wait.
        const halted = haltable && refusalFor(haltable);
        if (halted?.code === "HALTED") return halted;
        const wait = { waitMs: begun.waitMs, disconnect, halted: holding.halting.signal };
        const isAnswered = await hold(approvals, id, wait);
        const isCancelled = begun.isCancelledByDisconnect === true && disconnect?.disconnected === true;
        if (isCancelled && caller !== undefined) return await withdraw(approvals, id, caller);
        return holding.refusal ?? (isAnswered ? { ...claimOf(request), approvalId: id } : undefined);
      } finally {
        held.delete(holding);
        begun.end?.();
      }
    },
    halt(haltedBy) {
      for (const holding of held) {
        const refusal = holding.call && haltedBy(holding.call);
        if (refusal === undefined) continue;
        holding.refusal = refusal;
        holding.halting.abort();
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
