import type { Logger } from "pino";
import { classificationNotes } from "../core/manifest/change-words.ts";
import { endedWithin } from "../core/time-limits.ts";
import { openDoors } from "../http/connections/listening.ts";
import { createMetrics, type Metrics } from "../http/metrics.ts";
import type { NotReady } from "../http/routes/health.ts";
import type { ServerOptions } from "../http/server.ts";
import type { CallRecordLog } from "../pipeline/call-record.ts";
import { type Hooks, type Service, wire } from "../runtime/composition/wiring.ts";
import { type Config, pathFrom } from "../runtime/config/config.ts";
import { causeText } from "../runtime/log/fields.ts";
import { openLog } from "../runtime/log/log.ts";

/** A service that listens. */
export interface RunningService {
  /** `http://host:port`, as it is really listened on. */
  readonly url: string;
  /** The same of the operators' own listener, where the configuration has one. */
  readonly operatorUrl: string | undefined;
  readonly notRegistered: readonly string[];
  /** Takes over what has changed, as a whole or not at all. Undefined where nothing can be read again, or is to be. */
  readonly reload: Service["reload"];
  /** For what nobody caught: the operator's log gets it, the service goes on. */
  readonly logFault: (error: unknown) => void;
  /**
   * Ends in order: stop admitting, answer what is under way, close targets, close the audit. Whoever still waits after
   * `drainTimeoutMs` is cut off: a read ends as CANCELLED, with its line, before the platform's patience is over. May be
   * called twice.
   */
  drain(): Promise<void>;
}

const CERTIFICATE_LEVELS = {
  "certificates.changed": "info",
  "certificates.refused": "error",
  "certificates.expired": "error",
} as const;

/** How long calls that were cut off have to end. */
const ENDING_MS = 1_000;

/** How long the last lines of the log have to be read. */
const LOG_FLUSH_MS = 1_000;

/**
 * The service: configuration → wiring → listen. What a reload takes over, `readAgain` reads.
 *
 * @throws {StartupError} with everything that keeps it from starting
 */
export async function startService(config: Config, readAgain?: Hooks["readAgain"]): Promise<RunningService> {
  const output = openLog(config.log);
  const log = output.logger;
  const metrics = createMetrics();
  const service = await wire(config, { ...hooksOf(log, metrics), readAgain });
  metrics.watch({
    callsInFlight: () => service.admission.inFlight(),
    channels: () => service.channels(),
    certificates: () => service.certificates(),
  });
  metrics.watchConfiguration(() => service.configuration());
  metrics.watchExports(() => service.exports());
  metrics.watchRevocations(() => service.revocations());
  metrics.watchApprovals(() => service.approvals);
  metrics.watchDropped({ traces: () => service.droppedSpans(), logs: () => output.dropped() });
  let draining = false;
  const notReady = (): readonly NotReady[] => {
    const reasons: NotReady[] = [];
    if (draining) reasons.push("draining");
    if (service.auditHealth().status !== "ok") reasons.push("audit_unavailable");
    return reasons;
  };
  const options: ServerOptions = {
    ...doorOptions(config, service),
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
  const doors = await openDoors(options, service.doors).catch(async (error: unknown) => {
    await service.close(0);
    throw error;
  });
  const { url, operatorUrl } = doors;
  log.info({ url, operatorUrl, tools: service.registry.list().length, files: service.fileConfinement }, "listening");

  let drained: Promise<void> | undefined;
  const drain = async (): Promise<void> => {
    draining = true;
    log.info("draining");
    service.drain();
    const closed = doors.close();
    await endedWithin(closed, config.server.drainTimeoutMs);
    await service.close(0);
    await endedWithin(closed, ENDING_MS);
    doors.cutOff();
    // Last, so that until then probes are told that it drains.
    await doors.closeOperators();
    log.info("stopped");
    await output.flush(LOG_FLUSH_MS);
  };
  return {
    url,
    operatorUrl,
    notRegistered: service.notRegistered,
    reload: service.reload,
    logFault: (error) => log.error({ cause: causeText(error) }, "nobody caught this"),
    drain: () => {
      drained ??= drain();
      return drained;
    },
  };
}

/** What of the service the doors open on. */
function doorOptions(config: Config, service: Service) {
  return {
    ...config.server,
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
    systems: () => service.systems(),
    audit: () => service.auditHealth(),
    confinement: () => service.confinement(),
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
    logFault: (message, cause) => log.error({ cause: causeText(cause) }, message),
    onReload: ({ type, ...event }, inUse) => {
      log[type === "configuration.refused" ? "error" : "info"](event, type);
      log.level = inUse.log.level;
    },
    onRevocations: ({ type, ...event }) => log[type === "revocations.refused" ? "error" : "info"](event, type),
    onCertificates: ({ type, ...event }) => log[CERTIFICATE_LEVELS[type]](event, type),
    log: ({ level, cause, ...line }: CallRecordLog) => log[level]({ ...line, cause: causeText(cause) }, "call refused"),
  };
}

/** An address that means every interface is nobody's name: a page may spell it too. */
function ownNames(host: string): readonly string[] {
  return host === "0.0.0.0" || host === "::" ? [] : [host.includes(":") ? `[${host}]` : host.toLowerCase()];
}
