import { endedWithin } from "../core/time-limits.ts";

interface ShutdownSteps {
  /** `server.shutdownDelayMs` */
  readonly delayMs: number;
  /** Called when the delay begins; not called without one. */
  readonly begin: () => void;
  /** Stops admitting calls, answers those in progress, and closes everything. */
  readonly drain: () => Promise<void>;
}

/**
 * The end of a service: it serves for the delay, while load balancers notice that it is not ready and every answer closes its
 * connection, and then drains.
 */
export class Shutdown {
  readonly #steps: ShutdownSteps;
  readonly #draining = Promise.withResolvers<void>();
  #stage: "serving" | "shutting_down" | "draining" = "serving";
  #delayed: Promise<void> | undefined;
  #drained: Promise<void> | undefined;

  constructor(steps: ShutdownSteps) {
    this.#steps = steps;
  }

  get stage(): "serving" | "shutting_down" | "draining" {
    return this.#stage;
  }

  /** Drains after the delay. May be called twice. */
  begin(): Promise<void> {
    this.#delayed ??= this.#delay();
    return this.#delayed.then(() => this.drain());
  }

  /** Drains now; a delay that has begun ends. May be called twice. */
  drain(): Promise<void> {
    this.#stage = "draining";
    this.#draining.resolve();
    this.#drained ??= this.#steps.drain();
    return this.#drained;
  }

  async #delay(): Promise<void> {
    const { delayMs, begin } = this.#steps;
    if (delayMs === 0 || this.#stage !== "serving") return;
    this.#stage = "shutting_down";
    begin();
    await endedWithin(this.#draining.promise, delayMs);
  }
}
