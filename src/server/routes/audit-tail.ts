import type { ServerResponse } from "node:http";
import type { FastifyInstance, FastifyRequest } from "fastify";
import type { Position } from "../../audit/query/cursor.ts";
import { Matcher } from "../../audit/query/filter.ts";
import { type DayLine, Follower } from "../../audit/query/follow.ts";
import { FILTER_PARAMS, readFilter, unknownParams } from "../../audit/query/params.ts";
import { parseLine, viewOf } from "../../audit/query/view.ts";
import { Places } from "../places.ts";
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
  const open = new Set<TailStream>();
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
      const from = startOf(request);
      await door.record(caller, "tail", params);
      reply.hijack();
      const stream = new TailStream({
        follower: new Follower(auditDir, from),
        matcher,
        response: reply.raw,
        leftMs: () => (isClosing ? 0 : Math.max(0, caller.expiresAt * 1000 - clock())),
        verifyAgain: async () => void (await door.identify(request)),
      });
      open.add(stream);
      try {
        await stream.run();
      } catch {
        // A file that cannot be read: the client resumes, and hears so at its next query.
      } finally {
        open.delete(stream);
      }
      return reply;
    }),
  );
}

/** @throws {Refusal} MALFORMED_REQUEST */
function startOf({ headers }: FastifyRequest): Position | undefined {
  const seen = headers["last-event-id"];
  if (seen === undefined) return undefined;
  const [, day, offset] = EVENT_ID.exec(typeof seen === "string" ? seen : "") ?? [];
  if (day === undefined) throw malformed(["Last-Event-ID must be the id of an event"]);
  return { day, offset: Number(offset) };
}

interface StreamOptions {
  readonly follower: Follower;
  readonly matcher: Matcher;
  readonly response: ServerResponse;
  /** How long the token still is good, in milliseconds; nothing once the service closes. */
  readonly leftMs: () => number;
  /** Rejects when the token is good no more. */
  readonly verifyAgain: () => Promise<void>;
}

/** One client's stream. It looks for more only when its client has taken what came before: nothing piles up. */
class TailStream {
  readonly #options: StreamOptions;
  #isEnded = false;
  #resume: () => void = () => {};

  constructor(options: StreamOptions) {
    this.#options = options;
  }

  async run(): Promise<void> {
    const { response, verifyAgain } = this.#options;
    response.once("close", () => this.end());
    const heartbeat = setInterval(() => {
      verifyAgain().then(
        () => this.#isEnded || response.writableNeedDrain || response.write(":\n\n"),
        () => this.end(),
      );
    }, HEARTBEAT_MS);
    try {
      response.writeHead(200, {
        "content-type": "text/event-stream; charset=utf-8",
        "cache-control": "no-store",
        "x-content-type-options": "nosniff",
        "x-accel-buffering": "no",
        connection: "close",
      });
      response.write(": open\n\n");
      while (!this.#isEnded) await this.#step();
    } finally {
      clearInterval(heartbeat);
      this.end();
    }
  }

  end(): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    this.#resume();
    const { response } = this.#options;
    // What a slow client has not taken by now it will not get.
    if (response.writableNeedDrain) response.destroy();
    else response.end();
  }

  async #step(): Promise<void> {
    const { follower, leftMs, response } = this.#options;
    if (leftMs() === 0 || response.destroyed) {
      this.end();
      return;
    }
    const lines = follower.look();
    const text = lines.map((line) => this.#eventOf(line)).join("");
    if (text !== "" && !response.write(text)) await this.#wait(Math.min(PATIENCE_MS, leftMs()), "drain");
    else if (lines.length === 0) await this.#wait(LOOK_EVERY_MS);
    // A client far behind whose filter lets nothing through waits for nothing: others must run all the same.
    else await new Promise((resolve) => setImmediate(resolve));
  }

  /** For so long, or until the stream ends; for a drain that does not come the stream is ended. */
  async #wait(ms: number, event?: "drain"): Promise<void> {
    const { response } = this.#options;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#resume = resolve;
    const timer = setTimeout(() => (event === undefined ? resolve() : this.end()), ms);
    if (event !== undefined) response.once(event, resolve);
    await promise;
    clearTimeout(timer);
    if (event !== undefined) response.removeListener(event, resolve);
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
