import type { KeyObject } from "node:crypto";
import { z } from "zod";
import { AuditLogError } from "../../audit/audit-log-error.ts";
import { STREAMS, type StreamName } from "../../audit/chain/chain.ts";
import { type Proof, proveLine } from "../../audit/chain/proof.ts";
import { ANY_LOG, verifierKeyOf } from "../../audit/chain/signed-note.ts";
import type { ExportState } from "../../audit/export/exporter.ts";
import { type ExportedLine, type ExportFormat, FORMATS } from "../../audit/export/formats.ts";
import { type LogFolder, logsIn } from "../../audit/logs.ts";
import { historyIn, readCallHistory } from "../../audit/query/call-history.ts";
import { dayProblems } from "../../audit/query/day-bounds.ts";
import { type Filter, type FoundLine, Matcher } from "../../audit/query/filter.ts";
import { FOLLOWED_ID, type FollowedLine, LogsFollower, readFollowedId } from "../../audit/query/follow-logs.ts";
import { LineIndex } from "../../audit/query/line-index.ts";
import { mergedLines, type SearchedLog, searchLogs } from "../../audit/query/merged.ts";
import {
  FILTER_PARAMS,
  type Params,
  QUERY_PARAMS,
  type ReadResult,
  readFilter,
  readQuery,
} from "../../audit/query/params.ts";
import { search } from "../../audit/query/query.ts";
import { DAY_MS } from "../../audit/query/time-range.ts";
import { parseLine } from "../../audit/query/view.ts";
import { activityRange, readActivity } from "../../audit/stats/activity.ts";
import { compareStats, readStats, readStatsRange, type Stats } from "../../audit/stats/stats.ts";
import type { AuditStore } from "../../audit/store/audit-store.ts";
import { readStoreQuery } from "../../audit/store/store-query.ts";
import { LogVerifier } from "../../audit/verify/log-verifier.ts";
import { type LogProblem, logProblems } from "../../audit/verify/worker-logs.ts";
import {
  type AuditSource,
  auditActivity,
  auditSource,
  exporterListing,
  fleetState,
  type KeyListing,
  keyListing,
} from "../../core/api/audit.ts";
import { viewOf } from "../../core/audit-fields.ts";
import { sha256Hex } from "../../core/digest.ts";
import { Refusal } from "../../core/errors.ts";
import type { EpochMs, Json } from "../../core/types.ts";
import { deniedAnswer, json } from "../answers.ts";
import { askedStore, askFleet, cursorAfter, type FleetPart } from "../audit-fleet.ts";
import { type Endpoint, type EndpointAnswer, type EndpointServices, endpointsWith, perListener } from "../endpoint.ts";
import { Download, download, eventStream, RETRY_MS, ServerSentEvents } from "../server-sent-events.ts";

/** What these endpoints need of the service. */
export interface AuditPart extends FleetPart {
  /** The audit directory. No part of a request ever becomes part of a path. */
  readonly auditDir: string;
  /** Returns how far each exporter of the audit is, per stream; empty without `audit.export`. */
  readonly exports: () => readonly ExportState[];
  /** Public key that verifies the audit's checkpoints. Without it, their signatures are not verified. */
  readonly checkpointKey?: KeyObject | undefined;
}

const { endpoint } = endpointsWith<AuditPart>();

const LIMIT = 100;
const LIMIT_MAX = 1_000;
const PAGE_BYTES_MAX = 4 * 1_048_576;
/** Concurrent queries: each may read up to a gigabyte. */
const QUERIES = { totalMax: 4, perCallerMax: 2 } as const;
const TAILS = { totalMax: 32, perCallerMax: 4 } as const;
/** Each reads on for as long as its client does. */
const EXPORTS = { totalMax: 4, perCallerMax: 1 } as const;
const EXPORT_PAGE_BYTES_MAX = 1_048_576;
/** Each reads the whole log. */
const PROOFS = { totalMax: 2, perCallerMax: 1 } as const;
/** Limits of one request. An answer that reaches them ends early and says so. */
const BUDGET_MS = 1_000;
const BUDGET_BYTES = 1_073_741_824;
/** A first page ends after this time with the lines found so far: a person waits for the first line. */
const FIRST_LINES_MS = 250;
const STATS_RANGE_MS = DAY_MS;
const CHECK_EVERY_MS = 200;
const ISSUES_MAX = 10;
const MESSAGE_CHARACTERS_MAX = 300;

