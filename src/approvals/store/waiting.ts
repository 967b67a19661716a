import { endedWithin } from "../../core/time-limits.ts";
import type { Approval, Approvals } from "../types.ts";
import type { Store } from "./store.ts";

/** Beyond this number of waiters, a wait returns the current state immediately. */
const WAITS_MAX = 10_000;
/** Longer than any endpoint lets a caller wait, and below the maximum of a timer (24 days). */
const WAIT_MS_MAX = 3_600_000;

/** Time that a closing store waits for the first reads of new waiters. */
const CLOSE_MS_MAX = 5_000;

/** Delay before a failed read is retried, unless a notification comes first. */
const RETRY_MS = 10_000;

interface Clocked {
  readonly approval: Approval | undefined;
  /** Time of the read, by the database's clock. */
  readonly now: number;
}

interface WaitingOptions {
  readonly read: (id: string) => Promise<Clocked>;
  readonly notifier: Store["notifier"];
}

export interface Waiting extends Pick<Approvals, "wait"> {
  /** Lets new waiters finish their first read. Call it after the notifier is closed and before the database is closed. */
  finishFirstReads(): Promise<void>;
}

/**
 * Implements long polling. Subscribes before it reads, so that a decision made after the read still ends the wait. Waiters keep
 * waiting while the store is unavailable.
 */
export function waiting({ read, notifier }: WaitingOptions): Waiting {
  let waits = 0;
  const firstReads = new Set<Promise<unknown>>();
  const tryRead = async (id: string): Promise<Clocked | { readonly problem: unknown }> => {
    try {
      await notifier.ready();
      return await read(id);
    } catch (problem) {
      return { problem };
    }
  };
  const readFirst = async (id: string): ReturnType<typeof tryRead> => {
    const reading = tryRead(id);
    firstReads.add(reading);
    const found = await reading;
    firstReads.delete(reading);
    return found;
  };
  const waitUntilDecided = async (id: string, wake: Signal): Promise<Approval | undefined> => {
    let last: Approval | undefined;
    for (let isFirst = true; ; isFirst = false) {
      const notified = wake.next();
      const found = await (isFirst ? readFirst(id) : tryRead(id));
      const isLast = wake.isOver || notifier.isClosed;
      if (!("problem" in found)) last = found.approval;
      else if (isLast && last === undefined) throw found.problem;
      const isPending = "problem" in found || last?.state === "pending";
      if (isLast || !isPending) return last;
      const timer = setTimeout(wake.fire, "problem" in found ? RETRY_MS : restOf(found));
      timer.unref();
      await notified;
      clearTimeout(timer);
    }
  };
  return {
    async wait(id, { timeoutMs, signal }) {
      const wake = new Signal();
      const unsubscribe = notifier.subscribe(id, wake.fire);
      const timer = setTimeout(wake.end, Math.min(Math.max(timeoutMs, 0), WAIT_MS_MAX));
      timer.unref();
      signal?.addEventListener("abort", wake.end);
      waits += 1;
      if (signal?.aborted || timeoutMs <= 0 || waits > WAITS_MAX) wake.end();
      try {
        return await waitUntilDecided(id, wake);
      } finally {
        waits -= 1;
        signal?.removeEventListener("abort", wake.end);
        clearTimeout(timer);
        unsubscribe();
      }
    },
    async finishFirstReads() {
      await endedWithin(Promise.allSettled(firstReads), CLOSE_MS_MAX);
    },
  };
}

function restOf({ approval, now }: Clocked): number {
  return Math.min((approval?.decideBy ?? now) - now, WAIT_MS_MAX);
}

/** A resettable signal: the promise of `next` resolves at the first signal after the call. */
class Signal {
  #fired = Promise.withResolvers<void>();
  #over = false;

  get isOver(): boolean {
    return this.#over;
  }

  readonly fire = (): void => {
    this.#fired.resolve();
  };

  readonly end = (): void => {
    this.#over = true;
    this.fire();
  };

  next(): Promise<void> {
    this.#fired = Promise.withResolvers();
    return this.#fired.promise;
  }
}
