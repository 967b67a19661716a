import { errorText } from "../core/error-text.ts";
import { StartupError } from "../core/errors.ts";
import { endedWithin } from "../core/time-limits.ts";
import type { Json } from "../core/types.ts";
import type { RateTable } from "../pipeline/limits/rates-shared.ts";
import type { Reloaded, ReloadRequester } from "../runtime/reload/types.ts";
import { LogRecord } from "./log-record.ts";
import { countedBy, exposition, type MetricValues } from "./metrics.ts";
import { type WorkerEnd, WorkerProcess } from "./worker.ts";

const METRICS_MS_MAX = 2_000;
const RELOAD_MS_MAX = 600_000;
const RELOADS_MAX = 3;
const CHECK_EVERY_MS = 1_000;
/** Checks without a report after which a worker counts as hanging. Counted in the parent's checks: a machine may be suspended. */
const SILENT_CHECKS_MAX = 60;
/** The same for a worker that is starting: it loads tools, and may wait for other systems. */
const STARTING_CHECKS_MAX = 600;
/** Checks after which workers with another configuration than the parent's are noticed, and the most between two attempts to mend it. */
const DIFFERENT_CHECKS = 4;
const MEND_CHECKS_MAX = 64;
/** Delay before an ended worker is replaced: doubled from one early end to the next. */
const REPLACE_MS_MIN = 100;
const REPLACE_MS_MAX = 30_000;
/** A worker that lived for this long did not fail at its start. */
const EARLY_MS = 30_000;

export interface PoolEvent {
  readonly type:
    | "worker.started"
    | "worker.ended"
    | "worker.reload_failed"
    | "worker.differs"
    | "worker.hangs"
    | "worker.not_journaled";
  readonly worker: number;
  readonly [fact: string]: Json | undefined;
}

/** A line of the parent's journal. */
export interface PoolLine {
  readonly type: "worker.started" | "worker.log" | "worker.ended";
  readonly worker: number;
  readonly [fact: string]: Json | undefined;
}

export interface WorkerPoolOptions {
  readonly workers: number;
  readonly argv: readonly string[];
  /** Environment of worker `number`; `port`: the one that the first worker has found, when the configuration leaves it open. */
  readonly environment: (number: number, port: string | undefined) => Readonly<Record<string, string | undefined>>;
  readonly rateTable: Pick<RateTable, "add">;
  /** Returns the parent's own metrics. */
  readonly metrics: () => Promise<MetricValues>;
  /** Reloads the parent and all workers. */
  readonly reload: (by: ReloadRequester) => Promise<Reloaded>;
  /** Returns the digest of the configuration that the parent uses. */
  readonly sha256: () => string | undefined;
  /** Milliseconds, never decreasing. */
  readonly monotonic: () => number;
  /** Time between two looks at the workers. */
  readonly checkEveryMs?: number;
  readonly onEvent: (event: PoolEvent) => void;
  /** Writes a journal line; the line is durable when the promise resolves. */
  readonly journal: (line: PoolLine) => Promise<void>;
}

export interface WorkerState {
  readonly worker: number;
  readonly pid: number | null;
  readonly status: "starting" | "ready" | "not_ready" | "ending" | "ended";
  readonly reasons: readonly string[];
  /** Digest of its configuration. */
  readonly sha256: string | null;
}

interface Slot {
  readonly number: number;
  process: WorkerProcess | undefined;
  startedAt: number;
  /** Early ends, one after the other. */
  failures: number;
  timer: NodeJS.Timeout | undefined;
}

/** Starts the workers, replaces those that end, and asks all of them. */
export class WorkerPool {
  readonly #options: WorkerPoolOptions;
  readonly #slots: readonly Slot[];
  /** What ended workers have counted. */
  #counted: MetricValues = [];
  #retiring: Promise<unknown> = Promise.resolve();
  #rolling: Promise<unknown> = Promise.resolve();
  #port: string | undefined;
  #checking: NodeJS.Timeout | undefined;
  #isStopping = false;
  #isRolling = false;
  /** Checks in a row that have found a worker with another configuration than the parent's. */
  #differentChecks = 0;
  /** Workers that were started in place of an ended one. */
  replaced = 0;

