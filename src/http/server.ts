import type { KeyObject } from "node:crypto";
import type { Socket } from "node:net";
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import type { Approvals } from "../approvals/types.ts";
import type { JournalLine } from "../audit/journal/journal.ts";
import { Refusal } from "../core/errors.ts";
import type { Rate } from "../pipeline/limits/rate-limiter.ts";
import { answeredWhileSending } from "./body-readers.ts";
import { AnswersOwed } from "./connections/answers-owed.ts";
import { createLoadGuards, type LoadGuards, type LoadLimits, type LoadMetrics } from "./connections/load.ts";
import { answerNoRequest, refuseTunnel } from "./connections/raw-answer.ts";
import { RequestRateLimiter } from "./connections/request-rate.ts";
import { sendJson, sendRefusal } from "./error-reply.ts";
import type { Metrics } from "./metrics.ts";
import { OperatorGuard } from "./operator-guard.ts";
import { reportRoute } from "./routes/approval-report.ts";
import { approvalRoutes } from "./routes/approvals.ts";
import { auditRoutes } from "./routes/audit.ts";
import { type CallRouteOptions, callRoute, PASSED_OVER_BYTES_MAX } from "./routes/call.ts";
import { eventRoute } from "./routes/events.ts";
import { type HealthOptions, healthRoutes } from "./routes/health.ts";
import { openapiRoute } from "./routes/openapi.ts";
import { pageRoute } from "./routes/pages.ts";
import { type ReloadRouteOptions, reloadRoute } from "./routes/reload.ts";
import { rpcRoute } from "./routes/rpc.ts";
import { sessionRoutes } from "./routes/sessions.ts";
import { type ToolRoutesOptions, toolRoutes } from "./routes/tools.ts";
import { webhookRoutes } from "./routes/webhooks.ts";
import { challenges, type ResourceOptions, wellKnownRoute } from "./routes/well-known.ts";

/** Options that every listener has. */
interface ListenerOptions extends ResourceOptions {
  readonly headerBytesMax: number;
  readonly headersTimeoutMs: number;
  readonly requestTimeoutMs: number;
  readonly draining: () => boolean;
  readonly logError: (error: unknown) => void;
  readonly metrics: Metrics;
}

export interface ServerOptions extends CallRouteOptions, ToolRoutesOptions, HealthOptions, ListenerOptions {
  /** Store of approval requests; without it, the approval routes do not exist. */
  readonly approvals?: Approvals | undefined;
  /** Audit directory that operators may query; without it, the audit routes do not exist. */
  readonly auditDir?: string | undefined;
  /** Public key that verifies the audit's checkpoints. */
  readonly checkpointKey?: KeyObject | undefined;
  /** Adopts changed configuration; without it, `POST /reload` does not exist. */
  readonly reload?: ReloadRouteOptions["reload"] | undefined;
  /** Load limits of the call listener; without them, its load is not limited. */
  readonly limits?: DoorLoadLimits | undefined;
  /** Rate limit per caller for requests other than calls; derived from `limits`. */
  readonly pace?: RequestRateLimiter | undefined;
  /** Returns the current time in milliseconds since 1970. */
  readonly clock: () => number;
  /** Resolves when the line is durable. */
  readonly journal: (line: JournalLine) => Promise<void>;
}

interface DoorLoadLimits extends LoadLimits {
  readonly rates: { readonly requests: Rate | "off" };
}

/** Time from an answer to the next request on the same connection. */
export const KEEP_ALIVE_MS = 72_000;
/** Interval of the runtime's check for requests that have timed out; its own default is 30 s. */
const OVERDUE_LOOK_EVERY_MS = 500;

