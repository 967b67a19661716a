import type { KeyObject } from "node:crypto";
import fastify, { type FastifyInstance, type FastifyReply } from "fastify";
import type { Approvals } from "../approvals/types.ts";
import type { JournalLine } from "../audit/journal/journal.ts";
import { Refusal } from "../core/errors.ts";
import { sendJson, sendRefusal } from "./error-reply.ts";
import { OperatorDoor } from "./operator-door.ts";
import { approvalRoutes } from "./routes/approvals.ts";
import { auditRoutes } from "./routes/audit.ts";
import { type CallRouteOptions, callRoute } from "./routes/call.ts";
import { eventRoute } from "./routes/events.ts";
import { type HealthOptions, healthRoutes } from "./routes/health.ts";
import { rpcRoute } from "./routes/rpc.ts";
import { sessionRoutes } from "./routes/sessions.ts";
import { type ToolRoutesOptions, toolRoutes } from "./routes/tools.ts";

/** What every listener has. */
interface ListenerOptions {
  readonly headerBytesMax: number;
  readonly headersTimeoutMs: number;
  readonly requestTimeoutMs: number;
  readonly draining: () => boolean;
  readonly logError: (error: unknown) => void;
}

export interface ServerOptions extends CallRouteOptions, ToolRoutesOptions, HealthOptions, ListenerOptions {
  /** Where people are asked; without it there are no routes for it. */
  readonly approvals?: Approvals | undefined;
  /** What operators may read; without it there are no routes for it. */
  readonly auditDir?: string | undefined;
  /** The public key of the audit's checkpoints. */
  readonly checkpointKey?: KeyObject | undefined;
  /** Milliseconds since 1970. */
  readonly clock: () => number;
  /** Durable when resolved. */
  readonly journal: (line: JournalLine) => Promise<void>;
}

const KEEP_ALIVE_MS = 72_000;

/** The doors over HTTP. */
export function createServer(options: ServerOptions): FastifyInstance {
  const app = listener(options);
  callRoute(app, options);
  toolRoutes(app, options);
  healthRoutes(app, options);
  if (options.approvals !== undefined) openApprovalRoutes(app, options.approvals, options);
  const { auditDir } = options;
  if (auditDir !== undefined)
    auditRoutes(app, { ...options, auditDir, journal: (line) => options.journal({ ...line }) });
  return app;
}

/** Health and metrics alone, for whoever knows the service by its address. Nothing here takes a call. */
export function createOperatorServer(options: HealthOptions & ListenerOptions): FastifyInstance {
  const app = listener(options);
  healthRoutes(app, { ...options, anyHost: true });
  return app;
}

/** Hooks size and time requests; none of them judges a call. */
function listener(options: ListenerOptions): FastifyInstance {
  const app = fastify({
    logger: false,
    http: { maxHeaderSize: options.headerBytesMax },
    requestTimeout: options.requestTimeoutMs + options.headersTimeoutMs,
    keepAliveTimeout: KEEP_ALIVE_MS,
    routerOptions: { maxParamLength: 160 },
    exposeHeadRoutes: false,
    return503OnClosing: false,
    // What the router itself refuses (a broken escape, an endless parameter) is answered like any unknown route.
    frameworkErrors: (_error, _request, reply) => void sendUnknownRoute(reply),
  });
  app.server.headersTimeout = options.headersTimeoutMs;
  // Bodies are read by the route that wants one, within its own limits.
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", (_request, _payload, done) => done(null));

  // With a callback: an async hook would put every answer off by a turn.
  app.addHook("onSend", (_request, reply, _payload, done) => {
    if (options.draining()) reply.header("connection", "close");
    done();
  });
  app.setErrorHandler((error, _request, reply) => {
    if (error instanceof Refusal) return sendRefusal(reply, error);
    if (error instanceof Error && "code" in error && error.code === "FST_ERR_CTP_INVALID_MEDIA_TYPE") {
      return sendRefusal(reply, new Refusal("UNSUPPORTED_MEDIA_TYPE", "Send Content-Type: application/json."));
    }
    options.logError(error);
    return sendRefusal(reply, new Refusal("INTERNAL", "The request failed inside the service."));
  });
  app.setNotFoundHandler((_request, reply) => sendUnknownRoute(reply));
  return app;
}

function openApprovalRoutes(app: FastifyInstance, approvals: Approvals, options: ServerOptions): void {
  const routes = { approvals, door: new OperatorDoor(app, options) };
  approvalRoutes(app, routes);
  sessionRoutes(app, routes);
  rpcRoute(app, routes);
  eventRoute(app, routes);
}

function sendUnknownRoute(reply: FastifyReply): FastifyReply {
  const error = { code: "ROUTE_NOT_FOUND", stage: "REQUEST", message: "There is no such route.", retryable: false };
  return sendJson(reply, 404, { status: "denied", error });
}
