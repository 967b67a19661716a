/** Tool runs that go on until the test lets them end. */
export class HeldRuns {
  readonly #held: PromiseWithResolvers<void>[] = [];

  /** Resolves when the test calls `finish`. */
  hold(): Promise<void> {
    const run = Promise.withResolvers<void>();
    this.#held.push(run);
    return run.promise;
  }

  /** Lets every run end. */
  finish(): void {
    for (const { resolve } of this.#held.splice(0)) resolve();
  }
}
