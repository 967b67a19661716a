import { z } from "zod";

const count = (fallback: number, max: number) => z.int().min(1).max(max).default(fallback);

const CALLS_MAX = 100_000_000;
const WINDOW_SECONDS_MAX = 86_400;
const TOOLS_MAX = 1_000;

const rate = z.strictObject({
  calls: z.int().min(1).max(CALLS_MAX),
  seconds: z.int().min(1).max(WINDOW_SECONDS_MAX),
  burst: z.int().min(1).max(CALLS_MAX).optional(),
});

const rateOrOff = z.union([z.literal("off"), rate], "must be { calls: 100, seconds: 60 }, or off");

const toolRates = z.strictObject({ callerAndTool: rateOrOff.optional(), tool: rateOrOff.optional() });

/** How often. What is beyond is refused with the time to wait. */
const rates = z
  .strictObject({
    /** Of one caller, all tools together: `{ calls, seconds, burst }`, so many in so many seconds, and up to `burst` of them at once (as many as `calls` when left out); or `off`. The default is more than one process serves: no agent meets it. Lower it to what yours do. */
    caller: rateOrOff.default({ calls: 1_800_000, seconds: 60 }),
    /** Of one caller and one tool. */
    callerAndTool: rateOrOff.default("off"),
    /** Of one tool, all callers together: what its target can bear is for its operators to say. */
    tool: rateOrOff.default("off"),
    /** Of all calls together. */
    service: rateOrOff.default("off"),
    /** By the tool's name, in place of `callerAndTool` and `tool`. */
    tools: z
      .record(z.string().min(1).max(64), toolRates)
      .refine((tools) => Object.keys(tools).length <= TOOLS_MAX, `names more than ${TOOLS_MAX} tools`)
      .default({}),
    /** Of one caller's requests that are no calls: listings, sessions, questions and their answers, streams, audit queries. */
    requests: rateOrOff.default({ calls: 60_000, seconds: 60 }),
  })
  .prefault({});

/** How much at once, and how often. */
export const limits = z
  .strictObject({
    concurrentCallsMax: count(1_024, 100_000),
    concurrentCallsPerCallerMax: count(256, 100_000),
    /** How often a minute one caller may start a call and go away before its answer. */
    cancellationsPerMinuteMax: count(120, 100_000),
    /** Refusals of unauthenticated peers that get a line of their own, per source and minute. */
    strangerLinesPerMinute: count(60, 100_000),
    rates,
    /** Whether replicas count `rates` together, in the PostgreSQL of `approvals.storeUrlFile`: each counts for itself first and tells the others every 100 ms, so that no call waits for the database, and each goes on with its own count while the database is away. */
    shared: z.boolean().default(false),
    /** Tokens of one source address that were refused, a minute and at once; beyond it tokens that were not verified before are RATE_LIMITED there, unlooked at. */
    wrongTokensPerMinuteMax: count(30_000, 10_000_000),
    /** How late the event loop may be, five times in a row, before calls are shed: from then on those that come when it is so late again are OVERLOADED, before their body is read, until it has been on time for a second. */
    loopDelayMsMax: count(500, 60_000),
    /** Connections that have sent a request. One that has sent none is closed after `server.headersTimeoutMs`; keep the process's limit of open files above both. */
    connectionsMax: count(50_000, 1_000_000),
    /** The same of one source address; of IPv6, of one /64. */
    connectionsPerSourceMax: count(20_000, 1_000_000),
    /** How long a client may take to accept an answer whole; then its connection is closed. Streams have patience of their own. */
    answerTimeoutMs: count(60_000, 3_600_000),
  })
  .prefault({});
