import { createHash } from "node:crypto";
import { errorText, systemCode } from "../core/error-text.ts";
import { StartupError } from "../core/errors.ts";
import type { CertificateEvent, TargetContext } from "../core/target-kind.ts";
import type { CertificateValidity, TlsIdentity } from "./certificates.ts";
import type { EgressTls } from "./client.ts";

/** The identity and the validity of a system's connections with one set of certificates. */
export interface SecuredConnections {
  readonly tls: TlsIdentity | null;
  readonly clientCertificate: CertificateValidity | null;
}

export interface CertificateSource {
  /** Reads the current certificates synchronously. Throws when one cannot be read. */
  read(): EgressTls;
  /** Calls `changed` at each change, and once at the start. Returns a function that stops this. */
  watch(changed: () => void): () => void;
}

/** Paths of certificate files, as the configuration names them. */
export interface TlsFiles {
  readonly rootCert?: string | undefined;
  readonly clientCert?: string | undefined;
  readonly clientKey?: string | undefined;
  readonly serverName?: string | undefined;
}

/** Returns a source that reads the files at each use, because a mounted secret may change at any time. */
export function certificateFiles(
  { rootCert, clientCert, clientKey, serverName }: TlsFiles,
  { readFile, watchFiles, pathOf }: Pick<TargetContext, "readFile" | "watchFiles" | "pathOf">,
): CertificateSource {
  const read = (path: string | undefined) => (path === undefined ? undefined : readFile(path));
  const paths = [rootCert, clientCert, clientKey].flatMap((path) => (path === undefined ? [] : [pathOf(path)]));
  return {
    read: () => ({
      rootCert: read(rootCert),
      clientCert: read(clientCert),
      clientKey: read(clientKey),
      serverName,
    }),
    watch: (changed) => watchFiles(paths, changed),
  };
}

interface RotationOptions<Secured extends SecuredConnections> {
  readonly system: string;
  readonly source: CertificateSource;
  readonly current: { readonly tls: EgressTls; readonly endpoints: Secured };
  /** Builds endpoints from these certificates. Throws when they do not fit together. */
  readonly read: (tls: EgressTls) => Secured;
  /** Connects with the new set and starts using it; false when it cannot connect. */
  readonly adopt: (endpoints: Secured) => Promise<boolean>;
  readonly now: () => number;
  readonly report: (event: CertificateEvent) => void;
}

/** Delay after a change: the files of one set do not all change at once. */
const CHANGE_DELAY_MS = 250;
/** Interval of regular checks, because a certificate expires without a change to its file. */
const CHECK_INTERVAL_MS = 60_000;
/** Delay before a set that could not connect is tried again: the service's certificates may be replaced soon after. */
const RETRY_DELAY_MS = 5_000;

/**
 * Keeps the certificates of one system up to date with their files. A set that is expired, inconsistent or cannot
 * connect is refused and reported once; the current set stays in use.
 */
export class CertificateRotation<Secured extends SecuredConnections> {
  readonly #options: RotationOptions<Secured>;
  readonly #unwatch: () => void;
  readonly #checkTimer: ReturnType<typeof setInterval>;
  #pendingCheck: ReturnType<typeof setTimeout> | undefined;
  #retryTimer: ReturnType<typeof setTimeout> | undefined;
  #isChecking = false;
  #isClosed = false;
  #inUse: { readonly fingerprint: string; readonly endpoints: Secured };
  #isExpiryReported = false;
  /** The last refused set, and whether it was reported. The first time it may be only partly replaced. */
  #refused: { readonly fingerprint: string; readonly reported: boolean } | undefined;

  constructor(options: RotationOptions<Secured>) {
    this.#options = options;
    const { tls, endpoints } = options.current;
    this.#inUse = { fingerprint: fingerprintOf(tls), endpoints };
    this.#reportExpiry();
    this.#unwatch = options.source.watch(() => this.#scheduleCheck());
    this.#checkTimer = setInterval(() => this.#scheduleCheck(), CHECK_INTERVAL_MS).unref();
  }