/** Members that all endpoints here declare. Every query is recorded before it is answered. */
const auditors = {
  method: "GET",
  audience: "operators",
  permission: "audit:read",
  audited: "audit.queried",
} as const;

const MEDIA_TYPES = {
  jsonl: "application/x-ndjson",
  csv: "text/csv",
  ocsf: "application/x-ndjson",
} as const satisfies Record<keyof typeof FORMATS, string>;

const callParams = z.object({
  traceId: z.string().regex(/^[\x21-\x7e]{1,128}$/, "the id must be 1 to 128 printable characters"),
});

const proofSchema = z.object({
  type: z.literal("safe-tool-call/audit-proof/1"),
  line: z.string().describe("The line exactly as it is in the log."),
  index: z.int().min(0).describe("Its `seq`."),
  hashes: z.array(z.string()).describe("The audit path of RFC 6962 in base64, from the leaf's sibling upward."),
  checkpoint: z.string().describe("A signed note of the stream `calls`."),
});

/** Parameters that the audit parses, each at most once: a repeated one would be ambiguous. */
function named(names: readonly string[]) {
  return z.strictObject(Object.fromEntries(names.map((name) => [name, z.string().optional()])));
}

/** Parameters of a question that the store of the fleet can answer, too. */
function sourced(names: readonly string[]) {
  return z.strictObject({ ...named(names).shape, source: auditSource.optional() });
}

/** The filters without times, which are given. */
const ACTIVITY_PARAMS = FILTER_PARAMS.filter((name) => name !== "from" && name !== "to");

/** Members of an answer about several replicas, or about one. */
const SOURCED_MEMBERS = {
  source: auditSource,
  fleet: fleetState.optional(),
  warnings: z.array(z.string()).optional(),
} as const;

