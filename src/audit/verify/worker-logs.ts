import { ownerText } from "../../core/tenant-names.ts";
import { readLink, STREAMS, type StreamName } from "../chain/chain.ts";
import { originOf, readOrigin } from "../chain/checkpoint.ts";
import { logIdIn } from "../chain/log-id.ts";
import { escapeName } from "../escape.ts";
import { dayFilesOf, visitLines } from "../journal/day-files.ts";
import type { JournalLine } from "../journal/journal.ts";
import { isTenantFolder, type LogFolder, logsIn, tenantFolder, tenantLogsIn, workerFolder, workerOf } from "../logs.ts";
import { parseLine } from "../query/view.ts";

/** Checks that the logs below an audit directory are those that its workers and tenants wrote: a chain says nothing about other logs. */

/** A start of the service that is refused ends with this code. A worker may have made no log by then. */
const START_REFUSED = 78;
const TYPES = ['"type":"worker.', '"type":"tenant.log"'].map((type) => Buffer.from(type));
/** The type follows the timestamp, at the start of the line. */
const TYPE_BYTES = 80;

/** Returns the line of a service's journal that records the log of one of its tenants. The member `tenant` is of tenants' own lines. */
export function tenantLogLine(tenant: string, origins: readonly string[]): JournalLine {
  return { type: "tenant.log", folder: tenantFolder(tenant), origins: [...origins] };
}

/** The records of an audit directory's journal about the logs in the folders below it. Each is named by its folder. */
export class RecordedLogs {
  /** The folder for which an origin was recorded first: a start with a wrong folder records its origin once more. */
  readonly #owners = new Map<string, string>();
  /** Processes of each worker whose start was not refused. */
  readonly #started = new Map<string, Set<unknown>>();
  readonly #workers = new Set<number>();
  readonly #tenants = new Set<string>();
  #firstSeq: number | undefined;

  /** Takes the next line of the journal. */
  take(bytes: Buffer, from: number, to: number): void {
    this.#firstSeq ??= readLink(bytes, from, to)?.seq;
    const start = bytes.subarray(from, Math.min(to, from + TYPE_BYTES));
    if (!TYPES.some((type) => start.includes(type))) return;
    const { type, worker, folder, pid, code, origins } = parseLine(bytes.toString("utf8", from, to)) ?? {};
    if (type === "tenant.log" && isTenantFolder(folder)) {
      this.#tenants.add(folder);
      this.#own(folder, origins);
    }
    if (typeof worker !== "number") return;
    const log = workerFolder(worker);
    this.#workers.add(worker);
    const started = this.#started.get(log) ?? new Set();
    this.#started.set(log, started);
    if (type === "worker.started") started.add(pid);
    if (type === "worker.ended" && code === START_REFUSED) started.delete(pid);
    if (type === "worker.log") this.#own(log, origins);
  }

  #own(log: string, origins: unknown): void {
    if (!Array.isArray(origins)) return;
    for (const origin of origins) if (!this.#owners.has(origin)) this.#owners.set(origin, log);
  }

