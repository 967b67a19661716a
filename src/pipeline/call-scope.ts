import { Refusal } from "../core/errors.ts";
import type { PlanContext } from "../core/types.ts";
import type { HaltableCall } from "../halts/halt.ts";

/** Reports whether the client has disconnected. */
export interface Disconnect {
  readonly disconnected: boolean;
  /** Calls `listener` once when the client disconnects. Returns a function that removes the listener. */
  listen(listener: () => void): () => void;
}

/** A refusal: operators have halted the call. */
type EndReason = "deadline" | "disconnect" | "shutdown" | Refusal;

const REASONS = {
  deadline: { name: "TimeoutError", text: "the deadline has passed" },
  disconnect: { name: "AbortError", text: "the client disconnected" },
  shutdown: { name: "AbortError", text: "the service is shutting down" },
} as const;

export interface CallScopesOptions {
  /** Returns milliseconds since 1970. */
  readonly clock: () => number;
  /** Returns milliseconds from an arbitrary origin, never decreasing. */
  readonly monotonic: () => number;
  /** Returns why a call must not start: it is halted, or the halts are not known. */
  readonly refusalFor?: ((call: HaltableCall) => Refusal | undefined) | undefined;
}

interface NewScope {
  readonly timeoutMs: number;
  readonly disconnect?: Disconnect | undefined;
  readonly call?: HaltableCall | undefined;
  /** The current monotonic time, if the caller has just read it. */
  readonly now?: number;
}

/** The scopes of all calls under way. One timer, set to the earliest deadline, ends those whose deadline has passed. */
export class CallScopes {
  readonly clock: () => number;
  readonly monotonic: () => number;
  readonly refusalFor: NonNullable<CallScopesOptions["refusalFor"]>;
  readonly #open = new Set<CallScope>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** Monotonic time at which the timer fires. */
  #firesAt = Number.POSITIVE_INFINITY;

  constructor({ clock, monotonic, refusalFor = () => undefined }: CallScopesOptions) {
    this.refusalFor = refusalFor;
    this.clock = clock;
    this.monotonic = monotonic;
  }

  open({ timeoutMs, disconnect, call, now = this.monotonic() }: NewScope): CallScope {
    const scope = new CallScope(this, { timeoutMs, endsAt: now + timeoutMs, disconnect, call });
    this.#open.add(scope);
    this.expect(scope.endsAt, now);
    return scope;
  }

