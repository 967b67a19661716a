import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import { Answering } from "./answering.ts";
import { challenges } from "./answers.ts";
import {
  type ConnectionTaker,
  ForwardedConnections,
  isForwarded,
  type ListenAddress,
  type ListenerServer,
} from "./connections/listening-forwarded.ts";
import { createLoadGuards, type LoadGuards } from "./connections/load.ts";
import { answerNoRequest, PendingAnswers, refuseTunnel } from "./connections/raw-answer.ts";
import { RequestRateLimiter } from "./connections/request-limits.ts";
import { type Endpoint, type Exchange, type ListenerName, methodsOf, routesOf } from "./endpoint.ts";
import { HttpExchange, type RequestParts } from "./exchange.ts";
import {
  type ConsoleListener,
  KEEP_ALIVE_MS,
  type ListenerOptions,
  PARAM_LENGTH_MAX,
  type ServerOptions,
  TIMEOUT_CHECK_EVERY_MS,
} from "./server-options.ts";

/**
 * Time that idle connections stay open at shutdown: a request that arrives in this time gets an answer instead of a reset.
 */
const IDLE_GRACE_MS = 500;

/** Creates the agents' listener: calls, and everything that operators do except probes. */
export function createServer(options: ServerOptions, endpoints: readonly Endpoint[]): FastifyInstance {
  return limitedListener("agents", options, { endpoints });
}

/** Creates the console's listener: its page, its sessions, and everything that operators do. It accepts no calls. */
export function createConsoleServer(
  options: ServerOptions,
  endpoints: readonly Endpoint[],
  { endpoints: own, headers, ...console }: ConsoleListener,
): FastifyInstance {
  const parts = { ...options, ...console, allowedOrigins: [], resource: undefined };
  return limitedListener("console", parts, { endpoints, own, headers });
}

/** Creates a listener with load limits of its own: what agents send takes nothing from operators. */
function limitedListener(name: ListenerName, options: ServerOptions, contents: ListenerContents): FastifyInstance {
  const { limits, metrics, clock, listenerTenants: tenants } = options;
  const callers = tenants?.callers ?? options.callers;
  const load = limits && createLoadGuards({ limits, metrics: metrics.load, callers, clock });
  const requestRate = limits && new RequestRateLimiter(() => limits.rates.requests, clock);
  const app = listener(name, { ...options, ...load, requestRate }, { ...contents, load });
  if (load !== undefined) {
    load.connections.guard(app.server);
    const stop = load.watch();
    app.addHook("onClose", async () => stop());
  }
  return app;
}

/** Creates the listener for health and metrics only, under any host name. It accepts no calls. */
export function createOperatorServer(options: ServerOptions, endpoints: readonly Endpoint[]): FastifyInstance {
  return listener("operators", { ...options, anyHost: true }, { endpoints });
}

