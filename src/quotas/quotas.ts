import { Refusal } from "../core/errors.ts";
import type { CallerContext, EpochMs, Json, Tool } from "../core/types.ts";
import { type LeaseOptions, Leases, type Meter, type QuotaHold } from "./leases.ts";
import { listUses, readUses, resetUses, sweepUses } from "./operations.ts";
import {
  fromParts,
  type Quota,
  type QuotaRule,
  type QuotaUnit,
  type QuotaUser,
  type QuotaWindow,
  quotaExceeded,
  quotaUnknown,
  readQuota,
  userOf,
} from "./rules.ts";
import { type QuotaUseFilter, ROWS_MAX, type UsePosition } from "./table.ts";

/** Whose call of which tool. */
export interface CountedCall {
  readonly tool: Tool;
  readonly caller: CallerContext;
}

/** What one process has counted of one quota since its start. */
export interface QuotaCounts {
  readonly quota: string;
  /** In the quota's unit. */
  readonly charged: number;
  readonly refused: number;
}

/** Use of a quota in its current window. */
export interface QuotaUse extends QuotaUser {
  readonly quota: string;
  readonly unit: QuotaUnit;
  /** In the quota's unit; includes what processes hold in advance. */
  readonly used: number;
  /** Undefined when the quota is no longer configured like this. */
  readonly limit: number | undefined;
  readonly window: QuotaWindow | undefined;
  readonly startsAt: EpochMs;
  readonly endsAt: EpochMs;
}

export interface QuotaPage {
  readonly uses: readonly QuotaUse[];
  /** Where the next page begins; undefined: there is none. */
  readonly next: UsePosition | undefined;
}

interface QuotasOptions extends LeaseOptions {
  readonly rules: readonly QuotaRule[];
}

interface Applied {
  readonly quota: Quota;
  readonly amount: number;
}

interface Counter {
  parts: number;
  refused: number;
}

/** Batches of one sweep or reset. */
const BATCHES_MAX = 1_000;
const SWEEP_BATCHES_MAX = 10;

/** Charges calls to the quotas of the configuration in use. Use is kept by (issuer, subject), in rows that all replicas share. */
export class Quotas {
  readonly #options: QuotasOptions;
  readonly #leases: Leases;
  readonly #counters = new Map<string, Counter>();
  /** The same token yields the same object. */
  readonly #callerKeys = new WeakMap<CallerContext, string>();
  #quotas: readonly Quota[] = [];
  #ofTool = new WeakMap<Tool, readonly Applied[]>();

  constructor(options: QuotasOptions) {
    this.#options = options;
    this.#leases = new Leases(options);
    this.change(options.rules);
  }

