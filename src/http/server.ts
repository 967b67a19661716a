import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import { Refusal } from "../core/errors.ts";
import type { Rate } from "../pipeline/limits/rate-limiter.ts";
import { challenges, deniedAnswer, refusalAnswer } from "./answers.ts";
import { answeredWhileSending, DISCARDED_BYTES_MAX } from "./body-readers.ts";
import { createLoadGuards, type LoadGuards, type LoadLimits } from "./connections/load.ts";
import { answerNoRequest, PendingAnswers, refuseTunnel } from "./connections/raw-answer.ts";
import { RequestRateLimiter } from "./connections/request-limits.ts";
import {
  type Endpoint,
  type EndpointAnswer,
  type EndpointServices,
  type EventSink,
  type Exchange,
  type ListenerName,
  methodsOf,
  type Route,
  routesOf,
  type ServiceParts,
} from "./endpoint.ts";
import { Guard } from "./guard.ts";
import { checkPeerHeaders } from "./request-guard.ts";

export interface ServerOptions extends ServiceParts {
  readonly headerBytesMax: number;
  readonly headersTimeoutMs: number;
  readonly draining: () => boolean;
  readonly limits?: ListenerLoadLimits | undefined;
}

interface ListenerOptions extends ServerOptions, Pick<EndpointServices, "shedding" | "requestRate"> {}

interface ListenerLoadLimits extends LoadLimits {
  readonly rates: { readonly requests: Rate | "off" };
}

export const KEEP_ALIVE_MS = 72_000;
/** Interval of the runtime's check for requests that have timed out; its own default is 30 s. */
const TIMEOUT_CHECK_EVERY_MS = 500;

/** Creates the agents' listener: calls, and everything that operators do except probes. */
export function createServer(options: ServerOptions, endpoints: readonly Endpoint[]): FastifyInstance {
  const { limits, metrics, callers, clock } = options;
  const load = limits && createLoadGuards({ limits, metrics: metrics.load, callers, clock });
  const requestRate = limits && new RequestRateLimiter(() => limits.rates.requests, clock);
  const app = listener("agents", { ...options, ...load, requestRate }, { endpoints, load });
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
}

/** Creates a listener whose hooks limit the size and duration of requests; none of them authorizes a call. */
function listener(
  name: ListenerName,
  options: ListenerOptions,
  { endpoints, load }: ListenerContents,
): FastifyInstance {
  const pending = new PendingAnswers();
  const { report, webhooks, inbox } = options.approvals ?? {};
  const parts = { ...options, report, webhooks, inbox };
  const routes = routesOf(endpoints, name, parts);
  const unknownRoute = (reply: FastifyReply, target?: string): FastifyReply => {
    options.metrics.load.unknownRoute();
    return send(reply, unknownAnswer(routes, target));
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
    requestTimeout: options.requestTimeoutMs + options.headersTimeoutMs,
    keepAliveTimeout: KEEP_ALIVE_MS,
    routerOptions: { maxParamLength: 160 },
    exposeHeadRoutes: false,
    return503OnClosing: false,
    // A request that the router itself rejects (an invalid escape, an overlong parameter) is answered like any unknown route.
    frameworkErrors: (_error, _request, reply) => void unknownRoute(reply),
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
  // Each route that takes a body reads it, within its own limits.
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", (_request, _payload, done) => done(null));

  const challenge = challenges(options.resource);
  // Uses a callback: an async hook would delay every answer by a turn of the event loop.
  app.addHook("onSend", (request, reply, payload, done) => {
    load?.answering(request, reply, typeof payload === "string" ? Buffer.byteLength(payload) : 0);
    const { statusCode: status } = reply;
    if (status === 401 || status === 403) {
      const { authorization } = request.headers;
      const changed = challenge({ status, authorization, wwwAuthenticate: reply.getHeader("www-authenticate") });
      if (changed !== undefined) reply.header("www-authenticate", changed);
    }
    reply.header("x-content-type-options", "nosniff");
    const isLate = endsLate(request);
    if (isLate || (options.draining() && pending.isLatest(request.raw))) reply.header("connection", "close");
    // A successful answer never sets `Connection: close` on its own, and reading its headers takes time.
    const mayClose = isLate || options.draining() || status >= 400;
    if (mayClose && reply.getHeader("connection") === "close") pending.endsWith(request.raw);
    if (!isLate || typeof payload !== "string") return done();
    reply.header("content-length", String(Buffer.byteLength(payload)));
    done(null, answeredWhileSending(request.raw, payload));
  });
  app.setErrorHandler((error, request, reply) => {
    if (error instanceof Refusal) return send(reply, refusalAnswer(error));
    // The framework checks the media type of requests for unknown routes, too.
    if (request.is404) return unknownRoute(reply, request.raw.url);
    options.logError(error);
    return send(reply, refusalAnswer(new Refusal("INTERNAL", "The request failed inside the service.")));
  });
  app.setNotFoundHandler((request, reply) => {
    // Only a client that names this service may learn which methods a path has.
    if (name === "agents" && routes.some(({ path }) => path === request.raw.url))
      checkPeerHeaders(request.raw, options);
    return unknownRoute(reply, request.raw.url);
  });
  openRoutes(app, routes, parts);
  return app;
}

function openRoutes(app: FastifyInstance, routes: readonly Route[], parts: ServiceParts): void {
  const closings: (() => unknown)[] = [];
  const services: EndpointServices = { ...parts, routes, onClose: (work) => void closings.push(work) };
  const guard = new Guard(services);
  app.addHook("preClose", (done) => {
    guard.close();
    done();
  });
  app.addHook("onClose", async () => {
    for (const work of closings) await work();
  });
  for (const { path: url, endpoint } of routes) {
    const answer =
      "receive" in endpoint
        ? (exchange: Exchange) => endpoint.receive(exchange, services)
        : (exchange: Exchange) => guard.serve(endpoint, exchange);
    const handler = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
      const answered = await answer(new FastifyExchange(request, reply));
      return answered.stream === undefined ? send(reply, answered) : follow(reply, answered);
    };
    // Fastify parses the media type before the handler and fails on an invalid one: the endpoint's own check refuses it then.
    const errorHandler = async (error: unknown, request: FastifyRequest, reply: FastifyReply): Promise<void> => {
      if (!(error instanceof Error && "code" in error && error.code === "FST_ERR_CTP_INVALID_MEDIA_TYPE")) throw error;
      await handler(request, reply);
    };
    app.route({ method: [...methodsOf(endpoint)], url, handler, errorHandler });
  }
}