interface ListenerContents {
  readonly endpoints: readonly Endpoint[];
  /** Endpoints of the listener itself. */
  readonly own?: readonly Endpoint[] | undefined;
  readonly load?: LoadGuards | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

function noCompiler(): never {
  throw new Error("schemas are checked by the endpoints, not by the framework");
}

/** Creates a listener whose hooks limit the size and duration of requests; none of them authorizes a call. */
function listener(
  name: ListenerName,
  options: ListenerOptions,
  { endpoints, own = [], load, headers }: ListenerContents,
): FastifyInstance {
  const pending = new PendingAnswers();
  const routes = routesOf([...own, ...endpoints], name, options);
  const shared = { pending, load, headers, isEnding: options.isEnding, challenge: challenges(options.resource) };
  const { load: counted } = options.metrics;
  const app = fastify({
    logger: false,
    http: {
      maxHeaderSize: options.headerBytesMax,
      connectionsCheckingInterval: TIMEOUT_CHECK_EVERY_MS,
      // The request guard rejects a missing Host with a message; the runtime's own answer has no body.
      requireHostHeader: false,
    },
    // Nothing reads the framework's request ids.
    genReqId: () => "",
    requestTimeout: options.requestTimeoutMs + options.headersTimeoutMs,
    keepAliveTimeout: KEEP_ALIVE_MS,
    routerOptions: { maxParamLength: PARAM_LENGTH_MAX },
    exposeHeadRoutes: false,
    // No route declares a schema to the framework: without these, it loads two compilers of schemas.
    schemaController: { compilersFactory: { buildValidator: noCompiler, buildSerializer: noCompiler } },
    return503OnClosing: false,
    // A request that the router itself rejects (an invalid escape, an overlong parameter) is answered like any unknown route.
    frameworkErrors: (_error, request, reply) => exchangeOf(request, reply).send(answering.unknownAt(undefined)),
    clientErrorHandler: (error, socket) => {
      const end = answerNoRequest(error, socket, pending);
      if (end !== undefined) counted.ended(end);
    },
  });
  const exchangeOf = (request: FastifyRequest, reply: FastifyReply): HttpExchange<IncomingMessage> => {
    reply.hijack();
    const exchange = new HttpExchange(partsOf(request), reply.raw, shared);
    const { headers, socket } = request.raw;
    // On such connections, this runtime loses bytes that come along with an offer of another protocol: they may be a request.
    if (headers.upgrade !== undefined && isForwarded(socket)) exchange.closeConnection();
    return exchange;
  };
  const tenants = options.listenerTenants?.on({ name, parts: options, own, routes });
  const answering = new Answering({ routes, parts: options, listener: app, tenants });
  app.server.headersTimeout = options.headersTimeoutMs;
  pending.watch(app.server);
  // The runtime would answer an unknown Expect header with an empty response: handle the request as an ordinary one. CONNECT is refused.
  app.server.on("checkExpectation", (request, response) => app.server.emit("request", request, response));
  app.server.on("connect", (_request, socket: Socket) => refuseTunnel(socket, pending));
  // Endpoints are answered before the framework looks at the body. It checks the media type of requests for unknown routes.
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", (_request, _payload, done) => done(null));
  app.setErrorHandler((_error, request, reply) => {
    void answering.serve(exchangeOf(request, reply), async ({ raw }) => answering.unknownAt(raw.url));
  });
  app.setNotFoundHandler((request, reply) => {
    void answering.serve(exchangeOf(request, reply), async ({ raw }) => answering.unknown(raw));
  });
  let ending: NodeJS.Timeout | undefined;
  app.addHook("preClose", (done) => {
    answering.close();
    pending.endIncomplete();
    // Some are answered later.
    ending = setInterval(() => pending.endIncomplete(), IDLE_GRACE_MS);
    done();
  });
  app.addHook("onClose", () => {
    clearInterval(ending);
    return answering.closed();
  });
  for (const { path: url, endpoint } of routes) {
    const answer = answering.answerOf(endpoint);
    // Never calls back: the framework routes the request; its handling of bodies and answers is not used.
    const onRequest = (request: FastifyRequest, reply: FastifyReply, _done: () => void): void => {
      void answering.serve(exchangeOf(request, reply), answer);
    };
    app.route({ method: [...methodsOf(endpoint)], url, onRequest, handler: neverCalled });
  }
  return app;
}

/**
 * The answer is written to node's response directly: a framework's reply would keep the headers twice and run its hooks for
 * each call.
 */
function partsOf(request: FastifyRequest): RequestParts<IncomingMessage> {
  return {
    raw: request.raw,
    params: { ...(request.params as Exchange["params"]) },
    query: { ...(request.query as object) },
    // A peer on the Unix socket has no address.
    source: request.ip || "socket",
    scheme: request.protocol,
  };
}

function neverCalled(): never {
  throw new Error("the endpoint was not answered by its hook");
}

/** A fastify server as a listener uses it. */
export class FastifyListener implements ListenerServer {
  /** This runtime's HTTP server ignores the option. */
  readonly canShare = false;
  readonly #app: FastifyInstance;
  readonly #options: ServerOptions;
  #forwarded: ForwardedConnections | undefined;

  constructor(app: FastifyInstance, options: ServerOptions) {
    this.#app = app;
    this.#options = options;
  }

  async listen({ host, port }: ListenAddress): Promise<number> {
    return Number(new URL(await this.#app.listen({ host, port })).port || 80);
  }

  async close(): Promise<void> {
    // Closing the HTTP server would also end idle connections among these, so wait for them first.
    await this.#forwarded?.emptyWithin(IDLE_GRACE_MS);
    keepIdleConnections(this.#app.server);
    // Repeats, because a connection with several open requests may become idle after an answer without `Connection: close`.
    const idle = setInterval(() => this.#app.server.closeIdleConnections(), IDLE_GRACE_MS);
    await Promise.all([this.#app.close(), this.#forwarded?.close()]).finally(() => clearInterval(idle));
  }

  endIdle(): void {
    this.#app.server.closeIdleConnections();
    this.#forwarded?.destroyIdle();
  }

  cutOff(): void {
    this.#app.server.closeAllConnections();
    this.#forwarded?.destroyAll();
  }

  async taker(): Promise<ConnectionTaker> {
    await this.#app.ready();
    const { headersTimeoutMs, limits } = this.#options;
    this.#forwarded ??= new ForwardedConnections(this.#app.server, {
      headersTimeoutMs,
      keepAliveMs: KEEP_ALIVE_MS,
      get connectionsMax() {
        return limits?.connectionsMax;
      },
    });
    return this.#forwarded;
  }
}

/**
 * Removes what this runtime adds to the HTTP server's `close()`: it closes idle connections at once, which resets requests
 * that are on their way. The method that `close()` calls for this is on an internal object of the runtime.
 */
function keepIdleConnections(server: object): void {
  for (const symbol of Object.getOwnPropertySymbols(server)) {
    const own: unknown = Reflect.get(server, symbol);
    if (typeof own !== "object" || own === null || !("closeIdleConnections" in own) || !("stop" in own)) continue;
    Object.defineProperty(own, "closeIdleConnections", { value: () => 0, configurable: true });
  }
}
