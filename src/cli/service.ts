import type { Logger } from "pino";
import type { BundleMember } from "../bundles/member.ts";
import { endedWithin } from "../core/time-limits.ts";
import { openListeners } from "../http/connections/listening.ts";
import type { ListenerState, NotReady } from "../http/endpoint.ts";
import type { ServerOptions } from "../http/server-options.ts";
import { type BuildModules, MODULES } from "../modules.ts";
import type { CallerVerifier } from "../pipeline/caller-context.ts";
import type { Hooks, Service } from "../runtime/composition/wiring.ts";
import type { Config } from "../runtime/config/config.ts";
import { processEnvironment } from "../runtime/config/environment.ts";
import { tenantConfigs } from "../runtime/config/tenants.ts";
import { causeText } from "../runtime/log/log.ts";
import type { ReloadRequester } from "../runtime/reload/types.ts";
import {
  type Composition,
  factOf,
  lentParts,
  logStart,
  openEndpoints,
  prepareComposition,
  resourceOf,
  stateOf,
} from "./composition.ts";
import { type ConfigurationOptions, configuration } from "./configuration.ts";
import { print, reportChange } from "./output.ts";
import { Shutdown } from "./shutdown.ts";
import type { openParent, ParentParts } from "./workers.ts";

export type RunningService = Awaited<ReturnType<typeof startService>>;

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
  const worker = config.worker === undefined ? undefined : await (await import("./workers.ts")).openWorker();
  let parent: Awaited<ReturnType<typeof openParent>> | undefined;
  const prepareOwn = (more: Hooks = {}) =>
    prepareComposition(config, {
      modules,
      hooks: { readAgain, rateTable: worker?.rateTable, bundle: bundle && (() => factOf(bundle)), ...more },
      onWatched: () => parent?.roll("watch"),
    });
  const { composition, tenants } =
    tenantConfigs(config).length === 0
      ? { composition: await (await prepareOwn()).open(), tenants: undefined }
      : await (await import("./tenants.ts")).openWithTenants(config, { modules, readAgain, prepareOwn });
  const { service, metrics, log, output } = composition;
  const isParent = worker === undefined && config.server.workers > 1;
  if (isParent) parent = await parentOf(config, { service, metrics, log });
  const processes = parent ?? worker;
  let opened: Awaited<ReturnType<typeof consoleOf>>;
  /** Closes what is open when a later step fails. */
  const orClose = <T>(step: Promise<T>): Promise<T> =>
    step.catch(async (error: unknown) => {
      await opened?.console.close();
      await parent?.stop(0);
      await tenants?.close(0);
      await service.close(0);
      throw error;
    });
  const listenerTenants = await orClose(Promise.resolve(tenants?.serve(() => shutdown.stage)));
  const consoleParts = { modules, isDevelopment, log, callers: listenerTenants?.callers ?? service.callers };
  if (worker === undefined) opened = await orClose(consoleOf(config, service, consoleParts));
  let unfollow = (): void => {};
  const shutdown = new Shutdown({
    delayMs: config.server.shutdownDelayMs,
    begin() {
      log.info({ delayMs: config.server.shutdownDelayMs }, "shutting down");
      unfollow();
      service.announceEnd();
      tenants?.announceEnd();
      parent?.endLater();
    },
    drain: () => drain(),
  });
  // A tenant whose audit is unavailable does not count: the others would lose their service with it. Its own readiness says so.
  const notReady = (): readonly NotReady[] => [
    ...stateOf(composition, shutdown.stage),
    ...(parent?.isReady === false ? (["workers_unavailable"] as const) : []),
  ];
  let listening: () => readonly ListenerState[] = () => [];
  const shownMetrics =
    tenants === undefined
      ? metrics
      : (await import("../http/metrics.ts")).withTenants(metrics, () => tenants.metrics());
  const options: ServerOptions = {
    ...listenerOptions(composition),
    metrics: processes === undefined ? shownMetrics : { ...metrics, text: () => processes.metricsText(metrics) },
    isEnding: () => shutdown.stage !== "serving",
    listenerTenants,
  };
  if (worker === undefined) {
    logStart(composition);
    if (process.geteuid?.() === 0)
      log.warn("the service runs as root: start it as an ordinary user, since no command that it runs needs more");
  }
  const { reload: reloadOwn } = service;
  const reload = tenants && reloadOwn ? tenants.reload.bind(tenants) : reloadOwn;
  const known = {
    workers: parent?.states,
    bundle,
    tenants: tenants && (() => tenants.shown()),
    reload: reload && processes ? (by: ReloadRequester) => processes.reload(reload, by) : reload,
    learning: processes === undefined ? service.learning : undefined,
    notReady,
    listening: () => listening(),
  };
  const sources = {
    console: () => opened?.console.tally(),
    workers: () => parent?.counts(),
    bundle: () => bundle?.status(),
    listeners: () => listening(),
    // One process answers for all workers.
    ...(worker === undefined && {
      isReady: () => notReady().length === 0,
      backlog: () => service.approvals?.backlog(),
    }),
    dropped: { logs: () => output.dropped() },
  };
  const endpoints = await orClose(openEndpoints(composition, { modules, known, sources }));
  const { console: address, oidc: _, ...addresses } = service.listeners;
  const console = opened && address && { address, parts: opened.listener };
  const own = worker === undefined ? { isWithoutAgents: isParent } : worker.addresses(addresses);
  const listeners = await orClose(openListeners(options, { ...addresses, ...own, console, endpoints }));
  const { consoleUrl, operatorUrl } = listeners;
  const url = parent?.url ?? listeners.url;
  listening = listeners.states;
  if (worker === undefined)
    logListening({ url, consoleUrl, operatorUrl, hubUrl: service.hubListener?.url }, service, log);
  const drain = async (): Promise<void> => {
    log.info("draining");
    unfollow();
    service.drain();
    tenants?.drain();
    const closed = listeners.close().finally(() => opened?.console.close());
    // Each worker takes the same time, and then cuts its calls off.
    const stopped = parent?.stop(config.server.drainTimeoutMs + WORKER_END_MS);
    await endedWithin(closed, config.server.drainTimeoutMs);
    await stopped;
    // Nothing could be recorded of a request that came after the audit is closed.
    listeners.endIdle();
    await tenants?.close(0);
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
    hubUrl: service.hubListener?.url,
    notRegistered: worker === undefined ? [...service.notRegistered, ...(tenants?.notRegistered() ?? [])] : [],
    reload: known.reload,
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

interface ConsoleParts extends Required<Omit<ServiceOptions, "bundle">> {
  readonly log: Logger;
  /** Verifies the operators of the service, and of its tenants. */
  readonly callers: CallerVerifier;
}

/** Loads and opens the operators' console, if it is configured. */
async function consoleOf(config: Config, service: Service, { modules, isDevelopment, log, callers }: ConsoleParts) {
  const { console } = config.server;
  if (console === undefined) return undefined;
  const { host, tls, socket, publicUrl, allowedHosts } = console;
  const { openConsole } = await modules.console();
  return openConsole({
    listener: { host, publicUrl, allowedHosts, hasTls: tls !== undefined, hasSocket: socket !== undefined },
    oidc: service.listeners.oidc,
    isDevelopment,
    callers,
    clock: service.clock,
    state: service.sharedState,
    journal: service.journal,
    refusalLinesPerMinuteMax: () => service.limits.strangerLinesPerMinute,
    logError: (error) => log.error({ cause: causeText(error) }, "console"),
  });
}

function listenerOptions(composition: Composition) {
  const { config } = composition;
  return {
    ...config.server,
    resource: resourceOf(config),
    allowedHosts: [...config.server.allowedHosts, ...ownNames(config.server.host)],
    ...lentParts(composition),
  } satisfies Partial<ServerOptions>;
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
