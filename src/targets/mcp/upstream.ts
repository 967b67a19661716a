import { Refusal } from "../../core/errors.ts";
import type { CallsInFlight, Quarantine, UpstreamEvent, UpstreamState } from "../../core/target-kind.ts";
import type { EpochMs, Json } from "../../core/types.ts";
import type { CredentialOwner } from "../../egress/credentials.ts";
import { BUSY_RETRY_AFTER_MS } from "../../egress/resilience.ts";
import { type OpenMcpChannel, UpstreamError, unlessCallEnded } from "./channel.ts";
import {
  allOf,
  bounded,
  type Definition,
  differences,
  excerptsOf,
  linesOfDefinition,
  pinnedPart,
  type ServerIdentity,
} from "./definitions.ts";
import { LOGGED_CHARACTERS_MAX } from "./messages.ts";
import { type Listed, McpSession } from "./session.ts";

/** Failed starts in a row after which the next start waits: twice as long after each. */
const FAILED_STARTS_MAX = 2;
const WAIT_FIRST_MS = 2_000;
const WAIT_MAX_MS = 60_000;
/** Time in which a list of tools is not read again for a tool that it does not have. */
const LISTED_FRESH_MS = 10_000;
/** The same for a quarantined tool, whose definition may be the pinned one again. */
const QUARANTINE_FRESH_MS = 1_000;

export interface UpstreamLimits {
  readonly startTimeoutMs: number;
  /** Time between two readings of the definitions. */
  readonly definitionsMs: number;
  /** Sessions at the same time, when each caller has its own. */
  readonly sessionsMax: number;
  /** Time after which a session without calls is ended. */
  readonly idleMs: number;
  readonly concurrentCallsMax: number;
}

/** Secrets that a call adds to its plan, by name. Their values are in no plan. */
export interface Additions {
  /** Headers of requests; of credentials with their kind. Undefined for a program. */
  readonly addedHeaders?: readonly string[];
  /** Variables of a program with values from files. */
  readonly secretEnv?: readonly string[];
}

export interface UpstreamOptions {
  readonly system: string;
  readonly additions: Additions;
  /** The level at which a program is confined. */
  readonly confinement?: string;
  readonly identity: Pick<ServerIdentity, "address" | "tls">;
  readonly open: OpenMcpChannel;
  /**
   * Returns the key of the sessions that use a caller's own credentials. Undefined when all sessions use the service's.
   * @throws {Refusal} when the caller has no token
   */
  readonly credentialKeyOf?: ((owner: CredentialOwner) => string) | undefined;
  /** True when all callers share one session. */
  readonly isShared: boolean;
  readonly limits: UpstreamLimits;
  readonly now: () => EpochMs;
  readonly report: (event: UpstreamEvent) => void;
}

/** The pin of a tool that this service offers. */
interface Pin {
  /** Undefined until the first definition was read, for a tool without a pin. */
  sha256: string | undefined;
  readonly isDeclared: boolean;
  /** The definition that the pin covers, when it is known. */
  definition: Json | undefined;
  /** Set while the tool is not called: its definition is not the pinned one. */
  quarantine: Quarantined | undefined;
}

interface Quarantined extends Quarantine {
  /** The changes in bounded lines, for the log and the journal. */
  readonly excerpts: readonly string[];
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
interface Lease {
  readonly session: McpSession;
  release(): void;
}

const SHARED = "";
const NEVER = new AbortController().signal;

/** One configured MCP server: its sessions, the definitions of its tools, and which of them are quarantined. */
export class Upstream {
  readonly #options: UpstreamOptions;
  readonly #pins = new Map<string, Pin>();
  readonly #slots = new Map<string, Slot>();
  readonly #timer: ReturnType<typeof setInterval>;
  #listed: Listed | undefined;
  #listedAt: EpochMs = 0;
  #failure: UpstreamError | undefined;
  #failedStarts = 0;
  #startsAgainAt: EpochMs = 0;
  #calls = 0;
  #isClosed = false;

  constructor(options: UpstreamOptions) {
    this.#options = options;
    this.#timer = setInterval(() => this.#recheck(), options.limits.definitionsMs);
    this.#timer.unref();
  }

  get system(): string {
    return this.#options.system;
  }

