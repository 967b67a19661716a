import type { CertificateExpiry, WatchOptions } from "../core/target-kind.ts";
import type { AddressRules } from "./addresses.ts";
import { clientValidity, readRoots } from "./certificates.ts";
import type { Resolve } from "./checked-lookup.ts";
import { EgressClient, type EgressTls } from "./client.ts";
import { CertificateRotation, type CertificateSource, type SecuredConnections } from "./rotation.ts";

interface RotatingClientOptions {
  readonly system: string;
  readonly url: URL;
  readonly addresses: AddressRules;
  /** Present for https. */
  readonly tls: EgressTls | undefined;
  readonly certificates?: CertificateSource | undefined;
  readonly connectionsMax?: number | undefined;
  /** As in `EgressOptions`. */
  readonly keepsUnfinished?: boolean | undefined;
  /** Default: the system's resolver. */
  readonly resolve?: Resolve | undefined;
  /** Time after which connections with former certificates are closed, even in use. Default: none. */
  readonly formerMs?: number | undefined;
}

/** Connections of a system with one set of certificates. */
interface Connections extends SecuredConnections {
  readonly client: EgressClient;
}

const PROBE_TIMEOUT_MS = 10_000;

/** The HTTP client of one system, replaced when its certificates change. */
export class RotatingClient {
  readonly #options: RotatingClientOptions;
  #current: Connections;
  #rotation: CertificateRotation<Connections> | undefined;

  /** @throws {Error} when the certificates do not fit together */
  constructor(options: RotatingClientOptions) {
    this.#options = options;
    this.#current = this.#connections(options.tls);
  }

  get current(): Connections {
    return this.#current;
  }

  /** Returns when the service's own certificate expires; an empty list without one. */
  certificates(): readonly CertificateExpiry[] {
    const { clientCertificate } = this.#current;
    return clientCertificate === null ? [] : [{ system: this.#options.system, notAfter: clientCertificate.notAfter }];
  }

  watch({ now, report }: WatchOptions): void {
    const { system, tls, certificates } = this.#options;
    if (tls === undefined || certificates === undefined) return;
    this.#rotation = new CertificateRotation({
      system,
      source: certificates,
      current: { tls, endpoints: this.#current },
      now,
      report,
      read: (renewed) => this.#connections(renewed),
      adopt: (connections) => this.#adopt(connections),
    });
  }

  close(): void {
    this.#rotation?.close();
    this.#current.client.close();
  }

  async #adopt(connections: Connections): Promise<boolean> {
    const { url, formerMs } = this.#options;
    if (!(await connections.client.canConnect(url, PROBE_TIMEOUT_MS))) return false;
    const { client: former } = this.#current;
    former.retire();
    if (formerMs !== undefined) setTimeout(() => former.close(), formerMs).unref();
    this.#current = connections;
    return true;
  }

  #connections(tls: EgressTls | undefined): Connections {
    const { url, addresses, resolve, connectionsMax, keepsUnfinished } = this.#options;
    const options = { addresses, resolve, connectionsMax, keepsUnfinished };
    if (tls === undefined) return { client: new EgressClient(options), tls: null, clientCertificate: null };
    const roots = tls.rootCert === undefined ? undefined : readRoots(tls.rootCert);
    return {
      client: new EgressClient({ ...options, tls: { ...tls, rootCert: roots?.pem } }),
      tls: { serverName: tls.serverName ?? url.hostname, rootSha256: roots?.sha256 ?? [] },
      clientCertificate: clientValidity(tls),
    };
  }
}
