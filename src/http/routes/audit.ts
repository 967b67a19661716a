import type { FastifyInstance, FastifyReply } from "fastify";
import { STREAMS, type StreamName } from "../../audit/chain/chain.ts";
import { dayProblems } from "../../audit/query/day-problems.ts";
import { readQuery, unknownParams } from "../../audit/query/params.ts";
import { search } from "../../audit/query/query.ts";
import { DAY_MS } from "../../audit/query/time-range.ts";
import { readTrail } from "../../audit/query/trail.ts";
import { compareStats } from "../../audit/stats/compare.ts";
import { readStatsRange } from "../../audit/stats/params.ts";
import { readStats } from "../../audit/stats/stats.ts";
import { sendJson } from "../error-reply.ts";
import { Places } from "../places.ts";
import { AuditDoor, type AuditDoorOptions, budget, checked, malformed, paramsOf } from "./audit-door.ts";
import { AuditIndex } from "./audit-index.ts";
import { auditTailRoute } from "./audit-tail.ts";
import { auditVerifyRoute } from "./audit-verify.ts";

const LIMIT = 100;
const LIMIT_MAX = 1_000;
/** Of the lines in one answer. */
const PAGE_BYTES_MAX = 4 * 1_048_576;
const QUERIES = { totalMax: 4, perCallerMax: 2 } as const;
/** Of statistics whose beginning nobody named. */
const STATS_RANGE_MS = DAY_MS;
const ID = /^[\x21-\x7e]{1,128}$/;

/** `GET /audit…`: for operators who hold `audit:read`. Every query is in the journal before it is answered. */
export function auditRoutes(app: FastifyInstance, options: AuditDoorOptions): void {
  const { auditDir: dir, clock } = options;
  const queries = new Places(QUERIES);
  const door = new AuditDoor(options);
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
