import { type AddressRules, literalAddress } from "./addresses.ts";
import {
  checkedAddresses,
  ForbiddenAddress,
  type Host,
  judgedHost,
  type Resolve,
  systemResolve,
} from "./checked-lookup.ts";
import { dial, disconnect } from "./dial.ts";
import { type EgressExchange, StreamedExchange, WholeExchange } from "./exchange.ts";
import { Pool } from "./pool.ts";
import type { EgressAnswer, EgressRequest, EgressStream } from "./request.ts";

/** The trusted roots and the own certificate of a connection, as PEM. */
export interface EgressTls {
  /** Default: the platform's roots. */
  readonly rootCert?: Buffer | undefined;
  readonly clientCert?: Buffer | undefined;
  readonly clientKey?: Buffer | undefined;
  /** Name in the server's certificate, when it is not the URL's host. */
  readonly serverName?: string | undefined;
}

export interface EgressOptions {
  readonly addresses: AddressRules;
  readonly tls?: EgressTls | undefined;
  /** Default: the system's resolver. */
  readonly resolve?: Resolve | undefined;
  /** Maximum connections to one server; further requests wait. Default: no limit. */
  readonly connectionsMax?: number | undefined;
  /** Keeps connections for further requests. Default: true. */
  readonly keepsConnections?: boolean | undefined;
  /**
   * Keeps a connection that is still being made when its request is given up: for the next request, for some seconds. An overloaded
   * server would otherwise spend its processor time on handshakes for requests that were given up. Only for requests that are repeated
   * soon: the next one waits for this connection, too. Default: false.
   */
  readonly keepsUnfinished?: boolean | undefined;
}

const IDLE_MS = 15_000;
/** A server rarely closes a connection this soon after an answer. */
const FRESH_MS = 1_000;
/** With TLS 1.3, a server refuses a client certificate after the client's side of the handshake has ended. */
const REFUSAL_GRACE_MS = 250;
/** From this number on, a new pool removes those without connections. */
const POOLS_MAX = 64;
/**
 * Sends HTTP requests over connections of its own, to checked addresses only. Follows no redirects and uses no proxy. Verifies
 * certificates whatever the environment says. Rejected: `fetch`, which resolves names itself, obeys proxy variables and repeats
 * requests; `node:http`, which takes three times the processor time.
 */
export class EgressClient {
  readonly #options: EgressOptions;
  readonly #pools = new Map<string, Pool>();
  readonly #addresses: (hostname: string) => Promise<readonly string[]>;
  /** The host of the last request: most clients have one, and its verdict depends only on its text and the rules. */
  #host: Host | undefined;

  constructor(options: EgressOptions) {
    this.#options = options;
    this.#addresses = checkedAddresses(options.addresses, options.resolve ?? systemResolve);
  }

  /** Returns the number of connections, in use or idle. */
  get connections(): number {
    return this.#pools.values().reduce((sum, { size }) => sum + size, 0);
  }

  /** Returns the answer, whatever its status. Rejects with `EgressError`. */
  send(request: EgressRequest): Promise<EgressAnswer> {
    return new Promise((resolve, reject) => {
      this.#start(new WholeExchange(request, this.#keeps, { resolve, reject }));
    });
  }

  /** Returns the answer as soon as its head has arrived. Rejects with `EgressError`. */
  open(request: EgressRequest): Promise<EgressStream> {
    return new Promise((resolve, reject) => {
      this.#start(new StreamedExchange(request, this.#keeps, { resolve, reject }));
    });
  }

  /** Returns whether a connection with TLS can be made. Sends no request. */
  async canConnect(url: URL, timeoutMs: number): Promise<boolean> {
    const host = this.#hostOf(url);
    if (host.problem !== undefined) return false;
    const { promise, resolve } = Promise.withResolvers<boolean>();
    let isWanted = true;
    let grace: ReturnType<typeof setTimeout> | undefined;
    const fail = (): void => resolve(false);
    const timer = setTimeout(fail, timeoutMs);
    const connecting = this.#addressesOf(host).then((addresses) =>
      dial({
        addresses,
        port: Number(url.port || 443),
        tls: tlsOptions(this.#options.tls, host),
        data: undefined,
        isWanted: () => isWanted,
        handler: {
          data() {},
          handshake(_socket, isTrusted, error) {
            if (isTrusted && error === null) grace = setTimeout(() => resolve(true), REFUSAL_GRACE_MS);
            else fail();
          },
          error: fail,
          close: fail,
          connectError() {},
        },
      }),
    );
    connecting.catch(fail);
    return await promise.finally(() => {
      isWanted = false;
      clearTimeout(timer);
      clearTimeout(grace);
      connecting.then(disconnect).catch(() => {});
    });
  }

  /** Closes idle connections now, and those in use after their answers. */
  retire(): void {
    for (const pool of this.#pools.values()) pool.retire();
  }

  /** Closes all connections. */
  close(): void {
    for (const pool of this.#pools.values()) pool.close();
  }

  get #keeps(): boolean {
    return this.#options.keepsConnections ?? true;
  }

  #start(exchange: EgressExchange): void {
    const { request } = exchange;
    const { problem } = this.#hostOf(request.url);
    if (problem !== undefined) exchange.failed(new ForbiddenAddress(problem));
    else if (exchange.begin()) this.#pool(request).take(exchange);
  }

  #hostOf({ hostname }: URL): Host {
    if (this.#host?.hostname !== hostname) this.#host = judgedHost(hostname, this.#options.addresses);
    return this.#host;
  }

  /** An address was judged with the host. */
  async #addressesOf({ hostname, name }: Host): Promise<readonly string[]> {
    return literalAddress(hostname) === undefined ? await this.#addresses(name) : [name];
  }

  #pool({ url, isRepeatable }: EgressRequest): Pool {
    const key = `${url.origin} ${isRepeatable}`;
    const known = this.#pools.get(key);
    if (known !== undefined) return known;
    if (this.#pools.size >= POOLS_MAX)
      for (const [old, { size }] of this.#pools) if (size === 0) this.#pools.delete(old);
    const pool = this.#newPool(url, isRepeatable ? IDLE_MS : FRESH_MS);
    this.#pools.set(key, pool);
    return pool;
  }

  #newPool(url: URL, idleMs: number): Pool {
    const { tls, connectionsMax = Number.POSITIVE_INFINITY, keepsUnfinished = false } = this.#options;
    const host = this.#hostOf(url);
    const isTls = url.protocol === "https:";
    return new Pool({
      port: Number(url.port || (isTls ? 443 : 80)),
      tls: isTls ? tlsOptions(tls, host) : undefined,
      idleMs: this.#keeps ? idleMs : 0,
      connectionsMax,
      keepsUnfinished,
      addresses: () => this.#addressesOf(host),
    });
  }
}

/** Returns the options of connections to a host. Its name is verified, not the address that was found for it. */
function tlsOptions(tls: EgressTls | undefined, { hostname, name }: Host): Bun.TLSOptions {
  return {
    // Set explicitly, because an environment variable could disable the check.
    rejectUnauthorized: true,
    // The empty name sends none, and verifies the address.
    serverName: tls?.serverName ?? (literalAddress(hostname) === undefined ? name : ""),
    ...(tls?.rootCert !== undefined && { ca: tls.rootCert }),
    ...(tls?.clientCert !== undefined && { cert: tls.clientCert, key: tls.clientKey }),
  };
}
