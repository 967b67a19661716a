import type { FlowCaller } from "./label-rows.ts";

/** Most answers that wait, and most bytes of their fingerprints. */
const ANSWERS_MAX = 1_024;
const BYTES_MAX = 16_777_216;

interface Waiting {
  readonly callers: readonly string[];
  readonly bytes: number;
  readonly send: () => Promise<unknown>;
  sending: Promise<void> | undefined;
}

/** Answers that were released, and whose fingerprints are written after that. */
export class LaterAnswers {
  readonly #waiting = new Set<Waiting>();
  readonly #log: (message: string, cause: unknown) => void;
  #bytes = 0;
  #working: Promise<void> | undefined;
  #isFailing = false;

  constructor(log: (message: string, cause: unknown) => void) {
    this.#log = log;
  }

  /** Number of answers that wait. */
  get size(): number {
    return this.#waiting.size;
  }

  /** Sends an answer of these callers soon. Returns false when too much waits already. */
  add(callers: readonly FlowCaller[], bytes: number, send: () => Promise<unknown>): boolean {
    if (this.#waiting.size >= ANSWERS_MAX || this.#bytes + bytes > BYTES_MAX) return false;
    this.#waiting.add({ callers: callers.map(keyOf), bytes, send, sending: undefined });
    this.#bytes += bytes;
    this.flush();
    return true;
  }

  /** Sends what waits of these callers. Rejects when that cannot be sent. */
  async sent(callers: readonly FlowCaller[]): Promise<void> {
    if (this.#waiting.size === 0) return;
    const keys = new Set(callers.map(keyOf));
    await Promise.all(
      [...this.#waiting].filter((one) => one.callers.some((key) => keys.has(key))).map((one) => this.#send(one)),
    );
  }

  /** Sends what waits, one after the other, until one fails. Called again from time to time. */
  flush(): void {
    if (this.#waiting.size > 0) this.#working ??= this.#sendAll().finally(() => (this.#working = undefined));
  }

  /** Sends what waits, in one more attempt. Never rejects. */
  async close(): Promise<void> {
    await this.#working;
    this.flush();
    await this.#working;
    if (this.size > 0) this.#log(`fingerprints of ${this.size} answers were not written before the end`, undefined);
  }

  async #sendAll(): Promise<void> {
    try {
      for (const one of this.#waiting) await this.#send(one);
      this.#isFailing = false;
    } catch (cause) {
      // Logged once per outage.
      if (!this.#isFailing) this.#log("fingerprints of answers cannot be written now", cause);
      this.#isFailing = true;
    }
  }

  #send(one: Waiting): Promise<void> {
    one.sending ??= one.send().then(
      () => {
        if (this.#waiting.delete(one)) this.#bytes -= one.bytes;
      },
      (cause: unknown) => {
        one.sending = undefined;
        throw cause;
      },
    );
    return one.sending;
  }
}

function keyOf({ issuer, subject }: FlowCaller): string {
  return JSON.stringify([issuer, subject]);
}
