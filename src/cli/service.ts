import type { Logger } from "pino";
import { ANY_LOG, verifierKeyOf } from "../audit/chain/signed-note.ts";
import type { BundleMember } from "../bundles/member.ts";
import type { FleetShown } from "../core/api/inventory.ts";
import { classificationNotes } from "../core/manifest/change-words.ts";
import { endedWithin } from "../core/time-limits.ts";
import { DETECTOR } from "../detection/sensitive.ts";
import { openListeners } from "../http/connections/listening.ts";
import { endpointsOf, type ListenerState, type NotReady } from "../http/endpoint.ts";
import { createMetrics, type Metrics } from "../http/metrics.ts";
import type { ServerOptions } from "../http/server-options.ts";
import { type BuildModules, MODULES } from "../modules.ts";
import type { CallRecordLog } from "../pipeline/call-record.ts";
import { statesShown } from "../runtime/composition/decision-points.ts";
import { type Hooks, type Service, wire } from "../runtime/composition/wiring.ts";
import { type Config, checkpointKeyFileOf, pathFrom } from "../runtime/config/config.ts";
import { processEnvironment } from "../runtime/config/environment.ts";
import { causeText, openLog } from "../runtime/log/log.ts";
import type { ReloadRequester } from "../runtime/reload/types.ts";
import { type ConfigurationOptions, configuration } from "./configuration.ts";
import { print, reportChange } from "./output.ts";
import { Shutdown } from "./shutdown.ts";
import type { openParent, ParentParts } from "./workers.ts";

export type RunningService = Awaited<ReturnType<typeof startService>>;

const CERTIFICATE_LEVELS = {
  "certificates.changed": "info",
  "certificates.refused": "error",
  "certificates.expired": "error",
} as const;

/** Time for calls to end after they were cut off. */
const CUT_OFF_MS = 1_000;

const LOG_FLUSH_MS = 1_000;

/** Time for a worker to end after its calls were cut off, in addition to `server.drainTimeoutMs`; then it is killed. */
const WORKER_END_MS = 5_000;

interface ServiceOptions {
  /** Lists the parts of the build. */
  readonly modules?: BuildModules;
  /** True on the development stand, where one-time links open the console. */
  readonly isDevelopment?: boolean;
  /** Brings the bundles of the fleet; undefined without the section `bundle`. */
  readonly bundle?: BundleMember | undefined;
}

/**
 * Starts the service. A reload reads the changed configuration with `readAgain`.
 *
 * @throws {StartupError} with everything that prevents the start
 */