  /** Makes sure that a deadline at the monotonic time `endsAt` is noticed. */
  expect(endsAt: number, now: number): void {
    if (endsAt >= this.#firesAt) return;
    clearTimeout(this.#timer);
    this.#firesAt = endsAt;
    this.#timer = setTimeout(() => this.#sweep(), Math.max(1, Math.ceil(endsAt - now)));
  }

  /** A timer that no scope needs would keep the process running. */
  remove(scope: CallScope): void {
    this.#open.delete(scope);
    if (this.#open.size > 0) return;
    clearTimeout(this.#timer);
    this.#firesAt = Number.POSITIVE_INFINITY;
  }

  /** Ends all scopes: their calls stop waiting for their work, and their audit entries are written. */
  shutDown(): void {
    for (const scope of this.#open) scope.end("shutdown");
  }

  /** Ends the calls for which `refusalFor` returns a refusal. */
  halt(refusalFor: (call: HaltableCall, isRunning: boolean) => Refusal | undefined): void {
    for (const scope of this.#open) {
      const refusal = scope.call && refusalFor(scope.call, scope.isRunning);
      if (refusal !== undefined) scope.end(refusal);
    }
  }

  #sweep(): void {
    const now = this.monotonic();
    this.#firesAt = Number.POSITIVE_INFINITY;
    let next = Number.POSITIVE_INFINITY;
    for (const scope of this.#open) {
      if (scope.endsAt <= now) scope.end("deadline");
      else next = Math.min(next, scope.endsAt);
    }
    this.expect(next, now);
  }
}

/**
 * The time limit of a call: it ends at its tool's timeout or when the client disconnects. One scope spans planning and execution.
 * Work under the scope is notified through `signal`; the call does not wait for work that ignores the signal.
 */
export class CallScope implements PlanContext {
  readonly call: HaltableCall | undefined;
  readonly #scopes: CallScopes;
  #isRunning = false;
  #deadline: number;
  #endsAt: number;
  readonly #unlisten: (() => void) | undefined;
  /** Created on the first use of `signal`, which most work never reads. */
  #controller: AbortController | undefined;
  #ended: EndReason | undefined;
  #stopWaiting: ((refusal: Refusal) => void) | undefined;

  constructor(
    scopes: CallScopes,
    { timeoutMs, endsAt, disconnect, call }: Omit<NewScope, "now"> & { readonly endsAt: number },
  ) {
    this.call = call;
    this.#scopes = scopes;
    this.#deadline = scopes.clock() + timeoutMs;
    this.#endsAt = endsAt;
    if (disconnect?.disconnected) this.end("disconnect");
    else this.#unlisten = disconnect?.listen(() => this.end("disconnect"));
  }

  /** Monotonic time of the deadline; infinity when it is paused, or the scope has ended. */
  get endsAt(): number {
    return this.#endsAt;
  }

  /** Milliseconds since 1970. */
  get deadline(): number {
    return this.#deadline;
  }

  /** Returns milliseconds since 1970. */
  now(): number {
    return this.#scopes.clock();
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

  /** True from the moment at which the target has got the plan. */
  get isRunning(): boolean {
    return this.#isRunning;
  }

  /**
   * Lets the run begin.
   * @throws {Refusal} as `assertOpen`
   */
  startRun(): void {
    this.assertOpen();
    this.#isRunning = true;
  }

  get hasEnded(): boolean {
    return this.#ended !== undefined;
  }

  /**
   * @throws {Refusal} DEADLINE_EXCEEDED, CANCELLED, SHUTTING_DOWN or HALTED when the scope has ended; HALTED or
   * POLICY_STATE_UNAVAILABLE when the call must not start now
   */
  assertOpen(): void {
    if (this.#ended !== undefined) throw refusalOf(this.#ended);
    this.assertNotHalted();
  }

  /** @throws {Refusal} HALTED when operators have halted the call; POLICY_STATE_UNAVAILABLE when that is not known */
  assertNotHalted(): void {
    if (this.#ended instanceof Refusal) throw this.#ended;
    const refusal = this.call && !this.#isRunning ? this.#scopes.refusalFor(this.call) : undefined;
    if (refusal !== undefined) throw refusal;
  }

  /**
   * Waits for `work`, but not beyond the end of the scope. Calls `ended` when the work itself has ended, however late.
   *
   * @throws {Refusal} DEADLINE_EXCEEDED, CANCELLED, SHUTTING_DOWN or HALTED when the scope ends first; otherwise whatever `work` throws
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
    const { clock, monotonic } = this.#scopes;
    // Not by the clock of the deadline, which may be set while the call is under way.
    const left = this.#endsAt - monotonic();
    this.#endsAt = Number.POSITIVE_INFINITY;
    try {
      return await work(this.signal);
    } finally {
      if (this.#ended === undefined) {
        const now = monotonic();
        this.#deadline = clock() + left;
        this.#endsAt = now + left;
        this.#scopes.expect(this.#endsAt, now);
      }
    }
  }

  close(): void {
    this.#scopes.remove(this);
    this.#unlisten?.();
    this.#stopWaiting = undefined;
  }

  end(reason: EndReason): void {
    if (this.#ended !== undefined) return;
    this.#ended = reason;
    this.#endsAt = Number.POSITIVE_INFINITY;
    this.#controller?.abort(reasonOf(reason));
    this.#stopWaiting?.(refusalOf(reason));
  }
}

function reasonOf(reason: EndReason): DOMException {
  if (reason instanceof Refusal) return new DOMException("the call is halted", "AbortError");
  const { name, text } = REASONS[reason];
  return new DOMException(text, name);
}

function refusalOf(reason: EndReason, cause: unknown = reasonOf(reason)): Refusal {
  if (reason instanceof Refusal) return reason;
  if (reason === "shutdown") {
    return new Refusal("SHUTTING_DOWN", "The service is shutting down.", { retryAfterMs: 1_000, cause });
  }
  return reason === "deadline"
    ? new Refusal("DEADLINE_EXCEEDED", "The target did not answer in time.", { cause })
    : new Refusal("CANCELLED", "The client disconnected before the answer.", { cause });
}
