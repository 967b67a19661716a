/** Requests of one service that begin in one turn of the event loop, at most. */
export const REQUESTS_PER_TURN = 32;

/** Lets the requests of one service begin. */
export interface RequestTurn {
  /** Returns undefined when a request may begin now; otherwise a promise that resolves when it may. Call it once per request. */
  next(): Promise<void> | undefined;
}

interface TurnsOptions {
  /** Returns milliseconds from an arbitrary origin. */
  readonly now: () => number;
  /** Runs a function after the event loop has read from the sockets again. */
  readonly defer?: (work: () => void) => void;
}

/**
 * Lets the services of a process take turns: in one turn of the event loop, each begins some of its requests, in the order of their
 * arrival, and its others wait for the next turn. So a request waits for some requests of each other service, and not for everything
 * that another service's clients have sent at once. Rejected: fewer requests in progress, which leaves the process idle while they
 * wait for their targets; a pause between turns, because the process is never idle while a request waits.
 */
export class Turns {
  readonly #now: TurnsOptions["now"];
  readonly #defer: (work: () => void) => void;
  readonly #services: Requests[] = [];
  #isDeferred = false;

  constructor({ now, defer = setImmediate }: TurnsOptions) {
    this.#now = now;
    this.#defer = defer;
  }

  /** Adds a service. `noteWait` is called before a request begins, with the time that it has waited. */
  join(noteWait: (waitedMs: number) => void = () => {}): RequestTurn {
    const requests: Requests = { begun: 0, waiting: [], noteWait };
    this.#services.push(requests);
    return { next: () => this.#next(requests) };
  }

  #next(requests: Requests): Promise<void> | undefined {
    this.#deferNext();
    if (requests.begun < REQUESTS_PER_TURN) {
      requests.begun += 1;
      requests.noteWait(0);
      return undefined;
    }
    const { promise, resolve } = Promise.withResolvers<void>();
    requests.waiting.push({ begin: resolve, since: this.#now() });
    return promise;
  }

  /** Lets the next turn begin after the event loop has read from the sockets again. */
  #deferNext(): void {
    if (this.#isDeferred) return;
    this.#isDeferred = true;
    this.#defer(() => this.#begin());
  }

  #begin(): void {
    this.#isDeferred = false;
    const now = this.#now();
    for (const requests of this.#services) {
      const turn = requests.waiting.splice(0, REQUESTS_PER_TURN);
      requests.begun = turn.length;
      for (const { begin, since } of turn) {
        requests.noteWait(now - since);
        begin();
      }
    }
    if (this.#services.some(({ begun }) => begun > 0)) this.#deferNext();
  }
}

/** The requests of one service. */
interface Requests {
  /** Number of those that have begun in this turn. */
  begun: number;
  readonly waiting: { readonly begin: () => void; readonly since: number }[];
  readonly noteWait: (waitedMs: number) => void;
}
