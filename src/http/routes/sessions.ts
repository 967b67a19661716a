import type { FastifyInstance } from "fastify";
import { z } from "zod";
import type { Approvals } from "../../approvals/types.ts";
import type { Json } from "../../core/types.ts";
import {
  grantForOperator,
  grantForOwner,
  identityOf,
  notFound,
  sessionForOperator,
  sessionForOwner,
} from "../approval-json.ts";
import { sendJson } from "../error-reply.ts";
import type { OperatorGuard } from "../operator-guard.ts";
import { idOf, sessionIdOf } from "../path-ids.ts";

export interface SessionRoutesOptions {
  readonly approvals: Approvals;
  readonly door: OperatorGuard;
}

/** Limit of one listing; `truncated` marks a longer one. */
const LISTED_MAX = 500;
/** Upper bound; the configuration may allow less. */
const MODE_SECONDS_MAX = 604_800;
/** UTF-16 units; a subject has at most 256 characters. */
const NAME_LENGTH_MAX = 512;

export const modeBody = z
  .strictObject({
    mode: z.enum(["default", "autoEdit", "yolo"]),
    expiresInSeconds: z.int().min(1).max(MODE_SECONDS_MAX),
    issuer: z.string().min(1).max(NAME_LENGTH_MAX).optional(),
    subject: z.string().min(1).max(NAME_LENGTH_MAX).optional(),
  })
  .refine(({ issuer, subject }) => (issuer === undefined) === (subject === undefined), {
    message: "issuer and subject stand together: they say whose session it is",
  });

const noBody = z.strictObject({});

/**
 * Declares the routes for grants (remembered approvals) and for sessions and their modes. Operators manage both; agents see
 * their own grants and open and end their own sessions.
 */
export function sessionRoutes(app: FastifyInstance, options: SessionRoutesOptions): void {
  grantRoutes(app, options);
  const { approvals, door } = options;

  app.post("/sessions", async (request, reply) => {
    await door.body(request, reply, noBody);
    return door.agent(request, async (caller) => {
      const session = await door.store(() => approvals.openSession(identityOf(caller)));
      return sendJson(reply, 201, { session: sessionForOwner(session) });
    });
  });

  app.get("/sessions", (request, reply) =>
    door.operator(request, "modes:manage", async ({ subject, issuer }) => {
      const sessions = await door.store(() => approvals.listSessions());
      await door.record({ type: "sessions.listed", sub: subject, iss: issuer });
      return sendJson(reply, 200, listed("sessions", sessions, sessionForOperator));
    }),
  );

  app.put("/sessions/:id/mode", async (request, reply) => {
    const { mode, expiresInSeconds, issuer, subject } = await door.body(request, reply, modeBody);
    return door.operator(request, "modes:manage", async (operator) => {
      const id = sessionIdOf(request);
      if (id === undefined) throw notFound("session");
      const requester = issuer === undefined || subject === undefined ? undefined : { issuer, subject };
      const until = door.now() + expiresInSeconds * 1000;
      const session = await door.store(() =>
        approvals.setMode({ id, requester, mode, until, by: identityOf(operator) }),
      );
      if (session === undefined) throw notFound("session");
      return sendJson(reply, 200, { session: sessionForOperator(session) });
    });
  });

  app.delete("/sessions/:id", async (request, reply) => {
    await door.body(request, reply, noBody);
    return door.either(request, "modes:manage", async ({ side, caller }) => {
      const id = sessionIdOf(request);
      if (id === undefined) throw notFound("session");
      const by = identityOf(caller);
      const isTheirs = side === "operators" || (await door.store(() => approvals.findSession(id, by))) !== undefined;
      if (!isTheirs || !(await door.store(() => approvals.endSession(id, by)))) throw notFound("session");
      return sendJson(reply, 200, { session: { id, ended: true } });
    });
  });
}

function grantRoutes(app: FastifyInstance, { approvals, door }: SessionRoutesOptions): void {
  app.get("/grants", (request, reply) =>
    door.either(request, "grants:manage", async ({ side, caller }) => {
      if (side === "agents") {
        const own = await door.store(() => approvals.listGrants({ requester: identityOf(caller) }));
        return sendJson(reply, 200, listed("grants", own, grantForOwner));
      }
      const grants = await door.store(() => approvals.listGrants({}));
      await door.record({ type: "grants.listed", sub: caller.subject, iss: caller.issuer });
      return sendJson(reply, 200, listed("grants", grants, grantForOperator));
    }),
  );

  app.delete("/grants/:id", async (request, reply) => {
    await door.body(request, reply, noBody);
    return door.operator(request, "grants:manage", async (operator) => {
      const id = idOf(request);
      const isRevoked = id !== undefined && (await door.store(() => approvals.revokeGrant(id, identityOf(operator))));
      if (!isRevoked) throw notFound("grant");
      return sendJson(reply, 200, { grant: { id, revoked: true } });
    });
  });
}

function listed<T>(name: string, all: readonly T[], show: (one: T) => Json): Json {
  return { [name]: all.slice(0, LISTED_MAX).map(show), ...(all.length > LISTED_MAX && { truncated: true }) };
}