export const endpoints: readonly Endpoint<AuditPart>[] = [
  endpoint({
    ...auditors,
    path: "/audit",
    summary: "Entries of the audit, by filters and page.",
    query: sourced(QUERY_PARAMS),
    limits: QUERIES,
    async handle({ query: { source, ...params } }, services) {
      const { clock } = services;
      const limits = { limit: LIMIT, limitMax: LIMIT_MAX, nowMs: clock() };
      const store = askedStore(source, services);
      const asked = queried("query", params, store);
      if (store !== undefined) {
        const query = checked(readStoreQuery(params, limits));
        const { toMs } = query.filter;
        const { found: page, state } = await askFleet(services, { store, streams: ["calls"], toMs }, () =>
          store.page(query, PAGE_BYTES_MAX),
        );
        const { found, more } = page;
        return lines({ entries: found }, { more, cursor: cursorAfter(query, page), ...state }, asked);
      }
      const query = checked(readQuery(params, limits));
      const logs = indexesOf(services).lend();
      const mayGoOn = query.cursor === undefined ? firstPageBudgets(clock, logs.length) : budgets(clock, logs.length);
      const { found, more, cursor } = await searchLogs({ logs, query, pageBytesMax: PAGE_BYTES_MAX, mayGoOn });
      return lines({ entries: found }, { more, cursor, ...OWN, ...warnings(logs) }, asked);
    },
  }),
  endpoint({
    ...auditors,
    path: "/audit/stats",
    summary: "The audit in figures.",
    query: sourced([...FILTER_PARAMS, "compare"]),
    limits: QUERIES,
    async handle({ query: { source, ...params } }, services) {
      const { clock } = services;
      const nowMs = clock();
      const store = askedStore(source, services);
      const { filter, earlierMs } = checked(readStatsRange(params, nowMs));
      const fromMs = filter.fromMs ?? Math.max(0, (filter.toMs ?? nowMs) - STATS_RANGE_MS);
      const asked = { ...filter, fromMs };
      const counted = async (statsOf: (range: Filter) => Promise<Stats>) =>
        earlierMs === undefined ? statsOf(asked) : compareStats({ filter: asked, earlierMs }, statsOf);
      const from = new Date(fromMs).toISOString();
      if (store !== undefined) {
        const { toMs } = filter;
        const { found, state } = await askFleet(services, { store, streams: ["calls"], toMs }, () =>
          counted((range) => store.stats(range)),
        );
        return json(200, { from, ...found, ...state }, queried("stats", params, store));
      }
      const logs = indexesOf(services).lend();
      const mayGoOn = budget(clock);
      const statistics = await counted((range) => readStats({ logs, filter: range, mayGoOn }));
      return json(200, { from, ...statistics, ...OWN, ...warnings(logs) }, queried("stats", params));
    },
  }),
  endpoint({
    ...auditors,
    path: "/audit/activity",
    summary: "Who called what in the last hour and day: calls by caller, tool and refusal code.",
    query: sourced(ACTIVITY_PARAMS),
    responses: { 200: { schema: auditActivity.extend(SOURCED_MEMBERS) } },
    limits: QUERIES,
    async handle({ query: { source, ...params } }, services) {
      const { clock } = services;
      const nowMs = clock();
      const store = askedStore(source, services);
      const range = activityRange(checked(readFilter(params, nowMs)), nowMs);
      const asked = queried("activity", params, store);
      if (store !== undefined) {
        const { found, state } = await askFleet(services, { store, streams: ["calls"] }, () => store.activity(range));
        return json(200, { ...found, ...state }, asked);
      }
      const logs = indexesOf(services).lend();
      const found = await readActivity(range, { logs, mayGoOn: budget(clock) });
      return json(200, { ...found, ...OWN, ...warnings(logs) }, asked);
    },
  }),
  endpoint({
    ...auditors,
    path: "/audit/exporters",
    summary: "How far each exporter of the audit is.",
    query: named([]),
    responses: { 200: { schema: exporterListing } },
    handle: (_request, { exports }) => json(200, { exporters: exports().map(exporterShown) }, queried("exporters", {})),
  }),
  endpoint({
    ...auditors,
    path: "/audit/keys",
    summary: "The public key that verifies the audit's checkpoints.",
    query: named([]),
    responses: { 200: { schema: keyListing } },
    handle: (_request, { checkpointKey }) => json(200, { keys: keysShown(checkpointKey) }, queried("keys", {})),
  }),
  endpoint({
    ...auditors,
    path: "/audit/:traceId",
    summary: "Everything about one call, by its trace id or approval id.",
    params: callParams,
    query: sourced([]),
    errors: { 404: "ENTRY_NOT_FOUND" },
    limits: QUERIES,
    async handle({ params: { traceId: id }, query: { source } }, services) {
      const store = askedStore(source, services);
      if (store !== undefined) {
        const { found: history, state } = await askFleet(services, { store, streams: STREAMS }, () =>
          readCallHistory(store, id),
        );
        const asked = queried("show", { id }, store);
        if (history.lines.length === 0 && !history.isPartial) return { ...notStored(), ...asked };
        return lines(
          { entries: history.calls, journal: history.journal },
          { more: history.isPartial, ...state },
          asked,
        );
      }
      const logs = indexesOf(services).lend();
      const history = await readCallHistory(historyIn({ logs, mayGoOn: budget(services.clock) }), id);
      const missing = warnings(logs, STREAMS);
      const isEmpty = history.calls.length + history.journal.length === 0;
      if (isEmpty && !history.isPartial && missing.warnings === undefined) {
        return { ...unknownEntry(), ...queried("show", { id }) };
      }
      const lists = { entries: history.calls, journal: history.journal };
      return lines(lists, { more: history.isPartial, ...OWN, ...missing }, queried("show", { id }));
    },
  }),
  endpoint({
    ...auditors,
    path: "/audit/:traceId/proof",
    summary: "Proof that the audit contains a call, for `stc audit verify-proof`.",
    params: callParams,
    query: named([]),
    responses: { 200: { schema: proofSchema } },
    errors: { 404: "ENTRY_NOT_FOUND", 409: "PROOF_NOT_AVAILABLE" },
    limits: PROOFS,
    async handle({ params: { traceId }, untilEnd }, services) {
      const { auditDir } = services;
      const asked = queried("proof", { traceId });
      const exact = { traceId: /^[0-9A-Fa-f-]{1,64}$/.test(traceId) ? traceId.toLowerCase() : traceId };
      const query = { filter: { exact }, order: "oldest", limit: 1, cursor: undefined, digest: "" } as const;
      let isEnded = false;
      const stop = untilEnd(() => {
        isEnded = true;
      });
      const isWanted = (): boolean => !isEnded;
      try {
        // Without a budget, since a search that ends early cannot say that there is no such call.
        const entry = await firstIn(indexesOf(services).lend(), async (log) => {
          const page = await search({ ...log, query, pageBytesMax: PAGE_BYTES_MAX, mayGoOn: isWanted });
          return page.found.map(({ line }) => ({ line, dir: log.dir }))[0];
        });
        if (entry === undefined && isWanted()) return { ...unknownEntry(), ...asked };
        if (entry === undefined) throw shuttingDown();
        const proof = await proofOf({ ...entry, auditDir }, isWanted);
        return typeof proof === "string"
          ? { ...deniedAnswer(409, "PROOF_NOT_AVAILABLE", proof), ...asked }
          : json(200, proof, asked);
      } finally {
        stop();
      }
    },
  }),
  endpoint({
    ...auditors,
    path: "/audit/export",
    summary: "All entries that match the filters, oldest first, as a download.",
    query: z.strictObject({
      ...sourced(FILTER_PARAMS).shape,
      format: z.enum(Object.keys(FORMATS) as readonly (keyof typeof FORMATS)[]),
    }),
    responses: { 200: { type: ["application/x-ndjson", "text/csv"] } },
    limits: EXPORTS,
    async handle({ query: { format: name, source, ...params }, tokenLeftMs, verifyAgain, untilEnd }, services) {
      const { logError } = services;
      const store = askedStore(source, services);
      const exported = store === undefined ? ownExport(params, services) : await fleetExport(params, store, services);
      const file = { type: `${MEDIA_TYPES[name]}; charset=utf-8`, name: `audit.${name}` };
      const answer = download(file, async (client) => {
        const sent = new Download({ client, tokenLeftMs, verifyAgain });
        const stop = untilEnd(() => sent.end());
        const batches = exported.batches(() => !sent.isEnded);
        const format: ExportFormat = FORMATS[name];
        let isBegun = false;
        try {
          await sent.run(async () => {
            if (!isBegun && format.header !== undefined) await sent.send(`${format.header}\n`);
            isBegun = true;
            const batch = await batches.next();
            if (batch.done === true) return sent.complete();
            await sent.send(batch.value.map((found) => `${format.line(found)}\n`).join(""));
          });
        } catch (error) {
          logError(error);
        } finally {
          stop();
        }
      });
      const headers = { ...answer.headers, ...exported.headers };
      return { ...answer, headers, ...queried("export", { ...params, format: name }, store) };
    },
  }),
  endpoint({
    ...auditors,
    path: "/audit/verify",
    summary: "Whether the audit is intact.",
    query: named([]),
    limits: QUERIES,
    /**
     * Verifies first what was added since the last reading of the whole log, then a part of the next such reading; concurrent
     * requests get the same answer.
     */
    async handle(_request, services) {
      return json(200, await statusOf(verifiersOf(services), services), queried("verify", {}));
    },
  }),
  endpoint({
    ...auditors,
    path: "/audit/tail",
    summary: "Entries as they are written, as server-sent events.",
    query: named(FILTER_PARAMS),
    headers: z.object({
      "Last-Event-ID": z.string().regex(FOLLOWED_ID, "must be the id of an event").optional(),
    }),
    responses: { 200: { type: "text/event-stream" } },
    limits: TAILS,
    handle({ query: params, headers, tokenLeftMs, verifyAgain, untilEnd }, { auditDir, clock }) {
      const matcher = new Matcher(checked(readFilter(params, clock())));
      const from = readFollowedId(headers["Last-Event-ID"], clock());
      const stream = eventStream(async (client) => {
        const events = new ServerSentEvents({ client, tokenLeftMs, verifyAgain });
        const follower = new LogsFollower(auditDir, from);
        const stop = untilEnd(() => events.end());
        try {
          await events.run(() => sendLines(events, follower, matcher), { retryMs: RETRY_MS });
        } catch {
          // A file cannot be read: the client resumes, and its next query reports the error.
        } finally {
          stop();
        }
      });
      return { ...stream, ...queried("tail", params) };
    },
  }),
];

