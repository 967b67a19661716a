import fastify, { type FastifyInstance } from "fastify";
import { Refusal } from "../core/errors.ts";
import { sendJson, sendRefusal } from "./error-reply.ts";
import { type CallRouteOptions, callRoute } from "./routes/call.ts";
import { type HealthOptions, healthRoutes } from "./routes/health.ts";
import { type ToolRoutesOptions, toolRoutes } from "./routes/tools.ts";

export interface ServerOptions extends CallRouteOptions, ToolRoutesOptions, HealthOptions {
  readonly headerBytesMax: number;
  readonly headersTimeoutMs: number;
  readonly draining: () => boolean;
  readonly logError: (error: unknown) => void;
}

const KEEP_ALIVE_MS = 72_000;

/** The doors over HTTP. Hooks size and time requests; none of them judges a call. */
export function createServer(options: ServerOptions): FastifyInstance {
  const app = fastify({
    logger: false,
    http: { maxHeaderSize: options.headerBytesMax },
    requestTimeout: options.requestTimeoutMs + options.headersTimeoutMs,
    keepAliveTimeout: KEEP_ALIVE_MS,
    routerOptions: { maxParamLength: 128 },
    exposeHeadRoutes: false,
    return503OnClosing: false,
  });
  app.server.headersTimeout = options.headersTimeoutMs;
  // Bodies are read by the route that wants one, within its own limits.
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", (_request, _payload, done) => done(null));

  app.addHook("onSend", async (_request, reply) => {
    if (options.draining()) reply.header("connection", "close");
  });
  app.setErrorHandler((error, _request, reply) => {
    if (error instanceof Refusal) return sendRefusal(reply, error);
    options.logError(error);
    return sendRefusal(reply, new Refusal("INTERNAL", "The request failed inside the service."));
  });
  app.setNotFoundHandler((_request, reply) =>
    sendJson(reply, 404, {
      status: "denied",
      error: { code: "ROUTE_NOT_FOUND", stage: "REQUEST", message: "There is no such route.", retryable: false },
    }),
  );

  callRoute(app, options);
  toolRoutes(app, options);
  healthRoutes(app, options);
  return app;
}
