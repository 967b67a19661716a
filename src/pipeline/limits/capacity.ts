/** One service's share of the process's capacity. */
export interface CapacityShare {
  /** Returns whether another call has no place, neither in the service's own share nor among the places for everybody. */
  isFull(): boolean;
  /** Takes a place. Call it only after `isFull` has returned false, and release each place exactly once. */
  take(): void;
  release(): void;
}

/**
 * The number of calls that a process carries out at once, shared by the services in it: one for each tenant, and the service itself.
 * Half of it is reserved in equal shares; the other half is for whoever comes first. A service takes places for everybody only while
 * its own share is in use, so that no other service can hold a place of that share. Rejected: equal shares of the whole, which leave
 * most of the process unused while few tenants call; no shares, where slow calls of one tenant hold every place.
 *
 * After a reload with a smaller maximum, each service has its new share immediately. Calls in progress are not ended: until those
 * that are over the new maximum have ended, calls within the shares come in addition to them.
 */
export class Capacity {
  readonly #shares: Share[] = [];
  #callsMax: number;
  #each = 0;
  #commonMax = 0;
  /** Places for everybody that are in use. */
  #common = 0;

  constructor(callsMax: number) {
    this.#callsMax = callsMax;
  }

  /** Adds a service. The shares of the others become smaller. */
  join(): CapacityShare {
    const share: Share = {
      taken: 0,
      isFull: () => share.taken >= this.#each && this.#common >= this.#commonMax,
      take: () => {
        if (share.taken >= this.#each) this.#common += 1;
        share.taken += 1;
      },
      release: () => {
        share.taken -= 1;
        if (share.taken >= this.#each) this.#common -= 1;
      },
    };
    this.#shares.push(share);
    this.change(this.#callsMax);
    return share;
  }

  /** Applies another maximum; calls in progress keep their places. */
  change(callsMax: number): void {
    this.#callsMax = callsMax;
    this.#each = shareOf(callsMax, this.#shares.length);
    this.#commonMax = callsMax - this.#each * this.#shares.length;
    this.#common = this.#shares.reduce((sum, { taken }) => sum + Math.max(0, taken - this.#each), 0);
  }
}

interface Share extends CapacityShare {
  taken: number;
}

/** Returns the number of calls that are reserved for each of so many services. */
export function shareOf(callsMax: number, services: number): number {
  return Math.floor(Math.floor(callsMax / 2) / services);
}