  close(): void {
    this.#isClosed = true;
    this.#unwatch();
    clearInterval(this.#checkTimer);
    clearTimeout(this.#pendingCheck);
    clearTimeout(this.#retryTimer);
  }

  #reportExpiry(): void {
    const { endpoints } = this.#inUse;
    if (this.#isExpiryReported || validityProblem(endpoints, this.#options.now()) === undefined) return;
    this.#isExpiryReported = true;
    this.#report("certificates.expired", endpoints);
  }

  #scheduleCheck(): void {
    if (this.#pendingCheck !== undefined || this.#isClosed) return;
    this.#pendingCheck = setTimeout(() => {
      this.#pendingCheck = undefined;
      void this.#check();
    }, CHANGE_DELAY_MS).unref();
  }

  async #check(): Promise<void> {
    if (this.#isChecking) return this.#scheduleCheck();
    this.#isChecking = true;
    try {
      await this.#compare();
    } catch (error) {
      this.#refuse("", reasonOf(error));
    } finally {
      this.#isChecking = false;
    }
  }

  async #compare(): Promise<void> {
    this.#reportExpiry();
    const tls = this.#readFiles();
    if (tls === undefined) return;
    const fingerprint = fingerprintOf(tls);
    if (fingerprint === this.#inUse.fingerprint) {
      this.#refused = undefined;
      return;
    }
    const endpoints = this.#validated(tls, fingerprint);
    if (endpoints === undefined) return;
    if (!(await this.#options.adopt(endpoints))) {
      if (this.#isClosed) return;
      this.#refuse(fingerprint, "no connection could be made with it", endpoints);
      clearTimeout(this.#retryTimer);
      this.#retryTimer = setTimeout(() => this.#scheduleCheck(), RETRY_DELAY_MS).unref();
      return;
    }
    this.#inUse = { fingerprint, endpoints };
    this.#isExpiryReported = false;
    this.#refused = undefined;
    this.#report("certificates.changed", endpoints);
  }

  #readFiles(): EgressTls | undefined {
    try {
      return this.#options.source.read();
    } catch (error) {
      this.#refuse("", `a file cannot be read (${systemCode(error)})`);
      return undefined;
    }
  }

  #validated(tls: EgressTls, fingerprint: string): Secured | undefined {
    try {
      const endpoints = this.#options.read(tls);
      const problem = validityProblem(endpoints, this.#options.now());
      if (problem === undefined) return endpoints;
      this.#refuse(fingerprint, problem, endpoints);
    } catch (error) {
      this.#refuse(fingerprint, reasonOf(error));
    }
    return undefined;
  }

  /** Reports a refused set the second time it is seen, and only then. */
  #refuse(fingerprint: string, reason: string, endpoints?: Secured): void {
    if (this.#refused?.fingerprint !== fingerprint) {
      this.#refused = { fingerprint, reported: false };
      this.#scheduleCheck();
    } else if (!this.#refused.reported) {
      this.#refused = { fingerprint, reported: true };
      this.#report("certificates.refused", endpoints, reason);
    }
  }

  #report(type: CertificateEvent["type"], endpoints: Secured | undefined, reason?: string): void {
    const end = endpoints?.clientCertificate?.notAfter;
    this.#options.report({
      type,
      system: this.#options.system,
      expiresAt: end === undefined ? null : new Date(end).toISOString(),
      rootSha256: endpoints?.tls?.rootSha256 ?? [],
      ...(reason !== undefined && { reason }),
    });
  }
}

function validityProblem({ clientCertificate }: SecuredConnections, now: number): string | undefined {
  if (clientCertificate === null) return undefined;
  if (now >= clientCertificate.notAfter) return "the client certificate has expired";
  return now < clientCertificate.notBefore ? "the client certificate is not valid yet" : undefined;
}

function reasonOf(error: unknown): string {
  return error instanceof StartupError ? error.problems.join("; ") : errorText(error);
}

function fingerprintOf({ rootCert, clientCert, clientKey }: EgressTls): string {
  const hash = createHash("sha256");
  for (const part of [rootCert, clientCert, clientKey]) {
    hash.update(`${part?.length ?? -1} `);
    if (part !== undefined) hash.update(part);
  }
  return hash.digest("hex");
}
