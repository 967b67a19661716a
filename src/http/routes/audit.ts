import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { STREAMS, type StreamName } from "../../audit/chain/chain.ts";
import { readTrail } from "../../audit/query/call-history.ts";
import { dayProblems } from "../../audit/query/day-bounds.ts";
import { Matcher } from "../../audit/query/filter.ts";
import { type DayLine, Follower } from "../../audit/query/follow.ts";
import { IndexLookup } from "../../audit/query/index-lookup.ts";
import { FILTER_PARAMS, type Position, readFilter, readQuery, unknownParams } from "../../audit/query/params.ts";
import { search } from "../../audit/query/query.ts";
import { DAY_MS, dayOf } from "../../audit/query/time-range.ts";
import { parseLine, viewOf } from "../../audit/query/view.ts";
import { compareStats, readStats, readStatsRange } from "../../audit/stats/stats.ts";
import { LogVerifier } from "../../audit/verify/log-verifier.ts";
import { ConcurrencyLimit } from "../concurrency-limit.ts";
import { sendJson } from "../error-reply.ts";
import { ServerSentEvents } from "../server-sent-events.ts";
import { AuditGuard, type AuditGuardOptions, budget, checked, malformed, paramsOf } from "./audit-guard.ts";

const LIMIT = 100;
const LIMIT_MAX = 1_000;
/** Maximum size of the lines in one answer. */
const PAGE_BYTES_MAX = 4 * 1_048_576;
const QUERIES = { totalMax: 4, perCallerMax: 2 } as const;
/** Default range of statistics when the query names no start. */
const STATS_RANGE_MS = DAY_MS;
const ID = /^[\x21-\x7e]{1,128}$/;

/** Declares the `GET /audit…` routes for operators who hold `audit:read`. Every query is journaled before it is answered. */
export function auditRoutes(app: FastifyInstance, options: AuditGuardOptions): void {
  const { auditDir: dir, clock } = options;
  const queries = new ConcurrencyLimit(QUERIES);
  const door = new AuditGuard(options);
  const index = new AuditIndex(dir);
  app.addHook("onClose", (_app, done) => {
    index.close();
    done();
  });
  auditTailRoute(app, { ...options, door });
  auditVerifyRoute(app, { ...options, door, places: queries });

  app.get("/audit", (request, reply) =>
    door.serve(request, queries, async (caller) => {
      const params = paramsOf(request);
      const query = checked(readQuery(params, { limit: LIMIT, limitMax: LIMIT_MAX, nowMs: clock() }));
      await door.record(caller, "query", params);
      const page = await search({
        dir,
        query,
        places: index.lend(),
        pageBytesMax: PAGE_BYTES_MAX,
        mayGoOn: budget(clock),
      });
      const { more, cursor } = page;
      const rest = { more, cursor, ...warnings(dir) };
      return sendLines(reply, { entries: page.found.map(({ line }) => line) }, rest);
    }),
  );

  app.get("/audit/stats", (request, reply) =>
    door.serve(request, queries, async (caller) => {
      const params = paramsOf(request);
      const nowMs = clock();
      const { filter, earlierMs } = checked(readStatsRange(params, nowMs));
      await door.record(caller, "stats", params);
      const fromMs = filter.fromMs ?? Math.max(0, (filter.toMs ?? nowMs) - STATS_RANGE_MS);
      const asked = { dir, places: index.lend(), filter: { ...filter, fromMs }, mayGoOn: budget(clock) };
      const counted = earlierMs === undefined ? await readStats(asked) : await compareStats({ ...asked, earlierMs });
      return sendJson(reply, 200, { from: new Date(fromMs).toISOString(), ...counted, ...warnings(dir) });
    }),
  );

  app.get<{ Params: { traceId: string } }>("/audit/:traceId", (request, reply) =>
    door.serve(request, queries, async (caller) => {
      const { traceId: id } = request.params;
      const faults = unknownParams(paramsOf(request), []);
      if (!ID.test(id)) faults.push("the id must be 1 to 128 printable characters");
      if (faults.length > 0) throw malformed(faults);
      await door.record(caller, "show", { id });
      const trail = await readTrail({ dir, id, places: index.lend(), mayGoOn: budget(clock) });
      const missing = warnings(dir, STREAMS);
      const isEmpty = trail.calls.length + trail.journal.length === 0;
      if (isEmpty && !trail.isPartial && missing.warnings === undefined) return sendUnknown(reply);
      const lines = {
        entries: trail.calls.map(({ line }) => line),
        journal: trail.journal.map(({ line }) => line),
      };
      return sendLines(reply, lines, { more: trail.isPartial, ...missing });
    }),
  );
}

/** Returns why lines may be missing from an answer: the file of a day is missing or has the name of another day. */
function warnings(dir: string, streams: readonly StreamName[] = ["calls"]): { readonly warnings?: readonly string[] } {
  const problems = streams.flatMap((stream) => dayProblems(dir, stream));
  return problems.length === 0 ? {} : { warnings: problems };
}

