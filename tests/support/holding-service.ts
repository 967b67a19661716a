import { AskingService } from "./asking-service.ts";

/** A service with tools whose runs go on until the test lets them end. */
export class HoldingService extends AskingService {
  readonly #held: PromiseWithResolvers<void>[] = [];

  /** Resolves when the test calls `finish`. */
  protected hold(): Promise<void> {
    const run = Promise.withResolvers<void>();
    this.#held.push(run);
    return run.promise;
  }

  /** Lets every run end. */
  finish(): void {
    for (const { resolve } of this.#held.splice(0)) resolve();
  }

  override async stop(): Promise<void> {
    this.finish();
    await super.stop();
  }
}
