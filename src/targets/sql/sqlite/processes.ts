import { Lines } from "../../../core/lines.ts";
import type { ServerOutput, ServerProcess } from "../../../core/server-process.ts";
import { Semaphore } from "../../../database/semaphore.ts";
import type { SqlFailure } from "../failures.ts";
import { failureOf, tooLate, unavailable } from "./failures.ts";
import { isInWalMode } from "./files.ts";
import type { Request, Response } from "./protocol.ts";

/** Bytes of one byte of a cell, as JSON writes it at most. */
const JSON_BYTES_MAX = 6;
const ANSWER_BYTES_MIN = 4_194_304;
const START_MS_MAX = 10_000;

interface ProcessOptions {
  readonly name: string;
  readonly file: string;
  readonly mayChange: boolean;
  /** Most processes at once. */
  readonly count: number;
  readonly statementMs: number;
  readonly lockMs: number;
  /** Most bytes of the cells of an answer. */
  readonly bytes: number;
  /** Returns the identity of the database's file; undefined when it cannot be used. */
  readonly identity: () => string | undefined;
  /** Starts a process for the file as it is now. @throws {Error} when that cannot be done */
  readonly start: (output: ServerOutput) => ServerProcess;
}

/** The processes that have a database open for one use, reading or changing. Each does one thing at a time. */
export class DatabaseProcesses {
  readonly #options: ProcessOptions;
  readonly #idle: DatabaseProcess[] = [];
  readonly #all = new Set<DatabaseProcess>();
  readonly #permits: Semaphore;

  constructor(options: ProcessOptions) {
    this.#options = options;
    const { name, count } = options;
    this.#permits = new Semaphore({
      permits: count,
      refused: (isAborted) => (isAborted ? tooLate() : unavailable(`${name} has no free process`, "local")),
    });
  }

  /** Runs work with a process of its own, which is killed when the signal fires. Waits for one as long as the signal allows. */
  async use<T>(signal: AbortSignal, work: (database: DatabaseProcess) => Promise<T>): Promise<T> {
    await this.#permits.acquire(signal);
    let used: DatabaseProcess | undefined;
    try {
      used = await this.#next(signal);
      return await work(used);
    } finally {
      if (used?.isUsable === true) this.#idle.push(used);
      this.#permits.release();
    }
  }

  /** Ends the idle processes: the files that they have open are no longer the database's. */
  async endIdle(): Promise<void> {
    await Promise.all(this.#idle.splice(0).map((each) => each.end()));
  }

  async close(): Promise<void> {
    this.#permits.close();
    await Promise.all([...this.#all].map((each) => each.end()));
  }

  async #next(signal: AbortSignal): Promise<DatabaseProcess> {
    const { identity, file, mayChange, lockMs } = this.#options;
    const isNow = identity();
    if (isNow === undefined) throw unavailable("the database's file cannot be used");
    for (let known = this.#idle.pop(); known !== undefined; known = this.#idle.pop()) {
      if (known.isUsable && known.identity === isNow) return known;
      await known.end();
    }
    const open = { do: "open", file, mayChange, isWal: isInWalMode(file), lockMs } as const;
    const started = new DatabaseProcess(this.#options, isNow);
    this.#all.add(started);
    void started.ended.then(() => this.#all.delete(started));
    const opened = await started.ask(open, signal, START_MS_MAX);
    if (!("error" in opened)) return started;
    await started.end();
    throw failureOf(opened.error);
  }
}

/** A process that has the database open. */
export class DatabaseProcess {
  readonly identity: string;
  readonly #process: ServerProcess;
  readonly #statementMs: number;
  #answers: ((response: Response | SqlFailure) => void) | undefined;
  #isUsable = true;

  constructor({ bytes, statementMs, start }: ProcessOptions, identity: string) {
    this.identity = identity;
    this.#statementMs = statementMs;
    const lines = new Lines({
      bytesMax: Math.max(ANSWER_BYTES_MIN, 2 * JSON_BYTES_MAX * bytes),
      onLine: (line) => this.#answered(JSON.parse(Buffer.from(line).toString("utf8")) as Response),
      onTooLong: () => void this.kill(unavailable("its process sent an answer above the limit")),
    });
    try {
      this.#process = start({ stdout: (chunk) => lines.add(chunk), stderr: () => {} });
    } catch (error) {
      throw unavailable(error instanceof Error ? error.message : "its process cannot be started");
    }
    void this.#process.ended.then((reason) => this.#lost(unavailable(`its process has ended (${reason})`)));
  }

  get isUsable(): boolean {
    return this.#isUsable;
  }

  get ended(): Promise<string> {
    return this.#process.ended;
  }

  /** Sends one request and returns its answer. Kills the process when the signal fires, or after the time for a statement. @throws {SqlFailure} */
  async ask(request: Request, signal: AbortSignal, timeoutMs = this.#statementMs): Promise<Response> {
    if (!this.#isUsable) throw unavailable("its process has ended");
    if (signal.aborted) throw tooLate();
    const { promise, resolve } = Promise.withResolvers<Response | SqlFailure>();
    this.#answers = resolve;
    const stop = (): void => void this.kill(tooLate());
    const timer = setTimeout(stop, timeoutMs);
    signal.addEventListener("abort", stop, { once: true });
    try {
      await Promise.race([this.#send(request), promise]);
      const answer = await promise;
      if (answer instanceof Error) throw answer;
      return answer;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", stop);
      this.#answers = undefined;
    }
  }

  /** Kills the process, whatever it does. */
  async kill(reason: SqlFailure = unavailable("its process was ended")): Promise<void> {
    this.#lost(reason);
    await this.#process.kill();
  }

  async end(): Promise<void> {
    this.#isUsable = false;
    await this.#process.stop();
  }

  async #send(request: Request): Promise<void> {
    try {
      await this.#process.ready;
      await this.#process.write(Buffer.from(`${JSON.stringify(request)}\n`, "utf8"));
    } catch (error) {
      void this.kill(unavailable(error instanceof Error ? error.message : "its process cannot be used"));
    }
  }

  #answered(response: Response): void {
    this.#answers?.(response);
  }

  #lost(failure: SqlFailure): void {
    this.#isUsable = false;
    this.#answers?.(failure);
  }
}
