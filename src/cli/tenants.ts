import { tenantLogLine } from "../audit/verify/worker-logs.ts";
import { Capacity } from "../core/capacity.ts";
import { present } from "../core/present.ts";
import type { ServedTenant } from "../http/server-options.ts";
import { Tenants } from "../http/tenants.ts";
import type { BuildModules } from "../modules.ts";
import { type TenantChoice, tenantChosenBy } from "../pipeline/identity/tenants.ts";
import type { Hooks } from "../runtime/composition/wiring.ts";
import type { Config } from "../runtime/config/config.ts";
import {
  keepingTenants,
  keepingTenantsFor,
  OTHERS_HAVE_PROBLEMS,
  tenantConfigOf,
  tenantConfigs,
} from "../runtime/config/tenants.ts";
import { shownText } from "../runtime/inventory/shown.ts";
import type { BusyReason, ReloadCandidate, Reloaded, ReloadRequester } from "../runtime/reload/types.ts";
import {
  type Composition,
  lentParts,
  logStart,
  openEndpoints,
  type PreparedComposition,
  prepareComposition,
  type ServiceStage,
  stateOf,
} from "./composition.ts";
import { Problems } from "./tenant-problems.ts";

/** The part of `startService` for a service with tenants. A service without tenants does not load this file. */

interface TenantParts {
  readonly modules: BuildModules;
  readonly readAgain: Hooks["readAgain"];
  /** Reads the service itself. */
  readonly prepareOwn: (hooks: Hooks) => Promise<PreparedComposition>;
}

/**
 * Opens the service itself and all of its tenants, or none of them.
 *
 * @throws {StartupError} with the problems of all of them
 */
export async function openWithTenants(config: Config, { modules, readAgain, prepareOwn }: TenantParts) {
  const capacity = new Capacity(config.limits.concurrentCallsMax);
  const choice = choiceIn(() => opened[0]?.inUse() ?? config);
  const problems = new Problems();
  const prepared: { readonly config: Config; readonly composition: PreparedComposition }[] = [];
  const opened: Composition[] = [];
  const prepare = (each: Config, reading: Promise<PreparedComposition>): Promise<void> =>
    problems.collect(each, async () => prepared.push({ config: each, composition: await reading }));
  try {
    await prepare(config, prepareOwn({ capacity, readAgain: readAgain && ownReading(readAgain) }));
    for (const own of tenantConfigs(config)) {
      const hooks = { capacity, choice, readAgain: readAgain && readingOf(nameOf(own), readAgain) };
      await prepare(own, prepareComposition(own, { modules, hooks }));
    }
    problems.assertNone();
    for (let next = prepared.shift(); next !== undefined; next = prepared.shift()) {
      const { config: each, composition } = next;
      const [service] = opened;
      const hooks = service && sharedWith(nameOf(each), service);
      await problems.collect(each, async () => opened.push(await composition.open(hooks)));
      // A tenant needs the service itself.
      if (opened.length === 0) break;
    }
    problems.assertNone();
  } catch (error) {
    await Promise.all(prepared.map(({ composition }) => composition.close()));
    await Promise.all(opened.map(({ service }) => service.close(0)));
    throw error;
  }
  const [composition, ...others] = opened;
  if (composition === undefined) throw new Error("the service itself was opened first");
  const tenants = new RunningTenants(others, { own: composition, modules, choice });
  try {
    await tenants.recordLogs();
  } catch (error) {
    await tenants.close(0);
    await composition.service.close(0);
    throw error;
  }
  return { composition, tenants };
}

/** Returns the parts of the open service that one of its tenants uses in addition to its own. */
function sharedWith(name: string, { service: { halts, hubListener } }: Composition): Hooks {
  return {
    serviceHalts: halts.forTenant(name),
    serviceHub: hubListener && ((share) => hubListener.serve(name, share)),
  };
}

/** Returns the choice by the issuers of the service's configuration in use: another one after each reload. */
function choiceIn(inUse: () => Config): () => TenantChoice {
  let config: Config | undefined;
  let chosen: TenantChoice | undefined;
  return () => {
    const now = inUse();
    if (chosen === undefined || now !== config) chosen = tenantChosenBy(now);
    config = now;
    return chosen;
  };
}

type ReadAgain = NonNullable<Hooks["readAgain"]>;

/** Returns a function that reads the service's own configuration again, also while its tenants have problems. */
function ownReading(readAgain: ReadAgain): ReadAgain {
  return (candidate) => keepingTenants(async () => readAgain(candidate));
}

/** Returns a function that reads one tenant's configuration again, also while other tenants have problems. */
function readingOf(name: string, readAgain: ReadAgain): ReadAgain {
  return async () => tenantConfigOf(await keepingTenantsFor(name, async () => readAgain()), name);
}

/** Returns a reload whose problems name no paths, which can contain the names of other tenants. */
function withoutPaths(reload: NonNullable<Composition["service"]["reload"]>): typeof reload {
  return async (...asked) => {
    const reloaded = await reload(...asked);
    return reloaded.outcome === "refused" ? { ...reloaded, problems: reloaded.problems.map(shownText) } : reloaded;
  };
}

/** Returns the name of the tenant whose configuration this is. */
function nameOf({ tenant }: Config): string {
  return present(tenant, "the name of a tenant");
}

interface RunningParts {
  readonly own: Composition;
  readonly modules: BuildModules;
  /** Returns the choice by the issuers that the service uses now. */
  readonly choice: () => TenantChoice;
}