class FastifyExchange implements Exchange {
  readonly #request: FastifyRequest;
  readonly #reply: FastifyReply;

  constructor(request: FastifyRequest, reply: FastifyReply) {
    this.#request = request;
    this.#reply = reply;
  }

  get raw() {
    return this.#request.raw;
  }

  get params() {
    return { ...(this.#request.params as Exchange["params"]) };
  }

  get query() {
    return { ...(this.#request.query as object) };
  }

  get source() {
    // A peer on the Unix socket has no address.
    return this.#request.ip || "socket";
  }

  get scheme() {
    return this.#request.protocol;
  }

  get disconnected() {
    const { raw } = this.#reply;
    return raw.destroyed && !raw.writableFinished;
  }

  listen(listener: () => void): () => void {
    const { raw } = this.#reply;
    const onClose = (): void => {
      if (!raw.writableFinished) listener();
    };
    raw.once("close", onClose);
    return () => raw.removeListener("close", onClose);
  }

  closeConnection(): void {
    this.#reply.header("connection", "close");
  }
}

function send(reply: FastifyReply, { status, headers, body }: EndpointAnswer): FastifyReply {
  reply.code(status);
  for (const name in headers) reply.header(name, headers[name]);
  return reply.send(body);
}

/** Sends the head, then the events. The connection ends with the stream. */
async function follow(reply: FastifyReply, { status, headers, stream }: EndpointAnswer): Promise<FastifyReply> {
  reply.hijack();
  const { raw } = reply;
  try {
    raw.writeHead(status, { ...headers, "x-content-type-options": "nosniff", connection: "close" });
  } finally {
    // The stream holds slots until it has run.
    await stream?.(sinkOf(raw));
  }
  return reply;
}

export function sinkOf(response: ServerResponse): EventSink {
  return {
    write: (text) => response.write(text),
    onceDrained(listener) {
      response.once("drain", listener);
      return () => response.removeListener("drain", listener);
    },
    onDisconnect(listener) {
      response.once("close", listener);
      // Writing after the client disconnected raises an error.
      response.on("error", listener);
    },
    end: () => void response.end(),
    destroy: () => void response.destroy(),
  };
}

/**
 * Returns true when a large or chunked body is incomplete: a client that was answered early must not keep sending
 * indefinitely.
 */
function endsLate({ raw, headers }: FastifyRequest): boolean {
  if (raw.complete) return false;
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > DISCARDED_BYTES_MAX;
}

/** Distinguishes an unknown route from a wrong method (RFC 9110, 15.5.6). An undefined target is not a valid path. */
function unknownAnswer(routes: readonly Route[], target: string | undefined): EndpointAnswer {
  const segments = target === undefined ? undefined : segmentsOf(target);
  const found = segments === undefined ? [] : routes.filter(({ path }) => matches(path, segments));
  const allow = [...new Set(found.flatMap(({ endpoint }) => methodsOf(endpoint)))].sort().join(", ");
  if (allow === "") {
    const isListed = routes.some(({ path }) => path === "/openapi.json");
    const where = isListed ? ": GET /openapi.json lists them" : "";
    return deniedAnswer(404, "ROUTE_NOT_FOUND", `There is no such route${where}.`);
  }
  const answer = deniedAnswer(405, "METHOD_NOT_ALLOWED", `This route takes ${allow}.`);
  return { ...answer, headers: { ...answer.headers, allow } };
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