function keysShown(key: KeyObject | undefined): KeyListing["keys"] {
  if (key === undefined) return [];
  const der = key.export({ type: "spki", format: "der" });
  const publicKey = String(key.export({ type: "spki", format: "pem" }));
  return [{ verifierKey: verifierKeyOf(ANY_LOG, key), publicKey, sha256: sha256Hex(der) }];
}

/** Member of the answers from this replica's files. */
const OWN = { source: "replica" } as const;

function notStored(): EndpointAnswer {
  const message =
    "Nothing in the audit store has this id. Lines arrive there within seconds: source=replica asks this replica's own files.";
  return deniedAnswer(404, "ENTRY_NOT_FOUND", message, { source: "fleet" satisfies AuditSource });
}

interface Exported {
  /** Headers that say what the file holds. */
  readonly headers: Readonly<Record<string, string>>;
  readonly batches: (mayGoOn: () => boolean) => AsyncIterator<readonly ExportedLine[], void>;
}

const EXPORT_LIMITS = { limit: Number.MAX_SAFE_INTEGER, limitMax: Number.MAX_SAFE_INTEGER } as const;
const SOURCE_HEADER = "stc-audit-source";

function ownExport(params: Params, services: AuditServices): Exported {
  const query = checked(readQuery({ ...params, order: "oldest" }, { ...EXPORT_LIMITS, nowMs: services.clock() }));
  const logs = indexesOf(services).lend();
  const pageBytesMax = EXPORT_PAGE_BYTES_MAX;
  return {
    headers: { [SOURCE_HEADER]: "replica" satisfies AuditSource },
    batches: (mayGoOn) => inBatches(mergedLines({ logs, query, pageBytesMax, mayGoOn }), pageBytesMax),
  };
}

