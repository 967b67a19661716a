import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Approvals } from "../../approvals/types.ts";
import { Refusal } from "../../core/errors.ts";
import { isSame } from "../approval-json.ts";
import { EventStream, EventTail } from "../event-stream.ts";
import type { OperatorDoor, Visitor } from "../operator-door.ts";
import { Places } from "../places.ts";

export interface EventRouteOptions {
  readonly approvals: Approvals;
  readonly door: OperatorDoor;
}

const EVENT_STREAMS_MAX = 100;
const EVENT_STREAMS_PER_CALLER_MAX = 5;
const HEARTBEAT_MS = 15_000;
const PATIENCE_MS = 30_000;
const SEQ = /^\d{1,15}$/;

/** `GET /events`: what happens, as it happens. Operators see all of it, agents what is theirs; a client resumes with `Last-Event-ID`. */
export function eventRoute(app: FastifyInstance, { approvals, door }: EventRouteOptions): void {
  const tail = new EventTail(approvals);
  const places = new Places({ totalMax: EVENT_STREAMS_MAX, perCallerMax: EVENT_STREAMS_PER_CALLER_MAX });

  app.get("/events", (request, reply) =>
    door.either(request, "approvals:decide", async (visitor) => {
      const leave = places.take(visitor.caller);
      try {
        const after = await startOf(request);
        if (visitor.side === "operators") {
          const { subject, issuer } = visitor.caller;
          await door.record({ type: "events.followed", sub: subject, iss: issuer });
        }
        await follow(visitor, { request, reply, after });
        return reply;
      } finally {
        leave();
      }
    }),
  );

  /** From what the client has seen, or from now. An id that was never given out is of another store: from now, too. */
  async function startOf({ headers }: FastifyRequest): Promise<number> {
    const seen = headers["last-event-id"];
    if (seen !== undefined && (typeof seen !== "string" || !SEQ.test(seen))) {
      throw new Refusal("MALFORMED_REQUEST", "Last-Event-ID must be the id of an event.");
    }
    const last = await door.store(() => approvals.lastSeq());
    return seen === undefined ? last : Math.min(Number(seen), last);
  }

  async function follow({ side, caller }: Visitor, { request, reply, after }: Following): Promise<void> {
    reply.hijack();
    const stream = new EventStream({
      tail,
      response: reply.raw,
      after,
      mayWatch: (event) => side === "operators" || (isSame(caller, event) && event.type !== "approval.voted"),
      tokenLeftMs: () => door.tokenLeftMs(caller),
      verifyAgain: () => door.verifyAgain(request, side),
      heartbeatMs: HEARTBEAT_MS,
      patienceMs: PATIENCE_MS,
    });
    const stop = door.untilEnd(reply, () => stream.end());
    try {
      await door.store(() => stream.run());
    } catch {
      // The store's fault is in the log by now; the client resumes where it was cut off.
    } finally {
      stop();
    }
  }
}

interface Following {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly after: number;
}
