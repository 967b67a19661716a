import { type ParentCalls, ProcessChannel, type WorkerCalls, type WorkerReport } from "./channel.ts";
import type { LogRecord } from "./log-record.ts";
import type { MetricValues } from "./metrics.ts";

const DRAIN_MS_MAX = 10_000;

/** How a process has ended. */
export interface WorkerEnd {
  readonly code: number | null;
  readonly signal: string | null;
  /** Why its parent has killed it; undefined when it has not. */
  readonly reason: string | undefined;
}

interface WorkerOptions {
  readonly number: number;
  /** Command line of the process, which is that of its parent. */
  readonly argv: readonly string[];
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly calls: Pick<ParentCalls, "metrics" | "reload" | "charge">;
  /** Records which log it writes. */
  readonly log: LogRecord;
  readonly onEnd: (worker: WorkerProcess, end: WorkerEnd) => void;
}

/** One process of a worker, from its start to its end. */
export class WorkerProcess {
  readonly number: number;
  readonly pid: number;
  /** Resolves after `onEnd`. */
  readonly ended: Promise<void>;
  readonly #child: Bun.Subprocess;
  readonly #channel: ProcessChannel<WorkerCalls, ParentCalls>;
  readonly #listening = Promise.withResolvers<string>();
  #report: WorkerReport | undefined;
  /** The values that it has reported last. */
  metrics: MetricValues = [];
  /** Number of checks since its last report. */
  silence = 0;
  /** True when it was asked to end. */
  isEnding = false;
  #killedBecause: string | undefined;

  constructor({ number, argv, environment, calls, log, onEnd }: WorkerOptions) {
    this.number = number;
    // Nothing waits for it when a worker ends before it listens and nobody asks.
    this.#listening.promise.catch(() => {});
    this.#channel = new ProcessChannel({
      send: (message) => this.#child.send(message),
      calls: {
        ...calls,
        // A start is complete when the journal says which logs its workers write.
        listening: async (url) => void log.settled().then(() => this.#listening.resolve(url)),
        report: async (report) => {
          this.silence = 0;
          this.#report = report;
          log.reported(report.origins);
        },
        lastMetrics: async (values) => {
          this.metrics = values;
        },
      },
    });
    const { promise: ended, resolve } = Promise.withResolvers<void>();
    this.ended = ended;
    this.#child = Bun.spawn([...argv], {
      env: { ...environment },
      stdin: "ignore",
      stdout: "inherit",
      stderr: "inherit",
      ipc: (message) => this.#channel.receive(message),
      onExit: (_child, code, signal) => {
        this.#channel.close();
        this.#listening.reject(new Error(`worker ${number} has ended (${signal ?? code}) before it listened`));
        onEnd(this, { code, signal: signal === null ? null : String(signal), reason: this.#killedBecause });
        resolve();
      },
    });
    this.pid = this.#child.pid;
  }

  /** Resolves to its URL when it listens; rejects when it has ended before. */
  listening(): Promise<string> {
    return this.#listening.promise;
  }

  /** The last report; undefined before it listens. */
  get report(): WorkerReport | undefined {
    return this.#report;
  }

  /** Notes that it has adopted a configuration, which its next report will say, too. */
  adopted(sha256: string): void {
    if (this.#report !== undefined) this.#report = { ...this.#report, sha256 };
  }

  get isReady(): boolean {
    return !this.isEnding && this.#report?.reasons.length === 0;
  }

  ask: ProcessChannel<WorkerCalls, ParentCalls>["ask"] = (...words) => this.#channel.ask(...words);

  /** Lets it drain now, without `server.shutdownDelayMs`, or what is left of it. */
  drain(): void {
    this.end();
    this.ask("drain", DRAIN_MS_MAX).catch(() => {});
  }

  /** Lets it serve for `server.shutdownDelayMs` and then drain. */
  end(): void {
    // A second SIGTERM would cut its calls off.
    if (this.isEnding) return;
    this.isEnding = true;
    this.#child.kill("SIGTERM");
  }

  kill(reason: string): void {
    this.isEnding = true;
    this.#killedBecause = reason;
    this.#child.kill("SIGKILL");
  }
}
