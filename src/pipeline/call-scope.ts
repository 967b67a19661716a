import { Refusal } from "../core/errors.ts";
import type { PlanContext } from "../core/types.ts";

/** Reports whether the client has disconnected. */
export interface Disconnect {
  readonly disconnected: boolean;
  /** Calls `listener` once when the client disconnects. Returns a function that removes the listener. */
  listen(listener: () => void): () => void;
}

type EndReason = "deadline" | "disconnect" | "shutdown";

const REASONS = {
  deadline: { name: "TimeoutError", text: "the deadline has passed" },
  disconnect: { name: "AbortError", text: "the client disconnected" },
  shutdown: { name: "AbortError", text: "the service is shutting down" },
} as const;

/**
 * The time limit of a call: it ends at its tool's timeout or when the client disconnects. One scope spans planning and execution.
 * Work under the scope is notified through `signal`; the call does not wait for work that ignores the signal.
 */
export class CallScope implements PlanContext {
  #deadline: number;
  readonly #now: () => number;
  #timer: ReturnType<typeof setTimeout>;
  readonly #unlisten: (() => void) | undefined;
  /** Created on the first use of `signal`, which most work never reads. */
  #controller: AbortController | undefined;
  #ended: EndReason | undefined;
  #stopWaiting: ((refusal: Refusal) => void) | undefined;

  constructor(options: {
    readonly timeoutMs: number;
    readonly now: () => number;
    readonly disconnect?: Disconnect | undefined;
  }) {
    this.#now = options.now;
    this.#deadline = options.now() + options.timeoutMs;
    this.#timer = setTimeout(() => this.#end("deadline"), options.timeoutMs);
    if (options.disconnect?.disconnected) this.#end("disconnect");
    else this.#unlisten = options.disconnect?.listen(() => this.#end("disconnect"));
  }

  /** Milliseconds since 1970. */
  get deadline(): number {
    return this.#deadline;
  }

  /** Returns milliseconds since 1970. */
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

  /** Ignores a disconnect of the client from now on: a change that has started is followed to its result. */
  followThrough(): void {
    this.#unlisten?.();
  }

  /** @throws {Refusal} DEADLINE_EXCEEDED, CANCELLED or SHUTTING_DOWN when the scope has ended, so that no new work may start */
  assertOpen(): void {
    if (this.#ended !== undefined) throw refusalOf(this.#ended);
  }

  /**
   * Waits for `work`, but not beyond the end of the scope. Calls `ended` when the work itself has ended, however late.
   *
   * @throws {Refusal} DEADLINE_EXCEEDED, CANCELLED or SHUTTING_DOWN when the scope ends first; otherwise whatever `work` throws
   */
  within<T>(work: Promise<T>, ended?: () => void): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (this.#ended !== undefined) reject(refusalOf(this.#ended));
      this.#stopWaiting = reject;
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

  /**
   * Pauses the deadline while an approver decides: the time that was left is left afterwards. The signal still reports a
   * disconnect and a shutdown.
   */
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

  /** The call stops waiting for its work, and its audit entry is written. */
  shutDown(): void {
    this.#end("shutdown");
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#unlisten?.();
    this.#stopWaiting = undefined;
  }

  #end(reason: EndReason): void {
    if (this.#ended !== undefined) return;
    this.#ended = reason;
    this.#controller?.abort(reasonOf(reason));
    this.#stopWaiting?.(refusalOf(reason));
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
    : new Refusal("CANCELLED", "The client disconnected before the answer.", { cause });
}