  /**
   * Applies the quotas of another configuration. The use of a quota stays with its name, unit, window and `per`; a process gives
   * back what it holds of a changed one, so that a lower limit applies to all that follows.
   */
  change(rules: readonly QuotaRule[]): void {
    const known = new Map(this.#quotas.map((quota) => [JSON.stringify(quota.rule), quota]));
    this.#quotas = rules.map((rule) => known.get(JSON.stringify(rule)) ?? readQuota(rule));
    this.#ofTool = new WeakMap();
    this.#leases.keep(this.#quotas);
    const names = new Set(rules.map(({ name }) => name));
    for (const name of this.#counters.keys()) if (!names.has(name)) this.#counters.delete(name);
    for (const name of names) {
      if (!this.#counters.has(name)) this.#counters.set(name, { parts: 0, refused: 0 });
    }
  }

  /** Returns the budget of one call, or undefined when no quota applies to any call. */
  open(): CallBudget | undefined {
    return this.#quotas.length === 0 ? undefined : new CallBudget(this);
  }

  /**
   * Takes what the call needs of every quota that applies to it, or nothing.
   *
   * @throws {Refusal} QUOTA_EXCEEDED, POLICY_STATE_UNAVAILABLE
   */
  take(call: CountedCall): readonly QuotaHold[] | Promise<readonly QuotaHold[]> {
    const applied = this.#appliedTo(call);
    if (applied.length === 0) return NONE;
    const latest = this.#leases.latest();
    const holds: QuotaHold[] = [];
    const pending: Promise<QuotaHold>[] = [];
    for (const { quota, amount } of applied) {
      const taken = this.#takeOne({ quota, amount }, call, latest);
      if (taken instanceof Promise) pending.push(taken);
      else holds.push(taken);
    }
    return pending.length === 0 ? holds : this.#allOrNothing(holds, pending);
  }

  /** Returns whether a quota applies to the call. */
  applyTo(call: CountedCall): boolean {
    return this.#appliedTo(call).length > 0;
  }

  giveBack(holds: readonly QuotaHold[]): void {
    for (const each of holds) this.#leases.giveBack(each);
  }

  /** Counts a started call. */
  count(holds: readonly QuotaHold[]): void {
    for (const { meter, amount } of holds) this.#charge(meter, amount);
  }

  /** Charges the bytes of an answer. Resolves when the rows have them or cannot be written now. Never rejects. */
  charge(holds: readonly QuotaHold[], bytes: () => number): Promise<unknown> | undefined {
    const ofBytes = holds.filter(({ meter }) => meter.quota.unit === "bytes");
    if (ofBytes.length === 0) return undefined;
    const amount = bytes();
    const writing = ofBytes.flatMap(({ meter }) => {
      this.#charge(meter, amount);
      return this.#leases.charge(meter, amount) ?? [];
    });
    return writing.length === 0 ? undefined : Promise.all(writing);
  }

  /** Returns the refusal that a call would get now, and charges nothing. */
  async judge(call: CountedCall): Promise<Refusal | undefined> {
    const applied = this.#appliedTo(call);
    if (applied.length === 0) return undefined;
    try {
      const questions = applied.map(({ quota: { name, unit, window, limit, rule } }) => ({
        quota: { name, unit, window, limit },
        user: userOf({ rule }, call.caller, call.tool),
      }));
      const { value: uses, now } = await this.#options.state.run(readUses, { questions });
      for (const [index, { quota, amount }] of applied.entries()) {
        const use = uses[index];
        if (use === undefined) throw new Error("the use of a quota was not read");
        const { rest, owed, startsAt } = this.#meterOf(quota, call);
        const held = startsAt === use.startsAt ? rest : 0;
        if (quota.limit - use.used + held - owed < (amount || 1)) return quotaExceeded(quota, use, now);
      }
      return undefined;
    } catch (cause) {
      return quotaUnknown(cause);
    }
  }

  /** Returns the quotas in force. */
  get rules(): readonly QuotaRule[] {
    return this.#quotas.map(({ rule }) => rule);
  }

  /** Returns a page of the use in current windows: by quota, the largest first. */
  async list(page: {
    readonly filter: QuotaUseFilter;
    readonly after?: UsePosition | undefined;
    readonly limit: number;
  }): Promise<QuotaPage> {
    const { value: rows } = await this.#options.state.run(listUses, { ...page, limit: page.limit + 1 });
    const shown = rows.slice(0, page.limit);
    const last = rows.length > page.limit ? shown.at(-1) : undefined;
    return {
      uses: shown.map(({ id: _, ...row }) => {
        const quota = this.#quotas.find(({ name, unit }) => name === row.quota && unit === row.unit);
        const limit = quota?.rule[quota.unit];
        return { ...row, used: fromParts(row.unit, row.used), limit, window: quota?.window };
      }),
      next: last && { quota: last.quota, used: last.used, id: last.id },
    };
  }

  /**
   * Sets the use in current windows to zero. What other processes have taken before, they may still use, at most a hundredth of
   * the limit each. Returns how many rows were set.
   */
  async reset(filter: QuotaUseFilter & { readonly quota: string }): Promise<number> {
    let count = 0;
    let after = "";
    for (let batch = 0; batch < BATCHES_MAX; batch += 1) {
      const { value: ids } = await this.#options.state.run(resetUses, { filter, after });
      this.#leases.forget(filter.quota);
      count += ids.length;
      after = ids.at(-1) ?? after;
      if (ids.length < ROWS_MAX) break;
    }
    return count;
  }

  /** Returns what this process has counted, by the names of the quotas. */
  counts(): readonly QuotaCounts[] {
    return this.#quotas.map(({ name, unit }) => {
      const { parts = 0, refused = 0 } = this.#counters.get(name) ?? {};
      return { quota: name, charged: fromParts(unit, parts), refused };
    });
  }

  /** Number of transactions that failed or got no answer. */
  get failures(): number {
    return this.#leases.failures;
  }

  /** Gives back what is unused, writes what is owed. Called every few seconds; never rejects. */
  tidy(): Promise<void> {
    return this.#leases.tidy();
  }

  /** Deletes rows of windows that ended a day ago, unless another process has the database. */
  async sweep(): Promise<void> {
    const { state } = this.#options;
    if (state.isRemote) return;
    for (let batch = 0; batch < SWEEP_BATCHES_MAX; batch += 1) {
      if ((await state.run(sweepUses, {})).value < ROWS_MAX) return;
    }
  }

  close(): Promise<void> {
    return this.#leases.close();
  }

  #appliedTo({ tool, caller }: CountedCall): readonly Applied[] {
    let ofTool = this.#ofTool.get(tool);
    if (ofTool === undefined) {
      ofTool = this.#quotas.flatMap((quota) => {
        const amount = quota.amountOf(tool);
        return amount === undefined ? [] : [{ quota, amount }];
      });
      this.#ofTool.set(tool, ofTool);
    }
    return ofTool.every(({ quota }) => quota.appliesTo(caller))
      ? ofTool
      : ofTool.filter(({ quota }) => quota.appliesTo(caller));
  }

  #meterOf(quota: Quota, { caller, tool }: CountedCall): Meter {
    let key = "";
    for (const part of quota.rule.per) {
      if (part === "caller") key += this.#keyOf(caller);
      else key += part === "tool" ? `\n${tool.name}` : `\n\n${tool.target.system}`;
    }
    return this.#leases.meter(quota, key, () => userOf(quota, caller, tool));
  }

  #keyOf(caller: CallerContext): string {
    const known = this.#callerKeys.get(caller);
    if (known !== undefined) return known;
    const key = JSON.stringify([caller.issuer, caller.subject]);
    this.#callerKeys.set(caller, key);
    return key;
  }

  async #allOrNothing(holds: QuotaHold[], pending: readonly Promise<QuotaHold>[]): Promise<readonly QuotaHold[]> {
    const settled = await Promise.allSettled(pending);
    for (const one of settled) if (one.status === "fulfilled") holds.push(one.value);
    const failed = settled.find((one) => one.status === "rejected");
    if (failed === undefined) return holds;
    this.giveBack(holds);
    throw failed.reason;
  }

  #takeOne({ quota, amount }: Applied, call: CountedCall, latest: EpochMs): QuotaHold | Promise<QuotaHold> {
    try {
      const taken = this.#leases.take(this.#meterOf(quota, call), amount, latest);
      return taken instanceof Promise ? this.#countingRefusals(quota, taken) : taken;
    } catch (error) {
      return Promise.reject(error);
    }
  }

  async #countingRefusals({ name }: Quota, taken: Promise<QuotaHold>): Promise<QuotaHold> {
    try {
      return await taken;
    } catch (error) {
      const counter = this.#counters.get(name);
      if (counter !== undefined && error instanceof Refusal && error.code === "QUOTA_EXCEEDED") counter.refused += 1;
      throw error;
    }
  }

  #charge({ quota }: Meter, parts: number): void {
    const counter = this.#counters.get(quota.name);
    if (counter !== undefined) counter.parts += parts;
  }
}