  constructor(options: WorkerPoolOptions) {
    this.#options = options;
    this.#slots = Array.from({ length: options.workers }, (_, at) => ({
      number: at + 1,
      process: undefined,
      startedAt: 0,
      failures: 0,
      timer: undefined,
    }));
  }

  /**
   * Starts all workers; the first one chooses the port where the configuration leaves it open. Returns their URL.
   *
   * @throws {StartupError} when one of them does not start; the others are ended by then
   */
  async start(): Promise<string> {
    const [first, ...others] = this.#slots;
    if (first === undefined) throw new Error("a pool has at least one worker");
    try {
      const url = await this.#start(first).listening();
      this.#port = URL.parse(url)?.port;
      await Promise.all(others.map((slot) => this.#start(slot).listening()));
      // One may have ended while the others were starting.
      for (const slot of this.#slots) if (slot.process === undefined) void this.#replace(slot);
      this.#checking = setInterval(() => this.#check(), this.#options.checkEveryMs ?? CHECK_EVERY_MS);
      return url;
    } catch (error) {
      await this.stop(0);
      throw new StartupError([`server.workers: ${errorText(error)}; its messages say why`]);
    }
  }

  states(): readonly WorkerState[] {
    return this.#slots.map(({ number, process }) => ({
      worker: number,
      pid: process?.pid ?? null,
      status: statusOf(process),
      reasons: process?.report?.reasons ?? [],
      sha256: process?.report?.sha256 ?? null,
    }));
  }

  /** Number of workers that accept calls. */
  get ready(): number {
    return this.#slots.filter(({ process }) => process?.isReady === true).length;
  }

  /** True when at least half of the workers accept calls. */
  get isReady(): boolean {
    return this.ready * 2 >= this.#slots.length;
  }

  /** Returns the metrics of all processes, ended ones included, as one exposition. */
  async metrics(): Promise<string> {
    const asking = this.#slots.map(async (slot) => {
      const { process } = slot;
      if (process === undefined) return [];
      // A worker that does not answer in time keeps its last values: without them, sums would fall.
      process.metrics = await process.ask("metrics", METRICS_MS_MAX).catch(() => process.metrics);
      // One that has ended meanwhile is among those that ended.
      return slot.process === process ? process.metrics : [];
    });
    const [own, ...workers] = await Promise.all([this.#options.metrics(), ...asking]);
    await this.#retiring;
    return exposition([own, ...workers, this.#counted]);
  }

  /**
   * Lets the workers adopt the configuration that the parent has adopted, one after the other, and returns why some have not. Those
   * are restarted, but only once another worker has adopted it: otherwise a mistake in a file would end them all.
   */
  roll(by: ReloadRequester): Promise<readonly string[]> {
    const rolled = this.#rolling.then(async () => {
      this.#isRolling = true;
      try {
        return await this.#reloadAll(by);
      } finally {
        this.#isRolling = false;
      }
    });
    this.#rolling = rolled.catch(() => {});
    return rolled;
  }

  async #reloadAll(by: ReloadRequester): Promise<readonly string[]> {
    const problems: string[] = [];
    const refusing: WorkerProcess[] = [];
    for (const { process } of this.#slots) {
      const found = await this.#reload(process, by);
      if (process === undefined || found.length === 0) continue;
      refusing.push(process);
      problems.push(...found.map((problem) => `worker ${process.number}: ${problem}`));
    }
    const hasAdopted = this.#slots.some(({ process }) => process?.isReady === true && !this.#differs(process));
    if (hasAdopted) for (const process of refusing) process.drain();
    return problems;
  }

  /** True for a worker whose configuration is another than the parent's. */
  #differs({ report }: WorkerProcess): boolean {
    return report !== undefined && report.sha256 !== this.#options.sha256();
  }

  /** Lets all workers end: each serves for `server.shutdownDelayMs` and then drains. */
  endLater(): void {
    this.#isStopping = true;
    clearInterval(this.#checking);
    for (const { timer } of this.#slots) clearTimeout(timer);
    for (const { process } of this.#slots) process?.end();
  }

  /** Ends all workers now. Those that have not ended after `graceMs` are killed. */
  async stop(graceMs: number): Promise<void> {
    this.endLater();
    const running = this.#slots.flatMap(({ process }) => process ?? []);
    for (const process of running) process.drain();
    await endedWithin(Promise.all(running.map(({ ended }) => ended)), graceMs);
    for (const { process } of this.#slots) process?.kill(`had not ended ${graceMs} ms after it was asked to`);
    await Promise.all(running.map(({ ended }) => ended));
  }

  #start(slot: Slot): WorkerProcess {
    const { argv, environment, rateTable, reload, monotonic, journal } = this.#options;
    const { number } = slot;
    const log = new LogRecord({
      write: (origins) => journal({ type: "worker.log", worker: number, pid: process.pid, origins: [...origins] }),
      onFailure: (error) => this.#notJournaled("worker.log", number, error),
    });
    const process = new WorkerProcess({
      number,
      argv,
      environment: environment(number, this.#port),
      calls: { metrics: () => this.metrics(), reload, charge: (charges) => rateTable.add(charges) },
      log,
      onEnd: (ended, end) => this.#onEnd(slot, ended, end),
    });
    slot.process = process;
    slot.startedAt = monotonic();
    this.#tell({ type: "worker.started", worker: number, pid: process.pid });
    return process;
  }

  /** Logs and journals. The worker goes on without the line: a parent that cannot write says so at `/readyz`. */
  #tell(event: PoolEvent & PoolLine): void {
    const { journal, onEvent } = this.#options;
    onEvent(event);
    journal(event).catch((error: unknown) => this.#notJournaled(event.type, event.worker, error));
  }

  #notJournaled(line: PoolLine["type"], worker: number, error: unknown): void {
    this.#options.onEvent({ type: "worker.not_journaled", worker, line, problem: errorText(error) });
  }

  #onEnd(slot: Slot, process: WorkerProcess, { code, signal, reason }: WorkerEnd): void {
    const { monotonic } = this.#options;
    slot.process = undefined;
    this.#retire(process.metrics);
    this.#tell({ type: "worker.ended", worker: slot.number, pid: process.pid, code, signal, reason });
    if (this.#isStopping || this.#checking === undefined) return;
    const isEarly = !process.isEnding && monotonic() - slot.startedAt < EARLY_MS;
    slot.failures = isEarly ? slot.failures + 1 : 0;
    this.#replaceLater(slot);
  }

  #replaceLater(slot: Slot): void {
    const delayMs = slot.failures === 0 ? 0 : Math.min(REPLACE_MS_MIN * 2 ** (slot.failures - 1), REPLACE_MS_MAX);
    slot.timer = setTimeout(() => void this.#replace(slot), delayMs);
  }

  async #replace(slot: Slot): Promise<void> {
    let process: WorkerProcess;
    try {
      process = this.#start(slot);
    } catch (error) {
      // The system starts no process now.
      this.#options.onEvent({ type: "worker.ended", worker: slot.number, problem: errorText(error) });
      slot.failures += 1;
      this.#replaceLater(slot);
      return;
    }
    this.replaced += 1;
    await process.listening().catch(() => {});
    // The configuration may have changed while it started.
    if (this.#differs(process)) {
      const rolled = this.#rolling.then(() => this.#reload(process, "signal"));
      this.#rolling = rolled.catch(() => {});
    }
  }

  /** Adds what an ended worker has counted, before the next exposition. */
  #retire(values: MetricValues): void {
    const retired = this.#retiring.then(async () => {
      this.#counted = await countedBy([this.#counted, values]);
    });
    this.#retiring = retired.catch(() => {});
  }

  /** Returns why a worker has not adopted the configuration of the parent. */
  async #reload(process: WorkerProcess | undefined, by: ReloadRequester): Promise<readonly string[]> {
    if (process?.report === undefined || process.isEnding) return [];
    const problems = await reloadProblems(process, by);
    // Each process reads the files by itself, and they may have changed in between.
    if (problems === undefined) return this.#differs(process) ? [OTHER_FILES] : [];
    this.#options.onEvent({ type: "worker.reload_failed", worker: process.number, problems: [...problems] });
    return problems;
  }

  #check(): void {
    this.#mendDifferent();
    for (const { process } of this.#slots) {
      if (process === undefined) continue;
      process.silence += 1;
      if (process.silence <= (process.report === undefined ? STARTING_CHECKS_MAX : SILENT_CHECKS_MAX)) continue;
      this.#options.onEvent({ type: "worker.hangs", worker: process.number, pid: process.pid });
      process.kill("reported nothing for too long");
    }
  }

  /** Reloads all processes when one has used another configuration than the parent for some time, less and less often. */
  #mendDifferent(): void {
    const different = this.#slots.find(({ process }) => process !== undefined && this.#differs(process));
    if (different === undefined || this.#isRolling) {
      this.#differentChecks = 0;
      return;
    }
    this.#differentChecks += 1;
    if (!isTimeToMend(this.#differentChecks)) return;
    this.#options.onEvent({ type: "worker.differs", worker: different.number });
    const mended = this.#options.reload("signal").then(() => this.roll("signal"));
    mended.catch(() => {});
  }
}

