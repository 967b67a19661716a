import type { Server as HttpServer, IncomingMessage, ServerResponse } from "node:http";
import type { Server, Socket } from "node:net";
import { endedWithin } from "../../core/time-limits.ts";
import { CountByKey, sourceOf } from "./sources.ts";

/** Maximum number of concurrent TLS handshakes; each takes about 40 kB until it completes or times out. */
const HANDSHAKES_MAX = 8_192;
/** A fleet behind one proxy may reconnect all at once, but no single source may take every slot. */
const HANDSHAKES_PER_SOURCE_MAX = 2_048;

export interface ForwardedOptions {
  /** Time from connecting until the headers of the first request are complete. */
  readonly headersTimeoutMs: number;
  readonly keepAliveMs: number;
  /** Maximum number of connections, not counting clients that are still in a TLS handshake. Read at each connection. */
  readonly connectionsMax?: number | undefined;
}

const DEFAULT_CONNECTIONS_MAX = 8_192;

/** Takes the connections that another server has accepted: TLS, or the Unix socket. */
export interface ConnectionTaker {
  take(socket: Socket): void;
  /** Limits the server's concurrent connections, in addition to any other count, and returns the server. */
  limited<S extends Server>(server: S): S;
  /** Ends every open connection after its pending answers, or at once when there are none. */
  retireAll(): void;
}

export interface ListenAddress {
  readonly host: string;
  readonly port: number;
  /** True when other processes of the service listen at the same port. */
  readonly reusePort?: boolean | undefined;
}

/** An HTTP server of a listener, without the addresses at which it listens. */
export interface ListenerServer {
  /** Whether it can listen at a port that other processes share. */
  readonly canShare: boolean;
  /** Listens on a plain port, and returns the actual one. */
  listen(address: ListenAddress): Promise<number>;
  /** Takes connections that TLS or the Unix socket has accepted. */
  taker(): Promise<ConnectionTaker>;
  /** Stops accepting connections. For a moment, requests on open connections are still answered, with `Connection: close`. */
  close(): Promise<void>;
  /** Ends the connections on which no request waits for its answer. */
  endIdle(): void;
  /** Closes every connection at once. */
  cutOff(): void;
}

/** Limits a server's concurrent connections, with room for handshakes. The limit is read at each connection. */
export function limitedTo<S extends Server>(server: S, connectionsMax: () => number | undefined): S {
  const setLimit = (): void => {
    server.maxConnections = (connectionsMax() ?? DEFAULT_CONNECTIONS_MAX) + HANDSHAKES_MAX;
  };
  setLimit();
  server.on("connection", setLimit);
  return server;
}

const forwardedSockets = new WeakSet<Socket>();

/** Returns whether another server has accepted the connection and handed it to the HTTP server. */
export function isForwarded(socket: Socket): boolean {
  return forwardedSockets.has(socket);
}

/**
 * Connections that a server other than the HTTP server has accepted and handed to it. Only on such connections does the
 * runtime expose client certificates and replace the server's own certificate; but it applies none of the HTTP server's
 * deadlines to them. So each has a deadline here: the next request must be complete by then, whatever the client sends.
 */
export class ForwardedConnections implements ConnectionTaker {
  readonly #http: HttpServer;
  readonly #options: ForwardedOptions;
  readonly #open = new Map<Socket, ForwardedConnection>();
  readonly #idle: (() => void)[] = [];
  #isClosing = false;

  constructor(http: HttpServer, options: ForwardedOptions) {
    this.#http = http;
    this.#options = options;
    http.prependListener("request", (request: IncomingMessage, response: ServerResponse) => {
      this.#open.get(request.socket)?.begin(response);
    });
  }

  limited<S extends Server>(server: S): S {
    return limitedTo(server, () => this.#options.connectionsMax);
  }

  take(socket: Socket): void {
    const forwarded = new ForwardedConnection(socket, this.#options);
    this.#open.set(socket, forwarded);
    forwardedSockets.add(socket);
    socket.on("error", () => socket.destroy());
    socket.once("close", () => {
      forwarded.end();
      this.#open.delete(socket);
      this.#notifyIfEmpty();
    });
    if (this.#isClosing) forwarded.retire();
    this.#http.emit("connection", socket);
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    this.retireAll();
    await this.#empty();
  }

  async emptyWithin(ms: number): Promise<void> {
    await endedWithin(this.#empty(), ms);
  }

  #empty(): Promise<void> {
    if (this.#open.size === 0) return Promise.resolve();
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#idle.push(resolve);
    return promise;
  }

  retireAll(): void {
    for (const forwarded of this.#open.values()) forwarded.retire();
  }

  destroyIdle(): void {
    for (const [socket, { isIdle }] of [...this.#open]) if (isIdle) socket.destroy();
  }

  destroyAll(): void {
    for (const socket of [...this.#open.keys()]) socket.destroy();
  }

  #notifyIfEmpty(): void {
    if (this.#open.size === 0) for (const resolve of this.#idle.splice(0)) resolve();
  }
}

/** One connection: counts its pending answers and keeps the deadline for its next request. */
class ForwardedConnection {
  readonly #socket: Socket;
  readonly #keepAliveMs: number;
  #pending = 0;
  #isRetired = false;
  #deadline: NodeJS.Timeout | undefined;

  constructor(socket: Socket, { headersTimeoutMs, keepAliveMs }: ForwardedOptions) {
    this.#socket = socket;
    this.#keepAliveMs = keepAliveMs;
    this.#await(headersTimeoutMs);
  }

  get isIdle(): boolean {
    return this.#pending === 0;
  }

  begin(response: ServerResponse): void {
    this.end();
    this.#pending += 1;
    response.once("close", () => {
      this.#pending -= 1;
      if (this.#pending > 0) return;
      if (this.#isRetired) this.#socket.end();
      // Applies to retired connections too: a client that never closes its side is cut off.
      this.#await(this.#keepAliveMs);
    });
  }

  retire(): void {
    this.#isRetired = true;
    if (this.#pending === 0) this.#socket.end();
  }

  end(): void {
    clearTimeout(this.#deadline);
  }

  #await(timeoutMs: number): void {
    this.end();
    if (this.#socket.destroyed) return;
    this.#deadline = setTimeout(() => this.#socket.destroy(), timeoutMs);
    this.#deadline.unref();
  }
}

export interface HandshakeLimits {
  /** Maximum number of handshakes per source, if lower than the default. Read at each handshake. */
  readonly perSourceMax?: number | undefined;
  readonly refused: (why: "total" | "source") => void;
}

/** Counts clients that have connected but not completed the TLS handshake. After it, `Connections` counts them. */
export class Handshakes {
  readonly #limits: HandshakeLimits;
  readonly #running = new Map<Socket, string>();
  readonly #bySource = new CountByKey();

  constructor(limits: HandshakeLimits) {
    this.#limits = limits;
  }

  begin(socket: Socket): void {
    const source = sourceOf(socket);
    const isFull = this.#running.size >= HANDSHAKES_MAX;
    const { perSourceMax = HANDSHAKES_PER_SOURCE_MAX, refused } = this.#limits;
    if (isFull || this.#bySource.of(source) >= Math.min(perSourceMax, HANDSHAKES_PER_SOURCE_MAX)) {
      refused(isFull ? "total" : "source");
      socket.destroy();
      return;
    }
    this.#running.set(socket, source);
    this.#bySource.enter(source);
    socket.once("close", () => this.end(socket));
  }

  end(socket: Socket): void {
    const source = this.#running.get(socket);
    if (source === undefined) return;
    this.#running.delete(socket);
    this.#bySource.leave(source);
  }
}
