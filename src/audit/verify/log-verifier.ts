import type { KeyObject } from "node:crypto";
import { errorText } from "../../core/error-text.ts";
import { bytesToVerify, type VerifiedLog, type VerifyReport, verifyInSteps } from "./verify.ts";

export interface LogVerifierOptions {
  /** The audit directory. */
  readonly dir: string;
  /** Public keys of checkpoints. Without any, signatures are not judged. */
  readonly keys: readonly KeyObject[];
  /** Milliseconds since 1970. */
  readonly clock: () => number;
}

/** What is known of the log now. */
export interface LogStatus extends Partial<VerifyReport> {
  /** Nothing is wrong, neither in the last reading of the whole log nor in what came since. Missing before the first one ended. */
  readonly ok?: boolean;
  /** ISO 8601: when the last reading of the whole log ended; `streams` and `checkpoints` are its report. */
  readonly verifiedAt?: string;
  /** The same of the lines and checkpoints that came since. */
  readonly since?: VerifyReport;
  /** A reading of the whole log is under way, and goes on when it is asked for again. */
  readonly more: boolean;
  readonly progress?: { readonly bytes: number; readonly bytesInAll: number };
  /** A file that cannot be read. */
  readonly fault?: string;
}

interface Reading {
  readonly steps: Generator<number, VerifiedLog>;
  readonly bytesInAll: number;
  bytes: number;
}

/**
 * Verifies a log beside the service that writes it, a piece at a time: first what came since the last reading of all of it,
 * then the next part of another such reading. However many ask, one piece of work is done, and all get its answer.
 */
export class LogVerifier {
  readonly #options: LogVerifierOptions;
  /** Of the whole log. */
  #reading: Reading | undefined;
  /** Of what came since the last one of the whole log. */
  #ahead: Reading | undefined;
  #whole: { readonly report: VerifyReport; readonly verifiedAt: string } | undefined;
  #since: VerifyReport | undefined;
  /** `undefined` when there is nothing sound to go on from. */
  #places: VerifiedLog["places"];
  #running: Promise<LogStatus> | undefined;

  constructor(options: LogVerifierOptions) {
    this.#options = options;
  }

  /** Asks `mayGoOn` after some milliseconds of work each, with the bytes read so far; others run in between. */
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
      // Retention took a file away between two pieces: the next reading begins behind it.
      if (error instanceof Error && "code" in error && error.code === "ENOENT")
        return { ...this.#status(), more: true };
      return { ...this.#status(), ok: false, fault: errorText(error).replaceAll(`${this.#options.dir}/`, "") };
    }
  }

  async #read(mayGoOn: (bytes: number) => boolean): Promise<void> {
    let before = 0;
    if (this.#places !== undefined) {
      this.#ahead ??= this.#begin(this.#places);
      const ahead = await inPieces(this.#ahead, mayGoOn);
      if (ahead.verified === undefined) return;
      this.#ahead = undefined;
      this.#since = ahead.verified.report;
      this.#places = ahead.verified.places;
      before = ahead.bytes;
    }
    this.#reading ??= this.#begin();
    const { verified } = await inPieces(this.#reading, (bytes) => mayGoOn(before + bytes));
    if (verified === undefined) return;
    this.#reading = undefined;
    this.#whole = { report: verified.report, verifiedAt: new Date(this.#options.clock()).toISOString() };
    this.#places = verified.places;
    this.#since = undefined;
  }

  #begin(since?: VerifiedLog["places"]): Reading {
    const { dir, keys } = this.#options;
    const steps = verifyInSteps({ dir, keys, since });
    return { steps, bytes: 0, bytesInAll: bytesToVerify({ dir, keys }) };
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

/** Goes on until the end, or until it may not; at least one step. */
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

/** Only bytes without a line end are a line that is being written. */
function isSound({ streams, checkpoints }: VerifyReport): boolean {
  return [...streams, checkpoints].every(({ damage }) => damage === undefined || damage.isTornEnd === true);
}