export async function startService(
  config: Config,
  readAgain?: Hooks["readAgain"],
  { modules = MODULES, isDevelopment = false, bundle }: ServiceOptions = {},
) {
  let detector: Service["detector"] | undefined;
  const output = openLog({ ...config.log, worker: config.worker, detector: () => detector?.() ?? DETECTOR });
  const log = output.logger;
  const metrics = createMetrics();
  const worker = config.worker === undefined ? undefined : await (await import("./workers.ts")).openWorker();
  let parent: Awaited<ReturnType<typeof openParent>> | undefined;
  const hooks = hooksOf(log, metrics, () => parent?.roll("watch"));
  const service = await wire(config, modules, {
    ...hooks,
    readAgain,
    rateTable: worker?.rateTable,
    bundle: bundle && (() => factOf(bundle)),
  });
  detector = service.detector;
  const isParent = worker === undefined && config.server.workers > 1;
  if (isParent) parent = await parentOf(config, { service, metrics, log });
  const processes = parent ?? worker;
  let opened: Awaited<ReturnType<typeof consoleOf>>;
  /** Closes what is open when a later step fails. */
  const orClose = <T>(step: Promise<T>): Promise<T> =>
    step.catch(async (error: unknown) => {
      await opened?.console.close();
      await parent?.stop(0);
      await service.close(0);
      throw error;
    });
  if (worker === undefined) opened = await orClose(consoleOf(config, service, { modules, isDevelopment, log }));
  metrics.watch({
    ...service,
    console: () => opened?.console.tally(),
    callsInFlight: () => service.admission.inFlight(),
    upstreams: () => service.targets().upstreams(),
    certificates: () => service.targets().certificates(),
    approvals: () => service.approvals,
    workers: () => parent?.counts(),
    bundle: () => bundle?.status(),
    listeners: () => listening(),
    // One process answers for all workers.
    ...(worker === undefined && {
      isReady: () => notReady().length === 0,
      backlog: () => service.approvals?.backlog(),
    }),
    dropped: { traces: service.droppedSpans, logs: () => output.dropped() },
  });
  let unfollow = (): void => {};
  const shutdown = new Shutdown({
    delayMs: config.server.shutdownDelayMs,
    begin() {
      log.info({ delayMs: config.server.shutdownDelayMs }, "shutting down");
      unfollow();
      service.announceEnd();
      parent?.endLater();
    },
    drain: () => drain(),
  });
  const notReady = (): readonly NotReady[] => {
    const reasons: NotReady[] = [];
    if (shutdown.stage !== "serving") reasons.push(shutdown.stage);
    if (service.auditHealth().status !== "ok") reasons.push("audit_unavailable");
    if (parent?.isReady === false) reasons.push("workers_unavailable");
    return reasons;
  };
  let listening: () => readonly ListenerState[] = () => [];
  const options: ServerOptions = {
    ...listenerOptions(config, service),
    metrics: processes === undefined ? metrics : { ...metrics, text: () => processes.metricsText(metrics) },
    isEnding: () => shutdown.stage !== "serving",
    logError: (error: unknown) => log.error({ cause: causeText(error) }, "request failed"),
  };
  if (worker === undefined) logStart(config, service, log);
  const { reload } = service;
  const parts = {
    ...service,
    ...servedParts(config, service, { workers: parent?.states, bundle }),
    reload: reload && processes ? (by: ReloadRequester) => processes.reload(reload, by) : reload,
    learning: processes === undefined ? service.learning : undefined,
    notReady,
    listening: () => listening(),
  };
  const endpoints = await orClose(endpointsOf(modules.endpoints, parts));
  const { console: address, oidc: _, ...addresses } = service.listeners;
  const console = opened && address && { address, parts: opened.listener };
  const own = worker === undefined ? { isWithoutAgents: isParent } : worker.addresses(addresses);
  const listeners = await orClose(openListeners(options, { ...addresses, ...own, console, endpoints }));
  const { consoleUrl, operatorUrl } = listeners;
  const url = parent?.url ?? listeners.url;
  listening = listeners.states;
  if (worker === undefined) logListening({ url, consoleUrl, operatorUrl, hubUrl: service.hub?.url }, service, log);
  const drain = async (): Promise<void> => {
    log.info("draining");
    unfollow();
    service.drain();
    const closed = listeners.close().finally(() => opened?.console.close());
    // Each worker takes the same time, and then cuts its calls off.
    const stopped = parent?.stop(config.server.drainTimeoutMs + WORKER_END_MS);
    await endedWithin(closed, config.server.drainTimeoutMs);
    await stopped;
    // Nothing could be recorded of a request that came after the audit is closed.
    listeners.endIdle();
    await service.close(0);
    await endedWithin(closed, CUT_OFF_MS);
    listeners.cutOff();
    // Closed last, so that probes see the state `draining` until then.
    await listeners.closeOperators();
    await worker?.leave();
    log.info("stopped");
    await output.flush(LOG_FLUSH_MS);
  };
  await worker?.listening(url, { service, metrics, notReady, shutdown });
  if (bundle !== undefined && reload !== undefined) {
    const { journal } = service;
    unfollow = await bundle.follow({ reload, journal, log: (level, event, message) => log[level](event, message) });
  }
  return {
    /** URL of the listener for calls, with its actual port. */
    url,
    /** URL of the console's listener; undefined when the configuration has none. */
    consoleUrl,
    /** URL of the operators' listener; undefined when the configuration has none. */
    operatorUrl,
    /** URL at which members connect; undefined when the service is no hub. */
    hubUrl: service.hub?.url,
    notRegistered: worker === undefined ? service.notRegistered : [],
    reload: parts.reload,
    /** Writes an uncaught error to the operators' log; the service keeps running. */
    logUncaught: (error: unknown): void => log.error({ cause: causeText(error) }, "uncaught error"),
    /** Serves for `shutdownDelayMs`, with the last answer of each connection, and then drains. May be called twice. */
    shutDown: (): Promise<void> => shutdown.begin(),
    /**
     * Shuts down in order: stop admitting calls, answer the calls in progress, close targets, close the audit. Calls that still
     * wait after `drainTimeoutMs` are cut off: a read ends as CANCELLED, with its audit line, before the platform kills the
     * process. May be called twice.
     */
    drain: (): Promise<void> => shutdown.drain(),
    get isDraining(): boolean {
      return shutdown.stage === "draining";
    },
  };
}

/** Starts the workers. Closes the service when they do not start. */
async function parentOf(config: Config, parts: ParentParts) {
  const { openParent } = await import("./workers.ts");
  return openParent(config, parts).catch(async (error: unknown) => {
    await parts.service.close(0);
    throw error;
  });
}

