import type { KeyObject } from "node:crypto";
import { errorText } from "../../core/error-text.ts";
import { bytesToVerify, isSound, type VerifiedLog, type VerifyReport, verifyInSteps } from "./verify.ts";
import { RecordedLogs } from "./worker-logs.ts";

interface LogVerifierOptions {
  readonly dir: string;
  /** Public keys that verify checkpoints. When empty, signatures are not checked. */
  readonly keys: readonly KeyObject[];
  /** Returns milliseconds since 1970. */
  readonly clock: () => number;
}

interface LogStatus extends Partial<VerifyReport> {
  /**
   * True when neither the last complete reading of the log nor the reading of later lines found a problem. Missing
   * before the first complete reading has ended.
   */
  readonly ok?: boolean;
  /**
   * Time at which the last complete reading of the log ended (ISO 8601). `streams` and `checkpoints` are its report.
   */
  readonly verifiedAt?: string;
  /** The report on lines and checkpoints written since then. */
  readonly since?: VerifyReport;
  /** True while a complete reading of the log is in progress; the next request continues it. */
  readonly more: boolean;
  readonly progress?: { readonly bytes: number; readonly bytesInAll: number };
  /** Error for a file that cannot be read. */
  readonly fault?: string;
}

interface Reading {
  readonly recorded: RecordedLogs;
  readonly steps: Generator<number, VerifiedLog>;
  readonly bytesInAll: number;
  bytes: number;
}

/**
 * Verifies a log in pieces, alongside the service that writes it: first the lines since the last complete reading, then
 * the next part of another complete reading. Concurrent requests share one piece of work and its result.
 */
export class LogVerifier {
  readonly #options: LogVerifierOptions;
  #reading: Reading | undefined;
  #ahead: Reading | undefined;
  #whole: { readonly report: VerifyReport; readonly verifiedAt: string } | undefined;
  #since: VerifyReport | undefined;
  /** Positions from which to continue; `undefined` when there is no sound position. */
  #positions: VerifiedLog["positions"];
  #running: Promise<LogStatus> | undefined;
  #recorded: RecordedLogs | undefined;

  constructor(options: LogVerifierOptions) {
    this.#options = options;
  }

  /** The journal's records of the logs of workers; `undefined` before the first complete reading has ended. */
  get recorded(): RecordedLogs | undefined {
    return this.#recorded;
  }

  /** Calls `mayGoOn` with the bytes read so far after every few milliseconds of work; other work runs in between. */
  status(mayGoOn: (bytes: number) => boolean): Promise<LogStatus> {
    this.#running ??= this.#run(mayGoOn).finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  async #run(mayGoOn: (bytes: number) => boolean): Promise<LogStatus> {
    try {
      await this.#read(mayGoOn);
      return this.#status();
    } catch (error) {
      this.#ahead = undefined;
      this.#reading = undefined;
      // Retention deleted a file between two pieces: the next reading starts after it.
      if (error instanceof Error && "code" in error && error.code === "ENOENT")
        return { ...this.#status(), more: true };
      return { ...this.#status(), ok: false, fault: errorText(error).replaceAll(`${this.#options.dir}/`, "") };
    }
  }

  async #read(mayGoOn: (bytes: number) => boolean): Promise<void> {
    let before = 0;
    if (this.#positions !== undefined) {
      this.#ahead ??= this.#begin(this.#recorded, this.#positions);
      const ahead = await inPieces(this.#ahead, mayGoOn);
      if (ahead.verified === undefined) return;
      this.#ahead = undefined;
      this.#since = ahead.verified.report;
      this.#positions = ahead.verified.positions;
      before = ahead.bytes;
    }
    this.#reading ??= this.#begin();
    const { recorded } = this.#reading;
    const { verified } = await inPieces(this.#reading, (bytes) => mayGoOn(before + bytes));
    if (verified === undefined) return;
    this.#recorded = recorded;
    this.#reading = undefined;
    this.#whole = { report: verified.report, verifiedAt: new Date(this.#options.clock()).toISOString() };
    this.#positions = verified.positions;
    this.#since = undefined;
  }

  #begin(recorded = new RecordedLogs(), since?: VerifiedLog["positions"]): Reading {
    const { dir, keys } = this.#options;
    const steps = verifyInSteps({ dir, keys, since, onJournalLine: (...line) => recorded.take(...line) });
    return { steps, recorded, bytes: 0, bytesInAll: bytesToVerify({ dir, keys }) };
  }

  #status(): LogStatus {
    const reading = this.#reading;
    const rest = {
      more: reading !== undefined || this.#ahead !== undefined,
      ...(reading !== undefined && { progress: { bytes: reading.bytes, bytesInAll: reading.bytesInAll } }),
    };
    if (this.#whole === undefined) return rest;
    const { report, verifiedAt } = this.#whole;
    const since = this.#since;
    const ok = isSound(report) && (since === undefined || isSound(since));
    return { ok, verifiedAt, ...report, ...(since !== undefined && { since }), ...rest };
  }
}

interface Piece {
  readonly bytes: number;
  readonly verified: VerifiedLog | undefined;
}

/** Runs until the end, or until `mayGoOn` returns `false`; at least one step. */
async function inPieces(reading: Reading, mayGoOn: (bytes: number) => boolean): Promise<Piece> {
  let bytes = 0;
  do {
    const step = reading.steps.next();
    if (step.done === true) return { bytes, verified: step.value };
    bytes += step.value;
    reading.bytes += step.value;
    await new Promise((resolve) => setImmediate(resolve));
  } while (mayGoOn(bytes));
  return { bytes, verified: undefined };
}
