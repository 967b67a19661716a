import { inspect } from "node:util";
import type { FastifyInstance } from "fastify";
import { type Logger, pino } from "pino";
import { type Config, pathFrom } from "./config.ts";
import { StartupError } from "./core/errors.ts";
import type { TrailLog } from "./proxy/trail.ts";
import { createMetrics, type Metrics } from "./server/metrics.ts";
import type { NotReady } from "./server/routes/health.ts";
import { createOperatorServer, createServer, type ServerOptions } from "./server/server.ts";
import { type Hooks, type Service, wire } from "./wiring.ts";

/** A service that listens. */
export interface RunningService {
  /** `http://host:port`, as it is really listened on. */
  readonly url: string;
  /** The same of the operators' own listener, where the configuration has one. */
  readonly operatorUrl: string | undefined;
  readonly notRegistered: readonly string[];
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

const CAUSES_MAX = 4;

/**
 * The service: configuration → wiring → listen.
 *
 * @throws {StartupError} with everything that keeps it from starting
 */
export async function startService(config: Config): Promise<RunningService> {
  // A destination of our own, written synchronously: the default one loses lines on this runtime when the process ends.
  const log = pino({ level: config.log.level, base: null }, pino.destination({ dest: 1, sync: true }));
  const metrics = createMetrics();
  const service = await wire(config, hooksOf(log, metrics));
  metrics.watch({
    callsInFlight: () => service.admission.inFlight(),
    channels: () => service.channels(),
    certificates: () => service.certificates(),
  });
  metrics.watchExports(() => service.exports());
  let draining = false;
  const notReady = (): readonly NotReady[] => {
    const reasons: NotReady[] = [];
    if (draining) reasons.push("draining");
    if (service.auditHealth().status !== "ok") reasons.push("audit_unavailable");
    return reasons;
  };
  const options: ServerOptions = {
    ...config.server,
    allowedHosts: [...config.server.allowedHosts, ...ownNames(config.server.host)],
    concurrentRequestsMax: config.limits.concurrentCallsMax * 2,
    proxy: service.proxy,
    approvals: service.approvals,
    clock: service.clock,
    registry: service.registry,
    callers: service.callers,
    journal: (line) => service.journal(line),
    auditDir: pathFrom(config, config.audit.dir),
    checkpointKey: service.checkpointKey,
    metrics,
    notReady,
    systems: () => service.systems(),
    confinement: service.confinement,
    draining: () => draining,
    logError: (error) => log.error({ cause: causeText(error) }, "request failed"),
  };
  if (config.audit.checkpointKeyFile === undefined)
    log.warn("audit.checkpointKeyFile is not set: nothing signs the audit");
  const { app, url, operatorUrl, closeOperators } = await openDoors(options, service, config);
  log.info({ url, operatorUrl, tools: service.registry.list().length, files: service.fileConfinement }, "listening");

  let drained: Promise<void> | undefined;
  const drain = async (): Promise<void> => {
    draining = true;
    log.info("draining");
    service.admission.drain();
    service.releaseWaiters();
    const closed = app.close();
    await within(closed, config.server.drainTimeoutMs);
    await service.close(0);
    await within(closed, ENDING_MS);
    app.server.closeAllConnections();
    // Last, so that until then probes are told that it drains.
    await closeOperators();
    log.info("stopped");
  };
  return {
    url,
    operatorUrl,
    notRegistered: service.notRegistered,
    logFault: (error) => log.error({ cause: causeText(error) }, "nobody caught this"),
    drain: () => {
      drained ??= drain();
      return drained;
    },
  };
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
    onCertificates: ({ type, ...event }) => log[CERTIFICATE_LEVELS[type]](event, type),
    log: ({ level, cause, ...line }: TrailLog) => log[level]({ ...line, cause: causeText(cause) }, "call refused"),
  };
}

/** Waits for `work`, but no longer than this. A close that fails has nothing left to wait for. */
async function within(work: Promise<unknown>, timeoutMs: number): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, timeoutMs);
  work.then(
    () => resolve(),
    () => resolve(),
  );
  await promise;
  clearTimeout(timer);
}

/** An address that means every interface is nobody's name: a page may spell it too. */
function ownNames(host: string): readonly string[] {
  return host === "0.0.0.0" || host === "::" ? [] : [host.includes(":") ? `[${host}]` : host.toLowerCase()];
}

/** The door of the calls first: who is told by the other that calls are taken may send one. */
async function openDoors(options: ServerOptions, service: Service, { server }: Config) {
  const app = createServer(options);
  const url = await listen(app, service, { ...server, field: "server" });
  if (server.operator === undefined) return { app, url, operatorUrl: undefined, closeOperators: async () => {} };
  const operators = createOperatorServer(options);
  const closeOperators = async (): Promise<void> => {
    operators.server.closeAllConnections();
    await operators.close();
  };
  try {
    const operatorUrl = await listen(operators, service, { ...server.operator, field: "server.operator" });
    return { app, url, operatorUrl, closeOperators };
  } catch (error) {
    await app.close();
    throw error;
  }
}

interface Place {
  /** The configuration's name for it. */
  readonly field: string;
  readonly host: string;
  readonly port: number;
}

async function listen(app: FastifyInstance, service: Service, { field, host, port }: Place): Promise<string> {
  try {
    return await app.listen({ host, port });
  } catch (error) {
    await service.close(0);
    const isTaken = error instanceof Error && "code" in error && error.code === "EADDRINUSE";
    throw isTaken ? new StartupError([`${field}.port: ${port} is in use`]) : error;
  }
}

/** What operators read of a cause: names and messages of errors, members of plain facts, no stacks. */
function causeText(cause: unknown): string {
  const parts: string[] = [];
  let at = cause;
  for (; at instanceof Error && parts.length < CAUSES_MAX; at = at.cause) parts.push(`${at.name}: ${at.message}`);
  if (at !== undefined && !(at instanceof Error))
    parts.push(typeof at === "object" ? inspect(at, { depth: 2, breakLength: Infinity }) : String(at));
  return parts.join(" ← ");
}