/** Creates the HTTP listener for calls, with all its routes. */
export function createServer(options: ServerOptions): FastifyInstance {
  const load = loadOf(options);
  const app = listener(options, load);
  load?.watch(app);
  openapiRoute(app);
  wellKnownRoute(app, options);
  const guarded: ServerOptions = { ...options, ...load, pace: paceOf(options) };
  callRoute(app, guarded);
  toolRoutes(app, guarded);
  healthRoutes(app, guarded);
  if (options.reload !== undefined) reloadRoute(app, { reload: options.reload, door: new OperatorGuard(app, guarded) });
  if (options.approvals !== undefined) openApprovalRoutes(app, options.approvals, guarded);
  const { auditDir } = options;
  if (auditDir !== undefined)
    auditRoutes(app, { ...guarded, auditDir, journal: (line) => options.journal({ ...line }) });
  return app;
}

function loadOf({ limits, metrics, callers, clock }: ServerOptions): LoadGuards | undefined {
  return limits && createLoadGuards({ limits, metrics: metrics.load, callers, clock });
}

function paceOf({ limits, clock }: ServerOptions): RequestRateLimiter | undefined {
  return limits && new RequestRateLimiter(() => limits.rates.requests, clock);
}

/** Creates the listener for health and metrics only, under any host name. It accepts no calls. */
export function createOperatorServer(options: HealthOptions & ListenerOptions): FastifyInstance {
  const app = listener(options);
  healthRoutes(app, { ...options, anyHost: true });
  return app;
}

/** Creates a listener whose hooks limit the size and duration of requests; none of them authorizes a call. */
function listener(options: ListenerOptions, load?: LoadGuards): FastifyInstance {
  const owed = new AnswersOwed();
  const known = new KnownRoutes();
  const { load: counted } = options.metrics;
  const app = fastify({
    logger: false,
    http: {
      maxHeaderSize: options.headerBytesMax,
      connectionsCheckingInterval: OVERDUE_LOOK_EVERY_MS,
      // The request guard rejects a missing Host with a message; the runtime's own answer has no body.
      requireHostHeader: false,
    },
    requestTimeout: options.requestTimeoutMs + options.headersTimeoutMs,
    keepAliveTimeout: KEEP_ALIVE_MS,
    routerOptions: { maxParamLength: 160 },
    exposeHeadRoutes: false,
    return503OnClosing: false,
    // A request that the router itself rejects (an invalid escape, an overlong parameter) is answered like any unknown route.
    frameworkErrors: (_error, _request, reply) => void sendUnknownRoute(reply, { counted, known }),
    clientErrorHandler: (error, socket) => {
      const end = answerNoRequest(error, socket, owed);
      if (end !== undefined) counted.ended(end);
    },
  });
  app.server.headersTimeout = options.headersTimeoutMs;
  owed.watch(app.server);
  known.watch(app);
  // The runtime would reject an unknown Expect header without a body: handle it as an ordinary request. CONNECT is refused.
  app.server.on("checkExpectation", (request, response) => app.server.emit("request", request, response));
  app.server.on("connect", (_request, socket: Socket) => refuseTunnel(socket, owed));
  // Each route that takes a body reads it, within its own limits.
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", (_request, _payload, done) => done(null));

  const challenge = challenges(options);
  // Uses a callback: an async hook would delay every answer by a turn of the event loop.
  app.addHook("onSend", (request, reply, payload, done) => {
    load?.answering(request, { reply, bytes: bytesOf(payload) });
    challenge(request, reply);
    reply.header("x-content-type-options", "nosniff");
    const isLate = endsLate(request);
    if (isLate || (options.draining() && owed.isLatest(request.raw))) reply.header("connection", "close");
    // A successful answer never sets `Connection: close` on its own, and reading its headers takes time.
    const mayClose = isLate || options.draining() || reply.statusCode >= 400;
    if (mayClose && reply.getHeader("connection") === "close") owed.endsWith(request.raw);
    if (!isLate || typeof payload !== "string") return done();
    reply.header("content-length", String(Buffer.byteLength(payload)));
    done(null, answeredWhileSending(request.raw, payload));
  });
  app.setErrorHandler((error, request, reply) => {
    if (error instanceof Refusal) return sendRefusal(reply, error);
    // The framework checks the media type of requests for unknown routes, too.
    if (request.is404) return sendUnknownRoute(reply, { counted, known, target: request.raw.url });
    if (error instanceof Error && "code" in error && error.code === "FST_ERR_CTP_INVALID_MEDIA_TYPE") {
      return sendRefusal(reply, new Refusal("UNSUPPORTED_MEDIA_TYPE", "Send Content-Type: application/json."));
    }
    options.logError(error);
    return sendRefusal(reply, new Refusal("INTERNAL", "The request failed inside the service."));
  });
  app.setNotFoundHandler((request, reply) => sendUnknownRoute(reply, { counted, known, target: request.raw.url }));
  return app;
}

