interface LogRecordOptions {
  /** Writes the origins to the parent's journal. */
  readonly write: (origins: readonly string[]) => Promise<void>;
  readonly onFailure: (error: unknown) => void;
}

/**
 * Records which log a worker writes, so that `stc audit verify` knows what its folder must hold. A failure is reported once,
 * and the next report of the worker tries again: the parent's disk may be full.
 */
export class LogRecord {
  readonly #options: LogRecordOptions;
  #recorded = 0;
  #hasFailed = false;
  #settled: Promise<void> = Promise.resolve();

  constructor(options: LogRecordOptions) {
    this.#options = options;
  }

  /** Gets what the worker has reported: a stream has an origin from its first line on. */
  reported(origins: readonly string[]): void {
    this.#settled = this.#settled.then(() => this.#write(origins));
  }

  /** Resolves when the latest attempt has ended. Never rejects. */
  settled(): Promise<void> {
    return this.#settled;
  }

  async #write(origins: readonly string[]): Promise<void> {
    const { write, onFailure } = this.#options;
    if (origins.length <= this.#recorded) return;
    try {
      await write(origins);
      this.#recorded = origins.length;
    } catch (error) {
      if (!this.#hasFailed) onFailure(error);
      this.#hasFailed = true;
    }
  }
}
