import type { HaltListing } from "../core/api/halts.ts";
import { errorText } from "../core/error-text.ts";
import type { Refusal } from "../core/errors.ts";
import type { StateJournal, StateOperations } from "../database/operations.ts";
import type { HaltFile } from "./file.ts";
import {
  type CallHalt,
  type HaltableCall,
  HaltIndex,
  type HaltTarget,
  haltedRefusal,
  haltWithin,
  unknownRefusal,
} from "./halt.ts";
import { type HaltToSet, liftHalt, listHalts, type SetHalt, setHalt, sweepHalts } from "./operations.ts";

/** Time after which halts that were not read again are no longer certain, in milliseconds. */
const STALE_MS = 5_000;
const RETRY_MS = 1_000;

export type WhenUnknown = "keepLast" | "refuseChanges";

interface HaltsOptions {
  readonly state: StateOperations;
  /** Undefined where the state is this process's alone. */
  readonly file: HaltFile | undefined;
  readonly journal: StateJournal;
  readonly newId: () => string;
  /** Returns Unix milliseconds. */
  readonly clock: () => number;
  /** Returns milliseconds of a monotonic clock. */
  readonly monotonic: () => number;
  readonly log: (message: string, cause: unknown) => void;
  readonly whenUnknown: WhenUnknown;
  /** In a tenant: the halts of its service, which stop the tenant's calls as its own halts do. */
  readonly serviceHalts?: ServiceHalts | undefined;
  /** Returns whether the service, or the tenant, has the tool or the system that a halt names. Left out: it has all. */
  readonly knows?: ((target: HaltTarget) => boolean) | undefined;
}

/** The halts of a service, as they judge calls of one of its tenants. */
export type ServiceHalts = Pick<Halts, "refusalFor" | "listen" | "stopsAll" | "active">;

export type NewHalt = Omit<HaltToSet, "id">;

/** Returns why halts stop a call; undefined when they do not. */
type Halting = (call: HaltableCall) => Refusal | undefined;

/** Gets what the new halts stop, and what those of them stop that end running calls, too. */
type HaltListener = (added: Halting, cancelling: Halting) => void;

/**
 * The halts in force, as a snapshot that is read without I/O. Every process reads them again twice a second, so that a halt takes
 * effect everywhere within a second. While the state cannot be read, the known halts stay in force and end by their time.
 */
export class Halts {
  readonly #options: HaltsOptions;
  #whenUnknown: WhenUnknown;
  #halts: readonly CallHalt[] = [];
  #index = new HaltIndex([]);
  /** Milliseconds by the clock of the state, at a monotonic time. */
  #clock: { readonly at: number; readonly monotonic: number } | undefined;
  #isKnown: boolean;
  /** The clock of the state when the halts were read last. */
  #listedAt: number | undefined;
  /** Monotonic time of the last reading. */
  #readAt = Number.NEGATIVE_INFINITY;
  #refusesChanges = false;
  /** True when every call passes: no halt is in force, and the halts are known. */
  #isQuiet = true;
  #isReading = false;
  #reading: Promise<void> = Promise.resolve();
  #isFailing = false;
  #unwatch: () => void = () => {};
  readonly #listeners = new Set<HaltListener>();

  constructor(options: HaltsOptions) {
    this.#options = options;
    this.#whenUnknown = options.whenUnknown;
    this.#isKnown = options.state.scope === "process";
  }

