import type { Logger } from "pino";
import { ANY_LOG, verifierKeyOf } from "../audit/chain/signed-note.ts";
import type { BundleMember } from "../bundles/member.ts";
import type { FleetShown } from "../core/api/inventory.ts";
import type { TenantShown } from "../core/api/tenants.ts";
import { classificationNotes } from "../core/manifest/change-words.ts";
import { DETECTOR } from "../detection/sensitive.ts";
import { endpointsOf, type NotReady } from "../http/endpoint.ts";
import { createMetrics, type Metrics } from "../http/metrics.ts";
import type { BuildModules, ServedParts } from "../modules.ts";
import type { CallRecordLog } from "../pipeline/call-record.ts";
import { statesShown } from "../runtime/composition/decision-points.ts";
import { type Hooks, prepare, type Service } from "../runtime/composition/wiring.ts";
import { type Config, checkpointKeyFileOf, pathFrom } from "../runtime/config/config.ts";
import { causeText, type Log, openLog } from "../runtime/log/log.ts";
import type { Modules } from "../runtime/module-types.ts";

/** The service itself, or one of its tenants, with what the program adds to it. Both are built by the functions of this file. */
export interface Composition {
  /** The configuration that it was opened with. */
  readonly config: Config;
  /** Returns the configuration in use. */
  readonly inUse: () => Config;
  readonly service: Service;
  readonly metrics: Metrics;
  readonly log: Logger;
  readonly output: Pick<Log, "flush" | "dropped">;
}

export type PreparedComposition = Awaited<ReturnType<typeof prepareComposition>>;

interface CompositionParts {
  readonly modules: Modules;
  readonly hooks: Hooks;
  /** Called when a change that the service has noticed itself was adopted. */
  readonly onWatched?: () => void;
}

/**
 * Reads everything that the configuration names. The caller opens or closes the result.
 *
 * @throws {StartupError} with all problems at once
 */
export async function prepareComposition(config: Config, { modules, hooks, onWatched = () => {} }: CompositionParts) {
  let opened: Service | undefined;
  let inUse = config;
  const { worker, tenant } = config;
  const output = openLog({ ...config.log, worker, tenant, detector: () => opened?.detector() ?? DETECTOR });
  const log = output.logger;
  const metrics = createMetrics({ tenant });
  const onConfig = (read: Config): void => {
    inUse = read;
  };
  const prepared = await prepare(config, modules, { ...hooksOf(log, metrics, { onWatched, onConfig }), ...hooks });
  return {
    close: prepared.close,
    async open(later?: Hooks): Promise<Composition> {
      const service = await prepared.open(later);
      opened = service;
      return { config, inUse: () => inUse, service, metrics, log, output };
    },
  };
}

interface EndpointOptions {
  readonly modules: BuildModules;
  readonly known: KnownParts;
  /** Sources of metrics that the program has in addition to those of the service. */
  readonly sources: Parameters<Metrics["watch"]>[0];
}

/** Opens the endpoints of the service, and begins to show its state in its metrics. */
export function openEndpoints(composition: Composition, { modules, known, sources }: EndpointOptions) {
  const { service, metrics } = composition;
  metrics.watch({
    ...service,
    hub: service.hub?.own,
    callsInFlight: () => service.admission.inFlight(),
    upstreams: () => service.targets().upstreams(),
    certificates: () => service.targets().certificates(),
    approvals: () => service.approvals,
    listeners: () => [],
    ...sources,
    dropped: { traces: service.droppedSpans, ...sources.dropped },
  });
  return endpointsOf(modules.endpoints, endpointParts(composition, known));
}

/** Returns the parts of a service that its listeners use. */
export function lentParts({ service, metrics, log }: Composition) {
  const { callers, clock, journal, limits } = service;
  return {
    callers,
    clock,
    journal,
    limits,
    metrics,
    concurrentRequestsMax: () => limits.concurrentCallsMax * 2,
    logError: (error: unknown) => log.error({ cause: causeText(error) }, "request failed"),
  };
}

/** Facts about a service that only the program knows, for its endpoints. */
interface KnownParts
  extends Pick<ServedParts, "notReady" | "listening" | "reload" | "learning" | "tenants">,
    Partial<Pick<StatedParts, "workers" | "bundle">> {}

/** Parts of the program whose states operators see. */
interface StatedParts {
  readonly workers: (() => readonly object[]) | undefined;
  readonly bundle: BundleMember | undefined;
  readonly tenants: (() => readonly TenantShown[]) | undefined;
}

/** Returns the parts that the endpoints of a service use. */
function endpointParts({ config, service }: Composition, { workers, bundle, ...known }: KnownParts): ServedParts {
  return { ...service, ...servedParts(config, service, { workers, bundle, tenants: known.tenants }), ...known };
}

/** State of the process. */
export type ServiceStage = "serving" | "shutting_down" | "draining";

/** Returns why the service itself, or the tenant, is not ready: the process ends, or the audit is unavailable. */
export function stateOf({ service }: Composition, stage: ServiceStage): readonly NotReady[] {
  const isRecording = service.auditHealth().status === "ok";
  return [...(stage === "serving" ? [] : [stage]), ...(isRecording ? [] : (["audit_unavailable"] as const))];
}

