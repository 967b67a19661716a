import type { Logger } from "pino";
import { classificationNotes } from "../core/manifest/change-words.ts";
import { endedWithin } from "../core/time-limits.ts";
import { DETECTOR } from "../detection/sensitive.ts";
import { openListeners } from "../http/connections/listening.ts";
import type { NotReady } from "../http/endpoint.ts";
import { createMetrics, type Metrics } from "../http/metrics.ts";
import type { ServerOptions } from "../http/server.ts";
import type { CallRecordLog } from "../pipeline/call-record.ts";
import { type Hooks, type Service, wire } from "../runtime/composition/wiring.ts";
import { type Config, pathFrom } from "../runtime/config/config.ts";
import { causeText } from "../runtime/log/fields.ts";
import { openLog } from "../runtime/log/log.ts";
import { loadEndpoints, MODULES, type Modules } from "../runtime/modules.ts";

export interface RunningService {
  /** `http://host:port` of the actual listener. */
  readonly url: string;
  /** The same for the operators' own listener, when the configuration has one. */
  readonly operatorUrl: string | undefined;
  readonly notRegistered: readonly string[];
  /**
   * Applies a changed configuration completely or not at all. Undefined when nothing can be reloaded or reloading is turned off.
   */
  readonly reload: Service["reload"];
  /** Writes an uncaught error to the operator's log; the service keeps running. */
  readonly logFault: (error: unknown) => void;
  /**
   * Shuts down in order: stop admitting calls, answer the calls in progress, close targets, close the audit. Calls that still
   * wait after `drainTimeoutMs` are cut off: a read ends as CANCELLED, with its audit line, before the platform kills the
   * process. May be called twice.
   */
  drain(): Promise<void>;
}

const CERTIFICATE_LEVELS = {
  "certificates.changed": "info",
  "certificates.refused": "error",
  "certificates.expired": "error",
} as const;

/** Time that cut-off calls have to end. */
const ENDING_MS = 1_000;

const LOG_FLUSH_MS = 1_000;

/**
 * Starts the service: configuration → wiring → listen. A reload reads the changed configuration with `readAgain`. `modules` is what
 * the build contains.
 *
 * @throws {StartupError} with everything that prevents the start
 */
export async function startService(
  config: Config,
  readAgain?: Hooks["readAgain"],
  modules: Modules = MODULES,
): Promise<RunningService> {
  let detector: Service["detector"] | undefined;
  const output = openLog({ ...config.log, detector: () => detector?.() ?? DETECTOR });
  const log = output.logger;
  const metrics = createMetrics();
  const service = await wire(config, { ...hooksOf(log, metrics), readAgain }, modules);
  detector = service.detector;
  metrics.watch({
    callsInFlight: () => service.admission.inFlight(),
    channels: () => service.channels(),
    certificates: () => service.targets().certificates(),
    configuration: () => service.configuration(),
    exports: () => service.exports(),
    revocations: () => service.revocations(),
    approvals: () => service.approvals,
    dropped: { traces: () => service.droppedSpans(), logs: () => output.dropped() },
  });
  let draining = false;
  const notReady = (): readonly NotReady[] => {
    const reasons: NotReady[] = [];
    if (draining) reasons.push("draining");
    if (service.auditHealth().status !== "ok") reasons.push("audit_unavailable");
    return reasons;
  };
  const options: ServerOptions = {
    ...listenerOptions(config, service),
    metrics,
    notReady,
    draining: () => draining,
    logError: (error) => log.error({ cause: causeText(error) }, "request failed"),
  };
  if (config.audit.checkpointKeyFile === undefined)
    log.warn("audit.checkpointKeyFile is not set: nothing signs the audit");
  if (process.geteuid?.() === 0)
    log.warn("the service runs as root: start it as an ordinary user, since no command that it runs needs more");
  for (const { tool } of service.registry.list()) {
    for (const { field, message } of classificationNotes(tool)) log.warn({ tool: tool.name }, `${field}: ${message}`);
  }
  const endpoints = await loadEndpoints(modules);
  const listeners = await openListeners(options, { ...service.listeners, endpoints }).catch(async (error: unknown) => {
    await service.close(0);
    throw error;
  });
  const { url, operatorUrl } = listeners;
  log.info({ url, operatorUrl, tools: service.registry.list().length, ...service.targets().facts() }, "listening");

  let drained: Promise<void> | undefined;
  const drain = async (): Promise<void> => {
    draining = true;
    log.info("draining");
    service.drain();
    const closed = listeners.close();
    await endedWithin(closed, config.server.drainTimeoutMs);
    await service.close(0);
    await endedWithin(closed, ENDING_MS);
    listeners.cutOff();
    // Closed last, so that probes see the draining state until then.
    await listeners.closeOperators();
    log.info("stopped");
    await output.flush(LOG_FLUSH_MS);
  };
  return {
    url,
    operatorUrl,
    notRegistered: service.notRegistered,
    reload: service.reload,
    logFault: (error) => log.error({ cause: causeText(error) }, "uncaught error"),
    drain: () => {
      drained ??= drain();
      return drained;
    },
  };
}

function listenerOptions(config: Config, service: Service) {
  return {
    ...config.server,
    ...(config.mcp.oauthMetadata === false && { resource: undefined }),
    mcp: config.mcp.enabled ? config.mcp : undefined,
    allowedHosts: [...config.server.allowedHosts, ...ownNames(config.server.host)],
    concurrentRequestsMax: () => service.limits.concurrentCallsMax * 2,
    limits: service.limits,
    proxy: service.proxy,
    approvals: service.approvals,
    clock: service.clock,
    registry: service.registry,
    callers: service.callers,
    journal: (line) => service.journal(line),
    auditDir: pathFrom(config, config.audit.dir),
    checkpointKey: service.checkpointKey,
    systems: () => service.targets().status(),
    audit: () => service.auditHealth(),
    confinement: () => service.targets().confinement(),
    configuration: () => service.configuration(),
    reload: service.reload,
    revocations: () => service.revocations(),
    authorizationServers: service.authorizationServers,
  } satisfies Partial<ServerOptions>;
}

function hooksOf(log: Logger, metrics: Metrics): Hooks {
  return {
    observe: (entry) => metrics.observeCall(entry),
    onBatch: (batch) => metrics.observeBatch(batch),
    onSurvivors: (survivors) => {
      metrics.observeSurvivors(survivors);
      log.warn(survivors, "processes outlived their command and were killed");
    },
    logError: (message, cause) => log.error({ cause: causeText(cause) }, message),
    onReload: ({ type, ...event }, inUse) => {
      log[type === "configuration.refused" ? "error" : "info"](event, type);
      log.level = inUse.log.level;
    },
    onRevocations: ({ type, ...event }) => log[type === "revocations.refused" ? "error" : "info"](event, type),
    onCertificates: ({ type, ...event }) => log[CERTIFICATE_LEVELS[type]](event, type),
    log: ({ level, cause, ...line }: CallRecordLog) => log[level]({ ...line, cause: causeText(cause) }, "call refused"),
  };
}

/** Returns the host as an allowed name. A wildcard address is not a name: a web page can use it too. */
function ownNames(host: string): readonly string[] {
  return host === "0.0.0.0" || host === "::" ? [] : [host.includes(":") ? `[${host}]` : host.toLowerCase()];
}