/** Reads the first lines before the answer begins: a store that is away is then a refusal, not a file that is cut off. */
async function fleetExport(params: Params, store: AuditStore, services: AuditServices): Promise<Exported> {
  const nowMs = services.clock();
  const query = checked(readStoreQuery({ ...params, order: "oldest" }, { ...EXPORT_LIMITS, nowMs }));
  const { toMs } = query.filter;
  const batches = inBatches(store.lines(query), EXPORT_PAGE_BYTES_MAX);
  const { found: first, state } = await askFleet(services, { store, streams: ["calls"], toMs }, () => batches.next());
  const { completeUntil, logs } = state.fleet;
  async function* all(): AsyncGenerator<readonly ExportedLine[], void> {
    if (first.done !== true) yield first.value;
    yield* batches;
  }
  return {
    headers: {
      [SOURCE_HEADER]: "fleet" satisfies AuditSource,
      "stc-audit-complete-until": completeUntil ?? "unknown",
      "stc-audit-logs-behind": String(logs.filter(({ isBehind }) => isBehind).length),
    },
    batches: all,
  };
}

function unknownEntry(): EndpointAnswer {
  return deniedAnswer(404, "ENTRY_NOT_FOUND", "Nothing in the audit has this id.");
}

/** Returns the first result of the logs, which are read one after the other. */
async function firstIn<T>(
  logs: readonly LentLog[],
  read: (log: LentLog) => Promise<T | undefined>,
): Promise<T | undefined> {
  for (const log of logs) {
    const result = await read(log);
    if (result !== undefined) return result;
  }
  return undefined;
}

