import { integer, text } from "../../database/rows.ts";
import type { ApprovalEvent } from "../types.ts";
import type { ReadTransaction } from "./database.ts";
import { EVENTS_READ_MAX, lastSeq } from "./events.ts";
import { toEvent } from "./rows.ts";
import type { Store } from "./store.ts";

interface OwnEvents {
  readonly member: string;
  readonly seq: number;
  readonly limit: number;
}

/** Returns the events of the requests of a member of the hub, oldest first. */
export async function ownEventsAfter(
  { sql }: ReadTransaction,
  { member, seq, limit }: OwnEvents,
): Promise<readonly ApprovalEvent[]> {
  const count = Math.min(Math.max(Math.floor(limit), 1), EVENTS_READ_MAX);
  const rows = await sql`
    SELECT * FROM approval_events WHERE member = ${member} AND seq > ${seq} ORDER BY seq LIMIT ${count}`;
  return rows.map(toEvent);
}

interface EventWait {
  readonly after: number;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/** Tells members of the hub of their events: one read per change for all members that wait. */
export class MemberEvents {
  readonly #store: Store;
  readonly #waiting = new Map<string, Set<() => void>>();
  #unlisten: (() => void) | undefined;
  #seen: number | undefined;
  #reading = false;
  #again = false;

  constructor(store: Store) {
    this.#store = store;
  }

  /** Waits until the member has an event after `after`, the timeout passes or the signal fires. */
  async wait(member: string, { after, timeoutMs, signal }: EventWait): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, timeoutMs);
    const onAbort = (): void => resolve();
    signal.addEventListener("abort", onAbort);
    if (signal.aborted) resolve();
    this.#join(member, resolve);
    try {
      const { database } = this.#store;
      const found = await database.read((view) => ownEventsAfter(view, { member, seq: after, limit: 1 }));
      if (found.length === 0) await promise;
    } finally {
      this.#leave(member, resolve);
      signal.removeEventListener("abort", onAbort);
      clearTimeout(timer);
    }
  }

  #join(member: string, wake: () => void): void {
    const others = this.#waiting.get(member) ?? new Set();
    this.#waiting.set(member, others.add(wake));
    this.#unlisten ??= this.#store.notifier.listen(() => void this.#look());
  }

  #leave(member: string, wake: () => void): void {
    const others = this.#waiting.get(member);
    others?.delete(wake);
    if (others?.size === 0) this.#waiting.delete(member);
    if (this.#waiting.size > 0) return;
    this.#unlisten?.();
    this.#unlisten = undefined;
    this.#seen = undefined;
  }

  async #look(): Promise<void> {
    this.#again = true;
    if (this.#reading) return;
    this.#reading = true;
    try {
      while (this.#again) {
        this.#again = false;
        await this.#wakeChanged();
      }
    } catch {
      // Those who wait look again after their time limit.
    } finally {
      this.#reading = false;
    }
  }

  /** The first look wakes everybody: nobody knows what came before it. */
  async #wakeChanged(): Promise<void> {
    const since = this.#seen;
    const { last, members } = await this.#store.database.read(async (view) => ({
      last: await lastSeq(view),
      members: since === undefined ? undefined : await membersWithEvents(view, since),
    }));
    this.#seen = last;
    for (const [member, wakes] of [...this.#waiting]) {
      if (members?.has(member) ?? true) for (const wake of wakes) wake();
    }
  }
}

async function membersWithEvents({ sql }: ReadTransaction, after: number): Promise<ReadonlySet<string>> {
  const rows = await sql`
    SELECT member, MAX(seq) AS last FROM approval_events WHERE member IS NOT NULL AND seq > ${after} GROUP BY member`;
  return new Set(rows.filter((row) => integer(row, "last") > after).map((row) => text(row, "member")));
}
