import {
  isTime,
  type Order,
  type Params,
  parseCursor,
  type Query,
  type QueryLimits,
  type ReadResult,
  readQuery,
} from "../query/params.ts";
import type { StorePosition } from "./statements.ts";

/** A query of a store: its cursor is the last line of the page before. */
export interface StoreQuery extends Pick<Query, "filter" | "order" | "limit" | "digest"> {
  readonly after: StorePosition | undefined;
}

interface StoreCursor extends StorePosition {
  readonly order: Order;
  readonly fromMs: number | undefined;
  readonly toMs: number | undefined;
  readonly digest: string;
}

/** Reads the parameters of a query as they are for the files of a log. */
export function readStoreQuery(params: Params, limits: QueryLimits): ReadResult<StoreQuery> {
  const { cursor: written, ...asked } = params;
  const read = readQuery(asked, limits);
  if ("faults" in read) return read;
  const { filter, order, limit, digest } = read.ok;
  if (written === undefined) return { ok: { filter, order, limit, digest, after: undefined } };
  const cursor = readStoreCursor(written);
  if (cursor?.digest !== digest || cursor.order !== order) {
    return { faults: ["cursor is not one of this query: send the filters and the order that it came with"] };
  }
  const { fromMs, toMs, timeMs, log, seq, hash } = cursor;
  return { ok: { filter: { ...filter, fromMs, toMs }, order, limit, digest, after: { timeMs, log, seq, hash } } };
}

/** Differs from the version of a cursor in files. */
const CURSOR_VERSION = 2;
const HEX = /^[0-9a-f]{0,64}$/;

/** Returns the cursor of the page after a line. */
export function writeStoreCursor(
  { filter: { fromMs, toMs }, order, digest }: StoreQuery,
  { timeMs, log, seq, hash }: StorePosition,
): string {
  const members = [CURSOR_VERSION, order, timeMs, log, seq, hash, fromMs ?? null, toMs ?? null, digest];
  return Buffer.from(JSON.stringify(members)).toString("base64url");
}

function readStoreCursor(text: string): StoreCursor | undefined {
  const members = parseCursor(text);
  if (members?.length !== 9) return undefined;
  const [version, order, timeMs, log, seq, hash, fromMs, toMs, digest] = members;
  if (version !== CURSOR_VERSION || (order !== "newest" && order !== "oldest") || typeof digest !== "string") {
    return undefined;
  }
  if (!isTime(timeMs) || timeMs === null || !isTime(fromMs) || !isTime(toMs)) return undefined;
  if (!Number.isSafeInteger(seq) || typeof log !== "string" || typeof hash !== "string") return undefined;
  const position = { timeMs, log, seq: Number(seq), hash };
  if (!isPosition(position)) return undefined;
  return { order, ...position, fromMs: fromMs ?? undefined, toMs: toMs ?? undefined, digest };
}

/** Returns whether a log of a service can have a line there. */
export function isPosition({ log, hash }: StorePosition): boolean {
  return HEX.test(log) && HEX.test(hash);
}
