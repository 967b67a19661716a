import type { JournalLine } from "../../audit/journal/journal.ts";
import { errorText } from "../../core/error-text.ts";
import { StartupError } from "../../core/errors.ts";
import type { Json } from "../../core/types.ts";
import type { Config } from "../config/config.ts";
import { problemOf } from "../config/tenants.ts";
import { watchFiles } from "../config/watched-files.ts";
import { forgetModules } from "../manifests/fresh-modules.ts";
import { type Fingerprint, fingerprintOf, restartProblems, startupFileProblems } from "./fingerprints.ts";
import { type Built, LINGERING_MAX, type LiveSnapshots } from "./snapshots.ts";
import type {
  ConfigurationState,
  ReloadCandidate,
  ReloadEvent,
  Reloaded,
  ReloadOrder,
  ReloadRequester,
} from "./types.ts";

/** Files that keep changing are read after this number of checks. */
const UNSTABLE_CHECKS_MAX = 40;

export interface Reloadable extends Built {
  readonly config: Config;
}

interface ReloadOptions<Content extends Reloadable> {
  readonly snapshots: LiveSnapshots<Content>;
  /** Fingerprint of the first snapshot's inputs, taken before they were read. */
  readonly fingerprint: Fingerprint;
  /**
   * Reads the configuration again, with the candidate in place of the part in use.
   * @throws {StartupError}
   */
  readonly read: (candidate?: ReloadCandidate) => Config | Promise<Config>;
  /**
   * Builds a complete snapshot in addition to the one in use.
   * @throws {StartupError} with all problems
   */
  readonly build: (config: Config, former: Content, fingerprint: Fingerprint) => Promise<Content>;
  /** Returns further members of the journal line of a content that is about to be adopted. */
  readonly describe: (content: Content) => Promise<Readonly<Record<string, Json>>>;
  readonly adopted: (content: Content, by: string) => void;
  /** Writes a journal line; the line is durable when the promise resolves. */
  readonly journal: (line: JournalLine) => Promise<void>;
  /** Returns Unix milliseconds. */
  readonly clock: () => number;
  readonly perMinuteMax: number;
  /** Keys that a reload adopts; a change of any other needs a restart. */
  readonly liveKeys: readonly string[];
  readonly log: (event: ReloadEvent) => void;
}

interface Attempt extends Required<ReloadOrder> {
  readonly candidate: ReloadCandidate | undefined;
}

const CLOSING_RETRY_MS = 1_000;
const LINGERING_RETRY_MS = 10_000;
/** Maximum number of attempts while files keep changing. */
const READINGS_MAX = 3;
const MANIFESTS_RECORDED_MAX = 32;

/** Adopts a changed configuration, as a whole or not at all. Never rejects. */
export class Reload<Content extends Reloadable> {
  readonly #options: ReloadOptions<Content>;
  readonly #rate: ReloadRate;
  #fingerprint: Fingerprint;
  #since: number;
  #lastRefused: { readonly at: number; readonly problems: number } | undefined;
  #lastFiles: readonly string[];
  /** The digest of the inputs of the last refused configuration, as far as they could be read, and the problems. */
  #refusedConfiguration:
    | { readonly inputsSha256: string | undefined; readonly problems: readonly string[] }
    | undefined;
  #running: Promise<unknown> = Promise.resolve();
  #waiting: Promise<Reloaded> | undefined;
  #isClosed = false;

  constructor(options: ReloadOptions<Content>) {
    this.#options = options;
    this.#rate = new ReloadRate(options);
    this.#fingerprint = options.fingerprint;
    this.#lastFiles = this.#fingerprint.files;
    this.#since = options.clock();
  }

