import { relative } from "node:path";
import type { JournalLine } from "../audit/journal/journal.ts";
import type { BundleState } from "../core/bundle-states.ts";
import { errorText, systemCode } from "../core/error-text.ts";
import { StartupError } from "../core/errors.ts";
import { retryDelayMs } from "../core/retry.ts";
import type { EpochMs } from "../core/types.ts";
import { readSecret } from "../egress/credentials.ts";
import type { BundleSection } from "../runtime/config/bundle.ts";
import { parseYaml } from "../runtime/config/file.ts";
import { readPlainFile } from "../runtime/config/plain-file.ts";
import type { Reloaded, ReloadRequester } from "../runtime/reload/types.ts";
import { assertBundle, BundleError, type BundleFault } from "./bundle-error.ts";
import {
  type Accepted,
  type BundleExpectations,
  checkBundle,
  checkTimestamp,
  isExpired,
  lastMoment,
  remembered,
} from "./checks.ts";
import { type BundleAddress, fetchFile } from "./client.ts";
import { keyName, readKeys, type Timestamp } from "./metadata.ts";
import { withPolicy } from "./policy.ts";
import { isMeantFor, shareOf } from "./rollout.ts";
import { BundleStore, type PlacedBundle } from "./store.ts";

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
 * A bundle that is no valid configuration is tried again with the next timestamp, and after this time: the member's own files may have
 * been corrected. Each attempt is a reload, with lines in log and journal.
 */
const INVALID_RETRY_MS = 600_000;
const EXPIRY_CHECK_MS = 60_000;

/** What operators see of the bundle of a member. */
export interface BundleStatus {
  readonly version: number;
  readonly digest: string;
  readonly state: BundleState;
  /** Highest version that was offered and verified. */
  readonly offered: number;
  /** ISO 8601. */
  readonly expires: string;
  readonly lastError: string | null;
  /** The reason of `lastError` that programs compare. */
  readonly fault: BundleFault | null;
}

type Log = (level: "info" | "warn" | "error", event: Readonly<Record<string, unknown>>, message: string) => void;

/** What a running service gives to its member. */
export interface Followed {
  readonly reload: (by: ReloadRequester) => Promise<Reloaded>;
  /** Writes a journal line; the line is durable when the promise resolves. */
  readonly journal: (line: JournalLine) => Promise<void>;
  readonly log: Log;
}

interface Capabilities {
  /** Returns Unix milliseconds. */
  readonly clock: () => EpochMs;
  /** Returns milliseconds, never decreasing. */
  readonly monotonic: () => number;
}

/** Takes the bundle of a fleet over: each as a whole configuration, or not at all. */
export class BundleMember {
  readonly #section: BundleSection;
  readonly #store: BundleStore;
  readonly #capabilities: Capabilities;
  readonly #end = new AbortController();
  #accepted: Accepted | undefined;
  #active: PlacedBundle | undefined;
  /** The bundle that a reload tries. */
  #candidate: PlacedBundle | undefined;
  /** Digest of the newest bundle when its rollout keeps it from this member. */
  #heldDigest: string | undefined;
  /** Whether a service runs with the active bundle. Before, nothing is remembered: it may not be a valid configuration. */
  #isProven = false;
  #failure: BundleError | undefined;
  #reported = "";
  #untilExpiry: ReturnType<typeof setTimeout> | undefined;

  private constructor(section: BundleSection, capabilities: Capabilities) {
    this.#section = section;
    this.#store = new BundleStore(section.dir);
    this.#capabilities = capabilities;
  }

  /**
   * Opens the last good bundle, without the server; fetches one where there is none.
   *
   * @throws {StartupError}
   */
  static async open(section: BundleSection, capabilities: Capabilities): Promise<BundleMember> {
    const member = new BundleMember(section, capabilities);
    try {
      await member.#openFirst();
    } catch (error) {
      if (error instanceof StartupError) throw error;
      if (!(error instanceof BundleError)) throw new StartupError([`bundle.dir: ${errorText(error)}`]);
      const path = error.cause === undefined ? "" : ` (${errorText(error.cause)})`;
      throw new StartupError([`bundle: ${error.message}${path}`]);
    }
    return member;
  }

