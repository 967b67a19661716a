import { type Admission, type AdmissionOptions, createAdmission } from "../../pipeline/admission.ts";
import { Rates } from "../../pipeline/limits/rates.ts";
import { openRateTable } from "../../pipeline/limits/rates-postgres.ts";
import { SharedRates } from "../../pipeline/limits/rates-shared.ts";
import type { Config } from "../config/config.ts";
import type { LoadedTools } from "../manifests/sources.ts";
import { postgresUrl } from "./approvals.ts";

/** What the limits of calls are taken from. */
export interface LimitParts {
  /** Milliseconds since 1970. */
  readonly clock: () => number;
  /** Milliseconds from any origin, never going back. */
  readonly monotonic: () => number;
  readonly audit: Pick<AdmissionOptions, "auditReady" | "auditFault">;
  readonly log?: ((message: string, cause: unknown) => void) | undefined;
}

export interface Limits {
  readonly admission: Admission;
  /** Those of the moment, each read when it is asked for. */
  readonly inForce: Config["limits"];
  /** Holds calls to those of this reading from now on; what was counted stays counted. Never fails. */
  change(config: Config, tools: LoadedTools["tools"]): void;
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
export function openLimits(config: Config, { clock, monotonic, audit, log }: LimitParts): Limits {
  let { limits } = config;
  const { storeUrlFile } = config.approvals;
  const url = storeUrlFile === undefined ? undefined : postgresUrl(config, storeUrlFile);
  const rates = new Rates({ rules: limits.rates, now: monotonic, shared: limits.shared });
  const admission = createAdmission({
    ...{ ...audit, rates },
    get concurrentCallsMax() {
      return limits.concurrentCallsMax;
    },
    get concurrentCallsPerCallerMax() {
      return limits.concurrentCallsPerCallerMax;
    },
    cancellations: {
      clock,
      get perMinuteMax() {
        return limits.cancellationsPerMinuteMax;
      },
    },
  });
  const share = (): SharedRates | undefined => {
    if (!limits.shared || url === undefined) return undefined;
    const table = openRateTable(url);
    return new SharedRates({ rates, table, now: monotonic, log: (message, cause) => log?.(message, cause) });
  };
  let shared = share();
  return {
    admission,
    // Another object than the frozen one, which would have to keep its values.
    inForce: new Proxy({ ...limits }, { get: (_first, name) => Reflect.get(limits, name) }),
    change(next, tools) {
      const wasShared = limits.shared;
      limits = next.limits;
      rates.change({ rules: limits.rates, shared: limits.shared, tools: new Set(tools.map(({ name }) => name)) });
      if (limits.shared === wasShared) return;
      // Whoever ended it hears nothing of it any more.
      shared?.close().catch(() => {});
      shared = share();
    },
    close: async () => shared?.close(),
  };
}
