import type { Server as HttpServer, IncomingMessage, ServerResponse } from "node:http";
import type { Server, Socket } from "node:net";
import { endedWithin } from "../../core/time-limits.ts";
import { HANDSHAKES_MAX } from "./listening-handshakes.ts";

export interface CarriedOptions {
  /** From the connection, or the last answer's first silence, to the whole of a request's headers. */
  readonly headersTimeoutMs: number;
  /** From an answer to the next request. */
  readonly keepAliveMs: number;
  /** Beyond them, clients that are still shaking hands. Read at each connection. */
  readonly connectionsMax?: number | undefined;
}

const DEFAULT_CONNECTIONS_MAX = 8_192;

/**
 * Connections that another server than the HTTP server itself has taken, handed on to it. This runtime shows a client's
 * certificate, and exchanges the server's own, only on such connections; and on them it keeps none of the HTTP server's
 * deadlines. So each stands under one of ours: a connection has until then for its next request, whatever it sends meanwhile.
 */
export class CarriedConnections {
  readonly #http: HttpServer;
  readonly #options: CarriedOptions;
  readonly #open = new Map<Socket, Carried>();
  readonly #idle: (() => void)[] = [];
  #isClosing = false;

  constructor(http: HttpServer, options: CarriedOptions) {
    this.#http = http;
    this.#options = options;
    http.prependListener("request", (request: IncomingMessage, response: ServerResponse) => {
      this.#open.get(request.socket)?.begin(response);
    });
  }

  /** The same server, which now holds only so many connections at once, whoever counts them before. */
  bounded<S extends Server>(server: S): S {
    const bound = (): void => {
      server.maxConnections = (this.#options.connectionsMax ?? DEFAULT_CONNECTIONS_MAX) + HANDSHAKES_MAX;
    };
    bound();
    server.on("connection", bound);
    return server;
  }

  take(socket: Socket): void {
    const carried = new Carried(socket, this.#options);
    this.#open.set(socket, carried);
    socket.on("error", () => socket.destroy());
    socket.once("close", () => {
      carried.end();
      this.#open.delete(socket);
      this.#settle();
    });
    if (this.#isClosing) carried.retire();
    this.#http.emit("connection", socket);
  }

  /** Takes no request more on any connection; resolves when the last is closed. */
  async close(): Promise<void> {
    this.#isClosing = true;
    this.retireAll();
    await this.#empty();
  }

  /** Resolves when no connection is open, or when the time is over. */
  async emptyWithin(ms: number): Promise<void> {
    await endedWithin(this.#empty(), ms);
  }

  #empty(): Promise<void> {
    if (this.#open.size === 0) return Promise.resolve();
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#idle.push(resolve);
    return promise;
  }

  /** Every connection that is open ends with its answer, or at once where none is owed. */
  retireAll(): void {
    for (const carried of this.#open.values()) carried.retire();
  }

  destroyAll(): void {
    for (const socket of [...this.#open.keys()]) socket.destroy();
  }

  #settle(): void {
    if (this.#open.size === 0) for (const resolve of this.#idle.splice(0)) resolve();
  }
}

/** One connection: how many answers are owed on it, and until when the next request has to be there. */
class Carried {
  readonly #socket: Socket;
  readonly #keepAliveMs: number;
  #owed = 0;
  #isRetired = false;
  #deadline: NodeJS.Timeout | undefined;

  constructor(socket: Socket, { headersTimeoutMs, keepAliveMs }: CarriedOptions) {
    this.#socket = socket;
    this.#keepAliveMs = keepAliveMs;
    this.#await(headersTimeoutMs);
  }

  begin(response: ServerResponse): void {
    this.end();
    this.#owed += 1;
    response.once("close", () => {
      this.#owed -= 1;
      if (this.#owed > 0) return;
      if (this.#isRetired) this.#socket.end();
      // Retired or not: a client that never closes its half does not stay.
      this.#await(this.#keepAliveMs);
    });
  }

  retire(): void {
    this.#isRetired = true;
    if (this.#owed === 0) this.#socket.end();
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
