import type { z } from "zod";
import { isTable } from "../../core/json.ts";
import { problemAdder } from "./values.ts";

/** What `server.workers` does to the other settings. */

export const WORKERS_MAX = 32;

/** Limits that each process counts for itself, and of which each worker therefore gets an equal part. */
const DIVIDED = [
  "concurrentCallsMax",
  "concurrentCallsPerCallerMax",
  "cancellationsPerMinuteMax",
  "strangerLinesPerMinute",
  "wrongTokensPerMinuteMax",
  "connectionsMax",
  "connectionsPerSourceMax",
] as const;

type Divided = Readonly<Record<(typeof DIVIDED)[number], number>>;

interface RequestRate {
  readonly calls: number;
  readonly seconds: number;
  readonly burst?: number | undefined;
}

interface DividedLimits extends Divided {
  readonly rates: { readonly requests: RequestRate | "off" };
}

/** Returns a worker's part of a limit: together, the workers allow no more than the limit. */
export function partOf(limit: number, workers: number): number {
  return Math.floor(limit / workers);
}

/** Returns the limits of one of several workers. */
export function workerLimits<Limits extends DividedLimits>(limits: Limits, workers: number): Limits {
  const parts = Object.fromEntries(DIVIDED.map((name) => [name, partOf(limits[name], workers)]));
  const { requests } = limits.rates;
  if (requests === "off") return { ...limits, ...parts };
  const { burst } = requests;
  const part = {
    ...requests,
    calls: partOf(requests.calls, workers),
    ...(burst !== undefined && { burst: partOf(burst, workers) }),
  };
  return { ...limits, ...parts, rates: { ...limits.rates, requests: part } };
}

/** The limit of a system, in its entry or in the section of the entry's kind. */
const SYSTEM_LIMIT = "concurrentCallsMax";

type Entry = Readonly<Record<string, unknown>>;

/** Returns a system's entry with a worker's part of its limit. */
export function partOfSystem(entry: Entry, workers: number): Entry {
  const part = (key: string, value: unknown): unknown => {
    if (key === SYSTEM_LIMIT && typeof value === "number") return partOf(value, workers);
    return isTable(value) ? partOfSystem(value, workers) : value;
  };
  return Object.fromEntries(Object.entries(entry).map(([key, value]) => [key, part(key, value)]));
}

/** Returns the paths and values of a system's limits. */
function systemLimits(entry: Entry, path: readonly string[]): readonly (readonly [readonly string[], number])[] {
  return Object.entries(entry).flatMap(([key, value]) => {
    if (key === SYSTEM_LIMIT && typeof value === "number") return [[[...path, key], value] as const];
    return isTable(value) ? systemLimits(value, [...path, key]) : [];
  });
}

interface SharedSettings {
  readonly server: { readonly workers: number; readonly socket?: string | undefined };
  readonly approvals: { readonly store?: string | undefined; readonly storeUrlFile?: string | undefined };
  readonly limits: DividedLimits;
  readonly systems: Readonly<Record<string, Entry>>;
}

/** Reports settings with which several workers cannot work. */
export function checkWorkers(
  { server, approvals, limits, systems }: SharedSettings,
  context: z.core.$RefinementCtx,
): void {
  const { workers, socket } = server;
  if (workers === 1) return;
  const add = problemAdder(context);
  if (socket !== undefined) add("server.socket", "cannot be listened at by several workers: set server.workers to 1");
  if (approvals.store === undefined && approvals.storeUrlFile === undefined) {
    add(
      "server.workers",
      "needs approvals.store (or storeUrlFile), in which the workers share approvals, halts and quotas",
    );
  }
  const { requests } = limits.rates;
  const rate =
    requests === "off"
      ? []
      : ([
          ["rates.requests.calls", requests.calls],
          ["rates.requests.burst", requests.burst],
        ] as const);
  for (const [name, limit] of [...DIVIDED.map((each) => [each, limits[each]] as const), ...rate]) {
    if (limit !== undefined && limit < workers) add(`limits.${name}`, indivisible(limit, workers));
  }
  for (const [path, max] of systemLimits(systems, ["systems"])) {
    if (max < workers) add(path, indivisible(max, workers));
  }
}

export function indivisible(limit: number, workers: number): string {
  return `${limit} cannot be divided among ${workers} workers: raise it, or lower server.workers`;
}
