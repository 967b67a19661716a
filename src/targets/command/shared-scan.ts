/** Receives a process that belongs to the key of a search. */
type OnFound = (pid: number) => void;

/** Reads the process table once and reports the processes with their keys. */
type Scan<Key, Result> = (found: (key: Key, pid: number) => void) => Promise<Result>;

/**
 * Answers all concurrent searches of the process table from one scan: many calls may end at once, and a scan by each of
 * them would block the event loop. Rejected: a queue of searches, because the last ones would run out of time and leave
 * processes alive.
 */
export class SharedScan<Key, Result = void> {
  readonly #scan: Scan<Key, Result>;
  #waiting: { readonly key: Key; readonly onFound: OnFound }[] = [];
  /** The scan that has not begun yet; undefined while no search waits for one. */
  #next: Promise<Result> | undefined;
  #last: Promise<unknown> = Promise.resolve();

  constructor(scan: Scan<Key, Result>) {
    this.#scan = scan;
  }

  /**
   * Reports the processes of a key to `onFound` as they are found. Never joins a scan that has begun: it may have passed
   * processes that were started since.
   */
  search(key: Key, onFound: OnFound): Promise<Result> {
    this.#waiting.push({ key, onFound });
    const run = (): Promise<Result> => this.#run();
    // A scan that failed has rejected its own searches.
    this.#next ??= this.#last.then(run, run);
    this.#last = this.#next;
    return this.#next;
  }

  #run(): Promise<Result> {
    const searches = Map.groupBy(this.#waiting, ({ key }) => key);
    this.#waiting = [];
    this.#next = undefined;
    return this.#scan((key, pid) => {
      for (const { onFound } of searches.get(key) ?? []) onFound(pid);
    });
  }
}
