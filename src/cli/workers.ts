import type { Logger } from "pino";
import { EMBEDDED } from "../core/embedded-code.ts";
import { assertPortFree } from "../http/connections/listening.ts";
import type { NotReady } from "../http/endpoint.ts";
import type { Metrics } from "../http/metrics.ts";
import { monotonic } from "../pipeline/limits/monotonic-clock.ts";
import type { Service } from "../runtime/composition/wiring.ts";
import type { Config } from "../runtime/config/config.ts";
import { processEnvironment } from "../runtime/config/environment.ts";
import { WORKER_VARIABLE } from "../runtime/config/reading.ts";
import type { Reloaded, ReloadRequester } from "../runtime/reload/types.ts";
import type { Shutdown } from "./shutdown.ts";

/** What `startService` does in the processes of `server.workers`. Nothing of it is loaded in a service of one process. */

/** Environment variable with the port that the first worker has found, where the configuration has 0. */
const PORT_VARIABLE = "STC_WORKER_PORT";

type Reload = (by: ReloadRequester) => Promise<Reloaded>;

export interface ParentParts {
  readonly service: Service;
  readonly metrics: Metrics;
  readonly log: Logger;
}

const LEVELS = {
  "worker.started": "info",
  "worker.ended": "warn",
  "worker.reload_failed": "error",
  "worker.differs": "error",
  "worker.hangs": "error",
  "worker.not_journaled": "error",
} as const;

/**
 * Starts the workers of this process.
 *
 * @throws {StartupError} when the port is taken, or when one of the workers does not start
 */
export async function openParent(config: Config, { service, metrics, log }: ParentParts) {
  const { host, port, workers } = config.server;
  if (port !== "off") await assertPortFree({ host, port });
  const { WorkerPool } = await import("../workers/pool.ts");
  const { memoryRateTable } = await import("../workers/rate-table.ts");
  const now = monotonic(service.clock);
  const reloadAll = async (reload: Reload, by: ReloadRequester): Promise<Reloaded> => {
    const reloaded = await reload(by);
    if (reloaded.outcome !== "changed") return reloaded;
    const problems = await pool.roll(by);
    return problems.length === 0 ? reloaded : { outcome: "refused", problems };
  };
  const pool = new WorkerPool({
    workers,
    argv: ownArgv(),
    environment: (number, found) => ({
      ...processEnvironment(),
      [WORKER_VARIABLE]: String(number),
      ...(port === 0 && { [PORT_VARIABLE]: found }),
    }),
    rateTable: memoryRateTable(now),
    metrics: () => metrics.values(),
    reload: async (by) => {
      if (service.reload === undefined) throw new Error("reload.trigger is off");
      return reloadAll(service.reload, by);
    },
    sha256: () => service.configuration()?.sha256,
    monotonic: now,
    journal: (line) => service.journal(line),
    onEvent: ({ type, ...facts }) => log[LEVELS[type]](facts, type),
  });
  return {
    url: await pool.start(),
    get isReady(): boolean {
      return pool.isReady;
    },
    counts: () => ({ ready: pool.ready, replaced: pool.replaced }),
    states: () => pool.states(),
    metricsText: (_own: Metrics) => pool.metrics(),
    reload: reloadAll,
    /** Lets the workers adopt the configuration in use. Never rejects. */
    roll: (by: ReloadRequester) => void pool.roll(by).catch(() => {}),
    /** Lets each worker serve for `server.shutdownDelayMs` and then drain. */
    endLater: () => pool.endLater(),
    stop: (graceMs: number) => pool.stop(graceMs),
  };
}

/** Returns the command line of this process. */
function ownArgv(): readonly string[] {
  const program = Bun.main.startsWith(EMBEDDED) ? [] : [...process.execArgv, Bun.main];
  return [process.execPath, ...program, ...process.argv.slice(2)];
}

interface WorkerParts {
  readonly service: Service;
  readonly metrics: Metrics;
  readonly notReady: () => readonly NotReady[];
  readonly shutdown: Pick<Shutdown, "drain">;
}

/**
 * Joins this process to its parent.
 *
 * @throws {StartupError} when no parent has started it
 */
export async function openWorker() {
  const { joinParent } = await import("../workers/member.ts");
  const member = joinParent();
  return {
    rateTable: member.rateTable,
    metricsText: (own: Metrics) => member.metrics().catch(() => own.text()),
    /** Asks the parent, which reloads all processes. */
    reload: (_own: Reload, by: ReloadRequester) => member.reload(by),
    /** Returns where it listens: no other worker can know the port that the system has chosen for the first. */
    addresses: ({ port }: { readonly port: number | "off" }) => {
      const found = processEnvironment()[PORT_VARIABLE];
      return { operator: undefined, isShared: true, port: port === 0 && found !== undefined ? Number(found) : port };
    },
    async listening(url: string, { service, metrics, notReady, shutdown }: WorkerParts): Promise<void> {
      member.join({
        metrics: () => metrics.values(),
        reload: async (by) => service.reload?.(by),
        drain: () => void shutdown.drain(),
        report: () => ({
          reasons: notReady(),
          sha256: service.configuration()?.sha256,
          origins: service.auditOrigins(),
        }),
      });
      await member.listening(url);
    },
    leave: () => member.leave(),
  };
}
