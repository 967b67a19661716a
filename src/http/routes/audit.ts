import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { STREAMS, type StreamName } from "../../audit/chain/chain.ts";
import { readTrail } from "../../audit/query/call-history.ts";
import type { Position } from "../../audit/query/cursor.ts";
import { dayProblems } from "../../audit/query/day-problems.ts";
import { Matcher } from "../../audit/query/filter.ts";
import { type DayLine, Follower } from "../../audit/query/follow.ts";
import { IndexLookup } from "../../audit/query/index-lookup.ts";
import { FILTER_PARAMS, readFilter, readQuery, unknownParams } from "../../audit/query/params.ts";
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
/** Of the lines in one answer. */
const PAGE_BYTES_MAX = 4 * 1_048_576;
const QUERIES = { totalMax: 4, perCallerMax: 2 } as const;
/** Of statistics whose beginning nobody named. */
const STATS_RANGE_MS = DAY_MS;
const ID = /^[\x21-\x7e]{1,128}$/;

/** `GET /audit…`: for operators who hold `audit:read`. Every query is in the journal before it is answered. */
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

/** Why lines may be missing from an answer: a day's file is missing, or has another day's name. */
function warnings(dir: string, streams: readonly StreamName[] = ["calls"]): { readonly warnings?: readonly string[] } {
  const problems = streams.flatMap((stream) => dayProblems(dir, stream));
  return problems.length === 0 ? {} : { warnings: problems };
}

/** Lines go out as they stand in the files: each was read as an object of JSON, so the whole is JSON too. */
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

/** How much of the log one query indexes for the next ones: steps of some milliseconds, with room for calls between them. */
const STEPS_MAX = 8;
const PAUSE_MS = 50;

/** The look-up index of a service: opened by its first query, built further behind each, never on the road of a call. */
class AuditIndex {
  readonly #dir: string;
  #lookup: IndexLookup | undefined;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(dir: string) {
    this.#dir = dir;
  }

  lend(): IndexLookup {
    // A log that was small, or an index that was busy, may be neither by now.
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
 * `GET /audit/verify`: whether the log holds. What came since the last reading of the whole log is verified first, then a
 * part of the next such reading; the answer to whoever asks meanwhile is the same.
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
/** How long a client may take none of what it was sent. */
const PATIENCE_MS = 30_000;
const EVENT_ID = /^(\d{4}-\d{2}-\d{2}):(\d{1,15})$/;

/** `GET /audit/tail`: calls as they are written, as server-sent events; a client resumes with `Last-Event-ID`. Ends with the token. */
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
