import { relative } from "node:path";
import { errorText, systemCode } from "../core/error-text.ts";
import { StartupError } from "../core/errors.ts";
import type { BundleSection } from "../runtime/config/bundle.ts";
import { assertBundle, BundleError } from "./bundle-error.ts";
import {
  type Accepted,
  type BundleExpectations,
  checkBundle,
  checkTimestamp,
  isExpired,
  remembered,
} from "./checks.ts";
import { type Fetched, fetchFile, type Wanted } from "./client.ts";
import { BundleFollower, type Clocks, type ServiceFunctions } from "./follower.ts";
import { keyName, type Timestamp } from "./metadata.ts";
import { withPolicy } from "./policy.ts";
import { isMeantFor } from "./rollout.ts";
import { addressOf, expectationsOf } from "./section.ts";
import { type BundleStatus, statusOf } from "./status.ts";
import { BundleStore, type PlacedBundle } from "./store.ts";

/** Takes the bundle of a fleet over: each as a whole configuration, or not at all. */
export class BundleMember {
  readonly #section: BundleSection;
  readonly #store: BundleStore;
  readonly #clocks: Clocks;
  #accepted: Accepted | undefined;
  #active: PlacedBundle | undefined;
  /** Digest of the newest bundle when its rollout keeps it from this member. */
  #heldDigest: string | undefined;
  /** Whether a service runs with the active bundle. Before, nothing is remembered: it may not be a valid configuration. */
  #isProven = false;
  #failure: BundleError | undefined;

  private constructor(section: BundleSection, clocks: Clocks) {
    this.#section = section;
    this.#store = new BundleStore(section.dir);
    this.#clocks = clocks;
  }

  /**
   * Opens the last good bundle, without the server; fetches one where there is none.
   *
   * @throws {StartupError}
   */
  static async open(section: BundleSection, clocks: Clocks): Promise<BundleMember> {
    const member = new BundleMember(section, clocks);
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
  async firstConfiguration<T>(read: () => T | Promise<T>): Promise<T> {
    try {
      return await read();
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

  /** Adds the part of the bundle in force to this member's own configuration. @throws {StartupError} */
  amend(written: unknown): unknown {
    return this.#active === undefined ? written : this.#amended(written, this.#active);
  }

  #amended(written: unknown, { policy, folder, contracts }: PlacedBundle): unknown {
    try {
      // Relative, so that members with the same folders have the same policy version.
      const { folder: own } = this.#section;
      const relatives = new Map([...contracts].map(([root, path]) => [root, relative(own, path)]));
      return withPolicy(written, policy, { folder: relative(own, folder), contracts: relatives });
    } catch (error) {
      throw new StartupError([errorText(error)]);
    }
  }

  /** The failure of the last attempt; undefined after one that succeeded. */
  get failure(): BundleError | undefined {
    return this.#failure;
  }

  status(): BundleStatus {
    return statusOf(this.#known, this.#failure, this.#clocks.clock());
  }

  /** Takes new bundles over until the returned function is called. Call it when the service has started with the first one. */
  async follow(service: ServiceFunctions): Promise<() => void> {
    this.#isProven = true;
    await this.#begin(service);
    const follower = new BundleFollower(this.#section, this, service, this.#clocks);
    follower.start();
    return () => follower.stop();
  }

  /** Fetches the timestamp, and takes the bundle that it names over. @throws {BundleError} which is then `failure` */
  async update(wanted: Wanted, service: ServiceFunctions): Promise<Fetched> {
    const { signal } = wanted;
    try {
      const fetched = await fetchFile(addressOf(this.#section), "timestamp", wanted);
      if (fetched.body !== undefined) {
        await this.#take(fetched.body, (next) => this.#activate(next, service), signal);
        this.#failure = undefined;
      }
      return fetched;
    } catch (error) {
      if (signal?.aborted !== true) this.#failure = error instanceof BundleError ? error : failureOf(error);
      throw error;
    }
  }

  async #begin({ journal, log }: ServiceFunctions): Promise<void> {
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

  async #openFirst(): Promise<void> {
    const { onExpiry } = this.#section;
    const accepted = this.#store.accepted();
    const kept = accepted && this.#kept(accepted);
    this.#accepted = accepted;
    const mayStart =
      accepted !== undefined && (onExpiry === "keep" || !isExpired(accepted.timestamp, this.#clocks.clock()));
    if (kept !== undefined) this.#active = kept;
    if (kept === undefined || !mayStart) await this.#fetchNewest();
  }

  async #fetchNewest(): Promise<void> {
    const { body } = await fetchFile(addressOf(this.#section), "timestamp");
    if (body === undefined) return;
    await this.#take(body, (next) => {
      this.#active = next;
    });
  }

  /** Returns the kept bundle; undefined when it is not accepted any more, such as after its key was replaced. */
  #kept(accepted: Accepted): PlacedBundle | undefined {
    try {
      return this.#store.load(accepted, expectationsOf(this.#section));
    } catch (error) {
      if (!(error instanceof BundleError)) throw error;
      this.#failure = error;
      return undefined;
    }
  }

  /** Checks a timestamp, and the bundle that it names when that is another one. @throws {BundleError} */
  async #take(
    bytes: Uint8Array,
    activate: (next: PlacedBundle) => void | Promise<void>,
    signal?: AbortSignal,
  ): Promise<void> {
    const expected = expectationsOf(this.#section);
    const accepted = this.#accepted;
    const timestamp = checkTimestamp(bytes, expected, accepted, this.#clocks.clock());
    // After all keys were replaced, the bundle in force is checked again like any other: a thief may have signed it.
    const isVerified = remembered(accepted, expected) !== undefined;
    const isKnown = isVerified && [this.#active?.digest, this.#heldDigest].includes(timestamp.digest);
    if (isKnown) return this.#remember(this.#active, timestamp, expected);
    const { body: archive } = await fetchFile(addressOf(this.#section), "bundle", { signal });
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
  async #activate(next: PlacedBundle, { reload, journal, log }: ServiceFunctions): Promise<void> {
    const { version } = next.manifest;
    const reloaded = await reload("bundle", {
      amend: (written) => this.#amended(written, next),
      adopted: () => {
        this.#active = next;
      },
    });
    if (reloaded.outcome === "busy")
      throw new BundleError("unreachable", `version ${version} waits for a reload (${reloaded.reason})`);
    // The log has the problems, which may name paths.
    const message = `version ${version} is not a valid configuration: see configuration.refused in the log`;
    assertBundle(reloaded.outcome !== "refused", "policy", message);
    const former = this.#accepted?.version ?? null;
    log("info", { version, former }, "bundle.activated");
    const line = { type: "bundle.activated", version, digest: next.digest, former, by: "bundle" };
    await journal(line).catch((error: unknown) =>
      log("error", { error: errorText(error) }, "bundle.activated could not be recorded"),
    );
  }
}

function failureOf(error: unknown): BundleError {
  return new BundleError("unreachable", `the bundle cannot be taken over (${systemCode(error)})`, error);
}