function logListening(urls: Readonly<Record<string, string | undefined>>, service: Service, log: Logger): void {
  const tools = service.registry.list().map(({ tool }) => tool.name);
  log.info({ tools }, "tools are registered");
  log.info({ ...urls, tools: tools.length, ...service.targets().facts() }, "listening");
}

function logStart(config: Config, service: Service, log: Logger): void {
  log.info(signingFacts(config, service.checkpointKey), "the audit is signed");
  if (process.geteuid?.() === 0)
    log.warn("the service runs as root: start it as an ordinary user, since no command that it runs needs more");
  for (const { tool } of service.registry.list()) {
    for (const { field, message } of classificationNotes(tool)) log.warn({ tool: tool.name }, `${field}: ${message}`);
  }
}

/** Returns what the log says of the key that signs the audit. As `verifierKey`, it would count as a secret and be hidden. */
export function signingFacts(config: Config, key: Service["checkpointKey"]) {
  return { keyFile: pathFrom(config, checkpointKeyFileOf(config)), verifier: verifierKeyOf(ANY_LOG, key) };
}

interface ConsoleParts extends Required<Omit<ServiceOptions, "bundle">> {
  readonly log: Logger;
}

/** Loads and opens the operators' console, if it is configured. */
async function consoleOf(config: Config, service: Service, { modules, isDevelopment, log }: ConsoleParts) {
  const { console } = config.server;
  if (console === undefined) return undefined;
  const { host, tls, socket, publicUrl, allowedHosts } = console;
  const { openConsole } = await modules.console();
  return openConsole({
    listener: { host, publicUrl, allowedHosts, hasTls: tls !== undefined, hasSocket: socket !== undefined },
    oidc: service.listeners.oidc,
    isDevelopment,
    callers: service.callers,
    clock: service.clock,
    state: service.sharedState,
    journal: service.journal,
    refusalLinesPerMinuteMax: () => service.limits.strangerLinesPerMinute,
    logError: (error) => log.error({ cause: causeText(error) }, "console"),
  });
}

function listenerOptions(config: Config, { callers, clock, journal, limits }: Service) {
  return {
    ...config.server,
    resource: resourceOf(config),
    allowedHosts: [...config.server.allowedHosts, ...ownNames(config.server.host)],
    concurrentRequestsMax: () => limits.concurrentCallsMax * 2,
    callers,
    clock,
    journal,
    limits,
  } satisfies Partial<ServerOptions>;
}

/** Returns the URL that the service publishes; undefined when it publishes none. */
function resourceOf({ server, mcp }: Config): string | undefined {
  return mcp.oauthMetadata === false ? undefined : server.resource;
}

/** Parts of the program whose states operators see. */
interface StatedParts extends Pick<ServiceOptions, "bundle"> {
  readonly workers: (() => readonly object[]) | undefined;
}

/** Returns what endpoints need in addition to the service itself. */
function servedParts(config: Config, service: Service, { workers, bundle }: StatedParts) {
  const { resourceScopes, tls } = config.server;
  const resource = resourceOf(config);
  const { hub } = service;
  const fleet = (): FleetShown => ({
    ...(hub !== undefined && { members: { connected: hub.connected(), bundles: byState(hub.bundles()) } }),
    ...(bundle !== undefined && { bundle: bundle.status() }),
  });
  return {
    fleet,
    tenants: undefined,
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

const UPSTREAM_LEVELS = { quarantined: "error", restored: "info", failed: "warn", output: "info" } as const;

/** Returns the part of the bundle's status that a member tells its hub. */
function factOf(bundle: BundleMember): ReturnType<NonNullable<Hooks["bundle"]>> {
  const { version, digest, state, fault } = bundle.status();
  return { version, digest, state, fault: fault ?? undefined };
}

/** `onWatched` is called when a change that the service has noticed itself was adopted. */
function hooksOf(log: Logger, metrics: Metrics, onWatched: () => void): Hooks {
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
      if (type === "configuration.changed" && event.by === "watch") onWatched();
    },
    onUpstream: ({ type, ...event }) => log[UPSTREAM_LEVELS[type]](event, `upstream.${type}`),
    onRevocations: ({ type, ...event }) => log[type === "revocations.refused" ? "error" : "info"](event, type),
    onCertificates: ({ type, ...event }) => log[CERTIFICATE_LEVELS[type]](event, type),
    log: ({ level, cause, ...line }: CallRecordLog) => log[level]({ ...line, cause: causeText(cause) }, "call refused"),
  };
}

