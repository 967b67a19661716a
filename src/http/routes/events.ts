import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { ApprovalEvent, Approvals } from "../../approvals/types.ts";
import { Refusal } from "../../core/errors.ts";
import { iso, isSame } from "../approval-json.ts";
import { ConcurrencyLimit } from "../concurrency-limit.ts";
import type { OperatorGuard, OperatorRequest } from "../operator-guard.ts";
import { ServerSentEvents, type ServerSentEventsOptions } from "../server-sent-events.ts";

interface EventRouteOptions {
  readonly approvals: Approvals;
  readonly door: OperatorGuard;
}

const EVENT_STREAMS_MAX = 100;
const EVENT_STREAMS_PER_CALLER_MAX = 5;
const HEARTBEAT_MS = 15_000;
const PATIENCE_MS = 30_000;
const SEQ = /^\d{1,15}$/;

/**
 * Declares `GET /events`: approval events as they happen. Operators see all of them, agents their own; a client resumes with
 * `Last-Event-ID`.
 */
export function eventRoute(app: FastifyInstance, { approvals, door }: EventRouteOptions): void {
  const tail = new EventTail(approvals);
  const places = new ConcurrencyLimit({ totalMax: EVENT_STREAMS_MAX, perCallerMax: EVENT_STREAMS_PER_CALLER_MAX });

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

  /**
   * Returns the last event that the client has seen, or the latest one. An id that was never issued belongs to another store
   * and counts as the latest.
   */
  async function startOf({ headers }: FastifyRequest): Promise<number> {
    const seen = headers["last-event-id"];
    if (seen !== undefined && (typeof seen !== "string" || !SEQ.test(seen))) {
      throw new Refusal("MALFORMED_REQUEST", "Last-Event-ID must be the id of an event.");
    }
    const last = await door.store(() => approvals.lastSeq());
    return seen === undefined ? last : Math.min(Number(seen), last);
  }

  async function follow({ side, caller }: OperatorRequest, { request, reply, after }: Following): Promise<void> {
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
      // The store's error was logged already; the client resumes where it was cut off.
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

/** Events per read. An event's line is short, so at most some tens of kilobytes wait for a client. */
const PAGE_EVENTS = 100;

/** Reads the store once for all streams that are at the same event. */
export class EventTail {
  readonly #approvals: Approvals;
  readonly #streams = new Set<() => void>();
  #reads = new Map<number, Promise<readonly ApprovalEvent[]>>();
  #unlisten: (() => void) | undefined;

  constructor(approvals: Approvals) {
    this.#approvals = approvals;
  }

  /** Returns the events after `seq`, oldest first, at most one page. */
  read(seq: number): Promise<readonly ApprovalEvent[]> {
    const running = this.#reads.get(seq);
    if (running !== undefined) return running;
    const reads = this.#reads;
    const read = this.#approvals.eventsAfter(seq, PAGE_EVENTS).finally(() => reads.delete(seq));
    reads.set(seq, read);
    return read;
  }

  /** Calls `wake` whenever there may be more events. Returns a function that stops this. */
  join(wake: () => void): () => void {
    this.#streams.add(wake);
    this.#unlisten ??= this.#approvals.onEvents(() => this.#wakeAll());
    return () => {
      this.#streams.delete(wake);
      if (this.#streams.size > 0) return;
      this.#unlisten?.();
      this.#unlisten = undefined;
    };
  }

  #wakeAll(): void {
    // A read that started before this notification may have missed the event: no stream may join it any more.
    this.#reads = new Map();
    for (const wake of this.#streams) wake();
  }
}

export interface EventStreamOptions extends ServerSentEventsOptions {
  readonly tail: EventTail;
  /** Sequence number of the last event that is not sent. */
  readonly after: number;
  readonly mayWatch: (event: ApprovalEvent) => boolean;
}

/**
 * The approval events for one client. It reads the store as fast as its client reads the stream: no event is lost or
 * repeated.
 */
export class EventStream {
  readonly #options: EventStreamOptions;
  readonly #stream: ServerSentEvents;
  #cursor: number;
  #mayHaveMore = true;

  constructor(options: EventStreamOptions) {
    this.#options = options;
    this.#stream = new ServerSentEvents(options);
    this.#cursor = options.after;
  }

  /** Resolves when the token, the client, the service or the store has ended the stream. */
  async run(): Promise<void> {
    const leave = this.#options.tail.join(() => this.#wake());
    try {
      // A wake-up is a hint that may get lost: each heartbeat looks at the store, too.
      await this.#stream.run(() => this.#step(), { id: this.#cursor, onBeat: () => this.#wake() });
    } finally {
      leave();
    }
  }

  end(): void {
    this.#stream.end();
  }

  async #step(): Promise<void> {
    const { tail, mayWatch } = this.#options;
    this.#mayHaveMore = false;
    const page = await tail.read(this.#cursor);
    await this.#stream.send(page.filter(mayWatch).map(eventText).join(""));
    this.#cursor = page.at(-1)?.seq ?? this.#cursor;
    // Neither store nor client may need a turn of the event loop: yield between two pages, so that others can run.
    if (page.length === PAGE_EVENTS) await new Promise((resolve) => setImmediate(resolve));
    else if (!this.#mayHaveMore) await this.#stream.pause();
  }

  #wake(): void {
    this.#mayHaveMore = true;
    this.#stream.wake();
  }
}

/** Formats an event, which holds no arguments. JSON contains no line breaks, so the data is one line. */
function eventText({ seq, type, id, tool, summary, at }: ApprovalEvent): string {
  return `id: ${seq}\nevent: ${type}\ndata: ${JSON.stringify({ id, tool, summary, at: iso(at) })}\n\n`;
}
