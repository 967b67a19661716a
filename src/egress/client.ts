import { Agent } from "node:http";
import { Agent as TlsAgent } from "node:https";
import type { LookupFunction, Socket } from "node:net";
import { connect } from "node:tls";
import { type AddressRules, addressProblem, literalAddress } from "./addresses.ts";
import { checkedLookup, type Host, judgedHost, type Resolve, systemResolve } from "./checked-lookup.ts";
import { type EgressAnswer, type EgressRequest, type EgressStream, SentRequest } from "./request.ts";

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
}

const IDLE_MS = 15_000;
/** A server rarely closes a connection this soon after an answer. */
const FRESH_MS = 1_000;
/** Maximum age of a connection: later ones go to the addresses that the name has then. */
const CONNECTION_AGE_MAX_MS = 300_000;
const IDLE_CONNECTIONS_MAX = 256;
/** With TLS 1.3, a server refuses a client certificate after the client's side of the handshake has ended. */
const REFUSAL_GRACE_MS = 250;
/**
 * Sends HTTP requests over connections of its own, to checked addresses only. Follows no redirects and uses no proxy. Verifies
 * certificates whatever the environment says. Rejected: `fetch`, which resolves names itself, obeys proxy variables and repeats
 * requests.
 */
export class EgressClient {
  readonly #options: EgressOptions;
  readonly #agents = new Map<string, Agent>();
  readonly #lookup: LookupFunction;
  /** The host of the last request: most clients have one, and its verdict depends only on its text and the rules. */
  #host: Host | undefined;

  constructor(options: EgressOptions) {
    this.#options = options;
    this.#lookup = checkedLookup(options.addresses, options.resolve ?? systemResolve);
  }

  /** Returns the number of connections, in use or idle. */
  get connections(): number {
    return [...this.#agents.values()].reduce(
      (sum, { sockets, freeSockets }) => sum + countOf(sockets) + countOf(freeSockets),
      0,
    );
  }

  /** Returns the answer, whatever its status. Rejects with `EgressError`. */
  send(request: EgressRequest): Promise<EgressAnswer> {
    return new Promise((resolve, reject) => {
      new SentRequest(request, reject).whole(resolve).send(this.#agent(request), this.#hostOf(request.url));
    });
  }

  /** Returns the answer as soon as its head has arrived. Rejects with `EgressError`. */
  open(request: EgressRequest): Promise<EgressStream> {
    return new Promise((resolve, reject) => {
      new SentRequest(request, reject).streamed(resolve).send(this.#agent(request), this.#hostOf(request.url));
    });
  }

  /** Returns whether a connection with TLS can be made. Sends no request. */
  async canConnect(url: URL, timeoutMs: number): Promise<boolean> {
    const { addresses, tls } = this.#options;
    const literal = literalAddress(url.hostname);
    if (literal !== undefined && addressProblem(literal, addresses) !== undefined) return false;
    const host = literal ?? url.hostname;
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const name = literal === undefined ? { servername: host } : {};
    const socket = connect({
      host,
      port: Number(url.port || 443),
      lookup: this.#lookup,
      ...name,
      ...tlsOptions(tls),
    });
    let grace: ReturnType<typeof setTimeout> | undefined;
    socket.once("secureConnect", () => {
      grace = setTimeout(() => resolve(true), REFUSAL_GRACE_MS);
    });
    for (const event of ["error", "close"]) socket.once(event, () => resolve(false));
    const timer = setTimeout(() => resolve(false), timeoutMs);
    return promise.finally(() => {
      clearTimeout(timer);
      clearTimeout(grace);
      socket.on("error", () => {});
      socket.destroy();
    });
  }

  /** Closes idle connections now, and those in use after their answers. */
  retire(): void {
    for (const agent of this.#agents.values()) {
      agent.keepSocketAlive = () => false;
      for (const socket of Object.values(agent.freeSockets).flatMap((sockets) => sockets ?? [])) socket.destroy();
    }
  }

  /** Closes all connections. */
  close(): void {
    for (const agent of this.#agents.values()) agent.destroy();
  }

  #hostOf({ hostname }: URL): Host {
    if (this.#host?.hostname !== hostname) this.#host = judgedHost(hostname, this.#options.addresses);
    return this.#host;
  }

  #agent({ url: { protocol }, isRepeatable }: EgressRequest): Agent {
    const key = `${protocol} ${isRepeatable}`;
    const known = this.#agents.get(key);
    if (known !== undefined) return known;
    const agent = this.#newAgent(protocol === "https:", isRepeatable ? IDLE_MS : FRESH_MS);
    this.#agents.set(key, agent);
    return agent;
  }

  #newAgent(isTls: boolean, timeout: number): Agent {
    const { tls, connectionsMax = Number.POSITIVE_INFINITY, keepsConnections = true } = this.#options;
    const common = {
      keepAlive: keepsConnections,
      timeout,
      maxSockets: connectionsMax,
      maxFreeSockets: IDLE_CONNECTIONS_MAX,
      lookup: this.#lookup,
      family: 0,
    };
    const agent = isTls ? new TlsAgent({ ...common, ...tlsOptions(tls) }) : new Agent(common);
    return limitAge(agent);
  }
}

export function tlsOptions(tls: EgressTls | undefined): object {
  return {
    // Set explicitly, because an environment variable could disable the check.
    rejectUnauthorized: true,
    ...(tls?.rootCert !== undefined && { ca: tls.rootCert }),
    ...(tls?.clientCert !== undefined && { cert: tls.clientCert, key: tls.clientKey }),
    ...(tls?.serverName !== undefined && { servername: tls.serverName }),
  };
}

/** Makes an agent close connections of a certain age instead of using them again. */
function limitAge(agent: Agent): Agent {
  const known = new WeakSet<object>();
  const old = new WeakSet<object>();
  const keep = agent.keepSocketAlive.bind(agent);
  agent.keepSocketAlive = (socket) => {
    if (!known.has(socket)) {
      known.add(socket);
      const timer = setTimeout(() => old.add(socket), CONNECTION_AGE_MAX_MS).unref();
      socket.once("close", () => clearTimeout(timer));
    }
    return !old.has(socket) && keep(socket);
  };
  return agent;
}

function countOf(sockets: NodeJS.ReadOnlyDict<readonly Socket[]>): number {
  return Object.values(sockets).reduce((sum, list) => sum + (list?.length ?? 0), 0);
}