  state(): ConfigurationState {
    const { snapshots } = this.#options;
    const refused = this.#lastRefused;
    return {
      generation: snapshots.number,
      sha256: this.#fingerprint.sha256,
      since: new Date(this.#since).toISOString(),
      lastRefused: refused === undefined ? null : { ...refused, at: new Date(refused.at).toISOString() },
    };
  }

  /** Problems of the last reload, if it was refused. They may name paths and secrets. */
  get problems(): readonly string[] {
    return this.#refusedConfiguration?.problems ?? [];
  }

  /** Runs a reload when a file of the configuration in use, or of a refused one, changes. Returns the function that ends this. */
  watch(): () => void {
    let again: ReturnType<typeof setTimeout> | undefined;
    const run = async (): Promise<void> => {
      const reloaded = await this.run("watch");
      clearTimeout(again);
      if (reloaded.outcome !== "busy" || this.#isClosed) return;
      again = setTimeout(() => void run(), reloaded.retryAfterMs);
      again.unref();
    };
    const files = (): readonly string[] => [...new Set([...this.#fingerprint.files, ...this.#lastFiles])];
    const watching = watchFiles(files, () => void run(), { unstableChecksMax: UNSTABLE_CHECKS_MAX });
    return () => {
      clearTimeout(again);
      watching.close();
    };
  }

  /**
   * Runs one reload at a time. Requests that arrive during a reload share the next one, which reads the files as they are then. A
   * reload with a candidate, and one that is a part of another, is shared with nobody.
   */
  run(by: ReloadRequester, candidate?: ReloadCandidate, { isPart = false }: ReloadOrder = {}): Promise<Reloaded> {
    const isShared = candidate === undefined && !isPart;
    if (isShared && this.#waiting !== undefined) return this.#waiting;
    const next = this.#running.then(() => {
      if (isShared) this.#waiting = undefined;
      return this.#attempt(by, { candidate, isPart });
    });
    if (isShared) this.#waiting = next;
    // A failed reload must not prevent the next one.
    this.#running = next.catch(() => {});
    return next;
  }

  close(): void {
    this.#isClosed = true;
  }

  async #attempt(by: ReloadRequester, { candidate, isPart }: Attempt): Promise<Reloaded> {
    const { snapshots, read, clock } = this.#options;
    if (this.#isClosed) return closing();
    if (snapshots.lingering >= LINGERING_MAX) {
      return { outcome: "busy", reason: "lingering", retryAfterMs: LINGERING_RETRY_MS };
    }
    const retryAfterMs = by === "watch" || isPart ? 0 : this.#rate.take(clock());
    if (retryAfterMs > 0) return { outcome: "busy", reason: "rate", retryAfterMs };
    const attempted: { fingerprint?: Fingerprint } = {};
    try {
      for (let reading = 0; reading < READINGS_MAX; reading += 1) {
        const config = await read(candidate);
        attempted.fingerprint = fingerprintOf(config);
        const reloaded = await this.#tryReading(config, attempted.fingerprint, by);
        if (reloaded?.outcome === "changed") candidate?.adopted();
        if (reloaded !== undefined) return reloaded;
      }
      throw new StartupError(["reload: files keep changing while they are read"]);
    } catch (error) {
      const problems = error instanceof StartupError ? error.problems : [`reload: ${errorText(error)}`];
      return this.#refuse(by, problems, attempted.fingerprint);
    }
  }

  /**
   * Adopts one reading. Returns undefined when the files changed while they were read.
   * @throws {StartupError}
   */
  async #tryReading(config: Config, fingerprint: Fingerprint, by: ReloadRequester): Promise<Reloaded | undefined> {
    const { snapshots, build, clock, liveKeys } = this.#options;
    const former = snapshots.current();
    const { inputsSha256 } = fingerprint;
    this.#lastFiles = fingerprint.files;
    if (by === "watch" && inputsSha256 === this.#fingerprint.inputsSha256) return this.#unchanged();
    if (by === "watch" && inputsSha256 === this.#refusedConfiguration?.inputsSha256)
      throw new StartupError(this.#refusedConfiguration.problems);
    // Checking is cheap and usually finds nothing, so only builds count against the rate limit.
    const retryAfterMs = by === "watch" ? this.#rate.take(clock()) : 0;
    if (retryAfterMs > 0) return { outcome: "busy", reason: "rate", retryAfterMs };
    const problems = [
      ...restartProblems(former.config, config, liveKeys),
      ...startupFileProblems(this.#fingerprint, fingerprint, liveKeys),
    ];
    if (problems.length > 0) throw new StartupError(problems.map((problem) => problemOf(config, problem)));
    const content = await build(config, former, fingerprint);
    if (fingerprintOf(config).inputsSha256 === inputsSha256) return this.#adopt(content, fingerprint, by);
    await this.#discard(content);
    return undefined;
  }

  async #adopt(content: Content, fingerprint: Fingerprint, by: ReloadRequester): Promise<Reloaded> {
    const { snapshots, describe, adopted, journal, clock, log } = this.#options;
    const generation = snapshots.number + 1;
    try {
      const described = await describe(content);
      // Nothing may follow the line of the service's end. If the end comes while this line is written, it names a snapshot that was
      // never used.
      if (this.#isClosed) return this.#closeUnused(content);
      const digests = { ...recordedDigests(fingerprint), ...described };
      await journal({ type: "configuration.changed", generation, ...digests, by: nameOf(by) });
    } catch (cause) {
      await this.#discard(content);
      throw new StartupError([`reload: could not be recorded: ${errorText(cause)}`]);
    }
    if (this.#isClosed) return this.#closeUnused(content);
    const former = snapshots.current();
    snapshots.exchange(content, () => this.#forget(former));
    this.#fingerprint = fingerprint;
    this.#since = clock();
    this.#lastRefused = undefined;
    this.#refusedConfiguration = undefined;
    adopted(content, nameOf(by));
    log({ type: "configuration.changed", by: nameOf(by), generation });
    return { outcome: "changed", generation, sha256: fingerprint.sha256 };
  }

  async #closeUnused(content: Content): Promise<Reloaded> {
    await this.#discard(content);
    return closing();
  }

  #unchanged(): Reloaded {
    // The refused change has been reverted.
    this.#lastRefused = undefined;
    this.#refusedConfiguration = undefined;
    return { outcome: "unchanged", generation: this.#options.snapshots.number, sha256: this.#fingerprint.sha256 };
  }

  async #refuse(
    by: ReloadRequester,
    problems: readonly string[],
    fingerprint: Fingerprint | undefined,
  ): Promise<Reloaded> {
    if (this.#isClosed) return closing();
    const { snapshots, journal, clock, log } = this.#options;
    const refused = { inputsSha256: fingerprint?.inputsSha256, problems };
    // The watcher runs again and again: report a refusal only once.
    if (by === "watch" && Bun.deepEquals(refused, this.#refusedConfiguration)) return { outcome: "refused", problems };
    this.#refusedConfiguration = refused;
    this.#lastRefused = { at: clock(), problems: problems.length };
    log({ type: "configuration.refused", by: nameOf(by), generation: snapshots.number, problems });
    const sha256 = fingerprint?.sha256 ?? null;
    const line = { type: "configuration.refused", problems: problems.length, sha256, by: nameOf(by) };
    await journal(line).catch(() => {});
    return { outcome: "refused", problems };
  }

  async #discard(content: Content): Promise<void> {
    await content.close();
    this.#forget(content);
  }

  #forget({ modules }: Content): void {
    forgetModules(modules, this.#options.snapshots.modules());
  }
}

function closing(): Reloaded {
  return { outcome: "busy", reason: "closing", retryAfterMs: CLOSING_RETRY_MS };
}

function recordedDigests({
  sha256,
  configurationSha256,
  filesSha256,
  manifests,
}: Fingerprint): Readonly<Record<string, Json>> {
  const shown = manifests.slice(0, MANIFESTS_RECORDED_MAX).map((set) => ({ ...set }));
  return { sha256, configurationSha256, filesSha256, manifests: shown };
}

function nameOf(by: ReloadRequester): string {
  return typeof by === "string" ? by : `${by.issuer}|${by.subject}`;
}

const MINUTE_MS = 60_000;

/** Limits the number of reloads per minute, with a burst of the same size. */
export class ReloadRate {
  readonly #perMinuteMax: number;
  /** Times in Unix milliseconds, oldest first. */
  #taken: readonly number[] = [];

  constructor({ perMinuteMax }: { readonly perMinuteMax: number }) {
    this.#perMinuteMax = perMinuteMax;
  }

  /**
   * Takes a slot and returns 0; otherwise returns the milliseconds until a slot is free. A clock that is set back by less than a
   * minute frees no slot.
   */
  take(now: number): number {
    this.#taken = this.#taken.filter((at) => Math.abs(now - at) < MINUTE_MS);
    const [oldest] = this.#taken;
    if (oldest !== undefined && this.#taken.length >= this.#perMinuteMax) return MINUTE_MS - Math.abs(now - oldest);
    this.#taken = [...this.#taken, now];
    return 0;
  }
}
