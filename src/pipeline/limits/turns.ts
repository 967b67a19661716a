/** Requests of one service that begin in one turn of the event loop. */
const PER_TURN = 16;

/** One service's place in the order in which requests begin. */
export interface Turn {
  /** Returns undefined when a request may begin now; otherwise a promise that resolves when it is its turn. Call it once per request. */
  next(): Promise<void> | undefined;
}

/**
 * Lets the services of a process take turns: in one turn of the event loop, each begins a few requests, in the order of their
 * arrival; the others wait for the next turn, between which the loop reads from the sockets. So a request waits for a few requests of
 * each other service, not for all that another service's clients have sent at once. The loop is as busy as without turns, and a
 * service alone has all of it. Rejected: fewer requests at a time, which leaves the process idle while they wait for their targets.
 */
export class Turns {
  readonly #defer: (turn: () => void) => void;
  readonly #services: Waiting[] = [];
  #isDeferred = false;

  /** `defer` runs a function after the loop has read from the sockets again. */
  constructor(defer: (turn: () => void) => void = setImmediate) {
    this.#defer = defer;
  }

  /** Adds a service. */
  join(): Turn {
    const service: Waiting = { begun: 0, waiting: [] };
    this.#services.push(service);
    return { next: () => this.#next(service) };
  }

  #next(service: Waiting): Promise<void> | undefined {
    if (!this.#isDeferred) this.#later();
    if (service.begun < PER_TURN) {
      service.begun += 1;
      return undefined;
    }
    const { promise, resolve } = Promise.withResolvers<void>();
    service.waiting.push(resolve);
    return promise;
  }

  #later(): void {
    this.#isDeferred = true;
    this.#defer(() => this.#begin());
  }

  #begin(): void {
    this.#isDeferred = false;
    for (const service of this.#services) {
      const turn = service.waiting.splice(0, PER_TURN);
      service.begun = turn.length;
      for (const begin of turn) begin();
    }
    if (this.#services.some(({ begun }) => begun > 0)) this.#later();
  }
}

interface Waiting {
  /** Requests that have begun in this turn. */
  begun: number;
  readonly waiting: (() => void)[];
}
