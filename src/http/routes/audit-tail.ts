import type { FastifyInstance, FastifyRequest } from "fastify";
import type { Position } from "../../audit/query/cursor.ts";
import { Matcher } from "../../audit/query/filter.ts";
import { type DayLine, Follower } from "../../audit/query/follow.ts";
import { FILTER_PARAMS, readFilter, unknownParams } from "../../audit/query/params.ts";
import { dayOf } from "../../audit/query/time-range.ts";
import { parseLine, viewOf } from "../../audit/query/view.ts";
import { Places } from "../places.ts";
import { ServerSentEvents } from "../server-sent-events.ts";
import { type AuditDoor, type AuditDoorOptions, checked, malformed, paramsOf } from "./audit-door.ts";

export interface AuditTailOptions extends AuditDoorOptions {
  readonly door: AuditDoor;
}

const STREAMS = { totalMax: 32, perCallerMax: 4 } as const;
const LOOK_EVERY_MS = 200;
const HEARTBEAT_MS = 15_000;
/** How long a client may take none of what it was sent. */
const PATIENCE_MS = 30_000;
const EVENT_ID = /^(\d{4}-\d{2}-\d{2}):(\d{1,15})$/;

/** `GET /audit/tail`: calls as they are written, as server-sent events; a client resumes with `Last-Event-ID`. Ends with the token. */
export function auditTailRoute(app: FastifyInstance, options: AuditTailOptions): void {
  const { auditDir, clock, door } = options;
  const places = new Places(STREAMS);
  const open = new Set<ServerSentEvents>();
  let isClosing = false;
  app.addHook("preClose", (done) => {
    isClosing = true;
    for (const stream of [...open]) stream.end();
    done();
  });

  app.get("/audit/tail", (request, reply) =>
    door.serve(request, places, async (caller) => {
      const params = paramsOf(request);
      const faults = unknownParams(params, FILTER_PARAMS);
      if (faults.length > 0) throw malformed(faults);
      const matcher = new Matcher(checked(readFilter(params, clock())));
      const from = startOf(request, clock());
      await door.record(caller, "tail", params);
      reply.hijack();
      const stream = new ServerSentEvents({
        response: reply.raw,
        tokenLeftMs: () => (isClosing ? 0 : Math.max(0, caller.expiresAt * 1000 - clock())),
        verifyAgain: async () => void (await door.identify(request)),
        heartbeatMs: HEARTBEAT_MS,
        patienceMs: PATIENCE_MS,
      });
      const tail = new Tail(stream, { follower: new Follower(auditDir, from), matcher });
      open.add(stream);
      try {
        await stream.run(() => tail.step());
      } catch {
        // A file that cannot be read: the client resumes, and hears so at its next query.
      } finally {
        open.delete(stream);
      }
      return reply;
    }),
  );
}

/**
 * A day that is still to come is of another log: from now on, as without an id.
 *
 * @throws {Refusal} MALFORMED_REQUEST
 */
function startOf({ headers }: FastifyRequest, nowMs: number): Position | undefined {
  const seen = headers["last-event-id"];
  if (seen === undefined) return undefined;
  const [, day, offset] = EVENT_ID.exec(typeof seen === "string" ? seen : "") ?? [];
  if (day === undefined) throw malformed(["Last-Event-ID must be the id of an event"]);
  return day > dayOf(nowMs) ? undefined : { day, offset: Number(offset) };
}

interface TailOptions {
  readonly follower: Follower;
  readonly matcher: Matcher;
}

/** What is written to the audit, for one client. It looks for more only when its client has taken what came before: nothing piles up. */
class Tail {
  readonly #stream: ServerSentEvents;
  readonly #options: TailOptions;

  constructor(stream: ServerSentEvents, options: TailOptions) {
    this.#stream = stream;
    this.#options = options;
  }

  async step(): Promise<void> {
    const lines = this.#options.follower.look();
    if (lines.length === 0) return this.#stream.pause(LOOK_EVERY_MS);
    await this.#stream.send(lines.map((line) => this.#eventOf(line)).join(""));
    // A client far behind whose filter lets nothing through waits for nothing: others must run all the same.
    await new Promise((resolve) => setImmediate(resolve));
  }

  #eventOf({ day, end, line }: DayLine): string {
    const members = parseLine(line);
    const entry = members && viewOf(members);
    if (entry === undefined || !this.#options.matcher.accepts(entry, line)) return "";
    // A line that the log has not written may hold line ends between its members.
    const safe = /[\r\n]/.test(line) ? JSON.stringify(members) : line;
    return `id: ${day}:${end}\nevent: entry\ndata: ${safe}\n\n`;
  }
}
