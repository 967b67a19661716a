import type { EpochMs } from "../core/types.ts";
import type { StateOperations } from "../database/operations.ts";
import { BATCH_MAX, fillOrders } from "./operations.ts";
import { type Quota, type QuotaUser, quotaExceeded, quotaUnknown } from "./rules.ts";
import type { Filled, Taken, UseOrder } from "./table.ts";

export interface LeaseOptions {
  readonly state: Pick<StateOperations, "run" | "isRemote">;
  /** Returns Unix milliseconds, by the clock of this process. */
  readonly clock: () => EpochMs;
  /** Returns milliseconds of a monotonic clock. */
  readonly monotonic: () => number;
  readonly log: (message: string, cause: unknown) => void;
}

/** Slack for two clocks that run at different speeds, and for what neither shows. */
const DRIFT = 0.0005;
const MARGIN_MS = 20;

/**
 * The database's clock, as far as this process knows it: the latest time that it may show now. It was at most `now` when the
 * transaction was begun, and since then no more time has passed than the faster of two clocks says: the monotonic one may stop
 * while the machine sleeps, the other may be set.
 */
class DatabaseClock {
  readonly #options: LeaseOptions;
  #now: EpochMs = 0;
  #wallAt = 0;
  #monotonicAt = 0;

  constructor(options: LeaseOptions) {
    this.#options = options;
  }

