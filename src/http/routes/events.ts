import { z } from "zod";
import type { ApprovalEvent, Approvals } from "../../approvals/types.ts";
import { inStore, iso, isSame } from "../approval-json.ts";
import type { EndpointServices } from "../endpoint.ts";
import { type Endpoint, endpointsWith, perListener } from "../endpoint.ts";
import { eventStream, RETRY_MS, ServerSentEvents, type ServerSentEventsOptions } from "../server-sent-events.ts";

/** What these endpoints need of the service. */
export interface EventsPart {
  readonly approvals: Approvals;
}

const { endpoint } = endpointsWith<EventsPart>();

const STREAMS = { totalMax: 100, perCallerMax: 5 } as const;

/** Events about who reviews a call, which its requester does not see. */
const FOR_OPERATORS: ReadonlySet<ApprovalEvent["type"]> = new Set(["approval.voted", "approval.escalated"]);

const tailOf = perListener(({ approvals }: EndpointServices & EventsPart) => new EventTail(approvals));

/** Approval events as they happen. Operators see all of them, agents their own; a client resumes with `Last-Event-ID`. */
const events = endpoint({
  method: "GET",
  path: "/events",
  summary: "Events of approval requests, as server-sent events.",
  audience: "either",
  permission: "approvals:decide",
  onlyWith: "`approvals`",
  headers: z.object({
    "Last-Event-ID": z
      .string()
      .regex(/^\d{1,15}$/, "must be the id of an event")
      .optional(),
  }),
  responses: { 200: { type: "text/event-stream" } },
  audited: "events.followed",
  limits: STREAMS,
  async handle(
    { tokenAudience, caller, headers: { "Last-Event-ID": seen }, tokenLeftMs, verifyAgain, untilEnd },
    services,
  ) {
    const last = await inStore(services, () => services.approvals.lastSeq());
    // An id that was never issued belongs to another store and counts as the latest.
    const after = seen === undefined ? last : Math.min(Number(seen), last);
    return eventStream(async (client) => {
      const stream = new EventStream({
        tail: tailOf(services),
        client,
        after,
        mayWatch: (event) => tokenAudience === "operators" || (isSame(caller, event) && !FOR_OPERATORS.has(event.type)),
        tokenLeftMs,
        verifyAgain,
      });
      const stop = untilEnd(() => stream.end());
      try {
        await inStore(services, () => stream.run());
      } catch {
        // The store's error was logged already; the client resumes where it was cut off.
      } finally {
        stop();
      }
    });
  },
});

export const endpoints: readonly Endpoint<EventsPart>[] = [events];

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
      const onBeat = (): void => this.#wake();
      await this.#stream.run(() => this.#step(), { id: this.#cursor, retryMs: RETRY_MS, onBeat });
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