const NONE: readonly QuotaHold[] = [];

/** What one call has taken of the quotas. It takes once, however often the pipeline asks. */
export class CallBudget {
  readonly #quotas: Quotas;
  #holds: readonly QuotaHold[] | undefined;
  #isStarted = false;
  #isEnded = false;

  constructor(quotas: Quotas) {
    this.#quotas = quotas;
  }

  /** Returns whether `reserve` would take something. */
  takes(call: CountedCall): boolean {
    return this.#holds === undefined && this.#quotas.applyTo(call);
  }

  /** @throws {Refusal} QUOTA_EXCEEDED, POLICY_STATE_UNAVAILABLE */
  reserve(call: CountedCall): void | Promise<void> {
    if (this.#holds !== undefined) return;
    const taken = this.#quotas.take(call);
    if (!(taken instanceof Promise)) {
      this.#holds = taken;
      return;
    }
    return taken.then((holds) => {
      if (this.#isEnded) this.#quotas.giveBack(holds);
      else this.#holds = holds;
    });
  }

  /**
   * Takes nothing.
   * @throws {Refusal} that of `reserve`
   */
  async judge(call: CountedCall): Promise<void> {
    const refusal = await this.#quotas.judge(call);
    if (refusal !== undefined) throw refusal;
  }

  /** The run begins: from now on the call is charged, whatever its outcome. */
  start(): void {
    this.#isStarted = true;
    this.#quotas.count(this.#holds ?? NONE);
  }

  /** Charges the bytes of the released answer. Never rejects. */
  charge(result: Json): Promise<unknown> | undefined {
    if (!this.#isStarted || this.#holds === undefined) return undefined;
    return this.#quotas.charge(this.#holds, () => Buffer.byteLength(JSON.stringify(result)));
  }

  /** Gives everything back if the run has not begun. */
  end(): void {
    const holds = this.#holds;
    this.#holds = undefined;
    this.#isEnded = true;
    if (!this.#isStarted && holds !== undefined) this.#quotas.giveBack(holds);
  }
}