  /** Returns a function that takes the time that a transaction, which begins now, reads. */
  begin(): (now: EpochMs) => void {
    const { clock, monotonic } = this.#options;
    const [wallAt, monotonicAt] = [clock(), monotonic()];
    return (now) => {
      [this.#now, this.#wallAt, this.#monotonicAt] = [now, wallAt, monotonicAt];
    };
  }

  latest(): EpochMs {
    const { clock, monotonic } = this.#options;
    const passedMs = Math.max(clock() - this.#wallAt, monotonic() - this.#monotonicAt);
    return this.#now + passedMs * (1 + DRIFT) + MARGIN_MS;
  }
}

interface Waiter {
  readonly amount: number;
  readonly resolve: (hold: QuotaHold) => void;
  readonly reject: (refusal: Error) => void;
}

/** What a call has taken of a quota. */
export interface QuotaHold extends Taken {
  readonly meter: Meter;
}

/** What this process holds of one row: an unused rest, which was taken before, and what it owes. */
export interface Meter {
  readonly quota: Quota;
  readonly user: QuotaUser;
  rest: number;
  startsAt: EpochMs;
  endsAt: EpochMs;
  epoch: number;
  knownUse: number;
  /** Used, and not in the row yet. */
  owed: number;
  readonly waiting: Waiter[];
  /** Set when the quota was changed: whatever comes back is passed on. */
  isForgotten: boolean;
  /** Calls that need this much are refused without asking the database again, until then (monotonic). */
  refused: { readonly amount: number; readonly until: number } | undefined;
  /** Monotonic. */
  touchedAt: number;
}

/** How long a refusal is repeated without asking again: a reset, or what another process gives back, is noticed after it. */
const REFUSED_MS = 1_000;
/** A rest that was not touched for this time is given back. */
const IDLE_MS = 10_000;
const FORGET_MS = 60_000;
const METERS_MAX = 100_000;

/**
 * Takes from rows in blocks, and hands them out to calls. A block is in the row before any of it is used, so that a crash, or a
 * statement without an answer, can only lose it. One transaction runs at a time and serves everything that was asked for meanwhile,
 * so that concurrent calls share it.
 */
export class Leases {
  readonly #options: LeaseOptions;
  readonly #clock: DatabaseClock;
  readonly #meters = new Map<Quota, Map<string, Meter>>();
  /** Meters with something to write. */
  readonly #queue = new Set<Meter>();
  /** Meters that owe: after a failure they are written later. */
  readonly #owing = new Set<Meter>();
  readonly #leaving = new Map<Meter, Taken>();
  /** Called when the next attempt to write what a meter owes has ended. */
  readonly #charged = new Map<Meter, PromiseWithResolvers<void>>();
  #writing: Promise<void> | undefined;
  /** After a failure, only what waiting calls need is taken: an attempt without an answer may have taken it. */
  #isCautious = false;
  #count = 0;
  failures = 0;

  constructor(options: LeaseOptions) {
    this.#options = options;
    this.#clock = new DatabaseClock(options);
  }

  /** Returns the latest time that the database's clock may show. */
  latest(): EpochMs {
    return this.#clock.latest();
  }

  /** @throws {Refusal} POLICY_STATE_UNAVAILABLE when there are too many */
  meter(quota: Quota, key: string, user: () => QuotaUser): Meter {
    const meters = this.#meters.get(quota) ?? new Map<string, Meter>();
    const known = meters.get(key);
    if (known !== undefined) return known;
    if (this.#count >= METERS_MAX) throw quotaUnknown(new Error(`more than ${METERS_MAX} rows of quotas are in use`));
    const amounts = { rest: 0, startsAt: 0, endsAt: 0, epoch: 0, knownUse: 0, owed: 0 };
    const touchedAt = this.#options.monotonic();
    const rest = { waiting: [], refused: undefined, isForgotten: false, touchedAt };
    const made: Meter = { quota, user: user(), ...amounts, ...rest };
    this.#meters.set(quota, meters.set(key, made));
    this.#count += 1;
    return made;
  }

  /**
   * Takes an amount; of a quota whose use is known afterwards, 0: then anything must be left. `latest`: from the method above.
   * Rejects with QUOTA_EXCEEDED or POLICY_STATE_UNAVAILABLE.
   */
  take(meter: Meter, amount: number, latest: EpochMs): QuotaHold | Promise<QuotaHold> {
    if (meter.owed === 0 && latest < meter.endsAt && meter.rest >= (amount || 1) && meter.waiting.length === 0) {
      meter.touchedAt = this.#options.monotonic();
      return hold(meter, amount);
    }
    const { refused } = meter;
    if (refused !== undefined && (amount || 1) >= refused.amount) {
      if (latest < meter.endsAt && this.#options.monotonic() < refused.until)
        return Promise.reject(quotaExceeded(meter.quota, meter, latest));
      meter.refused = undefined;
    }
    return new Promise((resolve, reject) => {
      meter.waiting.push({ amount, resolve, reject });
      this.#enqueue(meter);
    });
  }

  /** Gives back what a call did not use. What was taken of an earlier window, or before a reset, is worthless. */
  giveBack({ meter, amount, startsAt, epoch }: QuotaHold): void {
    if (meter.startsAt !== startsAt || meter.epoch !== epoch) return;
    meter.rest += amount;
    meter.touchedAt = this.#options.monotonic();
    if (meter.isForgotten) this.#leave(meter);
  }

  /**
   * Charges what a call has used: of the rest, and beyond it the row. Resolves when the row has it or cannot be written now; it
   * is written later then, and no call that the quota applies to passes before.
   */
  charge(meter: Meter, amount: number): Promise<void> | undefined {
    const fromRest = this.#clock.latest() < meter.endsAt ? Math.min(meter.rest, amount) : 0;
    meter.rest -= fromRest;
    meter.owed += amount - fromRest;
    if (meter.owed === 0) return undefined;
    this.#owing.add(meter);
    this.#enqueue(meter);
    const charged = this.#charged.get(meter) ?? Promise.withResolvers<void>();
    this.#charged.set(meter, charged);
    return charged.promise;
  }

  /** Forgets what was taken of the quota: after a reset it is worthless. */
  forget(quota: string): void {
    for (const [{ name }, meters] of this.#meters) {
      if (name !== quota) continue;
      for (const meter of meters.values())
        Object.assign(meter, { rest: 0, epoch: -1, knownUse: 0, refused: undefined });
    }
  }

  /** Gives back what is unused of the quotas that are not in the list; what is owed stays. */
  keep(quotas: readonly Quota[]): void {
    for (const [quota, meters] of this.#meters) {
      if (quotas.includes(quota)) continue;
      this.#meters.delete(quota);
      this.#count -= meters.size;
      for (const meter of meters.values()) {
        meter.isForgotten = true;
        this.#leave(meter);
      }
    }
  }

  /** Writes what is owed, gives back what nobody uses, and forgets what is over. Called every few seconds. */
  tidy(): Promise<void> {
    const now = this.#options.monotonic();
    for (const meter of [...this.#owing, ...this.#leaving.keys()]) this.#enqueue(meter);
    for (const meters of this.#meters.values()) {
      for (const [key, meter] of meters) {
        const idleMs = now - meter.touchedAt;
        if (idleMs < IDLE_MS || meter.waiting.length > 0) continue;
        if (meter.rest > 0) this.#leave(meter);
        if (idleMs < FORGET_MS || meter.owed > 0) continue;
        meters.delete(key);
        this.#count -= 1;
      }
    }
    return this.#writing ?? Promise.resolve();
  }

  /** Gives everything back and writes what is owed, in one attempt. Calls that wait are refused if it fails. Never rejects. */
  async close(): Promise<void> {
    await this.#writing;
    for (const meters of this.#meters.values()) for (const meter of meters.values()) this.#leave(meter);
    for (const meter of this.#owing) this.#enqueue(meter);
    await this.#writing;
  }

  #leave(meter: Meter): void {
    const { rest: amount, startsAt, epoch } = meter;
    meter.rest = 0;
    if (amount === 0 || this.#clock.latest() >= meter.endsAt) return;
    const before = this.#leaving.get(meter);
    const more = before?.startsAt === startsAt && before.epoch === epoch ? before.amount : 0;
    this.#leaving.set(meter, { amount: amount + more, startsAt, epoch });
    this.#enqueue(meter);
  }

  #enqueue(meter: Meter): void {
    this.#queue.add(meter);
    this.#writing ??= this.#writeAll();
  }

  async #writeAll(): Promise<void> {
    // Calls of the same tick share the first transaction.
    await Promise.resolve();
    while (this.#queue.size > 0) {
      const meters = [...this.#queue].slice(0, BATCH_MAX);
      for (const meter of meters) this.#queue.delete(meter);
      await this.#write(meters);
    }
    this.#writing = undefined;
  }

  async #write(meters: readonly Meter[]): Promise<void> {
    const orders = meters.map((meter) => this.#orderOf(meter));
    const charged = meters.map((meter) => this.#charged.get(meter));
    for (const meter of meters) {
      this.#leaving.delete(meter);
      this.#charged.delete(meter);
    }
    const read = this.#clock.begin();
    try {
      const { now, value: filled } = await this.#options.state.run(fillOrders, { orders });
      if (filled.length !== orders.length) throw new Error("not every order was answered");
      read(now);
      this.#isCautious = false;
      for (const [index, meter] of meters.entries()) {
        const [order, row] = [orders[index], filled[index]];
        if (order !== undefined && row !== undefined) this.#settle(meter, order, row);
      }
    } catch (cause) {
      if (!this.#isCautious) this.#options.log("the use of quotas cannot be written", cause);
      this.failures += 1;
      this.#isCautious = true;
      this.#refuseAll([...meters, ...this.#queue], cause);
    } finally {
      for (const attempt of charged) attempt?.resolve();
    }
  }

  #orderOf(meter: Meter): UseOrder {
    const { user, waiting, owed, knownUse } = meter;
    const { name, unit, window, limit } = meter.quota;
    const rest = this.#clock.latest() < meter.endsAt ? meter.rest : 0;
    const [first] = waiting;
    const needs = (amounts: number): number => Math.max(1, amounts - rest);
    const least = first === undefined ? 0 : needs(first.amount);
    return {
      quota: { name, unit, window, limit },
      user,
      owed,
      knownUse,
      least,
      givenBack: this.#leaving.get(meter),
      wanted: this.#isCautious ? least : needs(waiting.reduce((sum, { amount }) => sum + amount, 0)),
      inBlocks: !this.#isCautious,
    };
  }

  #settle(meter: Meter, order: UseOrder, row: Filled): void {
    meter.owed -= order.owed;
    if (meter.owed === 0) this.#owing.delete(meter);
    if (order.least === 0) return;
    // What is left of an earlier window, or was taken before a reset, is worthless.
    if (meter.startsAt !== row.startsAt || meter.epoch !== row.epoch) meter.rest = 0;
    meter.rest += row.granted;
    Object.assign(meter, { startsAt: row.startsAt, endsAt: row.endsAt, epoch: row.epoch, knownUse: row.used });
    meter.touchedAt = this.#options.monotonic();
    this.#handOut(meter);
    if (row.granted === 0) this.#refuse(meter, order.least);
    if (meter.waiting.length > 0) this.#enqueue(meter);
  }

  /** Serves waiting calls in their order. No clock is asked: the row has just been written. */
  #handOut(meter: Meter): void {
    for (let [first] = meter.waiting; first !== undefined; [first] = meter.waiting) {
      if (meter.owed > 0 || meter.rest < (first.amount || 1)) return;
      meter.waiting.shift();
      first.resolve(hold(meter, first.amount));
    }
  }

  /** Refuses the first waiting call, and those that need as much. `least`: more than the row had. */
  #refuse(meter: Meter, least: number): void {
    const [first] = meter.waiting;
    if (first === undefined || (first.amount || 1) - meter.rest < least) return;
    meter.refused = { amount: first.amount || 1, until: this.#options.monotonic() + REFUSED_MS };
    const now = this.#clock.latest();
    for (const waiter of meter.waiting.splice(0)) {
      if (waiter.amount < first.amount) meter.waiting.push(waiter);
      else waiter.reject(quotaExceeded(meter.quota, meter, now));
    }
  }

  #refuseAll(meters: readonly Meter[], cause: unknown): void {
    for (const meter of meters) {
      this.#queue.delete(meter);
      this.#charged.get(meter)?.resolve();
      this.#charged.delete(meter);
      for (const { reject } of meter.waiting.splice(0)) reject(quotaUnknown(cause));
    }
  }
}

function hold(meter: Meter, amount: number): QuotaHold {
  meter.rest -= amount;
  return { meter, amount, startsAt: meter.startsAt, epoch: meter.epoch };
}