/** Returns the host as an allowed name. A wildcard address is not a name: a web page can use it too. */
function ownNames(host: string): readonly string[] {
  return host === "0.0.0.0" || host === "::" ? [] : [host.includes(":") ? `[${host}]` : host.toLowerCase()];
}

/**
 * Signals within this time count as one: a supervisor signals every process of a group, and a script runner forwards its own
 * signal.
 */
const SAME_SIGNAL_MS = 1_000;
/** A start that is told to stop has this time to complete or fail, so that everything is closed in order. */
const START_MS_MAX = 5_000;
/** The exit code of a start that was refused, or given up. */
const START_REFUSED = 78;

type StopSignal = "SIGTERM" | "SIGINT";

/**
 * `stc serve`: runs until SIGTERM, after which it still serves for `server.shutdownDelayMs` and then drains. SIGINT, which a person
 * sends by Ctrl-C, and a later signal end the delay; a signal after that ends the process immediately.
 */
export async function serve(options: ConfigurationOptions): Promise<void> {
  // Saved because `process.exit` throws while manifests are loaded again.
  const exit: (code: number) => never = process.exit.bind(process);
  let running: RunningService | undefined;
  const early = new EarlyStop(() => exit(START_REFUSED));
  // From the first line: otherwise the first process of a container would ignore the signal, and a worker lose it.
  let onStopSignal = (_signal: StopSignal): void => early.request();
  process.on("SIGTERM", () => onStopSignal("SIGTERM"));
  process.on("SIGINT", () => onStopSignal("SIGINT"));
  // Development ends with SIGHUP, which reports a closed terminal. A service reloads, and keeps running even when it cannot
  // reload.
  if (options.dev !== true) process.on("SIGHUP", () => void running?.reload?.("signal"));
  const { config, readAgain, bundle, start } = await configuration(options);
  const stop = await start();
  let service: RunningService;
  try {
    service = running = await startService(config, readAgain, { isDevelopment: options.dev === true, bundle });
  } catch (error) {
    await stop();
    throw error;
  }
  for (const reason of service.notRegistered) print.error(`note: ${reason}`);
  if (options.dev === true) {
    const { welcome } = await import("./development/welcome.ts");
    const [hasGit, hasBash] = ["git", "bash"].map((name) => config.commands.allowed.includes(name));
    const { url, consoleUrl = "" } = service;
    const consoleLink = await (await import("./console.ts")).developmentLink(consoleUrl);
    const auditDir = config.audit.dir;
    const facts = { url, consoleLink, auditDir, hasGit: hasGit === true, hasBash: hasBash === true };
    const environment = processEnvironment();
    reportChange(() => print.line(welcome({ ...facts, environment })));
  }
  // An unhandled rejection in one tool must not end the service. An uncaught exception does, because the state is unknown then.
  process.on("unhandledRejection", service.logUncaught);
  let isEnding = false;
  let isSameSignal = false;
  const afterSignal = (): void => {
    isSameSignal = true;
    setTimeout(() => {
      isSameSignal = false;
    }, SAME_SIGNAL_MS).unref();
  };
  let exitCode = 0;
  const end = async (ended: Promise<void>): Promise<void> => {
    isEnding = true;
    afterSignal();
    await ended;
    await stop();
    exit(exitCode);
  };
  process.on("uncaughtException", (error) => {
    service.logUncaught(error);
    if (service.isDraining) exit(1);
    exitCode = 1;
    // In the shutdown delay calls are still served: they are drained like those of a service that nobody has stopped.
    if (isEnding) void service.drain();
    else void end(service.drain());
  });
  onStopSignal = (signal) => {
    if (isSameSignal) return;
    if (isEnding && service.isDraining) exit(1);
    if (!isEnding) return void end(signal === "SIGINT" ? service.drain() : service.shutDown());
    afterSignal();
    void service.drain();
  };
  // Nothing has been served that a delay could help.
  if (early.started()) void end(service.drain());
}

/** A signal to stop that arrives while the service starts. Gives the start up when it takes too long. */
export class EarlyStop {
  readonly #giveUp: () => void;
  #timer: NodeJS.Timeout | undefined;

  constructor(giveUp: () => void) {
    this.#giveUp = giveUp;
  }

  request(): void {
    if (this.#timer !== undefined) return;
    print.error("stopping: the service has not started yet");
    this.#timer = setTimeout(this.#giveUp, START_MS_MAX).unref();
  }

  /** Returns whether a stop was requested. The service then ends in its own time, as any other one. */
  started(): boolean {
    clearTimeout(this.#timer);
    return this.#timer !== undefined;
  }
}
