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
  readonly wakes: Store["wakes"];
}

export interface Waiting extends Pick<Approvals, "wait"> {
  /** Lets new waiters finish their first read. Call it after the notifier is closed and before the database is closed. */
  lastLooks(): Promise<void>;
}

/**
 * Implements long polling. Subscribes before it reads, so that a decision made after the read still ends the wait. Waiters keep
 * waiting while the store is unavailable.
 */
export function waiting({ read, wakes }: WaitingOptions): Waiting {
  let waits = 0;
  const firstLooks = new Set<Promise<unknown>>();
  const look = async (id: string): Promise<Clocked | { readonly fault: unknown }> => {
    try {
      await wakes.ready();
      return await read(id);
    } catch (fault) {
      return { fault };
    }
  };
  const lookFirst = async (id: string): ReturnType<typeof look> => {
    const looking = look(id);
    firstLooks.add(looking);
    const seen = await looking;
    firstLooks.delete(looking);
    return seen;
  };
  const settle = async (id: string, bell: Bell): Promise<Approval | undefined> => {
    let last: Approval | undefined;
    for (let isFirst = true; ; isFirst = false) {
      const rung = bell.next();
      const seen = await (isFirst ? lookFirst(id) : look(id));
      const isLast = bell.isOver || wakes.isClosed;
      if (!("fault" in seen)) last = seen.approval;
      else if (isLast && last === undefined) throw seen.fault;
      const isPending = "fault" in seen || last?.state === "pending";
      if (isLast || !isPending) return last;
      const timer = setTimeout(bell.ring, "fault" in seen ? RETRY_MS : restOf(seen));
      timer.unref();
      await rung;
      clearTimeout(timer);
    }
  };
  return {
    async wait(id, { timeoutMs, signal }) {
      const bell = new Bell();
      const unsubscribe = wakes.subscribe(id, bell.ring);
      const timer = setTimeout(bell.end, Math.min(Math.max(timeoutMs, 0), WAIT_MS_MAX));
      timer.unref();
      signal?.addEventListener("abort", bell.end);
      waits += 1;
      if (signal?.aborted || timeoutMs <= 0 || waits > WAITS_MAX) bell.end();
      try {
        return await settle(id, bell);
      } finally {
        waits -= 1;
        signal?.removeEventListener("abort", bell.end);
        clearTimeout(timer);
        unsubscribe();
      }
    },
    async lastLooks() {
      await endedWithin(Promise.allSettled(firstLooks), CLOSE_MS_MAX);
    },
  };
}

function restOf({ approval, now }: Clocked): number {
  return Math.min((approval?.decideBy ?? now) - now, WAIT_MS_MAX);
}

/** A resettable signal: the promise of `next` resolves at the first ring after the call. */
class Bell {
  #ring = Promise.withResolvers<void>();
  #over = false;

  get isOver(): boolean {
    return this.#over;
  }

  readonly ring = (): void => {
    this.#ring.resolve();
  };

  /** Rings for the last time. */
  readonly end = (): void => {
    this.#over = true;
    this.ring();
  };

  next(): Promise<void> {
    this.#ring = Promise.withResolvers();
    return this.#ring.promise;
  }
}
