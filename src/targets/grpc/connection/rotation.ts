import { createHash } from "node:crypto";
import { errorText, systemCode } from "../../../core/error-text.ts";
import { StartupError } from "../../../core/errors.ts";
import type { CertificateEvent } from "../../../core/target-kind.ts";
import type { GrpcTls, SystemEndpoints } from "./tls-identity.ts";

/** Source of one system's certificates, with notification of changes. */
export interface CertificateSource {
  /** Reads the current certificates synchronously. Throws when one cannot be read. */
  read(): GrpcTls;
  /** Calls `changed` whenever they have changed, and once at the start. Returns a function that stops this. */
  watch(changed: () => void): () => void;
}

export interface RotationOptions {
  readonly system: string;
  readonly source: CertificateSource;
  /** The set that is in use at the start. */
  readonly current: { readonly tls: GrpcTls; readonly reach: SystemEndpoints };
  /** Builds endpoints from these certificates. Throws when they contradict each other. */
  readonly read: (tls: GrpcTls) => SystemEndpoints;
  /** Connects with the new set and puts it into use; false when no connection can be made with it. */
  readonly adopt: (reach: SystemEndpoints) => Promise<boolean>;
  /** Returns the current time in milliseconds since 1970. */
  readonly now: () => number;
  readonly report: (event: CertificateEvent) => void;
}

/** Delay after a change, because the files of one set do not change at the same instant. */
const SETTLE_MS = 250;
/** Interval of regular checks, because a certificate expires without a change to its file. */
const LOOK_EVERY_MS = 60_000;
/**
 * Delay before another attempt with a set that could not connect: the service's own certificates may be exchanged soon after.
 */
const CONNECT_AGAIN_MS = 5_000;

/**
 * Keeps the certificates of one system up to date with their files. A set that is expired, contradicts itself or cannot
 * connect is refused and reported once; the current set stays in use.
 */
export class CertificateRotation {
  readonly #options: RotationOptions;
  readonly #unwatch: () => void;
  readonly #looks: ReturnType<typeof setInterval>;
  #settling: ReturnType<typeof setTimeout> | undefined;
  #again: ReturnType<typeof setTimeout> | undefined;
  #looking = false;
  #isClosed = false;
  #inUse: { readonly print: string; readonly reach: SystemEndpoints };
  #expiryTold = false;
  /** The last set that was refused, and whether that was reported: files may be read half exchanged. */
  #refused: { readonly print: string; readonly reported: boolean } | undefined;

  constructor(options: RotationOptions) {
    this.#options = options;
    const { tls, reach } = options.current;
    this.#inUse = { print: printOf(tls), reach };
    this.#tellExpiry();
    this.#unwatch = options.source.watch(() => this.#settle());
    this.#looks = setInterval(() => this.#settle(), LOOK_EVERY_MS);
    this.#looks.unref();
  }

  close(): void {
    this.#isClosed = true;
    this.#unwatch();
    clearInterval(this.#looks);
    clearTimeout(this.#settling);
    clearTimeout(this.#again);
  }

  #tellExpiry(): void {
    const { reach } = this.#inUse;
    if (this.#expiryTold || timeFault(reach, this.#options.now()) === undefined) return;
    this.#expiryTold = true;
    this.#report("certificates.expired", reach);
  }

  #settle(): void {
    if (this.#settling !== undefined || this.#isClosed) return;
    this.#settling = setTimeout(() => {
      this.#settling = undefined;
      void this.#look();
    }, SETTLE_MS);
    this.#settling.unref();
  }

  /** Never rejects. */
  async #look(): Promise<void> {
    if (this.#looking) return this.#settle();
    this.#looking = true;
    try {
      await this.#compare();
    } catch (error) {
      this.#refuse("", reasonOf(error));
    } finally {
      this.#looking = false;
    }
  }

  async #compare(): Promise<void> {
    this.#tellExpiry();
    const tls = this.#readFiles();
    if (tls === undefined) return;
    const print = printOf(tls);
    if (print === this.#inUse.print) {
      this.#refused = undefined;
      return;
    }
    const reach = this.#understood(tls, print);
    if (reach === undefined) return;
    if (!(await this.#options.adopt(reach))) {
      if (this.#isClosed) return;
      this.#refuse(print, "no connection could be made with it", reach);
      clearTimeout(this.#again);
      this.#again = setTimeout(() => this.#settle(), CONNECT_AGAIN_MS);
      this.#again.unref();
      return;
    }
    this.#inUse = { print, reach };
    this.#expiryTold = false;
    this.#refused = undefined;
    this.#report("certificates.changed", reach);
  }

  #readFiles(): GrpcTls | undefined {
    try {
      return this.#options.source.read();
    } catch (error) {
      this.#refuse("", `a file cannot be read (${systemCode(error)})`);
      return undefined;
    }
  }

  #understood(tls: GrpcTls, print: string): SystemEndpoints | undefined {
    try {
      const reach = this.#options.read(tls);
      const fault = timeFault(reach, this.#options.now());
      if (fault === undefined) return reach;
      this.#refuse(print, fault, reach);
    } catch (error) {
      this.#refuse(print, reasonOf(error));
    }
    return undefined;
  }

  /** Reports a refused set when it is seen a second time, and then not again. */
  #refuse(print: string, reason: string, reach?: SystemEndpoints): void {
    if (this.#refused?.print !== print) {
      this.#refused = { print, reported: false };
      this.#settle();
    } else if (!this.#refused.reported) {
      this.#refused = { print, reported: true };
      this.#report("certificates.refused", reach, reason);
    }
  }

  #report(type: CertificateEvent["type"], reach: SystemEndpoints | undefined, reason?: string): void {
    const end = reach?.clientCertificate?.notAfter;
    this.#options.report({
      type,
      system: this.#options.system,
      expiresAt: end === undefined ? null : new Date(end).toISOString(),
      rootSha256: reach?.tls?.rootSha256 ?? [],
      ...(reason !== undefined && { reason }),
    });
  }
}

function timeFault({ clientCertificate }: SystemEndpoints, now: number): string | undefined {
  if (clientCertificate === null) return undefined;
  if (now >= clientCertificate.notAfter) return "the client certificate has expired";
  return now < clientCertificate.notBefore ? "the client certificate is not valid yet" : undefined;
}

function reasonOf(error: unknown): string {
  if (error instanceof StartupError) return error.problems.join("; ");
  return errorText(error);
}

function printOf({ rootCert, clientCert, clientKey }: GrpcTls): string {
  const hash = createHash("sha256");
  for (const part of [rootCert, clientCert, clientKey]) {
    hash.update(`${part?.length ?? -1} `);
    if (part !== undefined) hash.update(part);
  }
  return hash.digest("hex");
}
