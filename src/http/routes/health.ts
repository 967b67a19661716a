import type { FastifyInstance, FastifyRequest } from "fastify";
import { Refusal } from "../../core/errors.ts";
import type { CallerContext } from "../../pipeline/caller-context.ts";
import { certificateOf } from "../connections/listening-tls.ts";
import { sendJson } from "../error-reply.ts";
import type { Metrics } from "../metrics.ts";
import { checkPeerHeaders, type PeerLimits } from "../request-guard.ts";

/** Reasons why the service does not accept calls now. Names of components only. */
export type NotReady = "draining" | "audit_unavailable";

export interface HealthOptions extends PeerLimits {
  readonly notReady: () => readonly NotReady[];
  /** Returns the state of the systems that tools use. */
  readonly systems: () => Promise<unknown>;
  /** Returns whether audit lines can be written, and if not, why. */
  readonly audit?: (() => unknown) | undefined;
  /** Returns how the tools' commands are confined. */
  readonly confinement?: (() => unknown) | undefined;
  /** Returns the configuration that is in use and the last one that was refused. */
  readonly configuration?: (() => unknown) | undefined;
  /** Returns the state of the revocation list; undefined when there is none. */
  readonly revocations?: (() => unknown) | undefined;
  readonly callers: CallerContext;
  readonly metrics: Metrics;
}

/** Some probes send HEAD requests. */
const PROBE = { exposeHeadRoute: true } as const;

/**
 * Declares `/healthz`, which answers as long as the process lives; `/readyz`, which says whether calls are accepted and shows
 * operators the state of each system; and `/metrics` for operators. Probes are answered under any host name.
 */
export function healthRoutes(app: FastifyInstance, options: HealthOptions): void {
  const { notReady, callers, metrics } = options;

  app.get("/healthz", PROBE, async (_request, reply) => sendJson(reply, 200, { status: "ok" }));

  app.get("/readyz", PROBE, async (request, reply) => {
    const reasons = notReady();
    const systems = (await isOperator(request))
      ? {
          systems: await options.systems(),
          audit: options.audit?.(),
          ...(options.configuration !== undefined && { configuration: options.configuration() }),
          confinement: options.confinement?.(),
          revocations: options.revocations?.(),
        }
      : {};
    return reasons.length === 0
      ? sendJson(reply, 200, { status: "ready", ...systems })
      : sendJson(reply, 503, { status: "not_ready", reasons, ...systems });
  });

  /** Returns true when the client may see details; all others get the same answer as probes. */
  async function isOperator({ raw, headers }: FastifyRequest): Promise<boolean> {
    if (headers.authorization === undefined) return false;
    try {
      checkPeerHeaders(raw, options);
      const { caller } = await callers.verify(headers.authorization, "operators", certificateOf(raw));
      return caller.permissions.includes("metrics:read");
    } catch (error) {
      if (error instanceof Refusal) return false;
      throw error;
    }
  }

  app.get("/metrics", async (request, reply) => {
    checkPeerHeaders(request.raw, options);
    const { caller } = await callers.verify(request.headers.authorization, "operators", certificateOf(request.raw));
    if (!caller.permissions.includes("metrics:read")) {
      throw new Refusal("PERMISSION_DENIED", "Your token lacks: metrics:read.", {
        details: { missingPermissions: ["metrics:read"] },
      });
    }
    return reply
      .header("content-type", metrics.contentType)
      .header("cache-control", "no-store")
      .send(await metrics.text());
  });
}