/** Returns the URL that the service publishes; undefined when it publishes none. */
export function resourceOf({ server, mcp }: Config): string | undefined {
  return mcp.oauthMetadata === false ? undefined : server.resource;
}

/** Returns the parts that endpoints need in addition to the service itself. */
function servedParts(config: Config, service: Service, { workers, bundle, tenants }: StatedParts) {
  const { resourceScopes, tls } = config.server;
  const resource = resourceOf(config);
  const { hub } = service;
  const fleet = (): FleetShown => ({
    ...(hub !== undefined && { members: { connected: hub.connected(), bundles: byState(hub.bundles()) } }),
    ...(bundle !== undefined && { bundle: bundle.status() }),
    ...(tenants !== undefined && { tenants: tenants().length }),
  });
  return {
    fleet,
    auditDir: pathFrom(config, config.audit.dir),
    mcp: config.mcp.enabled
      ? { ...config.mcp, approvalPage: config.approvals.pageUrl, attaches: service.attaches }
      : undefined,
    resourceScopes,
    resourceMetadata:
      resource === undefined
        ? undefined
        : {
            resource,
            resourceScopes,
            authorizationServers: service.authorizationServers,
            bindsCertificates: tls?.clientCaFile !== undefined,
            hasMcp: config.mcp.enabled,
          },
    readiness: async () => ({
      systems: await service.targets().status(),
      audit: service.auditHealth(),
      configuration: service.configuration(),
      confinement: service.targets().confinement(),
      revocations: service.revocations(),
      halts: service.halts.describe(),
      decisionPoints: statesShown(service.decisionPoints()),
      ...(service.member !== undefined && { hub: service.member.isConnected() ? "connected" : "away" }),
      ...(workers !== undefined && { workers: workers() }),
      // A tenant without an audit refuses its calls, and the others do not: the service is ready.
      ...(tenants !== undefined && {
        tenantsWithoutAudit: tenants().flatMap(({ name, audit }) => (audit === "ok" ? [] : [name])),
      }),
      ...fleet(),
    }),
  };
}

/** Leaves out the versions: a member can claim any number of them. */
function byState(counts: ReturnType<NonNullable<Service["hub"]>["bundles"]>) {
  return [...Map.groupBy(counts, ({ state }) => state)].map(([state, all]) => ({
    state,
    members: all.reduce((sum, { members }) => sum + members, 0),
  }));
}

const CERTIFICATE_LEVELS = {
  "certificates.changed": "info",
  "certificates.refused": "error",
  "certificates.expired": "error",
} as const;

const UPSTREAM_LEVELS = { quarantined: "error", restored: "info", failed: "warn", output: "info" } as const;

/** Returns the part of the bundle's status that a member tells its hub. */
export function factOf(bundle: BundleMember): ReturnType<NonNullable<Hooks["bundle"]>> {
  const { version, digest, state, fault } = bundle.status();
  return { version, digest, state, fault: fault ?? undefined };
}

interface ReloadListeners {
  readonly onWatched: () => void;
  readonly onConfig: (inUse: Config) => void;
}

function hooksOf(log: Logger, metrics: Metrics, { onWatched, onConfig }: ReloadListeners): Hooks {
  return {
    observe: (entry) => metrics.observeCall(entry),
    onBatch: (batch) => metrics.observeBatch(batch),
    onTokenReview: (result) => metrics.observeTokenReview(result),
    onHubRequest: (method, outcome, ms) => metrics.observeHubRequest(method, outcome, ms),
    onSurvivors: (survivors) => {
      metrics.observeSurvivors(survivors);
      log.warn(survivors, "processes outlived their command and were killed");
    },
    onWait: (message) => log.warn(message),
    logError: (message, cause) => log.error({ cause: causeText(cause) }, message),
    onReload: ({ type, ...event }, inUse) => {
      log[type === "configuration.refused" ? "error" : "info"](event, type);
      log.level = inUse.log.level;
      onConfig(inUse);
      if (type === "configuration.changed" && event.by === "watch") onWatched();
    },
    onUpstream: ({ type, ...event }) => log[UPSTREAM_LEVELS[type]](event, `upstream.${type}`),
    onRevocations: ({ type, ...event }) => log[type === "revocations.refused" ? "error" : "info"](event, type),
    onCertificates: ({ type, ...event }) => log[CERTIFICATE_LEVELS[type]](event, type),
    log: ({ level, cause, ...line }: CallRecordLog) => log[level]({ ...line, cause: causeText(cause) }, "call refused"),
  };
}

/** Writes what operators must know of a service that starts. */
export function logStart({ config, service, log }: Composition): void {
  log.info(signingFacts(config, service.checkpointKey), "the audit is signed");
  for (const { tool } of service.registry.list()) {
    for (const { field, message } of classificationNotes(tool)) log.warn({ tool: tool.name }, `${field}: ${message}`);
  }
}

/** Returns what the log says of the key that signs the audit. As `verifierKey`, it would count as a secret and be hidden. */
export function signingFacts(config: Config, key: Service["checkpointKey"]) {
  return { keyFile: pathFrom(config, checkpointKeyFileOf(config)), verifier: verifierKeyOf(ANY_LOG, key) };
}
