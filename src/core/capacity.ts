/** One service's share of a capacity. Amounts are 1 when they are left out. */
export interface CapacityShare {
  /** Returns whether so much more fits neither into the service's own share nor into what is for everybody. */
  isFull(amount?: number): boolean;
  /** Takes an amount. Call it only after `isFull` has returned false, and release the same amount exactly once. */
  take(amount?: number): void;
  release(amount?: number): void;
}

/**
 * A number that the services of a process share, such as that of calls at once. Each tenant is one of these services.
 * Half of it is reserved in equal shares; the other half is for whoever comes first. A service takes what is for everybody only while
 * its own share is in use, so that no other service can hold a part of that share. Rejected: equal shares of the whole, which leave
 * most of the process unused while few tenants call; no shares, where slow calls of one tenant occupy all of it.
 *
 * After a reload with a smaller maximum, each service has its new share immediately. What is in use stays in use: until as much has
 * been released as is over the new maximum, the shares come in addition to it.
 */
export class Capacity {
  readonly #shares: Share[] = [];
  #max: number;
  #each = 0;
  #commonMax = 0;
  /** The part in use of what is for everybody. */
  #common = 0;

  constructor(max: number) {
    this.#max = max;
  }

  /** Adds a service. The shares of the others become smaller. */
  join(): CapacityShare {
    const common = (amount: number): number => this.#over(share.taken + amount) - this.#over(share.taken);
    const add = (amount: number): void => {
      this.#common += common(amount);
      share.taken += amount;
    };
    const share: Share = {
      taken: 0,
      isFull: (amount = 1) => share.taken + amount > this.#each && this.#common + common(amount) > this.#commonMax,
      take: (amount = 1) => add(amount),
      release: (amount = 1) => add(-amount),
    };
    this.#shares.push(share);
    this.change(this.#max);
    return share;
  }

  /** Applies another maximum; what is in use stays in use. */
  change(max: number): void {
    this.#max = max;
    this.#each = shareOf(max, this.#shares.length);
    this.#commonMax = max - this.#each * this.#shares.length;
    this.#common = this.#shares.reduce((sum, { taken }) => sum + this.#over(taken), 0);
  }

  /** Returns the part that is not in a service's own share. */
  #over(taken: number): number {
    return Math.max(0, taken - this.#each);
  }
}

interface Share extends CapacityShare {
  taken: number;
}

/** Returns the amount that is reserved for each of so many services. */
export function shareOf(max: number, services: number): number {
  return Math.floor(Math.floor(max / 2) / services);
}