  /**
   * Reads the first configuration. When the kept bundle does not fit the member's own file or this program any more, the newest one may.
   *
   * @throws {StartupError} as `read`
   */
  async firstConfiguration<T>(read: () => T): Promise<T> {
    try {
      return read();
    } catch (error) {
      const before = this.#active;
      const isFetched = await this.#fetchNewest().then(
        () => this.#active !== before,
        () => false,
      );
      if (isFetched) return read();
      throw error;
    }
  }

  /** Adds the bundle's part to this member's own configuration. @throws {StartupError} */
  amend(written: unknown): unknown {
    const used = this.#candidate ?? this.#active;
    if (used === undefined) return written;
    try {
      // Relative, so that members with the same folders have the same policy version.
      const { folder: own } = this.#section;
      const contracts = new Map([...used.contracts].map(([root, path]) => [root, relative(own, path)]));
      return withPolicy(written, used.policy, { folder: relative(own, used.folder), contracts });
    } catch (error) {
      throw new StartupError([errorText(error)]);
    }
  }

  status(): BundleStatus {
    const accepted = this.#known;
    const { version, digest, timestamp } = accepted;
    const isHeld = timestamp.version > version;
    return {
      version,
      digest,
      state: this.#stateOf(accepted, isHeld ? "held" : "current"),
      offered: timestamp.version,
      expires: timestamp.expires,
      lastError: this.#failure?.message ?? null,
      fault: this.#failure?.fault ?? null,
    };
  }

  /** Takes new bundles over until the returned function is called. Call it when the service has started with the first one. */
  async follow(followed: Followed): Promise<() => void> {
    this.#isProven = true;
    await this.#begin(followed);
    this.#awaitExpiry(followed);
    void this.#poll(followed);
    return () => {
      this.#end.abort();
      clearTimeout(this.#untilExpiry);
    };
  }

  async #begin({ journal, log }: Followed): Promise<void> {
    const { version, digest } = this.#known;
    try {
      await this.#store.remember(this.#known);
      if (this.#active !== undefined) this.#store.forgetOthers([this.#active]);
      await journal({ type: "bundle.activated", version, digest, by: "start" });
    } catch (error) {
      log("error", { version, error: errorText(error) }, "bundle.activated could not be recorded");
    }
  }

  get #known(): Accepted {
    if (this.#accepted === undefined) throw new Error("no bundle is in force");
    return this.#accepted;
  }

  #stateOf({ timestamp }: Accepted, otherwise: "held" | "current"): BundleState {
    if (isExpired(timestamp, this.#capabilities.clock())) return "expired";
    if (this.#failure === undefined) return otherwise;
    return this.#failure.fault === "unreachable" ? "unreachable" : "refused";
  }

  async #openFirst(): Promise<void> {
    const { onExpiry } = this.#section;
    const accepted = this.#store.accepted();
    const kept = accepted && this.#kept(accepted);
    this.#accepted = accepted;
    const mayStart =
      accepted !== undefined && (onExpiry === "keep" || !isExpired(accepted.timestamp, this.#capabilities.clock()));
    if (kept !== undefined) this.#active = kept;
    if (kept === undefined || !mayStart) await this.#fetchNewest();
  }

  async #fetchNewest(): Promise<void> {
    const { body } = await fetchFile(this.#address, "timestamp");
    if (body === undefined) return;
    await this.#take(body, (next) => {
      this.#active = next;
    });
  }

  /** Returns the kept bundle; undefined when it is not accepted any more, such as after its key was replaced. */
  #kept(accepted: Accepted): PlacedBundle | undefined {
    try {
      return this.#store.load(accepted, this.#expected());
    } catch (error) {
      if (!(error instanceof BundleError)) throw error;
      this.#failure = error;
      return undefined;
    }
  }

  async #poll(followed: Followed): Promise<void> {
    const { signal } = this.#end;
    const { pollSeconds } = this.#section;
    const { monotonic } = this.#capabilities;
    let etag: string | undefined;
    let former: Buffer | undefined;
    let failures = 0;
    let failedAt = Number.NEGATIVE_INFINITY;
    let invalidSince = Number.NEGATIVE_INFINITY;
    while (!signal.aborted) {
      const since = monotonic();
      if (this.#failure !== undefined && since - invalidSince > INVALID_RETRY_MS) etag = undefined;
      let pauseMs = 0;
      try {
        const fetched = await fetchFile(this.#address, "timestamp", { etag, waitSeconds: pollSeconds, signal });
        etag = fetched.etag;
        if (fetched.body !== undefined) {
          await this.#take(fetched.body, (next) => this.#activate(next, followed));
          this.#failure = undefined;
        }
        // The first request is never held: the second one shows whether the server holds any. The validators of several servers may differ.
        const isOther = fetched.body !== undefined && former?.equals(fetched.body) !== true;
        former = fetched.body ?? former;
        const isHeld = fetched.holds || (isOther && etag !== undefined);
        pauseMs = isHeld ? PACE_MS - (monotonic() - since) : pollSeconds * SECOND_MS;
      } catch (error) {
        if (signal.aborted) return;
        this.#failure = error instanceof BundleError ? error : failureOf(error);
        failures = monotonic() - failedAt > CALM_MS ? 1 : failures + 1;
        failedAt = monotonic();
        pauseMs = this.#delayMs(failures);
        if (this.#failure.fault === "policy") invalidSince = monotonic();
        else etag = undefined;
      }
      await this.#report(followed);
      this.#awaitExpiry(followed);
      if (pauseMs > 0) await paused(pauseMs, signal);
    }
  }

  /** Reports the expiry when it comes: the server may hold the next request for minutes. */
  #awaitExpiry(followed: Followed): void {
    clearTimeout(this.#untilExpiry);
    const { timestamp } = this.#known;
    const nowMs = this.#capabilities.clock();
    if (isExpired(timestamp, nowMs) || this.#end.signal.aborted) return;
    const noticed = async (): Promise<void> => {
      if (isExpired(this.#known.timestamp, this.#capabilities.clock())) await this.#report(followed);
      else this.#awaitExpiry(followed);
    };
    // The clock may be set, and the machine may sleep.
    const leftMs = lastMoment(timestamp) - nowMs;
    this.#untilExpiry = setTimeout(() => void noticed(), Math.min(leftMs + 1, EXPIRY_CHECK_MS));
    this.#untilExpiry.unref();
  }

  /** Members wait for different times, so that not all of them come back at once. */
  #delayMs(failures: number): number {
    const { fleet, member } = this.#section;
    return retryDelayMs(RETRY, failures, shareOf(fleet, `${member} ${failures}`));
  }

  /** Checks a timestamp, and the bundle that it names when that is another one. @throws {BundleError} */
  async #take(bytes: Uint8Array, activate: (next: PlacedBundle) => void | Promise<void>): Promise<void> {
    const expected = this.#expected();
    const accepted = this.#accepted;
    const timestamp = checkTimestamp(bytes, expected, accepted, this.#capabilities.clock());
    // After all keys were replaced, the bundle in force is checked again like any other: a thief may have signed it.
    const isVerified = remembered(accepted, expected) !== undefined;
    const isKnown = isVerified && [this.#active?.digest, this.#heldDigest].includes(timestamp.digest);
    if (isKnown) return this.#remember(this.#active, timestamp, expected);
    const { body: archive } = await fetchFile(this.#address, "bundle", { signal: this.#end.signal });
    if (archive === undefined) return;
    const bundle = checkBundle(archive, expected, timestamp, accepted);
    const { fleet, member: name, labels } = this.#section;
    const isMeant = isMeantFor(bundle.manifest.rollout ?? {}, fleet, { name, labels });
    // A member without any bundle has nothing to keep.
    if (this.#active !== undefined && !isMeant) {
      this.#heldDigest = timestamp.digest;
      return this.#remember(this.#active, timestamp, expected);
    }
    const next = await this.#store.keep(bundle, archive);
    const former = this.#active;
    await activate(next);
    await this.#remember(next, timestamp, expected);
    // Calls in progress may still use the former one; a start that fails needs the kept one.
    if (this.#isProven && former !== undefined) this.#store.forgetOthers([next, former]);
  }

  /** Remembers what has passed every check. */
  async #remember(
    used: PlacedBundle | undefined,
    { version, digest, createdAt, expires }: Timestamp,
    { keys }: BundleExpectations,
  ): Promise<void> {
    if (used === undefined) return;
    const accepted = {
      version: used.manifest.version,
      digest: used.digest,
      keys: keys.map(keyName),
      timestamp: { version, digest, createdAt, expires },
    };
    if (Bun.deepEquals(accepted, this.#accepted)) return;
    if (this.#isProven) await this.#store.remember(accepted);
    this.#accepted = accepted;
  }

  /** Tries a bundle as a whole configuration. @throws {BundleError} when it is not taken over */
  async #activate(next: PlacedBundle, { reload, journal, log }: Followed): Promise<void> {
    this.#candidate = next;
    const { version } = next.manifest;
    try {
      const reloaded = await reload("bundle");
      if (reloaded.outcome === "busy")
        throw new BundleError("unreachable", `version ${version} waits for a reload (${reloaded.reason})`);
      const problems = reloaded.outcome === "refused" ? reloaded.problems.length : 0;
      // The log has the problems, which may name paths.
      const message = `version ${version} is not a valid configuration: see configuration.refused in the log`;
      assertBundle(problems === 0, "policy", message);
      // Before anything is awaited: another reload must not read the former one.
      this.#active = next;
    } finally {
      this.#candidate = undefined;
    }
    const former = this.#accepted?.version ?? null;
    log("info", { version, former }, "bundle.activated");
    const line = { type: "bundle.activated", version, digest: next.digest, former, by: "bundle" };
    await journal(line).catch((error: unknown) =>
      log("error", { error: errorText(error) }, "bundle.activated could not be recorded"),
    );
  }

  /** Reports a new state once, in the log and in the journal. */
  async #report({ journal, log }: Followed): Promise<void> {
    const { state, version, expires, lastError } = this.status();
    const cause = this.#failure?.cause;
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

  /** Returns what is accepted now: the files with keys may have changed. @throws {BundleError} */
  #expected(): BundleExpectations {
    const { fleet, environment, threshold, minVersion, allowCode, keysFile, timestampKeysFile } = this.#section;
    return {
      fleet,
      environment,
      threshold,
      minVersion,
      allowsCode: allowCode,
      keys: keysIn("keysFile", keysFile),
      timestampKeys: keysIn("timestampKeysFile", timestampKeysFile),
      readYaml: parseYaml,
    };
  }

  get #address(): BundleAddress {
    const { url, tls, tokenFile } = this.#section;
    const read = (path: string | undefined) => (path === undefined ? undefined : readPlainFile(path));
    return {
      url: new URL(url),
      credentials: () => ({
        tls: tls && { rootCert: read(tls.caFile), clientCert: read(tls.certFile), clientKey: read(tls.keyFile) },
        token: tokenFile === undefined ? undefined : readSecret(readPlainFile(tokenFile)),
      }),
    };
  }
}

/** @throws {BundleError} without the path, which operators read in the log */
function keysIn(setting: string, path: string): BundleExpectations["keys"] {
  try {
    return readKeys(readPlainFile(path).toString());
  } catch (error) {
    const isUnreadable = error instanceof Error && "code" in error;
    const problem = isUnreadable ? `cannot be read (${systemCode(error)})` : errorText(error);
    throw new BundleError("signature", `bundle.${setting}: ${problem}`, error);
  }
}

function failureOf(error: unknown): BundleError {
  return new BundleError("unreachable", `the bundle cannot be taken over (${systemCode(error)})`, error);
}

function paused(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    timer.unref();
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