/** Why a tenant keeps its configuration in a reload of the service. */
const NOT_READ = {
  rate: "was not read: reload again",
  lingering:
    "was not read, because its calls still use several earlier configurations: reload again when they have ended",
  closing: "was not read: the service is shutting down",
} as const satisfies Record<BusyReason, string>;

/** The tenants of a running service. */
export class RunningTenants {
  readonly #tenants: readonly (Composition & { readonly name: string })[];
  readonly #own: Composition;
  readonly #modules: BuildModules;
  /** Number of origins of each tenant's log that the service's journal names. */
  readonly #recorded = new Map<string, number>();
  readonly #choice: () => TenantChoice;

  constructor(tenants: readonly Composition[], { own, modules, choice }: RunningParts) {
    this.#tenants = tenants.map((each) => ({ ...each, name: nameOf(each.config) }));
    this.#own = own;
    this.#modules = modules;
    this.#choice = choice;
  }

  /** Names the tenants' logs in the service's journal: none of their chains says that another log exists. */
  async recordLogs(): Promise<void> {
    for (const { name, service } of this.#tenants) {
      const origins = service.auditOrigins();
      if (origins.length <= (this.#recorded.get(name) ?? 0)) continue;
      await this.#own.service.journal(tenantLogLine(name, origins));
      this.#recorded.set(name, origins.length);
    }
  }

  /** Returns what operators of the service see of its tenants. */
  shown() {
    return this.#tenants.map(({ name, service }) => ({ name, ...service.summary() }));
  }

  metrics() {
    return this.#tenants.map(({ metrics }) => metrics);
  }

  /** Returns the tools whose target is not configured, with the reason. */
  notRegistered(): readonly string[] {
    return this.#tenants.flatMap(({ name, service }) =>
      service.notRegistered.map((each) => `tenants.${name}: ${each}`),
    );
  }

  /** Opens the endpoints of all tenants, for the service's listeners. */
  async serve(stage: () => ServiceStage): Promise<Tenants> {
    const served = await Promise.all(this.#tenants.map((each) => this.#serve(each, stage)));
    return new Tenants(served, {
      own: this.#own.service.callers,
      choice: { of: (presented) => this.#choice().of(presented) },
    });
  }

  async #serve(tenant: Composition & { readonly name: string }, stage: () => ServiceStage): Promise<ServedTenant> {
    const { service, log, name } = tenant;
    logStart(tenant);
    log.info({ tools: service.registry.list().map(({ tool }) => tool.name) }, "tools are registered");
    const { learning } = service;
    const reload = service.reload && withoutPaths(service.reload);
    const endpoints = await openEndpoints(tenant, {
      modules: this.#modules,
      known: { reload, learning, tenants: undefined, notReady: () => stateOf(tenant, stage()), listening: () => [] },
      sources: { isReady: () => stateOf(tenant, stage()).length === 0, backlog: () => service.approvals?.backlog() },
    });
    return {
      name,
      endpoints,
      ...lentParts(tenant),
      isIntegration: (asked) => service.approvals?.webhooks?.integrations.has(asked) === true,
    };
  }

  /**
   * Reloads the service itself, and then each tenant: one that is refused keeps its configuration, and keeps no other from its new
   * one.
   */
  async reload(by: ReloadRequester, candidate?: ReloadCandidate): Promise<Reloaded> {
    const { reload } = this.#own.service;
    if (reload === undefined) throw new Error("reload.trigger is off");
    const own = await reload(by, candidate);
    // Nothing was read; or the candidate was refused, and the tenants have what is in use.
    if (own.outcome === "busy" || (own.outcome === "refused" && candidate !== undefined)) return own;
    const tenants: Record<string, Reloaded["outcome"]> = {};
    const problems = new Problems();
    if (own.outcome === "refused") problems.add(this.#own.config, own.problems);
    for (const { name, config, service } of this.#tenants) {
      const reloaded = await service.reload?.(by, undefined, { isPart: true });
      if (reloaded === undefined) continue;
      tenants[name] = reloaded.outcome;
      if (reloaded.outcome === "busy") problems.add(config, [NOT_READ[reloaded.reason]]);
      if (reloaded.outcome !== "refused") continue;
      // The answer has the problems of the others already.
      const isOwn = (problem: string): boolean => own.outcome !== "refused" || problem !== OTHERS_HAVE_PROBLEMS;
      problems.add(config, reloaded.problems.filter(isOwn));
    }
    const each = { service: own.outcome, tenants };
    const all = problems.all();
    // A candidate is adopted when the service itself has adopted it.
    if (own.outcome !== "refused" && (all.length === 0 || candidate !== undefined)) return { ...own, each };
    return { outcome: "refused", problems: all, each };
  }

  announceEnd(): void {
    for (const { service } of this.#tenants) service.announceEnd();
  }

  drain(): void {
    for (const { service } of this.#tenants) service.drain();
  }

  /** Closes all tenants. One that fails keeps no other from closing. */
  async close(graceMs: number): Promise<void> {
    const closed = await Promise.allSettled(this.#tenants.map(({ service }) => service.close(graceMs)));
    // The origin of a tenant's first calls. Without it, the log is known by its journal.
    await this.recordLogs().catch(() => {});
    const failed = closed.find(({ status }) => status === "rejected");
    if (failed?.status === "rejected") throw failed.reason;
  }
}