interface ProvenEntry {
  readonly line: string;
  /** Folder of the log that holds the line. */
  readonly dir: string;
  readonly auditDir: string;
}

/**
 * Returns the proof, or why there is none. Other work runs while it reads the log.
 *
 * @throws {Refusal} SHUTTING_DOWN when nobody waits for it any more
 */
async function proofOf({ line, dir, auditDir }: ProvenEntry, isWanted: () => boolean): Promise<Proof | string> {
  const steps = proveLine(dir, { line });
  try {
    while (isWanted()) {
      const step = steps.next();
      if (step.done === true) return step.value;
      await new Promise((resolve) => setImmediate(resolve));
    }
  } catch (error) {
    if (error instanceof AuditLogError) return error.message.replaceAll(auditDir, "the audit directory");
    throw error;
  }
  throw shuttingDown();
}

function shuttingDown(): Refusal {
  return new Refusal("SHUTTING_DOWN", "The service is shutting down.");
}

function exporterShown({ exporter, stream, bytesBehind, secondsBehind, ...state }: ExportState): Json {
  const { lastAcceptedAt, failingSince, sentLines, deadLines, failures, conflicts } = state;
  const iso = (at: EpochMs | undefined): string | null => (at === undefined ? null : new Date(at).toISOString());
  const finite = (value: number): number | null => (Number.isFinite(value) ? value : null);
  return {
    exporter,
    stream,
    failingSince: iso(failingSince),
    lastAcceptedAt: iso(lastAcceptedAt),
    bytesBehind: finite(bytesBehind),
    secondsBehind: finite(secondsBehind),
    sentLines,
    deadLines,
    failures,
    conflicts,
  };
}

function queried(route: string, params: Params, store?: AuditStore): Required<Pick<EndpointAnswer, "recorded">> {
  const filters = Object.entries(params).filter((entry): entry is [string, string] => entry[1] !== undefined);
  const source: Readonly<Record<string, string>> = store === undefined ? {} : { source: "fleet" };
  return { recorded: { route, ...source, filters: Object.fromEntries(filters) } };
}

/** Returns a function that is true while one request may continue; it counts over all of the request's pages. */
function budget(clock: () => number): (bytesRead: number) => boolean {
  const untilMs = clock() + BUDGET_MS;
  return (bytesRead) => clock() < untilMs && bytesRead < BUDGET_BYTES;
}

/** Returns the budget of each of several logs, which are read one after the other: equal parts of that of one request. */
function budgets(clock: () => number, logs: number, ms = BUDGET_MS): (log: number) => (bytesRead: number) => boolean {
  const beganMs = clock();
  return (log) => {
    const untilMs = beganMs + (ms * (log + 1)) / logs;
    return (bytesRead) => clock() < untilMs && bytesRead < BUDGET_BYTES / logs;
  };
}

function firstPageBudgets(
  clock: () => number,
  logs: number,
): (log: number) => (bytesRead: number, linesFound: number) => boolean {
  const [empty, found] = [budgets(clock, logs), budgets(clock, logs, FIRST_LINES_MS)];
  return (log) => {
    const [ofEmpty, ofFound] = [empty(log), found(log)];
    return (bytesRead, linesFound) => (linesFound > 0 ? ofFound(bytesRead) : ofEmpty(bytesRead));
  };
}

/** Groups lines, so that each group has at least this many bytes, and the last one the rest. */
async function* inBatches(
  lines: AsyncIterable<ExportedLine>,
  bytesMax: number,
): AsyncGenerator<readonly ExportedLine[], void> {
  let [batch, bytes]: [ExportedLine[], number] = [[], 0];
  for await (const line of lines) {
    batch.push(line);
    bytes += Buffer.byteLength(line.line);
    if (bytes < bytesMax) continue;
    yield batch;
    [batch, bytes] = [[], 0];
  }
  if (batch.length > 0) yield batch;
}

