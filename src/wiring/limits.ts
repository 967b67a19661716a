import type { Config } from "../config.ts";
import type { LoadedTools } from "../manifests/loader.ts";
import { type Admission, createAdmission } from "../proxy/admission.ts";
import { Rates } from "../proxy/limits/rates.ts";
import { openRateTable } from "../proxy/limits/rates-postgres.ts";
import { SharedRates } from "../proxy/limits/rates-shared.ts";
import { postgresUrl } from "./approvals.ts";

/** What the limits of calls are taken from. */
export interface LimitParts {
  /** Milliseconds since 1970. */
  readonly clock: () => number;
  /** Milliseconds from any origin, never going back. */
  readonly monotonic: () => number;
  readonly auditReady: () => boolean;
  readonly log?: ((message: string, cause: unknown) => void) | undefined;
}

export interface Limits {
  readonly admission: Admission;
  close(): Promise<void>;
}

type Loaded = Pick<LoadedTools, "tools" | "notRegistered">;

/**
 * A misspelt name would hold nobody to anything. Where tools were left out for want of something to reach, a name may be one of
 * theirs: the same configuration serves machines that have it.
 */
export function limitProblems({ limits, approvals }: Config, { tools, notRegistered }: Loaded): readonly string[] {
  const names = new Set(tools.map(({ name }) => name));
  const unknown = Object.keys(limits.rates.tools).filter((name) => !names.has(name) && notRegistered.length === 0);
  const alone = limits.shared && approvals.storeUrlFile === undefined;
  return [
    ...unknown.map((name) => `limits.rates.tools.${name}: no tool of this name is registered`),
    ...(alone ? ["limits.shared: replicas count together in PostgreSQL: set approvals.storeUrlFile"] : []),
  ];
}

/** How many calls there may be, and how often. */
export function openLimits(config: Config, { clock, monotonic, auditReady, log }: LimitParts): Limits {
  const { limits, approvals } = config;
  const rates = new Rates({ rules: limits.rates, now: monotonic, shared: limits.shared });
  const admission = createAdmission({
    concurrentCallsMax: limits.concurrentCallsMax,
    concurrentCallsPerCallerMax: limits.concurrentCallsPerCallerMax,
    auditReady,
    cancellations: { perMinuteMax: limits.cancellationsPerMinuteMax, clock },
    rates,
  });
  if (!limits.shared || approvals.storeUrlFile === undefined) return { admission, close: async () => {} };
  const table = openRateTable(postgresUrl(config, approvals.storeUrlFile));
  const shared = new SharedRates({ rates, table, now: monotonic, log: (message, cause) => log?.(message, cause) });
  return { admission, close: () => shared.close() };
}