/** Sends lines as they are stored in the files: each was parsed as a JSON object, so the whole body is valid JSON. */
function sendLines(
  reply: FastifyReply,
  lists: Readonly<Record<string, readonly string[]>>,
  rest: Readonly<Record<string, unknown>>,
): FastifyReply {
  const members = Object.entries(lists).map(([name, lines]) => `${JSON.stringify(name)}:[${lines.join(",")}]`);
  const body = `{${members.join(",")},${JSON.stringify(rest).slice(1)}`;
  return reply
    .code(200)
    .header("content-type", "application/json; charset=utf-8")
    .header("cache-control", "no-store")
    .header("x-content-type-options", "nosniff")
    .send(body);
}

function sendUnknown(reply: FastifyReply): FastifyReply {
  const error = {
    code: "ENTRY_NOT_FOUND",
    stage: "REQUEST",
    message: "Nothing in the audit carries this id.",
    retryable: false,
  };
  return sendJson(reply, 404, { status: "denied", error });
}

/**
 * Number of steps by which one query extends the index for later queries; each takes some milliseconds, with pauses for
 * calls.
 */
const STEPS_MAX = 8;
const PAUSE_MS = 50;

/** The service's lookup index: opened by the first query, extended after each query, never in the pipeline of a call. */
class AuditIndex {
  readonly #dir: string;
  #lookup: IndexLookup | undefined;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(dir: string) {
    this.#dir = dir;
  }

  lend(): IndexLookup {
    // A log that was small may have grown, and an index that was busy may be free by now: open it again.
    if (this.#lookup?.isOpen !== true) this.#lookup = new IndexLookup(this.#dir);
    if (this.#timer === undefined) this.#extend(this.#lookup.extend(), STEPS_MAX);
    return this.#lookup;
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#lookup?.close();
  }

  #extend(steps: Generator<number, void>, left: number): void {
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      if (this.#isClosed || steps.next().done === true || left <= 1) return;
      this.#extend(steps, left - 1);
    }, PAUSE_MS);
    this.#timer.unref();
  }
}

interface AuditVerifyOptions extends AuditGuardOptions {
  readonly door: AuditGuard;
  readonly places: ConcurrencyLimit;
}

/**
 * Declares `GET /audit/verify`, which reports whether the log is intact. Verifies first what was added since the last reading
 * of the whole log, then a part of the next such reading; concurrent requests get the same answer.
 */
function auditVerifyRoute(app: FastifyInstance, options: AuditVerifyOptions): void {
  const { auditDir: dir, checkpointKey, clock, door, places } = options;
  const verifier = new LogVerifier({ dir, keys: checkpointKey === undefined ? [] : [checkpointKey], clock });

  app.get("/audit/verify", (request, reply) =>
    door.serve(request, places, async (caller) => {
      const faults = unknownParams(paramsOf(request), []);
      if (faults.length > 0) throw malformed(faults);
      await door.record(caller, "verify", {});
      return sendJson(reply, 200, await verifier.status(budget(clock)));
    }),
  );
}

interface AuditTailOptions extends AuditGuardOptions {
  readonly door: AuditGuard;
}

const OPEN_STREAMS = { totalMax: 32, perCallerMax: 4 } as const;
const LOOK_EVERY_MS = 200;
const HEARTBEAT_MS = 15_000;
/** Maximum time during which a client reads nothing of what was sent. */
const PATIENCE_MS = 30_000;
const EVENT_ID = /^(\d{4}-\d{2}-\d{2}):(\d{1,15})$/;

/**
 * Declares `GET /audit/tail`: calls as they are written, as server-sent events. A client resumes with `Last-Event-ID`. The
 * stream ends with the token.
 */
function auditTailRoute(app: FastifyInstance, options: AuditTailOptions): void {
  const { auditDir, clock, door } = options;
  const places = new ConcurrencyLimit(OPEN_STREAMS);
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
        // A file cannot be read: the client resumes, and its next query reports the error.
      } finally {
        open.delete(stream);
      }
      return reply;
    }),
  );
}

/**
 * Returns the position from which a stream starts; undefined means now. An id with a future day belongs to another log and is
 * ignored.
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

/**
 * Follows the audit for one client. It reads on only after its client has received the previous lines, so nothing
 * accumulates.
 */
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
    // The client may be far behind, with a filter that matches nothing, so that no read ever waits: yield, so that others can
    // run.
    await new Promise((resolve) => setImmediate(resolve));
  }

  #eventOf({ day, end, line }: DayLine): string {
    const members = parseLine(line);
    const entry = members && viewOf(members);
    if (entry === undefined || !this.#options.matcher.accepts(entry, line)) return "";
    // A line that the service did not write may contain line breaks between its members.
    const safe = /[\r\n]/.test(line) ? JSON.stringify(members) : line;
    return `id: ${day}:${end}\nevent: entry\ndata: ${safe}\n\n`;
  }
}