/** @throws {Refusal} MALFORMED_REQUEST naming every error */
function checked<T>(read: ReadResult<T>): T {
  if ("ok" in read) return read.ok;
  const issues = read.faults
    .slice(0, ISSUES_MAX)
    .map((message) => ({ message: message.slice(0, MESSAGE_CHARACTERS_MAX) }));
  throw new Refusal("MALFORMED_REQUEST", "The query is not valid for this route.", { details: { issues } });
}

/** Returns why lines may be missing from an answer: the file of a day is missing or has the name of another day. */
function warnings(
  logs: readonly LogFolder[],
  streams: readonly StreamName[] = ["calls"],
): { readonly warnings?: readonly string[] } {
  const problems = logs.flatMap(({ name, dir }) =>
    streams
      .flatMap((stream) => dayProblems(dir, stream))
      .map((problem) => (name === "" ? problem : `${name}: ${problem}`)),
  );
  return problems.length === 0 ? {} : { warnings: problems };
}

/**
 * Returns lines as they are stored in the files: each was parsed as a JSON object, so the whole body is valid JSON. Where several
 * logs are read, `logs` has the id of each line's log, in the same order.
 */
function lines(
  lists: Readonly<Record<string, readonly Pick<FoundLine, "line" | "log">[]>>,
  rest: Readonly<Record<string, unknown>>,
  recorded: Pick<EndpointAnswer, "recorded">,
): EndpointAnswer {
  const members = Object.entries(lists).map(
    ([name, found]) => `${JSON.stringify(name)}:[${found.map(({ line }) => line).join(",")}]`,
  );
  const others = JSON.stringify({ ...logsOf(lists), ...rest });
  return { ...json(200, {}, recorded), body: `{${members.join(",")},${others.slice(1)}` };
}

function logsOf(lists: Readonly<Record<string, readonly Pick<FoundLine, "line" | "log">[]>>): {
  readonly logs?: object;
} {
  if (Object.values(lists).every((found) => found.every((line) => !("log" in line)))) return {};
  const named = Object.entries(lists).map(([name, found]) => [name, found.map(({ log = null }) => log)]);
  return { logs: Object.fromEntries(named) };
}

/** Pause between two segments, of which each takes some milliseconds to index. */
const PAUSE_MS = 50;

/** The service's index: opened by the first query, extended after each query, never in the pipeline of a call. */
class AuditIndex {
  readonly #dir: string;
  #index: LineIndex | undefined;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(dir: string) {
    this.#dir = dir;
  }

  lend(): LineIndex {
    // A log that was small may have grown, and an index that was busy may be free by now: open it again.
    if (this.#index?.isOpen !== true) this.#index = new LineIndex(this.#dir);
    if (this.#timer === undefined) this.#extend(this.#index.extend());
    return this.#index;
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#index?.close();
  }

  #extend(steps: Generator<number, void>): void {
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      if (!this.#isClosed && steps.next().done !== true) this.#extend(steps);
    }, PAUSE_MS);
    this.#timer.unref();
  }
}

type LentLog = LogFolder & Required<SearchedLog>;

/** The indexes of all logs in a directory. */
class AuditIndexes {
  readonly #auditDir: string;
  readonly #indexes = new Map<string, AuditIndex>();

  constructor(auditDir: string) {
    this.#auditDir = auditDir;
  }

  lend(): readonly LentLog[] {
    return logsIn(this.#auditDir).map((log) => {
      const index = this.#indexes.get(log.dir) ?? new AuditIndex(log.dir);
      this.#indexes.set(log.dir, index);
      return { ...log, index: index.lend() };
    });
  }

  close(): void {
    for (const index of this.#indexes.values()) index.close();
  }
}

type AuditServices = EndpointServices & AuditPart;
type IndexServices = EndpointServices & Pick<AuditPart, "auditDir">;