const OTHER_FILES = "the files have changed since the parent read them: all processes reload again";

/** True after 4, 8, 16, 32 checks, and then every 64. */
function isTimeToMend(checks: number): boolean {
  const isDoubled = checks >= DIFFERENT_CHECKS && (checks & (checks - 1)) === 0;
  return checks % MEND_CHECKS_MAX === 0 || (isDoubled && checks < MEND_CHECKS_MAX);
}

/** Returns why a worker has not adopted the configuration; undefined when it has. */
async function reloadProblems(process: WorkerProcess, by: ReloadRequester): Promise<readonly string[] | undefined> {
  for (let attempt = 1; ; attempt += 1) {
    let reloaded: Reloaded | undefined;
    try {
      reloaded = await process.ask("reload", RELOAD_MS_MAX, by);
    } catch (error) {
      return [errorText(error)];
    }
    if (reloaded?.outcome === "refused") return reloaded.problems;
    if (reloaded?.outcome !== "busy") {
      if (reloaded !== undefined) process.adopted(reloaded.sha256);
      return undefined;
    }
    if (reloaded.reason === "closing") return undefined;
    if (attempt === RELOADS_MAX) return [`reload: busy (${reloaded.reason})`];
    const { retryAfterMs } = reloaded;
    await new Promise((resolve) => setTimeout(resolve, retryAfterMs));
  }
}

function statusOf(process: WorkerProcess | undefined): WorkerState["status"] {
  if (process === undefined) return "ended";
  if (process.isEnding) return "ending";
  if (process.report === undefined) return "starting";
  return process.isReady ? "ready" : "not_ready";
}
