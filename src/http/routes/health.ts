import type { FastifyInstance, FastifyRequest } from "fastify";
import { Refusal } from "../../core/errors.ts";
import type { CallerContext } from "../../pipeline/caller-context.ts";
import { certificateOf } from "../connections/listening-tls.ts";
import { sendJson } from "../error-reply.ts";
import type { Metrics } from "../metrics.ts";
import { checkPeerHeaders, type PeerLimits } from "../request-guard.ts";

/** Why the service would not take a call right now. Names of parts only. */
export type NotReady = "draining" | "audit_unavailable";

export interface HealthOptions extends PeerLimits {
  readonly notReady: () => readonly NotReady[];
  /** How the services behind the tools are doing. */
  readonly systems: () => Promise<unknown>;
  /** Whether lines can be written, and why not. */
  readonly audit?: (() => unknown) | undefined;
  /** How the tools' commands are held. */
  readonly confinement?: (() => unknown) | undefined;
  /** What configuration is in use, and what was refused last. */
  readonly configuration?: (() => unknown) | undefined;
  /** How the list of revocations stands; undefined where there is none. */
  readonly revocations?: (() => unknown) | undefined;
  readonly callers: CallerContext;
  readonly metrics: Metrics;
}

/** Some probers ask for the headers alone. */
const PROBE = { exposeHeadRoute: true } as const;

/**
 * `/healthz` lives as long as the process; `/readyz` says whether calls are taken, and operators how each system is doing; `/metrics` is for operators. Probes are answered
 * whatever name the prober used for us.
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

  /** Whether details may be told: to anybody else the answer is the one that probes get. */
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