  /** True when retention has deleted nothing: the journal then names every worker that was ever started. */
  get isWhole(): boolean {
    return (this.#firstSeq ?? 0) === 0;
  }

  /** The logs that the journal names: those of workers in the order of their numbers, then those of tenants. */
  get logs(): readonly string[] {
    const workers = [...this.#workers].sort((one, other) => one - other);
    return [...workers.map(workerFolder), ...[...this.#tenants].sort()];
  }

  wasStarted(worker: string): boolean {
    return (this.#started.get(worker)?.size ?? 0) > 0;
  }

  ownerOf(origin: string): string | undefined {
    return this.#owners.get(origin);
  }

  originsOf(log: string): readonly string[] {
    return [...this.#owners].flatMap(([origin, owner]) => (owner === log ? origin : []));
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

/**
 * Returns the origins of the logs that a line of a journal names: a parent those of its workers, a service its own. Those of tenants
 * are not where the service's are exported to: each tenant exports its own.
 */
export function originsNamedIn(line: string): readonly string[] {
  if (!line.includes('"origins":[')) return [];
  const { type, origins } = parseLine(line) ?? {};
  if (!NAMES_LOGS.has(type) || !Array.isArray(origins)) return [];
  return origins.filter((origin) => typeof origin === "string");
}

export interface LogProblem {
  readonly kind: "missing log" | "wrong log" | "unknown log" | "duplicate log";
  /** Name of the folder of a worker or a tenant. */
  readonly log: string;
  readonly message: string;
}

interface Log extends LogFolder {
  /** Origins of its streams that have lines. */
  readonly origins: readonly string[];
}

/** Compares the logs below an audit directory with each other, and with what the directory's journal says about them. */
export function logProblems(dir: string, recorded: RecordedLogs): readonly LogProblem[] {
  const logs = [...logsIn(dir), ...tenantLogsIn(dir)].map((log) => ({ ...log, origins: originsIn(log.dir) }));
  return [
    ...logs.flatMap((log, at) => duplicate(log, logs.slice(0, at))),
    ...logs.flatMap((log) => foreign(log, recorded)),
    ...recorded.logs.flatMap((log) => missing(log, logs, recorded)),
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
  const other = same.name === "" ? "the audit directory itself" : escapeName(same.name);
  const message = `has the same origin as ${other}: one is a copy of the other (${shared.join(", ")})`;
  return [{ kind: "duplicate log", log: name, message }];
}

function foreign(log: Log, recorded: RecordedLogs): readonly LogProblem[] {
  const { name, origins } = log;
  if (name === "" || origins.length === 0) return [];
  const owners = new Set(origins.flatMap((origin) => recorded.ownerOf(origin) ?? []));
  owners.delete(name);
  if (owners.size > 0) {
    return [{ kind: "wrong log", log: name, message: `holds the log of ${[...owners].join(", ")}` }];
  }
  const streams = new Set(recorded.originsOf(name).map(streamOf));
  const others = origins.filter((origin) => recorded.ownerOf(origin) === undefined && streams.has(streamOf(origin)));
  if (others.length > 0) {
    const message = `holds a log that the journal did not record for this ${kindOf(log)} (${others.join(", ")})`;
    return [{ kind: "wrong log", log: name, message }];
  }
  // A tenant's log is recorded when it is open: a start that is refused later has made it, too.
  if (workerOf(log) === undefined || recorded.logs.includes(name) || !recorded.isWhole) return [];
  return [{ kind: "unknown log", log: name, message: "the journal has no start of this worker" }];
}

function kindOf(log: Pick<LogFolder, "name">): "worker" | "tenant" {
  return workerOf(log) === undefined ? "tenant" : "worker";
}

function streamOf(origin: string): StreamName | undefined {
  return readOrigin(origin)?.stream;
}

function missing(log: string, logs: readonly Log[], recorded: RecordedLogs): readonly LogProblem[] {
  const known = recorded.originsOf(log);
  const lost = known.filter((origin) => !logs.some(({ origins }) => origins.includes(origin)));
  if (lost.length > 0) {
    const message = `the journal recorded a log of this ${kindOf({ name: log })} that is not here (${lost.join(", ")})`;
    return [{ kind: "missing log", log, message }];
  }
  // A process that was killed early has no recorded origin: only the name of its folder is known.
  const isMissed = known.length === 0 && recorded.wasStarted(log) && !logs.some(({ name }) => name === log);
  return isMissed ? [{ kind: "missing log", log, message: "the journal says that this worker was started" }] : [];
}

/** Returns the problem of a tenant's directory whose lines are another's: the chain is sound wherever the log is. */
export function ownerProblems(dir: string, tenant: string): readonly LogProblem[] {
  const named: unknown[] = [];
  // The first line of each day: the last one of a file may be incomplete.
  for (const { path } of STREAMS.flatMap((stream) => dayFilesOf(dir, stream))) {
    visitLines(path, 0, (bytes, from, to) => {
      named.push(parseLine(bytes.toString("utf8", from, to))?.["tenant"]);
      return false;
    });
  }
  const other = named.find((name) => name !== tenant);
  if (named.every((name) => name === tenant)) return [];
  const owner = ownerText(typeof other === "string" ? escapeName(other) : undefined);
  return [{ kind: "wrong log", log: tenantFolder(tenant), message: `holds a log of ${owner}` }];
}

export function problemText({ kind, log, message }: LogProblem): string {
  return `${kind}: ${escapeName(log)}: ${message}`;
}