  /** Reads the halts, from disk if the state does not answer, and follows their changes. Never rejects. */
  async start(): Promise<void> {
    if (this.#options.state.scope === "process") return;
    await this.#readFile();
    this.#judge();
    await this.refresh().catch(() => {});
    this.#unwatch = this.#options.state.watch(() => this.#tick());
  }

  /** Takes the setting of a new configuration. */
  change(whenUnknown: WhenUnknown): void {
    this.#whenUnknown = whenUnknown;
    this.#judge();
  }

  close(): void {
    this.#unwatch();
    this.#listeners.clear();
  }

  /** Calls `listener` when halts have come into force, before any call is judged by them. */
  listen(listener: HaltListener): void {
    this.#listeners.add(listener);
    this.#options.serviceHalts?.listen(listener);
  }

  /** Returns why the call must not start: HALTED, or POLICY_STATE_UNAVAILABLE for a change. Without halts, looks at nothing. */
  refusalFor(call: HaltableCall): Refusal | undefined {
    const { serviceHalts } = this.#options;
    if (this.#isQuiet) return serviceHalts?.refusalFor(call);
    const halted = this.#refusalBy(this.#index, call) ?? serviceHalts?.refusalFor(call);
    if (halted !== undefined) return halted;
    return this.#refusesChanges && call.tool.classification !== "read" ? unknownRefusal(RETRY_MS) : undefined;
  }

  /** Returns these halts for a tenant: those that name it, and those that name no tenant. */
  forTenant(tenant: string): ServiceHalts {
    const within =
      (halting: Halting): Halting =>
      (call) =>
        halting({ ...call, tenant });
    const refusalFor = within((call) => this.refusalFor(call));
    const active = () => this.active.flatMap((halt) => haltWithin(tenant, halt) ?? []);
    return {
      get active() {
        return active();
      },
      refusalFor: (call) => (this.#isQuiet ? undefined : refusalFor(call)),
      listen: (listener) => this.listen((added, cancelling) => listener(within(added), within(cancelling))),
      stopsAll: () => this.stopsAll(tenant),
    };
  }

  /** Returns whether a halt stops every call: of the named tenant; undefined: of the service, or of the tenant, that has these halts. */
  stopsAll(tenant?: string): boolean {
    const stops = ({ target }: CallHalt): boolean =>
      target.kind === "all" && (target.tenant === undefined || target.tenant === tenant);
    return this.active.some(stops) || this.#options.serviceHalts?.stopsAll() === true;
  }

  /** Returns the refusal of a call that one of these halts stops. */
  #refusalBy(index: HaltIndex, call: HaltableCall): Refusal | undefined {
    const matching = index.matching(call);
    if (matching.length === 0) return undefined;
    const now = this.#now();
    const inForce = matching.filter(({ until }) => until === undefined || until > now);
    return inForce.length === 0 ? undefined : haltedRefusal(inForce, now, { ofService: call.tenant !== undefined });
  }

  /** The halts in force that this process knows. */
  get active(): readonly CallHalt[] {
    const now = this.#now();
    return this.#halts.filter(({ until }) => until === undefined || until > now);
  }

  /** The halts in force that operators see. In a tenant, halts of the service are among them; not those of tools that it does not have. */
  get listed(): readonly CallHalt[] {
    const { serviceHalts, knows = () => true } = this.#options;
    const all = [...(serviceHalts?.active ?? []), ...this.active];
    return all.filter(({ ofService, target }) => ofService !== "all" || knows(target));
  }

  describe(): HaltListing["state"] {
    const { scope } = this.#options.state;
    const active = this.listed.length;
    if (!this.#isKnown) return { scope, status: "unknown", active };
    return { scope, status: this.#isStale() ? "stale" : "ok", active };
  }

  /** Stops calls from now on, here at once and elsewhere within a second. Rejects when the state does not answer. */
  async set(halt: NewHalt): Promise<SetHalt> {
    const { state, newId } = this.#options;
    const { value: set } = await state.run(setHalt, { ...halt, id: newId() });
    await this.refresh();
    return set;
  }

  /** Returns the lifted halt; undefined when there is none of this id. Rejects when the state does not answer. */
  async lift(id: string, by: NewHalt["by"]): Promise<CallHalt | undefined> {
    const { value: lifted } = await this.#options.state.run(liftHalt, { id, by });
    await this.refresh();
    return lifted ?? undefined;
  }

  /** Reads the halts again. Rejects when the state does not answer. */
  refresh(): Promise<void> {
    // Never joins a reading that has begun: it may not see what was just written.
    this.#reading = this.#reading.then(
      () => this.#read(),
      () => this.#read(),
    );
    return this.#reading;
  }

  #tick(): void {
    this.#judge();
    if (this.#isReading) return;
    this.refresh().catch(() => {});
  }

  async #read(): Promise<void> {
    const { state, monotonic, log } = this.#options;
    this.#isReading = true;
    try {
      const { value: halts, now } = await state.run(listHalts, {});
      // A hub sends the halts by itself: these may be the ones that were read before.
      if (now !== this.#listedAt) {
        this.#listedAt = now;
        this.#readAt = monotonic();
        this.#clock = { at: now, monotonic: this.#readAt };
      }
      const wasKnown = this.#isKnown;
      this.#isKnown = true;
      this.#adopt(
        halts.filter(({ until }) => until === undefined || until > now),
        { isFirst: !wasKnown },
      );
      if (this.#isFailing) log("the halts are known again", undefined);
      this.#isFailing = false;
      const hasEnded = halts.some(({ until }) => until !== undefined && until <= now);
      if (hasEnded && !state.isRemote) await state.run(sweepHalts, {});
    } catch (error) {
      // Logged once per outage.
      if (!this.#isFailing) log("the halts cannot be read: those that are known stay in force", error);
      this.#isFailing = true;
      this.#judge();
      throw error;
    } finally {
      this.#isReading = false;
    }
  }

  #adopt(halts: readonly CallHalt[], { isFirst }: { readonly isFirst: boolean }): void {
    const before = new Set(this.#halts.map(({ id }) => id));
    const added = halts.filter(({ id }) => !before.has(id));
    const isSame = added.length === 0 && halts.length === before.size;
    if (!isSame) {
      this.#halts = halts;
      this.#index = new HaltIndex(halts);
    }
    this.#judge();
    if (added.length > 0) {
      const cancelling = new HaltIndex(added.filter(({ cancelRunning }) => cancelRunning));
      const index = new HaltIndex(added);
      for (const listener of this.#listeners) {
        listener(
          (call) => this.#refusalBy(index, call),
          (call) => this.#refusalBy(cancelling, call),
        );
      }
    }
    if (!isSame || isFirst) this.#writeFile();
  }

  #judge(): void {
    const { state } = this.#options;
    const isUncertain = this.#whenUnknown === "refuseChanges" && this.#isStale();
    this.#refusesChanges = state.scope === "shared" && (!this.#isKnown || isUncertain);
    this.#isQuiet = this.#index.size === 0 && !this.#refusesChanges;
  }

  #isStale(): boolean {
    const { state, monotonic } = this.#options;
    return state.scope === "shared" && monotonic() - this.#readAt > STALE_MS;
  }

  /** Milliseconds by the clock of the state, as far as this process knows it. */
  #now(): number {
    const { clock, monotonic } = this.#options;
    return this.#clock === undefined ? clock() : this.#clock.at + monotonic() - this.#clock.monotonic;
  }

  async #readFile(): Promise<void> {
    const { file, clock, monotonic, log, journal } = this.#options;
    try {
      const known = file?.read();
      if (known === undefined) return;
      this.#clock = { at: clock() + known.aheadMs, monotonic: monotonic() };
      this.#isKnown = true;
      this.#halts = known.halts;
      this.#index = new HaltIndex(known.halts);
    } catch (error) {
      log("the file with the last known halts is unusable: changes are refused until the halts are read", error);
      await journal({ type: "halts.unreadable", problem: errorText(error) }).catch(() => {});
    }
  }

  #writeFile(): void {
    const { file, clock, log } = this.#options;
    try {
      file?.write({ halts: this.#halts, aheadMs: this.#now() - clock() });
    } catch (error) {
      log("the known halts cannot be written to disk: a start without the database would not know them", error);
    }
  }
}
