import { errorText } from "../../core/error-text.ts";
import { resultWithin } from "../../core/time-limits.ts";
import type { EpochMs } from "../../core/types.ts";
import type { StoreFacts } from "../../database/dialect.ts";
import type { Config } from "../config/config.ts";
import type { Modules } from "../module-types.ts";
import { configuredStore } from "./approvals.ts";
import { readExports } from "./audit.ts";
import type { Capabilities } from "./hooks.ts";
import { readIssuers, sourceOf } from "./identity.ts";

/** A connection to a system that the configuration names. */
export interface SystemProbe {
  readonly field: string;
  /** Name of the system in messages. */
  readonly name: string;
  /**
   * Connects and changes nothing. Returns the time by the system's clock, if it tells. Rejects with an error that says what is
   * wrong.
   */
  check(): Promise<EpochMs | undefined>;
}

export interface Connection {
  readonly field: string;
  /** Undefined: the service could use the system. */
  readonly problem: string | undefined;
  /** Name under which the system knows the service, if it tells. */
  readonly knownAs?: string | undefined;
  /** Words for a connection without a problem. Default: `connected`. */
  readonly finding?: string;
}

const CONNECT_MS_MAX = 10_000;
/** The service's own limit for fetching keys. */
const KEYS_MS_MAX = 5_000;

/**
 * Connects once, at the same time, to the database or the hub, the issuers' keys, what reviews tokens, and the audit's receivers. A hub
 * tries its own port.
 */
export function connect(
  config: Config,
  modules: Modules,
  clock: Capabilities["clock"],
): Promise<readonly Connection[]> {
  const exports = exportProbes(config, modules, clock);
  const probes = [...[databaseProbes, keyProbes, reviewProbes].flatMap((of) => of(config, modules)), ...exports];
  return Promise.all([
    ...probes.map(async ({ field, check }) => {
      const tooLate = () => new Error(`gave no answer within ${CONNECT_MS_MAX / 1_000} s`);
      const problem = await resultWithin(check(), CONNECT_MS_MAX, tooLate).then(() => undefined, errorText);
      return { field, problem };
    }),
    ...(config.hub?.url === undefined ? [] : [connectToHub(config, modules, clock)]),
    ...(config.hub?.listen === undefined ? [] : [listenForMembers(config)]),
  ]);
}

async function listenForMembers(config: Config): Promise<Connection> {
  const { listenProblem } = await import("./hub-probe.ts");
  return { field: "hub.listen", problem: await listenProblem(config), finding: "free, or this service's own" };
}

async function connectToHub(config: Config, modules: Modules, clock: Capabilities["clock"]): Promise<Connection> {
  const { askHub } = await import("./hub-probe.ts");
  return askHub(config, modules, clock).then(
    (knownAs) => ({ field: "hub.url", problem: undefined, knownAs }),
    (error: unknown) => ({ field: "hub.url", problem: errorText(error) }),
  );
}

// Whoever assembles the configuration reports what cannot be read.

/** A file of this machine is no connection. */
function databaseProbes(config: Config, modules: Modules): readonly SystemProbe[] {
  const store = storeOf(config, modules);
  if (store === undefined || store.kind.setting === "store") return [];
  const { kind, url } = store;
  const check = () => kind.inspect(url, { now: () => 0, tenant: config.tenant }).then(() => undefined);
  return [{ field: `approvals.${kind.setting}`, name: kind.name, check }];
}

function storeOf(config: Config, { approvalStores }: Modules) {
  try {
    return configuredStore(config, approvalStores);
  } catch {
    return undefined;
  }
}

/**
 * Inspects the database of the approvals; undefined when the configuration names none.
 *
 * @throws {Error} that says why it cannot be used
 */
export async function inspectStore(
  config: Config,
  modules: Modules,
  now: () => EpochMs,
): Promise<StoreFacts | undefined> {
  const { kind, url } = configuredStore(config, modules.approvalStores) ?? {};
  return kind === undefined || url === undefined ? undefined : kind.inspect(url, { now, tenant: config.tenant });
}

export function keyProbes(config: Config, modules: Modules): readonly SystemProbe[] {
  return (readIssuers(config, modules, []) ?? []).flatMap(({ keys, algorithms }, index) => {
    const issuer = config.jwt.issuers[index];
    if (keys.probe === undefined || issuer === undefined) return [];
    const field = `jwt.issuers[${index}].${sourceOf(issuer, modules.tokenSources)?.key}`;
    return [{ field, name: issuer.issuer, check: async () => keys.probe?.({ algorithms, timeoutMs: KEYS_MS_MAX }) }];
  });
}

/** Asks the API servers that review tokens whether they would. */
export function reviewProbes(config: Config, modules: Modules): readonly SystemProbe[] {
  return (readIssuers(config, modules, []) ?? []).flatMap(({ issuer: name, probeReview }, index) => {
    if (probeReview === undefined) return [];
    const check = () => probeReview().then(() => undefined);
    return [{ field: `jwt.issuers[${index}].tokenReview`, name, check }];
  });
}

export function exportProbes(
  config: Config,
  { auditExporters: exporters }: Modules,
  clock: Capabilities["clock"],
): readonly SystemProbe[] {
  return readExports(config, { exporters, problems: [], clock }).map(({ name, receiver }) => ({
    field: `audit.export[${config.audit.export.findIndex((entry) => entry.name === name)}]`,
    name,
    check: async () => {
      const signal = AbortSignal.timeout(CONNECT_MS_MAX);
      const outcome = await ("probe" in receiver ? receiver.probe(signal) : receiver.deliver([], signal));
      await receiver.close?.();
      // A refusal of an empty list comes from a receiver that was reached and knows the credentials.
      if (outcome.kind === "later") throw new Error(`the receiver ${name} cannot be used: ${outcome.reason}`);
      return undefined;
    },
  }));
}
