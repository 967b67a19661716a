import type { Server, Socket } from "node:net";
import { parse as parseQuery } from "node:querystring";
import type { ParserFactory } from "../../http1/parser.ts";
import { Answering } from "../answering.ts";
import { challenges } from "../answers.ts";
import {
  type ConnectionTaker,
  type ListenAddress,
  type ListenerServer,
  limitedTo,
} from "../connections/listening-forwarded.ts";
import { certificateOf } from "../connections/listening-tls.ts";
import { createLoadGuards, type LoadGuards } from "../connections/load.ts";
import type { RawEnd } from "../connections/raw-answer.ts";
import { RequestRateLimiter } from "../connections/request-limits.ts";
import { CountByKey, sourceOf } from "../connections/sources.ts";
import { type Endpoint, type EndpointAnswer, routesOf } from "../endpoint.ts";
import { type ExchangeListener, HttpExchange } from "../exchange.ts";
import { KEEP_ALIVE_MS, type ServerOptions, TIMEOUT_CHECK_EVERY_MS } from "../server-options.ts";
import type { FrontAnswer } from "./answer.ts";
import { FrontConnection, type FrontParts } from "./connection.ts";
import type { FrontRequest } from "./request.ts";
import { queryOf, RouteTable } from "./route-table.ts";
import { BunWire, NodeWire, type Wire } from "./wire.ts";

/** Connections beyond the configured number that may be open without having sent a request. */
const SILENT_CONNECTIONS_MAX = 8_192;
const DEFAULT_CONNECTIONS_MAX = 8_192;

/** Time that idle connections stay open when the listener closes: a request on its way gets an answer instead of a reset. */
const IDLE_GRACE_MS = 500;

type Handler = (exchange: HttpExchange) => Promise<EndpointAnswer>;

/** The agents' listener: an HTTP/1.1 server on sockets. */
export class Front implements ListenerServer, ConnectionTaker, FrontParts {
  readonly canShare = true;
  readonly parsers: ParserFactory;
  readonly headerBytesMax: number;
  readonly headersTimeoutMs: number;
  readonly requestTimeoutMs: number;
  readonly keepAliveMs = KEEP_ALIVE_MS;
  date: string;
  isClosing = false;
  readonly #options: ServerOptions;
  readonly #answering: Answering;
  readonly #routes = new RouteTable<Handler>();
  readonly #notFound: Handler = async ({ raw }) => this.#answering.unknown(raw);
  readonly #unknown: Handler = async () => this.#answering.unknownAt(undefined);
  readonly #shared: ExchangeListener<FrontRequest>;
  readonly #load: LoadGuards | undefined;
  readonly #open = new Set<FrontConnection>();
  readonly #bySource = new CountByKey();
  readonly #listeners: Bun.TCPSocketListener<BunWire>[] = [];
  readonly #stops: (() => void)[] = [];
  readonly #onEmpty: (() => void)[] = [];
  #sweeps = 0;

