import { Refusal } from "../../core/errors.ts";
import type { CallerContext } from "../../core/types.ts";
import { type Rate, RateLimiter } from "./rate-limiter.ts";

type RateOrOff = Rate | "off";

interface ToolRates {
  readonly callerAndTool?: RateOrOff | undefined;
  readonly tool?: RateOrOff | undefined;
}

export interface RateRules extends ToolRates {
  readonly caller: RateOrOff;
  readonly service: RateOrOff;
  /** Limits by tool name; they replace the limits for all tools. */
  readonly tools: Readonly<Record<string, ToolRates>>;
}

export interface RatesInForce {
  readonly rules: RateRules;
  /** True when charges are shared with other replicas. */
  readonly shared?: boolean | undefined;
}

export interface RatesOptions extends RatesInForce {
  /** Milliseconds from an arbitrary origin, never decreasing. */
  readonly now: () => number;
}

export interface RatesChange extends RatesInForce {
  /** Names of the current tools: the counts of all others are dropped. */
  readonly tools: ReadonlySet<string>;
}

interface ToolLimiters {
  readonly callerAndTool: RateLimiter | undefined;
  readonly tool: RateLimiter | undefined;
}

const EVERYBODY = "*";

/** Enforces how often callers may call. A call that one of several limits refuses is charged to none of them. */
export class Rates {
  readonly #now: () => number;
  #inForce: RatesInForce;
  #caller: RateLimiter | undefined;
  #service: RateLimiter | undefined;
  readonly #tools = new Map<string, ToolLimiters>();
  readonly #limiters = new Map<string, RateLimiter>();
  /** The same token always yields the same object. */
  readonly #keys = new WeakMap<CallerContext, string>();

  constructor({ now, ...inForce }: RatesOptions) {
    this.#now = now;
    this.#inForce = inForce;
    this.#setServiceLimiters();
  }

  /** Changes the limits. Counts are kept for every limit that existed before and still exists. */
  change({ tools, ...inForce }: RatesChange): void {
    this.#inForce = inForce;
    this.#setServiceLimiters();
    for (const name of this.#tools.keys()) {
      if (tools.has(name)) this.#setToolLimiters(name);
      else this.#removeTool(name);
    }
  }

  /**
   * Charges a call to the caller's and the service's limit, before any work is done for the caller.
   *
   * @throws {Refusal} RATE_LIMITED
   */
  takeCall(caller: CallerContext, now: number = this.#now()): void {
    const own = this.#caller;
    const shared = this.#service;
    if (own === undefined && shared === undefined) return;
    const key = this.#keyOf(caller);
    assertCapacity(own, key, { now, refuse: tooManyOfCaller });
    assertCapacity(shared, EVERYBODY, { now, refuse: tooManyOfService });
    own?.charge(key, now);
    shared?.charge(EVERYBODY, now);
  }

  /**
   * Charges a call to the tool's limits. Only for callers that may know that the tool exists.
   *
   * @throws {Refusal} RATE_LIMITED
   */
  takeTool(caller: CallerContext, tool: string, now: number = this.#now()): void {
    const { callerAndTool: own, tool: shared } = this.#tools.get(tool) ?? this.#setToolLimiters(tool);
    if (own === undefined && shared === undefined) return;
    const key = this.#keyOf(caller);
    assertCapacity(own, key, { now, refuse: tooManyOfCallerAndTool });
    assertCapacity(shared, EVERYBODY, { now, refuse: tooManyOfTool });
    own?.charge(key, now);
    shared?.charge(EVERYBODY, now);
  }

  /** All limits in force, by a name that is the same in all replicas. */
  get limiters(): ReadonlyMap<string, RateLimiter> {
    return this.#limiters;
  }

  #keyOf(caller: CallerContext): string {
    const known = this.#keys.get(caller);
    if (known !== undefined) return known;
    const key = JSON.stringify([caller.issuer, caller.subject]);
    this.#keys.set(caller, key);
    return key;
  }

  #setServiceLimiters(): void {
    const { caller, service } = this.#inForce.rules;
    this.#caller = this.#setLimiter("caller", caller);
    this.#service = this.#setLimiter("service", service);
  }

  /** All tools come from the registry, so their number is bounded. */
  #setToolLimiters(tool: string): ToolLimiters {
    const { rules } = this.#inForce;
    const own = Object.hasOwn(rules.tools, tool) ? rules.tools[tool] : undefined;
    const [callerAndTool, all] = limiterNames(tool);
    const limiters = {
      callerAndTool: this.#setLimiter(callerAndTool, own?.callerAndTool ?? rules.callerAndTool),
      tool: this.#setLimiter(all, own?.tool ?? rules.tool),
    };
    this.#tools.set(tool, limiters);
    return limiters;
  }

  #removeTool(tool: string): void {
    this.#tools.delete(tool);
    for (const name of limiterNames(tool)) this.#limiters.delete(name);
  }

  #setLimiter(name: string, rate: RateOrOff | undefined): RateLimiter | undefined {
    if (rate === undefined || rate === "off") {
      this.#limiters.delete(name);
      return undefined;
    }
    const isShared = this.#inForce.shared === true;
    const limiter = this.#limiters.get(name) ?? new RateLimiter(rate, { isShared });
    limiter.change(rate, { isShared, now: this.#now() });
    this.#limiters.set(name, limiter);
    return limiter;
  }
}

/** Returns the names of one tool's limits, which are the same in all replicas. */
function limiterNames(tool: string): readonly [string, string] {
  return [`callerAndTool ${tool}`, `tool ${tool}`];
}

interface Check {
  readonly now: number;
  readonly refuse: (limiter: RateLimiter, retryAfterMs: number) => Refusal;
}

/** @throws {Refusal} RATE_LIMITED */
function assertCapacity(limiter: RateLimiter | undefined, key: string, { now, refuse }: Check): void {
  if (limiter === undefined) return;
  const retryAfterMs = limiter.waitMs(key, now);
  if (retryAfterMs > 0) throw refuse(limiter, retryAfterMs);
}

/** Reports the caller's own limits in full. For shared limits, only the fact that they are reached is reported. */
function tooManyOfCaller({ rate: { calls, seconds } }: RateLimiter, retryAfterMs: number): Refusal {
  return new Refusal("RATE_LIMITED", `You have called too often: the limit is ${calls} calls in ${seconds} s.`, {
    details: { limit: "caller", calls, seconds },
    retryAfterMs,
  });
}

function tooManyOfCallerAndTool({ rate: { calls, seconds } }: RateLimiter, retryAfterMs: number): Refusal {
  return new Refusal(
    "RATE_LIMITED",
    `You have called this tool too often: the limit is ${calls} calls in ${seconds} s.`,
    {
      details: { limit: "callerAndTool", calls, seconds },
      retryAfterMs,
    },
  );
}

function tooManyOfTool(_limiter: RateLimiter, retryAfterMs: number): Refusal {
  return new Refusal("RATE_LIMITED", "This tool accepts no more calls at the moment.", {
    details: { limit: "tool" },
    retryAfterMs,
  });
}

function tooManyOfService(_limiter: RateLimiter, retryAfterMs: number): Refusal {
  return new Refusal("RATE_LIMITED", "The service accepts no more calls at the moment.", {
    details: { limit: "service" },
    retryAfterMs,
  });
}
