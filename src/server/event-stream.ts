import type { ServerResponse } from "node:http";
import type { ApprovalEvent, Approvals } from "../approvals/types.ts";
import { iso } from "./approval-json.ts";

/** Events of one read; a line of theirs is short, so a client is never owed more than some tens of kilobytes. */
const PAGE_EVENTS = 100;

/** Reads the store once for all streams that stand at the same event. */
export class EventTail {
  readonly #approvals: Approvals;
  readonly #streams = new Set<() => void>();
  #reads = new Map<number, Promise<readonly ApprovalEvent[]>>();
  #unlisten: (() => void) | undefined;

  constructor(approvals: Approvals) {
    this.#approvals = approvals;
  }

  /** The events after `seq`, oldest first, at most a page. */
  read(seq: number): Promise<readonly ApprovalEvent[]> {
    const running = this.#reads.get(seq);
    if (running !== undefined) return running;
    const reads = this.#reads;
    const read = this.#approvals.eventsAfter(seq, PAGE_EVENTS).finally(() => reads.delete(seq));
    reads.set(seq, read);
    return read;
  }

  /** Calls `wake` whenever there may be more; answers how to stop. */
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
    // A read that began before this may not have seen what it is about: nobody joins it any more.
    this.#reads = new Map();
    for (const wake of this.#streams) wake();
  }
}

export interface EventStreamOptions {
  readonly tail: EventTail;
  readonly response: ServerResponse;
  /** The first event that is sent is the one after it. */
  readonly after: number;
  readonly mayWatch: (event: ApprovalEvent) => boolean;
  /** How long the token still is good, in milliseconds. */
  readonly tokenLeftMs: () => number;
  /** Rejects when the token is good no more. */
  readonly verifyAgain: () => Promise<void>;
  readonly heartbeatMs: number;
  /** How long a client may take none of what it was sent. */
  readonly patienceMs: number;
}

/**
 * One client's server-sent events. It reads the store as fast as its client takes what it has read: nothing is lost, nothing comes
 * twice, and nothing piles up.
 */
export class EventStream {
  readonly #options: EventStreamOptions;
  #cursor: number;
  #mayHaveMore = true;
  #ended = false;
  #isBlocked = false;
  /** Ends what the stream waits for now. */
  #resume: () => void = () => {};

  constructor(options: EventStreamOptions) {
    this.#options = options;
    this.#cursor = options.after;
  }

  /** Resolves when the stream is over: its token, its client, its service or the store has ended it. */
  async run(): Promise<void> {
    const { tail, tokenLeftMs } = this.#options;
    const leave = tail.join(() => this.#wake());
    const expiry = setTimeout(() => this.end(), tokenLeftMs());
    const heartbeat = setInterval(() => this.#beat(), this.#options.heartbeatMs);
    try {
      this.#open();
      while (!this.#ended) await this.#step();
    } finally {
      clearTimeout(expiry);
      clearInterval(heartbeat);
      leave();
      this.end();
    }
  }

  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#resume();
    const { response } = this.#options;
    // What a slow client has not taken by now it will not get.
    if (this.#isBlocked) response.destroy();
    else response.end();
  }

  /** The id at the start is where a client resumes that is cut off before its first event. */
  #open(): void {
    const { response } = this.#options;
    // Written to after its client has gone.
    response.on("error", () => this.end());
    response.writeHead(200, {
      "content-type": "text/event-stream; charset=utf-8",
      "cache-control": "no-store",
      "x-content-type-options": "nosniff",
      "x-accel-buffering": "no",
      connection: "close",
    });
    response.write(`: open\nid: ${this.#cursor}\n\n`);
  }

  async #step(): Promise<void> {
    this.#mayHaveMore = false;
    const page = await this.#options.tail.read(this.#cursor);
    await this.#send(page.filter(this.#options.mayWatch).map(eventText).join(""));
    this.#cursor = page.at(-1)?.seq ?? this.#cursor;
    if (page.length === PAGE_EVENTS || this.#mayHaveMore || this.#ended) return;
    await new Promise<void>((resolve) => {
      this.#resume = resolve;
    });
  }

  async #send(text: string): Promise<void> {
    const { response, tokenLeftMs } = this.#options;
    if (this.#ended || text === "") return;
    if (tokenLeftMs() === 0) return this.end();
    if (response.write(text)) return;
    this.#isBlocked = true;
    await this.#drained(response);
    this.#isBlocked = false;
  }

  async #drained(response: ServerResponse): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#resume = resolve;
    response.once("drain", resolve);
    const patience = setTimeout(() => this.end(), this.#options.patienceMs);
    await promise;
    clearTimeout(patience);
    response.removeListener("drain", resolve);
  }

  #wake(): void {
    this.#mayHaveMore = true;
    // A stream whose client is slow is woken by the client.
    if (!this.#isBlocked) this.#resume();
  }

  /** Looks at the token, and at the store: a wake-up is a hint, and a hint may get lost. */
  #beat(): void {
    this.#options.verifyAgain().then(
      () => {
        if (this.#ended || this.#isBlocked) return;
        this.#options.response.write(":\n\n");
        this.#wake();
      },
      () => this.end(),
    );
  }
}

/** No arguments are in an event. JSON has no line end in it, so it is one line. */
function eventText({ seq, type, id, tool, summary, at }: ApprovalEvent): string {
  return `id: ${seq}\nevent: ${type}\ndata: ${JSON.stringify({ id, tool, summary, at: iso(at) })}\n\n`;
}
