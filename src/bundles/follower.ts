import type { JournalLine } from "../audit/journal/journal.ts";
import { errorText } from "../core/error-text.ts";
import { retryDelayMs } from "../core/retry.ts";
import { pause } from "../core/time-limits.ts";
import type { EpochMs } from "../core/types.ts";
import type { BundleSection } from "../runtime/config/bundle.ts";
import type { ReloadCandidate, Reloaded, ReloadRequester } from "../runtime/reload/types.ts";
import type { BundleError } from "./bundle-error.ts";
import { isExpired, lastMoment } from "./checks.ts";
import type { Fetched, Wanted } from "./client.ts";
import { shareOf } from "./rollout.ts";
import type { BundleStatus } from "./status.ts";

const RETRY = { firstMs: 500, maxMs: 30_000 } as const;
/**
 * Failures within this time of each other count together, whatever succeeds between them: a server that alternates must not fill log
 * and journal.
 */
const CALM_MS = 60_000;
const SECOND_MS = 1_000;
/** Least time from one request to the next, whatever the server promises. */
const PACE_MS = 200;
/**
 * A bundle that is not a valid configuration is tried again with the next timestamp, and after this time: the member's own files may
 * have been corrected. Each attempt is a reload, with lines in log and journal.
 */
const INVALID_RETRY_MS = 600_000;
const EXPIRY_CHECK_MS = 60_000;

type Log = (level: "info" | "warn" | "error", event: Readonly<Record<string, unknown>>, message: string) => void;

/** Functions of the running service that adopt and report a bundle. */
export interface ServiceFunctions {
  readonly reload: (by: ReloadRequester, candidate: ReloadCandidate) => Promise<Reloaded>;
  /** Writes a journal line; the line is durable when the promise resolves. */
  readonly journal: (line: JournalLine) => Promise<void>;
  readonly log: Log;
}

export interface Clocks {
  /** Returns Unix milliseconds. */
  readonly clock: () => EpochMs;
  /** Returns milliseconds, never decreasing. */
  readonly monotonic: () => number;
}

/** The bundle in force, as the follower sees it. */
interface FollowedBundle {
  /** The failure of the last attempt; undefined after one that succeeded. */
  readonly failure: BundleError | undefined;
  status(): BundleStatus;
  /** Fetches the timestamp, and takes the bundle that it names over. @throws {BundleError} which is then `failure` */
  update(wanted: Wanted, service: ServiceFunctions): Promise<Fetched>;
}

/** Keeps a bundle up to date, and reports its states. */
export class BundleFollower {
  readonly #section: BundleSection;
  readonly #bundle: FollowedBundle;
  readonly #service: ServiceFunctions;
  readonly #clocks: Clocks;
  readonly #end = new AbortController();
  #reported = "";
  #untilExpiry: ReturnType<typeof setTimeout> | undefined;

  constructor(section: BundleSection, bundle: FollowedBundle, service: ServiceFunctions, clocks: Clocks) {
    this.#section = section;
    this.#bundle = bundle;
    this.#service = service;
    this.#clocks = clocks;
  }

  start(): void {
    this.#awaitExpiry();
    void this.#poll();
  }

  stop(): void {
    this.#end.abort();
    clearTimeout(this.#untilExpiry);
  }

  async #poll(): Promise<void> {
    const { signal } = this.#end;
    const { pollSeconds } = this.#section;
    const { monotonic } = this.#clocks;
    let etag: string | undefined;
    let former: Buffer | undefined;
    let failures = 0;
    let failedAt = Number.NEGATIVE_INFINITY;
    let invalidSince = Number.NEGATIVE_INFINITY;
    while (!signal.aborted) {
      const since = monotonic();
      if (this.#bundle.failure !== undefined && since - invalidSince > INVALID_RETRY_MS) etag = undefined;
      let pauseMs = 0;
      try {
        const fetched = await this.#bundle.update({ etag, waitSeconds: pollSeconds, signal }, this.#service);
        etag = fetched.etag;
        // The first request is never held: the second one shows whether the server holds any. The validators of several servers may differ.
        const isOther = fetched.body !== undefined && former?.equals(fetched.body) !== true;
        former = fetched.body ?? former;
        const isHeld = fetched.holds || (isOther && etag !== undefined);
        pauseMs = isHeld ? PACE_MS - (monotonic() - since) : pollSeconds * SECOND_MS;
      } catch {
        if (signal.aborted) return;
        failures = monotonic() - failedAt > CALM_MS ? 1 : failures + 1;
        failedAt = monotonic();
        pauseMs = this.#delayMs(failures);
        if (this.#bundle.failure?.fault === "policy") invalidSince = monotonic();
        else etag = undefined;
      }
      await this.#report();
      this.#awaitExpiry();
      if (pauseMs > 0) await pause(pauseMs, signal);
    }
  }

  /** Reports the expiry when it comes: the server may hold the next request for minutes. */
  #awaitExpiry(): void {
    clearTimeout(this.#untilExpiry);
    const { clock } = this.#clocks;
    const nowMs = clock();
    const status = this.#bundle.status();
    if (isExpired(status, nowMs) || this.#end.signal.aborted) return;
    const noticed = async (): Promise<void> => {
      if (isExpired(this.#bundle.status(), clock())) await this.#report();
      else this.#awaitExpiry();
    };
    // The clock may be set, and the machine may sleep.
    const leftMs = lastMoment(status) - nowMs;
    this.#untilExpiry = setTimeout(() => void noticed(), Math.min(leftMs + 1, EXPIRY_CHECK_MS));
    this.#untilExpiry.unref();
  }

  /** Members wait for different times, so that not all of them come back at once. */
  #delayMs(failures: number): number {
    const { fleet, member } = this.#section;
    return retryDelayMs(RETRY, failures, shareOf(fleet, `${member} ${failures}`));
  }

  /** Reports a new state once, in the log and in the journal. */
  async #report(): Promise<void> {
    const { journal, log } = this.#service;
    const { state, version, expires, lastError } = this.#bundle.status();
    const cause = this.#bundle.failure?.cause;
    const reported = `${state} ${lastError}`;
    if (reported === this.#reported) return;
    const isFirst = this.#reported === "";
    this.#reported = reported;
    if (state === "current" || state === "held") {
      if (!isFirst) log("info", { version, expires }, `bundle.${state}`);
      return;
    }
    log(
      state === "unreachable" ? "warn" : "error",
      { version, expires, error: lastError, ...(cause !== undefined && { cause: errorText(cause) }) },
      `bundle.${state}`,
    );
    if (state === "unreachable") return;
    await journal({ type: `bundle.${state}`, version, expires, error: lastError ?? undefined }).catch(() => {});
  }
}
