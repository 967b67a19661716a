import { hash } from "node:crypto";
import { FILTER_ROWS, type FilterParam } from "../../core/audit-fields.ts";
import { isDay } from "../journal/day-files.ts";
import { type Filter, readFilterValue, VALUE_CHARACTERS_MAX } from "./filter.ts";
import { readTime, TIME_HINT, TIME_MS_MAX } from "./time-range.ts";

export const FILTER_PARAMS = ["from", "to", "text", ...FILTER_ROWS.map(({ param }) => param)] as const;
export const QUERY_PARAMS = [...FILTER_PARAMS, "order", "limit", "cursor"] as const;

export type Params = Readonly<Record<string, string | undefined>>;

export interface Query {
  readonly filter: Filter;
  readonly order: Order;
  readonly limit: number;
  readonly cursor: Cursor | undefined;
  /** Digest of the filters: a cursor must have the same one. */
  readonly digest: string;
}

export interface QueryLimits {
  readonly limit: number;
  readonly limitMax: number;
  /** Milliseconds since 1970. */
  readonly nowMs: number;
}

export type ReadResult<T> = { readonly ok: T } | { readonly faults: readonly string[] };

/**
 * Reads the filters. Reports unknown or invalid values as errors: ignoring a filter silently would return the result of
 * a different query.
 */
export function readFilter(params: Params, nowMs: number): ReadResult<Filter> {
  const faults: string[] = [];
  const exact: Partial<Record<FilterParam, string>> = {};
  for (const row of FILTER_ROWS) {
    const value = params[row.param];
    if (value === undefined) continue;
    const read = readFilterValue(row, value);
    if ("fault" in read) faults.push(read.fault);
    else exact[row.param] = read.value;
  }
  const fromMs = readMoment("from", params, { nowMs, faults });
  const toMs = readMoment("to", params, { nowMs, faults });
  if (fromMs !== undefined && toMs !== undefined && fromMs >= toMs) faults.push("from must be earlier than to");
  const { text } = params;
  if (text !== undefined && (text === "" || text.length > VALUE_CHARACTERS_MAX)) {
    faults.push(`text must have 1 to ${VALUE_CHARACTERS_MAX} characters`);
  }
  return faults.length > 0 ? { faults } : { ok: { exact, fromMs, toMs, text } };
}

export function readQuery(params: Params, limits: QueryLimits): ReadResult<Query> {
  const faults = unknownParams(params, QUERY_PARAMS);
  const filter = readFilter(params, limits.nowMs);
  if ("faults" in filter) faults.push(...filter.faults);
  const order = params["order"] ?? "newest";
  if (order !== "newest" && order !== "oldest") faults.push("order must be newest or oldest");
  const limit = readLimit(params["limit"], limits);
  if (limit === undefined) faults.push(`limit must be a whole number from 1 to ${limits.limitMax}`);
  const digest = digestOf(params);
  const cursor = params["cursor"] === undefined ? undefined : readCursor(params["cursor"]);
  if (params["cursor"] !== undefined && (cursor?.digest !== digest || cursor.order !== order)) {
    faults.push("cursor is not one of this query: send the filters and the order that it came with");
  }
  if (faults.length > 0 || "faults" in filter || limit === undefined || (order !== "newest" && order !== "oldest")) {
    return { faults };
  }
  const times = cursor === undefined ? {} : { fromMs: cursor.fromMs, toMs: cursor.toMs };
  return { ok: { filter: { ...filter.ok, ...times }, order, limit, cursor, digest } };
}

export function unknownParams(params: Params, known: readonly string[]): string[] {
  const names = Object.keys(params).filter((name) => !known.includes(name));
  return names.slice(0, FAULTS_MAX).map((name) => `${printableName(name)} is not a parameter here`);
}

const FAULTS_MAX = 8;
const NAME_CHARACTERS_MAX = 64;

function printableName(name: string): string {
  return name.slice(0, NAME_CHARACTERS_MAX).replace(/[^\x21-\x7e]/g, "?");
}

function readMoment(
  name: "from" | "to",
  params: Params,
  { nowMs, faults }: { readonly nowMs: number; readonly faults: string[] },
): number | undefined {
  const text = params[name];
  if (text === undefined) return undefined;
  const ms = readTime(text, nowMs);
  if (ms === undefined) faults.push(`${name} must be ${TIME_HINT}`);
  return ms;
}

