import { Refusal } from "../../core/errors.ts";
import type { UpstreamEvent } from "../../core/target-kind.ts";
import type { EpochMs } from "../../core/types.ts";
import type { CredentialOwner } from "../../egress/credentials.ts";
import { BUSY_RETRY_AFTER_MS } from "../../egress/resilience.ts";
import { type OpenMcpChannel, UpstreamError, unlessCallEnded } from "./channel.ts";
import { bounded, type ServerIdentity } from "./definitions.ts";
import { LOGGED_CHARACTERS_MAX } from "./messages.ts";
import { type Listed, McpSession } from "./session.ts";

/** Failed starts in a row after which the next start waits: twice as long after each. */
const FAILED_STARTS_MAX = 2;
const WAIT_FIRST_MS = 2_000;
const WAIT_MAX_MS = 60_000;

export interface SessionLimits {
  readonly startTimeoutMs: number;
  /** Sessions at the same time, when each caller has its own. */
  readonly sessionsMax: number;
  /** Time after which a session without calls is ended. */
  readonly idleMs: number;
}

export interface SessionPoolOptions {
  readonly system: string;
  readonly identity: Pick<ServerIdentity, "address" | "tls">;
  readonly open: OpenMcpChannel;
  /**
   * Returns the key of the sessions that use a caller's own credentials. Undefined when all sessions use the service's.
   * @throws {Refusal} when the caller has no token
   */
  readonly credentialKeyOf?: ((owner: CredentialOwner) => string) | undefined;
  /** True when all callers share one session. */
  readonly isShared: boolean;
  readonly limits: SessionLimits;
  readonly now: () => EpochMs;
  readonly report: (event: UpstreamEvent) => void;
}

/** A caller, for whom a session is opened. */
export interface SessionUser {
  /** Key of the caller's session. */
  readonly key: string;
  readonly owner: CredentialOwner;
}

interface Slot {
  readonly key: string;
  /** True when it uses a caller's own credentials. */
  readonly isOwned: boolean;
  readonly session: Promise<McpSession>;
  /** Set once the session has started. */
  started: McpSession | undefined;
  calls: number;
  idle: ReturnType<typeof setTimeout> | undefined;
  isOver: boolean;
  /** True when it ends after its calls, and no other call may use it. */
  isRetired: boolean;
}

/** A session while it is used. */
export interface Lease {
  readonly session: McpSession;
  release(): void;
}

const SHARED = "";

/** The sessions with one server, by whose they are. */
export class SessionPool {
  readonly #options: SessionPoolOptions;
  readonly #onDefinitions: (listed: Listed, isOwned: boolean) => void;
  readonly #slots = new Map<string, Slot>();
  readonly #starts: Starts;
  #isClosed = false;

  /** `onDefinitions` gets each list that a session reads. `isOwned`: with a caller's own credentials. */
  constructor(options: SessionPoolOptions, onDefinitions: (listed: Listed, isOwned: boolean) => void) {
    this.#options = options;
    this.#onDefinitions = onDefinitions;
    this.#starts = new Starts(options.now);
  }

  get size(): number {
    return this.#slots.size;
  }

  /** Why the last start failed. */
  get failure(): UpstreamError | undefined {
    return this.#starts.failure;
  }

  /** Returns false while callers have sessions of their own: these are compared with the pins regularly, and may differ. */
  get hasOnlyShared(): boolean {
    return this.#slots.size === (this.#slots.has(SHARED) ? 1 : 0);
  }

