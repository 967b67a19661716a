import type { Approvals } from "../../approvals/types.ts";
import type { HubCallOptions } from "../contract.ts";
import { WAIT_MS_MAX } from "./approval-inputs.ts";
import { ANSWER_MS, pause, RETRY_MS } from "./hub-wait.ts";

interface EventRequests {
  readonly lastSeq: (options: HubCallOptions) => Promise<number>;
  /** Returns the member's last event after `after`, or `after` when the time is over. */
  readonly awaitEvents: (after: number, timeoutMs: number, options: HubCallOptions) => Promise<number>;
  readonly log: (message: string, cause: unknown) => void;
}

/** Follows the member's events by long requests, while somebody listens. */
export function followEvents(requests: EventRequests): Approvals["onEvents"] {
  const listeners = new Set<() => void>();
  let following: AbortController | undefined;
  const notify = (): void => {
    for (const listener of [...listeners]) {
      try {
        listener();
      } catch (error) {
        requests.log("a listener to approval events threw", error);
      }
    }
  };
  return (listener) => {
    // An object of its own: the same function may listen twice.
    const own = (): void => listener();
    listeners.add(own);
    if (following === undefined) {
      following = new AbortController();
      void follow(requests, { notify, signal: following.signal });
    }
    return () => {
      listeners.delete(own);
      if (listeners.size > 0) return;
      following?.abort();
      following = undefined;
    };
  };
}

interface Following {
  readonly notify: () => void;
  readonly signal: AbortSignal;
}

async function follow({ lastSeq, awaitEvents, log }: EventRequests, { notify, signal }: Following): Promise<void> {
  let seen: number | undefined;
  let isFailing = false;
  while (!signal.aborted) {
    try {
      const before = seen;
      seen =
        before === undefined
          ? await lastSeq({ signal })
          : await awaitEvents(before, WAIT_MS_MAX, { timeoutMs: WAIT_MS_MAX + ANSWER_MS, signal });
      // After the first look and an outage, nobody knows what came before.
      if (!signal.aborted && (seen !== before || isFailing)) notify();
      isFailing = false;
    } catch (problem) {
      if (signal.aborted) return;
      // Log once per outage.
      if (!isFailing) log("approval events cannot be followed at the hub", problem);
      isFailing = true;
      await pause(RETRY_MS, signal);
    }
  }
}