  get state(): UpstreamState["state"] {
    if (this.#slots.size > 0) return "connected";
    return this.#failure === undefined ? "idle" : "failed";
  }

  get calls(): CallsInFlight {
    return { inFlight: this.#calls, max: this.#options.limits.concurrentCallsMax };
  }

  get sessions(): number {
    return this.#slots.size;
  }

  get additions(): Additions {
    return this.#options.additions;
  }

  get confinement(): string | undefined {
    return this.#options.confinement;
  }

  /** The reason why the last start failed. */
  get failure(): string | undefined {
    return this.#failure?.message;
  }

  /** The last list of tools; undefined before the first. */
  get listed(): Listed | undefined {
    return this.#listed;
  }

  pinOf(tool: string): Readonly<Pin> | undefined {
    return this.#pins.get(tool);
  }

  /** Events for the tools that are quarantined now. */
  quarantines(): readonly UpstreamEvent[] {
    return [...this.#pins].flatMap(([tool, { quarantine }]) =>
      quarantine === undefined ? [] : [this.#quarantined(tool, quarantine)],
    );
  }

  #quarantined(tool: string, { reason, excerpts }: Quarantined): UpstreamEvent {
    return { type: "quarantined", system: this.system, tool: bounded(tool), reason, changes: excerpts };
  }

  /** Ends the sessions that use a caller's own credentials, after the calls in progress. */
  endOwned(): void {
    for (const slot of this.#slots.values()) {
      if (slot.isOwned) this.#retire(slot);
    }
  }

  /** Ends a session after the calls in progress. */
  #retire(slot: Slot): void {
    this.#forget(slot);
    slot.isRetired = true;
    if (slot.calls === 0) void this.#end(slot);
  }

  /** Adds a tool that this service offers. Returns the problem with its pin. */
  pin(tool: string, sha256: string | undefined, definition: Json | undefined): string | undefined {
    const known = this.#pins.get(tool);
    if (known?.isDeclared === true) {
      return sha256 === undefined || sha256 === known.sha256 ? undefined : "another tool pins another definition";
    }
    const pinned = definition === undefined ? undefined : comparable(definition);
    this.#pins.set(tool, { sha256, isDeclared: sha256 !== undefined, definition: pinned, quarantine: undefined });
    if (this.#listed !== undefined) this.#judge(this.#listed);
    return undefined;
  }

  /**
   * Reads the definitions without a caller.
   *
   * @throws {UpstreamError}
   */
  async readDefinitions(signal: AbortSignal): Promise<void> {
    const before = this.#listed;
    const lease = await this.#lease(undefined, signal);
    try {
      // A session lists the tools when it starts; this one had started before.
      if (this.#listed === before) await unlessCallEnded(lease.session.readDefinitions(), signal);
    } finally {
      lease.release();
    }
    // Otherwise the process would run unused until the idle time ends.
    if (!this.#options.isShared) await this.#end(this.#slots.get(SHARED));
  }

  /**
   * Returns the hash of the definition that a call would use.
   *
   * @throws {Refusal} TARGET_UNAVAILABLE for a quarantined tool
   * @throws {UpstreamError}
   */
  planned(tool: string, signal: AbortSignal): string | Promise<string> {
    return this.#mustRead(tool) ? this.readDefinitions(signal).then(() => this.#pinned(tool)) : this.#pinned(tool);
  }

  /** Returns whether the definitions are read before a call. Not before each call: that would start a process each time. */
  #mustRead(tool: string): boolean {
    const { sha256, quarantine } = this.#pins.get(tool) ?? {};
    const age = this.#listed === undefined ? Number.POSITIVE_INFINITY : this.#options.now() - this.#listedAt;
    if (sha256 === undefined) return age >= LISTED_FRESH_MS;
    return quarantine !== undefined && this.#hasNoCallersSession() && age >= QUARANTINE_FRESH_MS;
  }

  /** Returns false while callers have sessions of their own: these are compared with the pins regularly, and may differ. */
  #hasNoCallersSession(): boolean {
    return this.#slots.size === (this.#slots.has(SHARED) ? 1 : 0);
  }

  #pinned(tool: string): string {
    const pin = this.#pins.get(tool);
    if (pin?.quarantine !== undefined) throw this.#quarantineRefusal(tool, pin.quarantine.reason);
    if (pin?.sha256 === undefined) throw this.#quarantineRefusal(tool, "the server does not offer it");
    return pin.sha256;
  }

  /**
   * Uses a caller's session, with the tool's definition as the server gave it to this session.
   *
   * @throws {Refusal} OVERLOADED; TARGET_UNAVAILABLE for a quarantined tool
   * @throws {UpstreamError}
   */
  async use<T>(call: UpstreamCall, run: (session: McpSession, definition: Definition) => Promise<T>): Promise<T> {
    if (this.#calls >= this.#options.limits.concurrentCallsMax) throw this.#busy();
    this.#calls += 1;
    try {
      const lease = await this.#lease(call, call.signal);
      try {
        return await this.#useSession(lease.session, call, run);
      } catch (error) {
        if (!canUseAnother(error, call) || lease.session.isUsable || call.signal.aborted) throw error;
      } finally {
        lease.release();
      }
      const fresh = await this.#lease(call, call.signal);
      try {
        return await this.#useSession(fresh.session, call, run);
      } finally {
        fresh.release();
      }
    } finally {
      this.#calls -= 1;
    }
  }

  async #useSession<T>(
    session: McpSession,
    { tool, sha256, signal }: UpstreamCall,
    run: (session: McpSession, definition: Definition) => Promise<T>,
  ): Promise<T> {
    const { definitions, unusable } = await session.definitions(signal);
    const pin = this.#pins.get(tool);
    const definition = definitions.get(tool);
    if (pin?.quarantine !== undefined) throw this.#quarantineRefusal(tool, pin.quarantine.reason);
    if (definition === undefined) {
      throw this.#quarantineRefusal(tool, unusable.get(tool) ?? "the server does not offer it");
    }
    if (definition.sha256 !== pin?.sha256) throw this.#quarantineRefusal(tool, CHANGED);
    if (definition.sha256 !== sha256) {
      const message = "The tool's definition changed after the call was planned. Call again.";
      throw new Refusal("TARGET_UNAVAILABLE", message, { cause: { system: this.system, tool } });
    }
    return await run(session, definition);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#timer);
    await Promise.all([...this.#slots.values()].map((slot) => this.#end(slot)));
  }

  #busy(): Refusal {
    return new Refusal("OVERLOADED", "Too many calls to this tool's server are in progress.", {
      retryAfterMs: BUSY_RETRY_AFTER_MS,
      cause: { system: this.system },
    });
  }

  #quarantineRefusal(tool: string, reason: string): Refusal {
    const message = "The tool is not available: its server changed it. An operator must look at the change.";
    return new Refusal("TARGET_UNAVAILABLE", message, {
      isLasting: true,
      cause: { system: this.system, tool, reason, hint: "stc check shows the change" },
    });
  }

  /** Without `user`, the session is for reading definitions. */
  async #lease(user: SessionUser | undefined, signal: AbortSignal): Promise<Lease> {
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
    const { isShared, credentialKeyOf } = this.#options;
    const isOwned = user !== undefined && credentialKeyOf !== undefined;
    const own = user === undefined || isShared ? SHARED : user.key;
    const key = isOwned ? credentialKeyOf(user.owner) : own;
    const known = this.#slots.get(key);
    if (known?.started?.isUsable === false) this.#retire(known);
    else if (known !== undefined) return known;
    const { limits, now } = this.#options;
    if (this.#isClosed) throw new UpstreamError("notSent", "the service is shutting down");
    const failure = this.#failure;
    // A caller's own credentials may be accepted where the service's are not.
    const mayStart = isOwned && failure?.isRefused === true;
    if (failure !== undefined && !mayStart && now() < this.#startsAgainAt) {
      const { code, refusal, message } = failure;
      const facts = { ...(code !== undefined && { code }), refusal };
      throw new UpstreamError("notSent", `its last starts failed: ${message}`, facts);
    }
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
    if (unused === undefined) throw this.#busy();
    void this.#end(unused);
  }

  async #start(owner: CredentialOwner | undefined): Promise<McpSession> {
    const { open, identity, limits, system, report, now } = this.#options;
    try {
      const session = await McpSession.start({
        open,
        owner,
        identity,
        startTimeoutMs: limits.startTimeoutMs,
        log: (what, text) =>
          report({ type: "output", system, reason: `${what}: ${bounded(text, LOGGED_CHARACTERS_MAX)}` }),
        onDefinitions: (listed) => this.#judge(listed, owner !== undefined),
      });
      this.#failure = undefined;
      this.#failedStarts = 0;
      return session;
    } catch (error) {
      const failed = error instanceof UpstreamError ? error : new UpstreamError("notSent", "failed");
      // The server works: only this caller's credentials are refused.
      if (owner !== undefined && failed.isRefused) throw error;
      const { code, refusal } = failed;
      const reason = bounded(failed.message, LOGGED_CHARACTERS_MAX);
      this.#failure = new UpstreamError("notSent", reason, { ...(code !== undefined && { code }), refusal });
      this.#failedStarts += 1;
      const excess = this.#failedStarts - FAILED_STARTS_MAX;
      if (excess >= 0) this.#startsAgainAt = now() + Math.min(WAIT_MAX_MS, WAIT_FIRST_MS * 2 ** excess);
      report({ type: "failed", system, reason });
      throw error;
    }
  }

