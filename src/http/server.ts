import type { Socket } from "node:net";
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import { Refusal } from "../core/errors.ts";
import type { Rate } from "../pipeline/limits/rate-limiter.ts";
import { challenges, deniedAnswer, refusalAnswer } from "./answers.ts";
import { createLoadGuards, type LoadGuards, type LoadLimits } from "./connections/load.ts";
import { answerNoRequest, PendingAnswers, refuseTunnel } from "./connections/raw-answer.ts";
import { RequestRateLimiter } from "./connections/request-limits.ts";
import {
  type Endpoint,
  type EndpointAnswer,
  type EndpointServices,
  type ListenerName,
  type ListenerParts,
  methodsOf,
  type Route,
  routesOf,
  type SessionSource,
} from "./endpoint.ts";
import { type ExchangeListener, HttpExchange } from "./exchange.ts";
import { Guard } from "./guard.ts";
import { checkPeerHeaders, type PeerLimits } from "./request-guard.ts";

export interface ServerOptions extends ListenerParts {
  readonly headerBytesMax: number;
  readonly headersTimeoutMs: number;
  readonly draining: () => boolean;
  readonly limits?: ListenerLoadLimits | undefined;
}

interface ListenerOptions extends ServerOptions, Pick<EndpointServices, "shedding" | "requestRate"> {}

/** Options that only the console's listener has. */
export interface ConsoleListener extends Pick<PeerLimits, "allowedHosts" | "noLoopbackNames" | "isOwnOrigin"> {
  /** The endpoints of the console itself. */
  readonly endpoints: readonly Endpoint[];
  readonly sessions: SessionSource;
  /** Headers of every answer. */
  readonly headers: Readonly<Record<string, string>>;
}

interface ListenerLoadLimits extends LoadLimits {
  readonly rates: { readonly requests: Rate | "off" };
}

export const KEEP_ALIVE_MS = 72_000;
/** Interval of the runtime's check for requests that have timed out; its own default is 30 s. */
const TIMEOUT_CHECK_EVERY_MS = 500;

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
  return limitedListener("console", parts, { endpoints: [...own, ...endpoints], headers });
}

/** Creates a listener with load limits of its own: what agents send takes nothing from operators. */
function limitedListener(name: ListenerName, options: ServerOptions, contents: ListenerContents): FastifyInstance {
  const { limits, metrics, callers, clock } = options;
  const load = limits && createLoadGuards({ limits, metrics: metrics.load, callers, clock });
  const requestRate = limits && new RequestRateLimiter(() => limits.rates.requests, clock);
  const app = listener(name, { ...options, ...load, requestRate }, { ...contents, load });
  load?.watch(app);
  return app;
}

/** Creates the listener for health and metrics only, under any host name. It accepts no calls. */
export function createOperatorServer(options: ServerOptions, endpoints: readonly Endpoint[]): FastifyInstance {
  return listener("operators", { ...options, anyHost: true }, { endpoints });
}

interface ListenerContents {
  readonly endpoints: readonly Endpoint[];
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
  { endpoints, load, headers }: ListenerContents,
): FastifyInstance {
  const pending = new PendingAnswers();
  const routes = routesOf(endpoints, name, options);
  const shared = { pending, load, headers, draining: options.draining, challenge: challenges(options.resource) };
  const unknownRoute = (request: FastifyRequest, reply: FastifyReply, target?: string): void => {
    options.metrics.load.unknownRoute();
    new HttpExchange(request, reply, shared).send(unknownAnswer(routes, target));
  };
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
    routerOptions: { maxParamLength: 160 },
    exposeHeadRoutes: false,
    // No route declares a schema to the framework: without these, it loads two compilers of schemas.
    schemaController: { compilersFactory: { buildValidator: noCompiler, buildSerializer: noCompiler } },
    return503OnClosing: false,
    // A request that the router itself rejects (an invalid escape, an overlong parameter) is answered like any unknown route.
    frameworkErrors: (_error, request, reply) => unknownRoute(request, reply),
    clientErrorHandler: (error, socket) => {
      const end = answerNoRequest(error, socket, pending);
      if (end !== undefined) counted.ended(end);
    },
  });
  app.server.headersTimeout = options.headersTimeoutMs;
  pending.watch(app.server);
  // The runtime would answer an unknown Expect header with an empty response: handle the request as an ordinary one. CONNECT is refused.
  app.server.on("checkExpectation", (request, response) => app.server.emit("request", request, response));
  app.server.on("connect", (_request, socket: Socket) => refuseTunnel(socket, pending));
  // Endpoints are answered before the framework looks at the body. It checks the media type of requests for unknown routes.
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", (_request, _payload, done) => done(null));
  app.setErrorHandler((_error, request, reply) => unknownRoute(request, reply, request.raw.url));
  app.setNotFoundHandler((request, reply) => {
    const answer = async (): Promise<EndpointAnswer> => {
      const { url } = request.raw;
      if (routesAt(routes, url).some(({ endpoint }) => endpoint.hidesMethods === true)) {
        checkPeerHeaders(request.raw, options);
      }
      counted.unknownRoute();
      return unknownAnswer(routes, url);
    };
    void serve(new HttpExchange(request, reply, shared), answer, options.logError);
  });
  openRoutes(app, { routes, parts: options, shared });
  return app;
}