  constructor(parsers: ParserFactory, options: ServerOptions, endpoints: readonly Endpoint[]) {
    const { limits, metrics, clock, listenerTenants: tenants } = options;
    const callers = tenants?.callers ?? options.callers;
    this.parsers = parsers;
    this.#options = options;
    this.headerBytesMax = options.headerBytesMax;
    this.headersTimeoutMs = options.headersTimeoutMs;
    this.requestTimeoutMs = options.requestTimeoutMs + options.headersTimeoutMs;
    this.date = new Date(clock()).toUTCString();
    this.#load = limits && createLoadGuards({ limits, metrics: metrics.load, callers, clock });
    const requestRate = limits && new RequestRateLimiter(() => limits.rates.requests, clock);
    const routes = routesOf(endpoints, "agents", options);
    const parts = { ...options, ...this.#load, requestRate };
    this.#answering = new Answering({
      routes,
      parts,
      listener: this,
      tenants: tenants?.on({ name: "agents", parts, own: [], routes }),
    });
    for (const route of routes) this.#routes.add(route, this.#answering.answerOf(route.endpoint));
    this.#shared = {
      load: this.#load,
      isEnding: options.isEnding,
      challenge: challenges(options.resource),
      pending: {
        isLatest: (request) => request.socket.isLatest(request),
        willEndWith: ({ socket }) => socket.ignoreLater(),
        endsWith: ({ socket }) => socket.ignoreLater(),
      },
    };
    this.#watch();
  }

  #watch(): void {
    const sweep = setInterval(() => this.#sweep(), TIMEOUT_CHECK_EVERY_MS);
    sweep.unref();
    this.#stops.push(() => clearInterval(sweep));
    if (this.#load !== undefined) this.#stops.push(this.#load.watch(), this.#load.connections.watch());
  }

  async listen({ host: hostname, port, reusePort = false }: ListenAddress): Promise<number> {
    // The runtime has the option, its types do not.
    const options: Bun.TCPSocketListenOptions<BunWire> & { readonly reusePort: boolean } = {
      hostname,
      port,
      reusePort,
      allowHalfOpen: true,
      data: undefined as never,
      socket: {
        open: (socket) => {
          const wire = new BunWire(socket);
          socket.data = wire;
          this.#take(wire);
        },
        data: (socket, bytes) => socket.data.received(bytes),
        drain: (socket) => socket.data.drained(),
        end: (socket) => socket.data.ended(),
        close: (socket) => socket.data.closed(),
        error: (socket, error) => {
          // Errors of the connection have a code; others were thrown by a handler here.
          if (!("code" in error)) this.logError(error);
          socket.terminate();
        },
      },
    };
    const listener = Bun.listen(options);
    this.#listeners.push(listener);
    return listener.port;
  }

  async taker(): Promise<ConnectionTaker> {
    return this;
  }

  take(socket: Socket): void {
    this.#take(new NodeWire(socket, certificateOf({ socket })));
  }

  limited<S extends Server>(server: S): S {
    return limitedTo(server, () => this.#options.limits?.connectionsMax);
  }

  #take(wire: Wire): void {
    const connection = new FrontConnection(wire, this);
    const source = sourceOf(connection);
    const { connectionsMax = DEFAULT_CONNECTIONS_MAX, connectionsPerSourceMax = DEFAULT_CONNECTIONS_MAX } =
      this.#options.limits ?? {};
    const isFull = this.#open.size >= connectionsMax + SILENT_CONNECTIONS_MAX;
    wire.connect(connection);
    this.#open.add(connection);
    this.#bySource.enter(source);
    connection.once("close", () => {
      this.#open.delete(connection);
      this.#bySource.leave(source);
      if (this.#open.size === 0) for (const resolve of this.#onEmpty.splice(0)) resolve();
    });
    if (!isFull && this.#bySource.of(source) <= connectionsPerSourceMax + SILENT_CONNECTIONS_MAX) return;
    this.ended(isFull ? "total" : "source");
    connection.destroy();
  }

  admits(connection: FrontConnection): boolean {
    return this.#load?.connections.take(connection) !== false;
  }

  ended(end: RawEnd | "total" | "source"): void {
    this.#options.metrics.load.ended(end);
  }

  serve(request: FrontRequest, answer: FrontAnswer): void {
    const { socket, method, url } = request;
    const found = this.#routes.find(method, url);
    const route = typeof found === "object" ? found : undefined;
    const parts = {
      raw: request,
      params: route?.params ?? {},
      query: url.includes("?") ? { ...parseQuery(queryOf(url)) } : {},
      source: socket.remoteAddress ?? "socket",
      scheme: socket.encrypted ? "https" : "http",
    };
    const exchange = new HttpExchange(parts, answer, this.#shared);
    const handler = route?.value ?? (found === "invalid" ? this.#unknown : this.#notFound);
    void this.#answering.serve(exchange, handler);
  }

  sweepAfter(ms: number): number {
    return this.#sweeps + Math.ceil(ms / TIMEOUT_CHECK_EVERY_MS) + 1;
  }

  #sweep(): void {
    this.#sweeps += 1;
    this.date = new Date(this.#options.clock()).toUTCString();
    for (const connection of this.#open) connection.sweep(this.#sweeps);
  }

  retireAll(): void {
    for (const connection of this.#open) connection.retire();
  }

  /** Stops listening; resolves when open requests are answered. For a moment, idle connections are answered, too. */
  async close(): Promise<void> {
    this.isClosing = true;
    for (const listener of this.#listeners.splice(0)) listener.stop();
    this.#answering.close();
    const idle = setInterval(() => this.endIdle(), IDLE_GRACE_MS);
    await this.#empty().finally(() => clearInterval(idle));
    for (const stop of this.#stops.splice(0)) stop();
    await this.#answering.closed();
  }

  #empty(): Promise<void> {
    if (this.#open.size === 0) return Promise.resolve();
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#onEmpty.push(resolve);
    return promise;
  }

  logError(error: unknown): void {
    this.#options.logError(error);
  }

  endIdle(): void {
    for (const connection of this.#open) connection.endIfIdle();
  }

  cutOff(): void {
    for (const connection of this.#open) connection.destroy();
  }
}