const indexesOf = perListener(({ auditDir, onClose }: IndexServices) => {
  const indexes = new AuditIndexes(auditDir);
  onClose(() => indexes.close());
  return indexes;
});

/** Returns the calls by tool of which a dry run said that a person would be asked, the most frequent first. */
export async function askingDryRuns(
  services: IndexServices,
  { from: fromMs, to: toMs }: { readonly from: EpochMs; readonly to: EpochMs },
): Promise<readonly { readonly tool: string; readonly dryRuns: number }[]> {
  const logs = indexesOf(services).lend();
  const filter = { exact: { decision: "DRY_RUN", code: "APPROVAL_REQUIRED" }, fromMs, toMs } as const;
  const { byTool } = await readStats({ logs, filter, mayGoOn: budget(services.clock) });
  return byTool.map(([tool, dryRuns]) => ({ tool, dryRuns }));
}

/** Returns the verifier of each log that is there now, by its name. */
const verifiersOf = perListener(({ auditDir, checkpointKey, clock }: AuditServices) => {
  const verifiers = new Map<string, LogVerifier>();
  const keys = checkpointKey === undefined ? [] : [checkpointKey];
  return () => {
    for (const { name, dir } of logsIn(auditDir)) {
      if (!verifiers.has(name)) verifiers.set(name, new LogVerifier({ dir, keys, clock }));
    }
    return verifiers;
  };
});

/** Returns the state of the directory's own log; with workers, also theirs, and the members that are about all of them. */
async function statusOf(
  verifiers: () => ReadonlyMap<string, LogVerifier>,
  { auditDir, clock }: AuditServices,
): Promise<object> {
  const named = [...verifiers()];
  const budgetOf = budgets(clock, named.length);
  const all: Awaited<ReturnType<LogVerifier["status"]>>[] = [];
  for (const [at, [, verifier]] of named.entries()) all.push(await verifier.status(budgetOf(at)));
  const [own, ...others] = all;
  const found = problemsOf(auditDir, named[0]?.[1]);
  const problems = found ?? [];
  if (others.length + problems.length === 0) return { ...own };
  const workers = others.map((status, at) => ({ log: named[at + 1]?.[0], ...status }));
  const isBad = problems.length > 0 || all.some(({ ok }) => ok === false);
  const isKnown = found !== undefined && all.every(({ ok }) => ok !== undefined);
  const more = all.some((status) => status.more) || !(isKnown || isBad);
  return { ...own, ok: isBad || isKnown ? !isBad : undefined, more, workers, logProblems: problems };
}

/** Returns `undefined` when the journal was not read to its end yet, or a file cannot be read now. */
function problemsOf(dir: string, own: LogVerifier | undefined): readonly LogProblem[] | undefined {
  try {
    return own?.recorded && logProblems(dir, own.recorded);
  } catch {
    // Retention has just deleted the file, or the status of that log says why it cannot be read.
    return undefined;
  }
}

/** Sends the next lines. Reads on only after the client has received the previous lines, so nothing accumulates. */
async function sendLines(events: ServerSentEvents, follower: LogsFollower, matcher: Matcher): Promise<void> {
  const lines = follower.readNewLines();
  if (lines.length === 0) return events.pause(CHECK_EVERY_MS);
  await events.send(lines.map((line) => eventText(line, matcher)).join(""));
  // The client may be far behind, with a filter that matches nothing, so that no read ever waits: yield, so that others can
  // run.
  await new Promise((resolve) => setImmediate(resolve));
}

function eventText({ id, line }: FollowedLine, matcher: Matcher): string {
  const members = parseLine(line);
  const entry = members && viewOf(members);
  if (entry === undefined || !matcher.accepts(entry, line)) return "";
  // A line that the service did not write may contain line breaks between its members.
  const safe = /[\r\n]/.test(line) ? JSON.stringify(members) : line;
  return `id: ${id}\nevent: entry\ndata: ${safe}\n\n`;
}
