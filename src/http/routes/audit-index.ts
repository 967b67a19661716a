import { IndexLookup } from "../../audit/query/index-lookup.ts";

/** How much of the log one query indexes for the next ones: steps of some milliseconds, with room for calls between them. */
const STEPS_MAX = 8;
const PAUSE_MS = 50;

/** The look-up index of a service: opened by its first query, built further behind each, never on the road of a call. */
export class AuditIndex {
  readonly #dir: string;
  #lookup: IndexLookup | undefined;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(dir: string) {
    this.#dir = dir;
  }

  lend(): IndexLookup {
    // A log that was small, or an index that was busy, may be neither by now.
    if (this.#lookup?.isOpen !== true) this.#lookup = new IndexLookup(this.#dir);
    if (this.#timer === undefined) this.#extend(this.#lookup.extend(), STEPS_MAX);
    return this.#lookup;
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#lookup?.close();
  }

  #extend(steps: Generator<number, void>, left: number): void {
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      if (this.#isClosed || steps.next().done === true || left <= 1) return;
      this.#extend(steps, left - 1);
    }, PAUSE_MS);
    this.#timer.unref();
  }
}
