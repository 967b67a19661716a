import type { FastifyInstance, FastifyReply } from "fastify";
import { z } from "zod";
import { Refusal } from "../../core/errors.ts";
import type { BusyReason, ReloadAsker, Reloaded } from "../../runtime/reload/types.ts";
import { sendJson } from "../error-reply.ts";
import type { OperatorGuard } from "../operator-guard.ts";

export interface ReloadRouteOptions {
  readonly reload: (by: ReloadAsker) => Promise<Reloaded>;
  readonly door: OperatorGuard;
}

/** Limits of one answer; the log has every problem. */
const PROBLEMS_MAX = 100;
const PROBLEM_CHARACTERS_MAX = 1_000;

const noBody = z.strictObject({});

const BUSY = {
  rate: ["RATE_LIMITED", "The configuration was read too often: reload.perMinuteMax."],
  lingering: ["OVERLOADED", "Calls are still under way on several configurations before this one."],
  closing: ["SHUTTING_DOWN", "The service is shutting down."],
} as const satisfies Record<BusyReason, readonly [string, string]>;

/**
 * Declares `POST /reload`, which adopts changed configuration, manifests and keys, for operators who hold `service:reload`.
 */
export function reloadRoute(app: FastifyInstance, { reload, door }: ReloadRouteOptions): void {
  app.post("/reload", async (request, reply) => {
    await door.body(request, reply, noBody);
    return door.operator(request, "service:reload", async ({ issuer, subject }) =>
      sendReloaded(reply, await reload({ issuer, subject })),
    );
  });
}

function sendReloaded(reply: FastifyReply, reloaded: Reloaded): FastifyReply {
  if (reloaded.outcome === "busy") {
    const [code, message] = BUSY[reloaded.reason];
    const limit = code === "RATE_LIMITED" && { details: { limit: "reload" } };
    throw new Refusal(code, message, { ...limit, retryAfterMs: reloaded.retryAfterMs });
  }
  if (reloaded.outcome === "refused") {
    const problems = reloaded.problems
      .slice(0, PROBLEMS_MAX)
      .map((problem) => problem.slice(0, PROBLEM_CHARACTERS_MAX));
    return sendJson(reply, 422, { status: "refused", problems });
  }
  const { generation, sha256, outcome } = reloaded;
  return sendJson(reply, 200, { status: outcome, generation, hash: sha256 });
}
