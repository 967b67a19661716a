import { StartupError } from "../core/errors.ts";
import type { ServedTenant } from "../http/server-options.ts";
import { Tenants } from "../http/tenants.ts";
import type { BuildModules } from "../modules.ts";
import { type TenantChoice, tenantChosenBy } from "../pipeline/identity/tenants.ts";
import { Capacity } from "../pipeline/limits/capacity.ts";
import type { Hooks } from "../runtime/composition/wiring.ts";
import type { Config } from "../runtime/config/config.ts";
import { asOfService, keepingTenants, problemOf, tenantConfigOf, tenantConfigs } from "../runtime/config/tenants.ts";
import type { ReloadCandidate, Reloaded, ReloadRequester } from "../runtime/reload/types.ts";
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

/** What `startService` does for the tenants of a service. Nothing of it is loaded in a service without tenants. */

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
  const problems = new Problems(config);
  const prepared: { readonly name: string | undefined; readonly composition: PreparedComposition }[] = [];
  const opened: Composition[] = [];
  const prepare = async (name: string | undefined, reading: Promise<PreparedComposition>): Promise<void> => {
    await problems.collect(name, async () => prepared.push({ name, composition: await reading }));
  };
  try {
    await prepare(undefined, prepareOwn({ capacity, readAgain: readAgain && ownReading(readAgain) }));
    for (const own of tenantConfigs(config)) {
      const { tenant: name = "" } = own;
      const hooks = { capacity, readAgain: readAgain && readingOf(name, readAgain) };
      await prepare(name, prepareComposition(own, { modules, hooks }));
    }
    problems.assertNone();
    while (prepared.length > 0) {
      const [next] = prepared.splice(0, 1);
      const [service] = opened;
      const { name = "", composition } = next ?? {};
      const hooks = service && {
        serviceHalts: service.service.halts.forTenant(name),
        serviceHub: service.service.hubListener,
      };
      await problems.collect(next?.name, async () => {
        if (composition !== undefined) opened.push(await composition.open(hooks));
      });
      // A tenant needs the service itself.
      if (opened.length === 0) break;
    }
    problems.assertNone();
  } catch (error) {
    await Promise.all(prepared.map(({ composition }) => composition.close()));
    await Promise.all(opened.map(({ service }) => service.close(0)));
    throw error;
  }
  const [composition, ...tenants] = opened;
  if (composition === undefined) throw new Error("the service itself was opened first");
  return { composition, tenants: new RunningTenants(tenants, { own: composition, modules }) };
}

type ReadAgain = NonNullable<Hooks["readAgain"]>;

/** Returns what reads the service's own configuration again, whatever the problems of its tenants. */
function ownReading(readAgain: ReadAgain): ReadAgain {
  return (candidate) => keepingTenants(async () => readAgain(candidate));
}

/** Returns what reads the configuration of one tenant again, whatever the problems of the others. */
function readingOf(name: string, readAgain: ReadAgain): ReadAgain {
  return async () => tenantConfigOf(await keepingTenants(async () => readAgain()), name);
}

/** The problems of a service and of its tenants: each once, with the name of the tenant. */
class Problems {
  readonly #config: Config;
  readonly #own = new Set<string>();
  readonly #tenants: string[] = [];

  constructor(config: Config) {
    this.#config = config;
  }

  /** Runs one step, and keeps its problems. Rejects with any other error. */
  async collect(tenant: string | undefined, step: () => Promise<unknown>): Promise<void> {
    try {
      await step();
    } catch (error) {
      if (!(error instanceof StartupError)) throw error;
      if (tenant === undefined) for (const problem of error.problems) this.#own.add(problem);
      else {
        const config = tenantConfigOf(this.#config, tenant);
        const found = error.problems.map((each) => problemOf(config, each));
        this.#tenants.push(...found.filter((each) => !this.#own.has(asOfService(config, each))));
      }
    }
  }

  /** @throws {StartupError} */
  assertNone(): void {
    const all = [...this.#own, ...this.#tenants];
    if (all.length > 0) throw new StartupError(all);
  }
}

/** The tenants of a running service. */
export class RunningTenants {
  readonly #tenants: readonly (Composition & { readonly name: string })[];
  readonly #own: Composition;
  readonly #modules: BuildModules;

  constructor(
    tenants: readonly Composition[],
    { own, modules }: { readonly own: Composition; readonly modules: BuildModules },
  ) {
    this.#tenants = tenants.map((each) => ({ ...each, name: each.config.tenant ?? "" }));
    this.#own = own;
    this.#modules = modules;
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
    return new Tenants(served, { own: this.#own.service.callers, choice: this.#choice() });
  }

  async #serve(tenant: Composition & { readonly name: string }, stage: () => ServiceStage): Promise<ServedTenant> {
    const { service, log, name } = tenant;
    logStart(tenant);
    log.info({ tools: service.registry.list().map(({ tool }) => tool.name) }, "tools are registered");
    const { reload, learning } = service;
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

  /** Returns the choice by the issuers of the service's configuration in use. */
  #choice(): TenantChoice {
    let config = this.#own.inUse();
    let chosen = tenantChosenBy(config);
    return (presented) => {
      const inUse = this.#own.inUse();
      if (inUse !== config) chosen = tenantChosenBy(inUse);
      config = inUse;
      return chosen(presented);
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
    const problems: string[] = [];
    for (const { name, config, service } of this.#tenants) {
      const reloaded = await service.reload?.(by);
      if (reloaded === undefined) continue;
      tenants[name] = reloaded.outcome;
      if (reloaded.outcome === "refused") {
        problems.push(...reloaded.problems.map((each) => problemOf(config, each)));
      }
    }
    const each = { service: own.outcome, tenants };
    // A candidate is adopted when the service itself has adopted it.
    if (own.outcome !== "refused" && (problems.length === 0 || candidate !== undefined)) return { ...own, each };
    return { outcome: "refused", problems: [...(own.outcome === "refused" ? own.problems : []), ...problems], each };
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
    const failed = closed.find(({ status }) => status === "rejected");
    if (failed?.status === "rejected") throw failed.reason;
  }
}
