import type { CallsInFlight, UpstreamEvent, UpstreamState } from "../../core/target-kind.ts";
import type { EpochMs, Json } from "../../core/types.ts";
import { UpstreamError, unlessCallEnded } from "./channel.ts";
import type { Definition } from "./definitions.ts";
import { Pins } from "./pins.ts";
import type { Listed, McpSession } from "./session.ts";
import {
  type Lease,
  type SessionLimits,
  SessionPool,
  type SessionPoolOptions,
  type SessionUser,
  tooManyCalls,
} from "./session-pool.ts";

/** Time in which a list of tools is not read again for a tool that it does not have. */
const LISTED_FRESH_MS = 10_000;
/** The same for a quarantined tool, whose definition may be the pinned one again. */
const QUARANTINE_FRESH_MS = 1_000;

export interface UpstreamLimits extends SessionLimits {
  /** Time between two readings of the definitions. */
  readonly definitionsMs: number;
  readonly concurrentCallsMax: number;
}

/** Secrets that a call adds to its plan, by name. Their values are in no plan. */
export interface Additions {
  /** Headers of requests; of credentials with their kind. Undefined for a program. */
  readonly addedHeaders?: readonly string[];
  /** Variables of a program with values from files. */
  readonly secretEnv?: readonly string[];
}

export interface UpstreamOptions extends SessionPoolOptions {
  readonly additions: Additions;
  /** The level at which a program is confined. */
  readonly confinement?: string;
  readonly limits: UpstreamLimits;
}

export interface UpstreamCall extends SessionUser {
  readonly tool: string;
  /** The definition for which the call was planned. */
  readonly sha256: string;
  /** Whether it is harmless to send the call twice. */
  readonly isRepeatable: boolean;
  readonly signal: AbortSignal;
}

const NEVER = new AbortController().signal;

/** One configured MCP server: its sessions, the definitions of its tools, and the calls in progress. */
export class Upstream {
  readonly #options: UpstreamOptions;
  readonly #pins: Pins;
  readonly #pool: SessionPool;
  readonly #timer: ReturnType<typeof setInterval>;
  #listed: Listed | undefined;
  #listedAt: EpochMs = 0;
  #calls = 0;

  constructor(options: UpstreamOptions) {
    this.#options = options;
    this.#pins = new Pins(options.system, options.report);
    this.#pool = new SessionPool(options, (listed, isOwned) => this.#take(listed, isOwned));
    this.#timer = setInterval(() => this.#recheck(), options.limits.definitionsMs);
    this.#timer.unref();
  }

  get system(): string {
    return this.#options.system;
  }