interface OpenedRoutes {
  readonly routes: readonly Route[];
  readonly parts: ListenerParts;
  readonly shared: ExchangeListener;
}

function openRoutes(app: FastifyInstance, { routes, parts, shared }: OpenedRoutes): void {
  const closings: (() => unknown)[] = [];
  const services: EndpointServices = {
    ...parts,
    routes,
    onClose: (work) => void closings.push(work),
    listener: app,
  };
  const guard = new Guard(services);
  app.addHook("preClose", (done) => {
    guard.close();
    done();
  });
  app.addHook("onClose", async () => {
    for (const work of closings) await work();
  });
  for (const { path: url, endpoint } of routes) {
    const own =
      "receive" in endpoint
        ? (exchange: HttpExchange) => endpoint.receive(exchange, services)
        : (exchange: HttpExchange) => guard.serve(endpoint, exchange);
    const answer = endpoint.adapt === undefined ? own : adapted(own, endpoint.adapt);
    // Never calls back: the framework routes the request; its handling of bodies and answers is not used.
    const onRequest = (request: FastifyRequest, reply: FastifyReply, _done: () => void): void => {
      void serve(new HttpExchange(request, reply, shared), answer, services.logError);
    };
    app.route({ method: [...methodsOf(endpoint)], url, onRequest, handler: neverCalled });
  }
}

/** Returns the function whose answers, refusals included, are as the endpoint adapts them. */
function adapted(
  answer: (exchange: HttpExchange) => Promise<EndpointAnswer>,
  adapt: NonNullable<Endpoint["adapt"]>,
): (exchange: HttpExchange) => Promise<EndpointAnswer> {
  return async (exchange) => {
    const answered = await answer(exchange).catch((error: unknown) => {
      if (error instanceof Refusal) return refusalAnswer(error);
      throw error;
    });
    return adapt(answered, exchange.raw);
  };
}

async function serve(
  exchange: HttpExchange,
  answer: (exchange: HttpExchange) => Promise<EndpointAnswer>,
  logError: (error: unknown) => void,
): Promise<void> {
  try {
    const answered = await answer(exchange);
    if (answered.stream === undefined) exchange.send(answered);
    else await exchange.follow(answered);
  } catch (error) {
    if (!(error instanceof Refusal)) logError(error);
    const failed = new Refusal("INTERNAL", "The request failed inside the service.");
    try {
      exchange.send(refusalAnswer(error instanceof Refusal ? error : failed));
    } catch (unsent) {
      logError(unsent);
      exchange.destroy();
    }
  }
}

function neverCalled(): never {
  throw new Error("the endpoint was not answered by its hook");
}

/** Distinguishes an unknown route from a wrong method (RFC 9110, 15.5.6). An undefined target is not a valid path. */
function unknownAnswer(routes: readonly Route[], target: string | undefined): EndpointAnswer {
  const allow = [...new Set(routesAt(routes, target).flatMap(({ endpoint }) => methodsOf(endpoint)))].sort().join(", ");
  if (allow === "") {
    const isListed = routes.some(({ path }) => path === "/openapi.json");
    const where = isListed ? ": GET /openapi.json lists them" : "";
    return deniedAnswer(404, "ROUTE_NOT_FOUND", `There is no such route${where}.`);
  }
  const answer = deniedAnswer(405, "METHOD_NOT_ALLOWED", `This route takes ${allow}.`);
  return { ...answer, headers: { ...answer.headers, allow } };
}

function routesAt(routes: readonly Route[], target: string | undefined): readonly Route[] {
  const segments = target === undefined ? undefined : segmentsOf(target);
  return segments === undefined ? [] : routes.filter(({ path }) => matches(path, segments));
}

/** Returns the decoded segments of the path: without query, and without scheme and host when the target is a whole URL. */
function segmentsOf(target: string): readonly (string | undefined)[] {
  const path = target.replace(/^[a-z]{1,8}:\/\/[^/?#]*/i, "").replace(/[?#].*$/s, "");
  return path.split("/").map(decoded);
}

function matches(path: string, target: readonly (string | undefined)[]): boolean {
  const segments = path.split("/");
  return segments.length === target.length && segments.every((one, at) => one.startsWith(":") || one === target[at]);
}

function decoded(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment);
  } catch {
    return undefined;
  }
}