function readLimit(text: string | undefined, { limit, limitMax }: QueryLimits): number | undefined {
  if (text === undefined) return limit;
  const read = /^\d{1,9}$/.test(text) ? Number(text) : 0;
  return read >= 1 && read <= limitMax ? read : undefined;
}

/** Returns the digest of the parameters as written: `3h` stays the same query while time passes. */
function digestOf(params: Params): string {
  return hash("sha256", JSON.stringify(FILTER_PARAMS.map((name) => params[name] ?? null))).slice(0, 16);
}

/** Enough for the positions in the logs of all workers. */
const CURSOR_CHARACTERS_MAX = 8_192;
const CURSOR_VERSION = 1;
const DIGEST = /^[0-9a-f]{16}$/;

export type Order = "newest" | "oldest";

/**
 * Position at which a query continues. Lines never move, so neither new lines nor a new day changes it; a deleted day
 * is skipped.
 */
export interface Position {
  readonly day: string;
  /**
   * Byte offset. With the oldest first, the remaining lines start here or later; with the newest first, they start
   * before it.
   */
  readonly offset: number;
}

/** A position in the log of a worker. */
export interface WorkerPosition extends Position {
  /** Name of the log's folder. */
  readonly log: string;
}

/**
 * The contents of a cursor. The times are stored, so that `3h` on the second page means the same three hours as on the
 * first.
 */
export interface Cursor extends Position {
  readonly order: Order;
  readonly fromMs: number | undefined;
  readonly toMs: number | undefined;
  /** Digest of the filters: a cursor belongs to one query. */
  readonly digest: string;
  /** Positions in the logs of the workers; `day` and `offset` are that in the log of the directory itself. */
  readonly workers?: readonly WorkerPosition[] | undefined;
}

export function writeCursor({ order, day, offset, fromMs, toMs, digest, workers = [] }: Cursor): string {
  const own = [CURSOR_VERSION, order, day, offset, fromMs ?? null, toMs ?? null, digest];
  const members = workers.length === 0 ? own : [...own, workers.map((each) => [each.log, each.day, each.offset])];
  return Buffer.from(JSON.stringify(members)).toString("base64url");
}

/** Returns `undefined` when the text is not a cursor of this service. */
export function readCursor(text: string): Cursor | undefined {
  const members = parseCursor(text);
  if (members === undefined || members.length < 7 || members.length > 8) return undefined;
  const [version, order, day, offset, fromMs, toMs, digest, others = []] = members;
  if (version !== CURSOR_VERSION || (order !== "newest" && order !== "oldest")) return undefined;
  if (!isDay(day) || typeof digest !== "string" || !DIGEST.test(digest)) return undefined;
  const workers = readWorkerPositions(others);
  if (!isCount(offset) || !isTime(fromMs) || !isTime(toMs) || workers === undefined) return undefined;
  return { order, day, offset, fromMs: fromMs ?? undefined, toMs: toMs ?? undefined, digest, workers };
}

function readWorkerPositions(value: unknown): readonly WorkerPosition[] | undefined {
  if (!Array.isArray(value)) return undefined;
  const read = value.flatMap((item: unknown) => {
    const [log, day, offset] = Array.isArray(item) ? (item as readonly unknown[]) : [];
    return typeof log === "string" && isDay(day) && isCount(offset) ? [{ log, day, offset }] : [];
  });
  return read.length === value.length ? read : undefined;
}

/** Returns the members of a cursor, which are not checked yet; undefined when the text is not a list. */
export function parseCursor(text: string): readonly unknown[] | undefined {
  if (text.length > CURSOR_CHARACTERS_MAX || !/^[A-Za-z0-9_-]+$/.test(text)) return undefined;
  try {
    const members: unknown = JSON.parse(Buffer.from(text, "base64url").toString());
    return Array.isArray(members) ? members : undefined;
  } catch {
    return undefined;
  }
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

/** Returns true for `null` and for times in the range of `Date`. */
export function isTime(value: unknown): value is number | null {
  return value === null || (Number.isInteger(value) && Math.abs(value as number) <= TIME_MS_MAX);
}