  get state(): UpstreamState["state"] {
    if (this.#pool.size > 0) return "connected";
    return this.#pool.failure === undefined ? "idle" : "failed";
  }

  get calls(): CallsInFlight {
    return { inFlight: this.#calls, max: this.#options.limits.concurrentCallsMax };
  }

  get sessions(): number {
    return this.#pool.size;
  }

  get additions(): Additions {
    return this.#options.additions;
  }

  get confinement(): string | undefined {
    return this.#options.confinement;
  }

  /** The reason why the last start failed. */
  get failure(): string | undefined {
    return this.#pool.failure?.message;
  }

  /** The last list of tools; undefined before the first. */
  get listed(): Listed | undefined {
    return this.#listed;
  }

  pinOf(tool: string): ReturnType<Pins["pinOf"]> {
    return this.#pins.pinOf(tool);
  }

  /** Events for the tools that are quarantined now. */
  quarantines(): readonly UpstreamEvent[] {
    return this.#pins.quarantines();
  }

  /** Ends the sessions that use a caller's own credentials, after the calls in progress. */
  endOwned(): void {
    this.#pool.endOwned();
  }

  /** Adds a tool that this service offers. Returns the problem with its pin. */
  pin(tool: string, sha256: string | undefined, definition: Json | undefined): string | undefined {
    const problem = this.#pins.add(tool, sha256, definition);
    if (problem === undefined && this.#listed !== undefined) this.#pins.compare(this.#listed, false);
    return problem;
  }

  /**
   * Reads the definitions without a caller.
   *
   * @throws {UpstreamError}
   */
  async readDefinitions(signal: AbortSignal): Promise<void> {
    const before = this.#listed;
    const lease = await this.#pool.lease(undefined, signal);
    try {
      // A session lists the tools when it starts; this one had started before.
      if (this.#listed === before) await unlessCallEnded(lease.session.readDefinitions(), signal);
    } finally {
      lease.release();
    }
    // Otherwise the process would run unused until the idle time ends.
    if (!this.#options.isShared) await this.#pool.endShared();
  }

  /**
   * Returns the hash of the definition that a call would use.
   *
   * @throws {Refusal} TARGET_UNAVAILABLE for a quarantined tool
   * @throws {UpstreamError}
   */
  planned(tool: string, signal: AbortSignal): string | Promise<string> {
    return this.#mustRead(tool)
      ? this.readDefinitions(signal).then(() => this.#pins.hashOf(tool))
      : this.#pins.hashOf(tool);
  }

  /** Returns whether the definitions are read before a call. Not before each call: that would start a process each time. */
  #mustRead(tool: string): boolean {
    const { sha256, quarantine } = this.#pins.pinOf(tool) ?? {};
    const age = this.#listed === undefined ? Number.POSITIVE_INFINITY : this.#options.now() - this.#listedAt;
    if (sha256 === undefined) return age >= LISTED_FRESH_MS;
    return quarantine !== undefined && this.#pool.hasOnlyShared && age >= QUARANTINE_FRESH_MS;
  }

  /**
   * Uses a caller's session, with the tool's definition as the server gave it to this session.
   *
   * @throws {Refusal} OVERLOADED; TARGET_UNAVAILABLE for a quarantined tool
   * @throws {UpstreamError}
   */
  async use<T>(call: UpstreamCall, run: (session: McpSession, definition: Definition) => Promise<T>): Promise<T> {
    if (this.#calls >= this.#options.limits.concurrentCallsMax) throw tooManyCalls(this.system);
    this.#calls += 1;
    try {
      const lease = await this.#pool.lease(call, call.signal);
      try {
        return await this.#run(lease, call, run);
      } catch (error) {
        if (!canUseAnother(error, call) || lease.session.isUsable || call.signal.aborted) throw error;
      } finally {
        lease.release();
      }
      const fresh = await this.#pool.lease(call, call.signal);
      try {
        return await this.#run(fresh, call, run);
      } finally {
        fresh.release();
      }
    } finally {
      this.#calls -= 1;
    }
  }

  async #run<T>(
    { session }: Lease,
    call: UpstreamCall,
    run: (session: McpSession, definition: Definition) => Promise<T>,
  ): Promise<T> {
    const listed = await session.definitions(call.signal);
    return await run(session, this.#pins.definitionFor(call, listed));
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#pool.close();
  }

  /** Reads the definitions of all sessions again. Sessions that begin later read them when they start. */
  #recheck(): void {
    if (this.#pool.size === 0 && this.#pins.hasQuarantines) this.readDefinitions(NEVER).catch(() => {});
    for (const session of this.#pool.sessions()) session.then((open) => open.readDefinitions()).catch(() => {});
  }

  #take(listed: Listed, isOwned: boolean): void {
    if (!isOwned || this.#listed === undefined) {
      this.#listed = listed;
      this.#listedAt = this.#options.now();
    }
    this.#pins.compare(listed, isOwned);
  }
}

/** Returns whether a call that failed with a session that has ended may use a new one. */
function canUseAnother(error: unknown, { isRepeatable }: UpstreamCall): boolean {
  if (!(error instanceof UpstreamError)) return false;
  // That a change did not run is only the server's word.
  return error.failure === "notSent" || (error.failure === "expired" && isRepeatable);
}