/**
 * Returns true when a large or chunked body is incomplete: a client that was answered early must not keep sending
 * indefinitely.
 */
function endsLate({ raw, headers }: FastifyRequest): boolean {
  if (raw.complete) return false;
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > PASSED_OVER_BYTES_MAX;
}

function openApprovalRoutes(app: FastifyInstance, approvals: Approvals, options: ServerOptions): void {
  const routes = { approvals, door: new OperatorGuard(app, options) };
  approvalRoutes(app, routes);
  sessionRoutes(app, routes);
  rpcRoute(app, routes);
  eventRoute(app, routes);
  reportRoute(app, routes);
  webhookRoutes(app, routes);
  pageRoute(app, options);
}

interface UnknownRoute {
  readonly counted: LoadMetrics;
  readonly known: KnownRoutes;
  /** Undefined when the request target is not a valid path. */
  readonly target?: string | undefined;
}

function sendUnknownRoute(reply: FastifyReply, { counted, known, target }: UnknownRoute): FastifyReply {
  counted.unknownRoute();
  const allow = target === undefined ? "" : known.methodsOf(target).join(", ");
  const stage = "REQUEST";
  if (allow === "") {
    const where = known.methodsOf("/openapi.json").length > 0 ? ": GET /openapi.json lists them" : "";
    const error = { code: "ROUTE_NOT_FOUND", stage, message: `There is no such route${where}.`, retryable: false };
    return sendJson(reply, 404, { status: "denied", error });
  }
  reply.header("allow", allow);
  const error = { code: "METHOD_NOT_ALLOWED", stage, message: `This route takes ${allow}.`, retryable: false };
  return sendJson(reply, 405, { status: "denied", error });
}

function bytesOf(payload: unknown): number {
  return typeof payload === "string" ? Buffer.byteLength(payload) : 0;
}

interface KnownRoute {
  readonly methods: readonly string[];
  readonly segments: readonly string[];
}

/** Paths and methods of all routes, to tell an unknown route from a wrong method (RFC 9110, 15.5.6). */
class KnownRoutes {
  readonly #routes: KnownRoute[] = [];

  /** Records every route that is declared from now on. */
  watch(app: FastifyInstance): void {
    app.addHook("onRoute", ({ method, url }) => {
      this.#routes.push({ methods: [method].flat(), segments: url.split("/") });
    });
  }

  /** Returns the methods of the target's path in alphabetical order; empty when there is no such route. */
  methodsOf(target: string): readonly string[] {
    const segments = pathOf(target).split("/").map(decoded);
    const found = this.#routes.filter((route) => isOf(route, segments));
    return [...new Set(found.flatMap(({ methods }) => methods))].sort();
  }
}

/** Returns the target's path: without its query, and without scheme and host when the target is a whole URL. */
function pathOf(target: string): string {
  return target.replace(/^[a-z]{1,8}:\/\/[^/?#]*/i, "").replace(/[?#].*$/s, "");
}

function isOf({ segments }: KnownRoute, asked: readonly (string | undefined)[]): boolean {
  return segments.length === asked.length && segments.every((one, at) => one.startsWith(":") || one === asked[at]);
}

function decoded(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment);
  } catch {
    return undefined;
  }
}