  #ended(slot: Slot, reason: string): void {
    if (!slot.isOver && !this.#isClosed) this.#options.report({ type: "failed", system: this.system, reason });
    this.#forget(slot);
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

  /** Reads the definitions of all sessions again. Sessions that begin later read them when they start. */
  #recheck(): void {
    const isQuarantined = [...this.#pins.values()].some(({ quarantine }) => quarantine !== undefined);
    if (this.#slots.size === 0 && isQuarantined) this.readDefinitions(NEVER).catch(() => {});
    for (const { session } of this.#slots.values()) {
      session.then((open) => open.readDefinitions()).catch(() => {});
    }
  }

  /** Compares all pinned tools with a list of the server. `isOwned`: a caller's own list, which need not have every tool. */
  #judge(listed: Listed, isOwned = false): void {
    if (!isOwned || this.#listed === undefined) {
      this.#listed = listed;
      this.#listedAt = this.#options.now();
    }
    for (const [tool, pin] of this.#pins) {
      const isMissing = !listed.definitions.has(tool) && !listed.unusable.has(tool);
      if (!isOwned || !isMissing) this.#judgeTool(tool, pin, listed);
    }
  }

  #judgeTool(tool: string, pin: Pin, { definitions, unusable }: Listed): void {
    const { system, report } = this.#options;
    const definition = definitions.get(tool);
    if (definition !== undefined && (pin.sha256 ?? definition.sha256) === definition.sha256) {
      pin.sha256 = definition.sha256;
      pin.definition = definition.pinned;
      if (pin.quarantine === undefined) return;
      pin.quarantine = undefined;
      report({ type: "restored", system, tool: bounded(tool), reason: "its definition is the pinned one again" });
      return;
    }
    // A tool without a pin that was never offered: there is nothing that it changed from.
    if (definition === undefined && pin.sha256 === undefined) return;
    const reason = unusable.get(tool) ?? (definition === undefined ? "the server does not offer it" : CHANGED);
    const changes = definition === undefined ? UNCHANGED : changesOf(pin, definition);
    const before = pin.quarantine;
    pin.quarantine = { reason, ...changes };
    const isKnown = before?.reason === reason && before.changes.join() === changes.changes.join();
    if (!isKnown) report(this.#quarantined(tool, pin.quarantine));
  }
}

/** Returns whether a call that failed with a session that has ended may use a new one. */
function canUseAnother(error: unknown, { isRepeatable }: UpstreamCall): boolean {
  if (!(error instanceof UpstreamError)) return false;
  // That a change did not run is only the server's word.
  return error.failure === "notSent" || (error.failure === "expired" && isRepeatable);
}

const CHANGED = "its definition is not the pinned one";

type Changes = Pick<Quarantined, "changes" | "excerpts">;

const UNCHANGED: Changes = { changes: [], excerpts: [] };
const WHERE = "stc check and the tool's page in the console show all of it";

function changesOf({ sha256, definition }: Pin, now: Definition): Changes {
  const hashes = `sha256: ${sha256} → ${now.sha256}`;
  if (definition === undefined) {
    const excerpts = [hashes, "(the pinned definition itself is not known: set target.mcp.definition)"];
    return { excerpts: [...excerpts, WHERE], changes: [...excerpts, "the definition now:", ...linesOfDefinition(now)] };
  }
  const found = differences(definition, now.pinned);
  const other = found.length > 0 ? [] : ["(the server's identity: its address, its name, or its certificate)"];
  const [excerpts, changes] = [excerptsOf(found), allOf(found)];
  const isWhole = excerpts.length === changes.length;
  return {
    excerpts: [hashes, ...other, ...excerpts, ...(isWhole ? [] : [WHERE])],
    changes: [hashes, ...other, ...changes],
  };
}

/** Returns the part of a manifest's definition that can be compared: undefined for one that is too large. */
function comparable(definition: Json): Json | undefined {
  try {
    return pinnedPart(definition as Readonly<Record<string, Json>>);
  } catch {
    return undefined;
  }
}

/** A caller, for whom a session is opened. */
interface SessionUser {
  /** Key of the caller's session. */
  readonly key: string;
  readonly owner: CredentialOwner;
}

export interface UpstreamCall extends SessionUser {
  readonly tool: string;
  /** The definition for which the call was planned. */
  readonly sha256: string;
  /** Whether it is harmless to send the call twice. */
  readonly isRepeatable: boolean;
  readonly signal: AbortSignal;
}