  /** Sessions, whether they have started or not. */
  sessions(): readonly Promise<McpSession>[] {
    return [...this.#slots.values()].map(({ session }) => session);
  }

  /** Ends the sessions that use a caller's own credentials, after the calls in progress. */
  endOwned(): void {
    for (const slot of this.#slots.values()) {
      if (slot.isOwned) this.#retire(slot);
    }
  }

  async endShared(): Promise<void> {
    await this.#end(this.#slots.get(SHARED));
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([...this.#slots.values()].map((slot) => this.#end(slot)));
  }

  /**
   * Returns a session, a new one where there is none. Without `user`, it is for reading definitions.
   *
   * @throws {Refusal} OVERLOADED when every session has calls in progress
   * @throws {UpstreamError}
   */
  async lease(user: SessionUser | undefined, signal: AbortSignal): Promise<Lease> {
    const slot = this.#slotFor(user);
    slot.calls += 1;
    clearTimeout(slot.idle);
    const release = (): void => {
      slot.calls -= 1;
      if (slot.calls === 0) this.#endWhenIdle(slot);
    };
    try {
      // Most calls find a session that has started.
      return { session: slot.started ?? (await unlessCallEnded(slot.session, signal)), release };
    } catch (error) {
      release();
      throw error;
    }
  }

  #slotFor(user: SessionUser | undefined): Slot {
    const { isShared, credentialKeyOf, limits } = this.#options;
    const isOwned = user !== undefined && credentialKeyOf !== undefined;
    const own = user === undefined || isShared ? SHARED : user.key;
    const key = isOwned ? credentialKeyOf(user.owner) : own;
    const known = this.#slots.get(key);
    if (known?.started?.isUsable === false) this.#retire(known);
    else if (known !== undefined) return known;
    if (this.#isClosed) throw new UpstreamError("notSent", "the service is shutting down");
    this.#starts.assertMayStart(isOwned);
    if (this.#slots.size >= limits.sessionsMax) this.#makeRoom();
    const session = this.#start(isOwned ? user.owner : undefined);
    const slot: Slot = {
      key,
      isOwned,
      session,
      started: undefined,
      calls: 0,
      idle: undefined,
      isOver: false,
      isRetired: false,
    };
    this.#slots.set(key, slot);
    slot.session.then(
      (session) => {
        slot.started = session;
        void session.ended.then((reason) => this.#ended(slot, reason));
      },
      () => this.#forget(slot),
    );
    return slot;
  }

  /** @throws {Refusal} OVERLOADED when every session has calls in progress */
  #makeRoom(): void {
    // The map keeps the order of use.
    const unused = [...this.#slots.values()].find(({ calls }) => calls === 0);
    if (unused === undefined) throw tooManyCalls(this.#options.system);
    void this.#end(unused);
  }

  async #start(owner: CredentialOwner | undefined): Promise<McpSession> {
    const { open, identity, limits, system, report } = this.#options;
    try {
      const session = await McpSession.start({
        open,
        owner,
        identity,
        startTimeoutMs: limits.startTimeoutMs,
        log: (what, text) =>
          report({ type: "output", system, reason: `${what}: ${bounded(text, LOGGED_CHARACTERS_MAX)}` }),
        onDefinitions: (listed) => this.#onDefinitions(listed, owner !== undefined),
      });
      this.#starts.succeeded();
      return session;
    } catch (error) {
      const failed = error instanceof UpstreamError ? error : new UpstreamError("notSent", "failed");
      // The server works: only this caller's credentials are refused.
      if (owner !== undefined && failed.isRefused) throw error;
      report({ type: "failed", system, reason: this.#starts.failed(failed) });
      throw error;
    }
  }

  #ended(slot: Slot, reason: string): void {
    const { report, system } = this.#options;
    if (!slot.isOver && !this.#isClosed) report({ type: "failed", system, reason });
    this.#forget(slot);
  }

  /** Ends a session after the calls in progress. */
  #retire(slot: Slot): void {
    this.#forget(slot);
    slot.isRetired = true;
    if (slot.calls === 0) void this.#end(slot);
  }

  #forget(slot: Slot): void {
    clearTimeout(slot.idle);
    slot.isOver = true;
    if (this.#slots.get(slot.key) === slot) this.#slots.delete(slot.key);
  }

  async #end(slot: Slot | undefined): Promise<void> {
    if (slot === undefined) return;
    this.#forget(slot);
    const session = await slot.session.catch(() => undefined);
    await session?.close();
  }

  #endWhenIdle(slot: Slot): void {
    if (slot.isRetired) void this.#end(slot);
    if (slot.isOver) return;
    // Moves it to the end of the order of use.
    this.#slots.delete(slot.key);
    this.#slots.set(slot.key, slot);
    slot.idle = setTimeout(() => void this.#end(slot), this.#options.limits.idleMs);
    slot.idle.unref();
  }
}

/** Failed starts of sessions, which make the next one wait. */
class Starts {
  readonly #now: () => EpochMs;
  #failure: UpstreamError | undefined;
  #failures = 0;
  #againAt: EpochMs = 0;

  constructor(now: () => EpochMs) {
    this.#now = now;
  }

  get failure(): UpstreamError | undefined {
    return this.#failure;
  }

  /** @throws {UpstreamError} while the next start waits */
  assertMayStart(isOwned: boolean): void {
    const failure = this.#failure;
    if (failure === undefined || this.#now() >= this.#againAt) return;
    // A caller's own credentials may be accepted where the service's are not.
    if (isOwned && failure.isRefused) return;
    throw new UpstreamError("notSent", `its last starts failed: ${failure.message}`, factsOf(failure));
  }

  succeeded(): void {
    this.#failure = undefined;
    this.#failures = 0;
  }

  /** Returns the reason, as it may be logged. */
  failed(error: UpstreamError): string {
    const reason = bounded(error.message, LOGGED_CHARACTERS_MAX);
    this.#failure = new UpstreamError("notSent", reason, factsOf(error));
    this.#failures += 1;
    const excess = this.#failures - FAILED_STARTS_MAX;
    if (excess >= 0) this.#againAt = this.#now() + Math.min(WAIT_MAX_MS, WAIT_FIRST_MS * 2 ** excess);
    return reason;
  }
}

function factsOf({ code, refusal }: UpstreamError): ConstructorParameters<typeof UpstreamError>[2] {
  return { ...(code !== undefined && { code }), refusal };
}

export function tooManyCalls(system: string): Refusal {
  return new Refusal("OVERLOADED", "Too many calls to this tool's server are in progress.", {
    retryAfterMs: BUSY_RETRY_AFTER_MS,
    cause: { system },
  });
}
