/** Takes room. Returns the function that gives it back; undefined when there is no room. */
export type TakeRoom = (amount: number) => (() => void) | undefined;

/**
 * Room that the service itself and its tenants share: half of it is reserved in equal parts, half is for whoever comes first. So no
 * tenant takes the room of another one.
 */
export class SharedRoom {
  readonly #max: number;
  /** Room in use, by part. */
  readonly #used: number[] = [];

  constructor(max: number) {
    this.#max = max;
  }

  /** Adds one that uses the room. The reserved parts of the others become smaller. */
  join(): TakeRoom {
    const own = this.#used.push(0) - 1;
    const add = (amount: number): void => {
      this.#used[own] = (this.#used[own] ?? 0) + amount;
    };
    return (amount) => {
      const reserved = this.#max / 2 / this.#used.length;
      add(amount);
      const common = this.#used.reduce((sum, used) => sum + Math.max(0, used - reserved), 0);
      // What is within the own part is reserved even if the others used more before this one joined.
      if ((this.#used[own] ?? 0) > reserved && common > this.#max / 2) {
        add(-amount);
        return undefined;
      }
      return () => add(-amount);
    };
  }
}
