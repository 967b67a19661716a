import { shareOf } from "../../core/capacity.ts";
import { postgresStore } from "../../database/postgres-store.ts";
import { type AdmissionOptions, createAdmission } from "../../pipeline/admission.ts";
import { Rates } from "../../pipeline/limits/rates.ts";
import { openRateTable } from "../../pipeline/limits/rates-postgres.ts";
import { type RateTable, SharedRates } from "../../pipeline/limits/rates-shared.ts";
import type { Config } from "../config/config.ts";
import { tenantConfigs } from "../config/tenants.ts";
import { indivisible, workerLimits } from "../config/workers.ts";
import type { LoadedTools } from "../manifests/sources.ts";
import { storeUrl } from "./approvals.ts";
import type { Capabilities, Hooks } from "./hooks.ts";

interface LimitParts
  extends Pick<Capabilities, "clock" | "monotonic">,
    Pick<Hooks, "logError" | "rateTable" | "capacity"> {
  readonly audit: Pick<AdmissionOptions, "auditReady" | "auditProblem">;
}

type Loaded = Pick<LoadedTools, "tools" | "notRegistered">;

/**
 * Reports limits that have no effect, such as a limit for a misspelt tool name. Names are not checked while a tool is not
 * registered because its target is missing: the name may be that tool's.
 */
export function limitProblems(config: Config, { tools, notRegistered }: Loaded): readonly string[] {
  const { limits, approvals, server } = config;
  const names = new Set(tools.map(({ name }) => name));
  const unknown = Object.keys(limits.rates.tools).filter((name) => !names.has(name) && notRegistered.length === 0);
  const alone = limits.shared && approvals.storeUrlFile === undefined;
  const { workers } = server;
  const undivided = tools.flatMap(({ name, limits: { concurrentCallsMax: max } }) =>
    max < workers ? [`${name}: limits.concurrentCallsMax: ${indivisible(max, workers)}`] : [],
  );
  return [
    ...undivided,
    ...shareProblems(config),
    ...unknown.map((name) => `limits.rates.tools.${name}: no tool of this name is registered`),
    ...(alone ? ["limits.shared: replicas count together in PostgreSQL: set approvals.storeUrlFile"] : []),
  ];
}

/** The service itself has a share of its own, next to those of its tenants. */
function shareProblems(config: Config): readonly string[] {
  const services = tenantConfigs(config).length + 1;
  if (services === 1 || shareOf(config.limits.concurrentCallsMax, services) > 0) return [];
  const who = `the service itself and its tenants, ${services} in all`;
  return [`limits.concurrentCallsMax: half of it is divided among ${who}: write at least ${services * 2}`];
}

/** Returns undefined when the store is not PostgreSQL: other stores cannot count calls. */
function postgresUrlOf(config: Config): string | undefined {
  const { storeUrlFile } = config.approvals;
  try {
    return storeUrlFile === undefined ? undefined : storeUrl(config, storeUrlFile, [postgresStore]);
  } catch {
    return undefined;
  }
}

/** Returns the limits that this process applies. */
function ownLimits({ limits, server, worker }: Config): Config["limits"] {
  return worker === undefined ? limits : workerLimits(limits, server.workers);
}

export function openLimits(config: Config, { clock, monotonic, audit, logError, ...hooks }: LimitParts) {
  const { rateTable, capacity } = hooks;
  let limits = ownLimits(config);
  const url = postgresUrlOf(config);
  const isShared = (): boolean => limits.shared || rateTable !== undefined;
  const rates = new Rates({ rules: limits.rates, now: monotonic, shared: isShared() });
  const admission = createAdmission({
    ...audit,
    rates,
    capacity: capacity?.join(),
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
  const counted = (table: RateTable): SharedRates =>
    new SharedRates({ rates, table, now: monotonic, log: (message, cause) => logError?.(message, cause) });
  const share = (): SharedRates | undefined => {
    if (!isShared()) return undefined;
    // Workers of one machine count together without a database; with one, they are replicas like all others.
    if (!limits.shared && rateTable !== undefined) return counted(rateTable);
    if (url === undefined) {
      logError?.("limits.shared has no effect: approvals.storeUrlFile names no PostgreSQL", undefined);
      return undefined;
    }
    return counted(openRateTable(url, config.tenant));
  };
  let shared = share();
  return {
    admission,
    /**
     * The limits of the configuration in use, also after a reload. The target is a copy: a proxy of the frozen object would have to
     * return its original values.
     */
    inUse: new Proxy({ ...limits }, { get: (_first, name) => Reflect.get(limits, name) }),
    /** Applies the limits of a new configuration; counts are kept. Never fails. */
    change(next: Config, tools: LoadedTools["tools"]): void {
      const wasShared = limits.shared;
      limits = ownLimits(next);
      if (next.tenant === undefined) capacity?.change(limits.concurrentCallsMax);
      rates.change({ rules: limits.rates, shared: isShared(), tools: new Set(tools.map(({ name }) => name)) });
      if (limits.shared === wasShared) return;
      // Errors are ignored: sharing was turned off.
      shared?.close().catch(() => {});
      shared = share();
    },
    close: async (): Promise<void> => shared?.close(),
  };
}
