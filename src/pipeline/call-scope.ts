import { Refusal } from "../core/errors.ts";
import type { PlanContext } from "../core/types.ts";

/** The client's end of the line. */
export interface Disconnect {
  /** Whether it is gone already. */
  readonly gone: boolean;
  /** Calls `listener` once when it goes; answers how to stop listening. */
  listen(listener: () => void): () => void;
}

type EndReason = "deadline" | "departure" | "shutdown";

const REASONS = {
  deadline: { name: "TimeoutError", text: "the deadline has passed" },
  departure: { name: "AbortError", text: "the client is gone" },
  shutdown: { name: "AbortError", text: "the service is shutting down" },
} as const;

/**
 * How long a call may go on: until its tool's timeout, or until the client is gone. One scope spans planning and running.
 * Whoever works under it is told through `signal`; whoever does not listen is left behind.
 */
export class CallScope implements PlanContext {
  /** Milliseconds since 1970. */
  get deadline(): number {
    return this.#deadline;
  }
  #deadline: number;
  readonly #now: () => number;
  #timer: ReturnType<typeof setTimeout>;
  readonly #unlisten: (() => void) | undefined;
  /** Made when somebody asks for the signal: most work is over before anybody would. */
  #controller: AbortController | undefined;
  #ended: EndReason | undefined;
  #leaveWaiting: ((refusal: Refusal) => void) | undefined;

  constructor(options: {
    readonly timeoutMs: number;
    readonly now: () => number;
    readonly departure?: Disconnect | undefined;
  }) {
    this.#now = options.now;
    this.#deadline = options.now() + options.timeoutMs;
    this.#timer = setTimeout(() => this.#end("deadline"), options.timeoutMs);
    if (options.departure?.gone) this.#end("departure");
    else this.#unlisten = options.departure?.listen(() => this.#end("departure"));
  }

  /** Milliseconds since 1970. */
  now(): number {
    return this.#now();
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#ended !== undefined) this.#controller.abort(reasonOf(this.#ended));
    }
    return this.#controller.signal;
  }

  /** From here on the client's absence no longer ends the call: a change under way is followed to its outcome. */
  followThrough(): void {
    this.#unlisten?.();
  }

  /** @throws {Refusal} DEADLINE_EXCEEDED or CANCELLED when there is no time left to begin anything */
  assertOpen(): void {
    if (this.#ended !== undefined) throw refusalOf(this.#ended);
  }

  /**
   * Waits for `work`, but not beyond the scope. `ended` is told when the work itself has ended, however late.
   *
   * @throws {Refusal} DEADLINE_EXCEEDED or CANCELLED when the scope ends first; else whatever `work` throws
   */
  within<T>(work: Promise<T>, ended?: () => void): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (this.#ended !== undefined) reject(refusalOf(this.#ended));
      this.#leaveWaiting = reject;
      work.then(
        (value) => {
          ended?.();
          resolve(value);
        },
        (error) => {
          ended?.();
          reject(this.#ended === undefined ? error : refusalOf(this.#ended, error));
        },
      );
    });
  }

  /** Stops the clock while somebody else thinks: the time that was left is left afterwards. The signal tells of the other endings. */
  async hold<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const left = this.#deadline - this.#now();
    clearTimeout(this.#timer);
    try {
      return await work(this.signal);
    } finally {
      this.#deadline = this.#now() + left;
      if (this.#ended === undefined) this.#timer = setTimeout(() => this.#end("deadline"), left);
    }
  }

  /** The service ends: whoever still works under it is left behind, and the call gets its line. */
  shutDown(): void {
    this.#end("shutdown");
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#unlisten?.();
    this.#leaveWaiting = undefined;
  }

  #end(reason: EndReason): void {
    if (this.#ended !== undefined) return;
    this.#ended = reason;
    this.#controller?.abort(reasonOf(reason));
    this.#leaveWaiting?.(refusalOf(reason));
  }
}

function reasonOf(reason: EndReason): DOMException {
  const { name, text } = REASONS[reason];
  return new DOMException(text, name);
}

function refusalOf(reason: EndReason, cause: unknown = reasonOf(reason)): Refusal {
  if (reason === "shutdown") {
    return new Refusal("SHUTTING_DOWN", "The service is shutting down.", { retryAfterMs: 1_000, cause });
  }
  return reason === "deadline"
    ? new Refusal("DEADLINE_EXCEEDED", "The target did not answer in time.", { cause })
    : new Refusal("CANCELLED", "The client went away before the answer.", { cause });
}
