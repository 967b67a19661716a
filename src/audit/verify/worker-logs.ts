import { readLink, STREAMS, type StreamName } from "../chain/chain.ts";
import { originOf, readOrigin } from "../chain/checkpoint.ts";
import { logIdIn } from "../chain/log-id.ts";
import { dayFilesOf, visitLines } from "../journal/day-files.ts";
import { type LogFolder, logsIn, workerFolder, workerOf } from "../logs.ts";
import { parseLine } from "../query/view.ts";

/** Whether the logs below an audit directory are those that its workers wrote: a chain says nothing about the other logs. */

/** A start of the service that is refused ends with this code. A worker may have made no log by then. */
const START_REFUSED = 78;
const TYPE = Buffer.from('"type":"worker.');
/** The type follows the timestamp, at the start of the line. */
const TYPE_BYTES = 80;

/** The records of an audit directory's journal about the logs of its workers. */
export class RecordedLogs {
  /** The worker for which an origin was recorded first: a start with a wrong folder records its origin once more. */
  readonly #owners = new Map<string, number>();
  /** Processes of each worker whose start was not refused. */
  readonly #started = new Map<number, Set<unknown>>();
  #firstSeq: number | undefined;

  /** Takes the next line of the journal. */
  take(bytes: Buffer, from: number, to: number): void {
    this.#firstSeq ??= readLink(bytes, from, to)?.seq;
    if (!bytes.subarray(from, Math.min(to, from + TYPE_BYTES)).includes(TYPE)) return;
    const { type, worker, pid, code, origins } = parseLine(bytes.toString("utf8", from, to)) ?? {};
    if (typeof worker !== "number") return;
    const started = this.#started.get(worker) ?? new Set();
    this.#started.set(worker, started);
    if (type === "worker.started") started.add(pid);
    if (type === "worker.ended" && code === START_REFUSED) started.delete(pid);
    if (type !== "worker.log" || !Array.isArray(origins)) return;
    for (const origin of origins) if (!this.#owners.has(origin)) this.#owners.set(origin, worker);
  }

  /** True when retention has deleted nothing: the journal then names every worker that was ever started. */
  get isWhole(): boolean {
    return (this.#firstSeq ?? 0) === 0;
  }

  /** Numbers of the workers that the journal names. */
  get workers(): readonly number[] {
    return [...this.#started.keys()].sort((one, other) => one - other);
  }

  wasStarted(worker: number): boolean {
    return (this.#started.get(worker)?.size ?? 0) > 0;
  }

  ownerOf(origin: string): number | undefined {
    return this.#owners.get(origin);
  }

  originsOf(worker: number): readonly string[] {
    return [...this.#owners].flatMap(([origin, owner]) => (owner === worker ? origin : []));
  }
}

/** Reads the journal of an audit directory without verifying it. */
export function readRecordedLogs(dir: string): RecordedLogs {
  const recorded = new RecordedLogs();
  for (const { path } of dayFilesOf(dir, "journal")) {
    visitLines(path, 0, (bytes, from, to) => {
      recorded.take(bytes, from, to);
      return true;
    });
  }
  return recorded;
}

const NAMES_LOGS: ReadonlySet<unknown> = new Set(["worker.log", "service.started", "service.stopped"]);

/** Returns the origins of the logs that a line of a journal names: a parent those of its workers, a service its own. */
export function originsNamedIn(line: string): readonly string[] {
  if (!line.includes('"origins":[')) return [];
  const { type, origins } = parseLine(line) ?? {};
  if (!NAMES_LOGS.has(type) || !Array.isArray(origins)) return [];
  return origins.filter((origin) => typeof origin === "string");
}

export interface LogProblem {
  readonly kind: "missing log" | "wrong log" | "unknown log" | "duplicate log";
  /** Name of the worker's folder. */
  readonly log: string;
  readonly message: string;
}

interface Log extends LogFolder {
  /** Origins of its streams that have lines. */
  readonly origins: readonly string[];
}

/** Compares the logs below an audit directory with each other, and with what the directory's journal says about them. */
export function logProblems(dir: string, recorded: RecordedLogs): readonly LogProblem[] {
  const logs = logsIn(dir).map((log) => ({ ...log, origins: originsIn(log.dir) }));
  return [
    ...logs.flatMap((log, at) => duplicate(log, logs.slice(0, at))),
    ...logs.flatMap((log) => foreign(log, recorded)),
    ...recorded.workers.flatMap((worker) => missing(worker, logs, recorded)),
  ];
}

/** Returns the names that a log has in its checkpoints, which its first lines determine. */
function originsIn(dir: string): readonly string[] {
  return STREAMS.flatMap((stream) => {
    const logId = logIdIn(dir, stream, "verified");
    return logId === undefined ? [] : [originOf(stream, logId)];
  });
}

function duplicate({ name, origins }: Log, before: readonly Log[]): readonly LogProblem[] {
  const same = before.find((log) => log.origins.some((origin) => origins.includes(origin)));
  if (same === undefined) return [];
  const shared = origins.filter((origin) => same.origins.includes(origin));
  const other = same.name === "" ? "the audit directory itself" : same.name;
  const message = `has the same origin as ${other}: one is a copy of the other (${shared.join(", ")})`;
  return [{ kind: "duplicate log", log: name, message }];
}

function foreign(log: Log, recorded: RecordedLogs): readonly LogProblem[] {
  const { name, origins } = log;
  const worker = workerOf(log);
  if (worker === undefined || origins.length === 0) return [];
  const owners = new Set(origins.flatMap((origin) => recorded.ownerOf(origin) ?? []));
  owners.delete(worker);
  if (owners.size > 0) {
    const message = `holds the log of ${[...owners].map(workerFolder).join(", ")}`;
    return [{ kind: "wrong log", log: name, message }];
  }
  const streams = new Set(recorded.originsOf(worker).map(streamOf));
  const others = origins.filter((origin) => recorded.ownerOf(origin) === undefined && streams.has(streamOf(origin)));
  if (others.length > 0) {
    const message = `holds a log that the journal did not record for this worker (${others.join(", ")})`;
    return [{ kind: "wrong log", log: name, message }];
  }
  if (recorded.workers.includes(worker) || !recorded.isWhole) return [];
  return [{ kind: "unknown log", log: name, message: "the journal has no start of this worker" }];
}

function streamOf(origin: string): StreamName | undefined {
  return readOrigin(origin)?.stream;
}

function missing(worker: number, logs: readonly Log[], recorded: RecordedLogs): readonly LogProblem[] {
  const log = workerFolder(worker);
  const known = recorded.originsOf(worker);
  const lost = known.filter((origin) => !logs.some(({ origins }) => origins.includes(origin)));
  if (lost.length > 0) {
    const message = `the journal recorded a log of this worker that is not here (${lost.join(", ")})`;
    return [{ kind: "missing log", log, message }];
  }
  // A process that was killed early has no recorded origin: only the name of its folder is known.
  const isMissed = known.length === 0 && recorded.wasStarted(worker) && !logs.some(({ name }) => name === log);
  return isMissed ? [{ kind: "missing log", log, message: "the journal says that this worker was started" }] : [];
}

export function problemText({ kind, log, message }: LogProblem): string {
  return `${kind}: ${log}: ${message}`;
}
