import { errorText } from "../../core/error-text.ts";
import type { Position } from "../query/cursor.ts";
import type { Stream } from "../query/days.ts";
import { bytesBehind, type ExportLine, readBatch, readNextLine } from "./batch.ts";
import { keepDeadLetters } from "./dead-letters.ts";
import { LOKI_PATH, toLoki } from "./loki.ts";
import { OTLP_PATH, rejectedByOtlp, toOtlp } from "./otlp.ts";
import { readExportPlace, writeExportPlace } from "./place-files.ts";
import { type Outcome, post, type Send } from "./sender.ts";

export interface ExporterTarget {
  /** Names its files. */
  readonly name: string;
  readonly type: "otlp" | "loki";
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
}

export interface ExporterOptions {
  /** The audit directory. */
  readonly dir: string;
  readonly stream: Stream;
  readonly target: ExporterTarget;
  /** Milliseconds since 1970. */
  readonly clock: () => number;
  /** At least 0, below 1. */
  readonly random: () => number;
  /** What went wrong, for the operators' log; once for each time that it begins. */
  readonly report: (message: string) => void;
  readonly send?: Send | undefined;
  /** Milliseconds between looks at a log that has nothing new, and after a first failure. */
  readonly pollMs?: number;
  readonly backoffMs?: number;
}

/** How one exporter of one stream is doing. */
export interface ExportState {
  readonly exporter: string;
  readonly stream: Stream;
  /** Not a number while the log cannot be read, and so the seconds. */
  readonly bytesBehind: number;
  /** Of the oldest line that was not taken yet; 0 when there is none. */
  readonly secondsBehind: number;
  readonly sentLines: number;
  readonly deadLines: number;
  readonly failures: number;
}

const POLL_MS = 500;
const BACKOFF_MS = 1_000;
const BACKOFF_MS_MAX = 60_000;
const TIMEOUT_MS = 15_000;

const ENCODERS = {
  otlp: { path: OTLP_PATH, encode: toOtlp, rejected: rejectedByOtlp },
  loki: { path: LOKI_PATH, encode: toLoki, rejected: () => 0 },
} as const;

/**
 * Sends one stream of the log to one far side, batch after batch, in order, at least once: the place is moved on only
 * when a batch was taken, or is kept among the dead letters because it never will be. It reads files; the road of a call
 * knows nothing of it.
 */
export class Exporter {
  readonly #options: ExporterOptions;
  readonly #url: string;
  readonly #counts = { sentLines: 0, deadLines: 0, failures: 0 };
  #position: Position | undefined;
  readonly #stopping = new AbortController();
  #isFailing = false;
  #wake: () => void = () => {};
  readonly #done: Promise<void>;

  /** Begins at once. */
  constructor(options: ExporterOptions) {
    this.#options = options;
    const { dir, stream, target } = options;
    const url = new URL(target.url);
    if (url.pathname === "/") url.pathname = ENCODERS[target.type].path;
    this.#url = url.href;
    this.#position = readExportPlace(dir, target.name, stream).position;
    this.#done = this.#run();
  }

  state(): ExportState {
    const { stream, target } = this.#options;
    return { exporter: target.name, stream, ...this.#lag(), ...this.#counts };
  }

  /** Breaks off the request under way. What was not taken, as far as we know, is sent after the next start. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#wake();
    await this.#done;
  }

  #lag(): Pick<ExportState, "bytesBehind" | "secondsBehind"> {
    const { dir, stream, clock } = this.#options;
    const place = { dir, stream, from: this.#position };
    try {
      const next = readNextLine(place);
      const secondsBehind = next === undefined ? 0 : Math.max(0, (clock() - next.timeMs) / 1_000);
      return { bytesBehind: bytesBehind(place), secondsBehind };
    } catch {
      // A log that cannot be read: the exporter itself says why.
      return { bytesBehind: Number.NaN, secondsBehind: Number.NaN };
    }
  }

  async #run(): Promise<void> {
    const { dir, stream, target, pollMs = POLL_MS, backoffMs = BACKOFF_MS } = this.#options;
    while (!this.#stopping.signal.aborted) {
      try {
        const batch = readBatch({ dir, stream, from: this.#position });
        if (batch === undefined) await this.#wait(pollMs);
        else if (await this.#deliver(batch.lines)) {
          writeExportPlace(dir, { exporter: target.name, stream, position: batch.next });
          this.#position = batch.next;
        }
      } catch (error) {
        this.#fail(errorText(error));
        await this.#wait(backoffMs);
      }
    }
  }

  /** `false` when it was stopped before all of it was taken. */
  async #deliver(lines: readonly ExportLine[]): Promise<boolean> {
    const { target, send } = this.#options;
    const { encode, rejected } = ENCODERS[target.type];
    const request = {
      url: this.#url,
      headers: target.headers,
      timeoutMs: TIMEOUT_MS,
      signal: this.#stopping.signal,
      send,
    };
    const body = encode(lines);
    for (let attempt = 0; !this.#stopping.signal.aborted; attempt += 1) {
      const outcome = await post(body, request);
      if (outcome.kind === "later") {
        if (this.#stopping.signal.aborted) return false;
        this.#fail(outcome.reason);
        await this.#wait(this.#pauseMs(attempt, outcome));
        continue;
      }
      if (outcome.kind === "refused") return this.#refused(lines, outcome.reason);
      this.#isFailing = false;
      const count = rejected(outcome.answer);
      if (count > 0) this.#bury(lines, `${count} of ${lines.length} rejected`);
      else this.#counts.sentLines += lines.length;
      return true;
    }
    return false;
  }

  /** One bad line spoils a whole batch: it is halved until it stands alone. */
  async #refused(lines: readonly ExportLine[], reason: string): Promise<boolean> {
    if (lines.length === 1) {
      this.#bury(lines, reason);
      return true;
    }
    const middle = Math.ceil(lines.length / 2);
    return (await this.#deliver(lines.slice(0, middle))) && (await this.#deliver(lines.slice(middle)));
  }

  #bury(lines: readonly ExportLine[], reason: string): void {
    const { dir, target, report } = this.#options;
    keepDeadLetters(dir, { exporter: target.name, reason, lines });
    this.#counts.deadLines += lines.length;
    report(`${target.name} refused ${lines.length} audit lines for good: ${reason}`);
  }

  #fail(reason: string): void {
    const { report, target, stream } = this.#options;
    this.#counts.failures += 1;
    if (!this.#isFailing) report(`${target.name} does not take the audit's ${stream}: ${reason}`);
    this.#isFailing = true;
  }

  #pauseMs(attempt: number, { retryAfterMs }: Extract<Outcome, { readonly kind: "later" }>): number {
    const { random, backoffMs = BACKOFF_MS } = this.#options;
    const ceiling = Math.min(BACKOFF_MS_MAX, backoffMs * 2 ** Math.min(attempt, 16));
    return Math.max(retryAfterMs ?? 0, ceiling * (0.5 + random() / 2));
  }

  async #wait(ms: number): Promise<void> {
    if (this.#stopping.signal.aborted) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#wake = resolve;
    const timer = setTimeout(resolve, ms);
    await promise;
    clearTimeout(timer);
  }
}
