/** Characters of a cursor. */
const CURSOR_CHARACTERS_MAX = 512;
const VERSION = 1;
const DAY = /^\d{4}-\d{2}-\d{2}$/;
const DIGEST = /^[0-9a-f]{16}$/;

export type Order = "newest" | "oldest";

/** Where a query goes on. Lines are never moved, so neither new ones nor a new day shift it; a day that is gone is passed over. */
export interface Position {
  readonly day: string;
  /** Bytes. Oldest first: lines that begin here or later are still to come; newest first: those that begin before. */
  readonly offset: number;
}

/** What a cursor keeps, so that `3h` on the second page means the three hours of the first. */
export interface Cursor extends Position {
  readonly order: Order;
  readonly fromMs: number | undefined;
  readonly toMs: number | undefined;
  /** Of the filters: a cursor belongs to one query. */
  readonly digest: string;
}

export function writeCursor({ order, day, offset, fromMs, toMs, digest }: Cursor): string {
  const members = [VERSION, order, day, offset, fromMs ?? null, toMs ?? null, digest];
  return Buffer.from(JSON.stringify(members)).toString("base64url");
}

/** `undefined` when it is none of ours. */
export function readCursor(text: string): Cursor | undefined {
  if (text.length > CURSOR_CHARACTERS_MAX || !/^[A-Za-z0-9_-]+$/.test(text)) return undefined;
  const members = parse(Buffer.from(text, "base64url").toString());
  if (!Array.isArray(members) || members.length !== 7) return undefined;
  const [version, order, day, offset, fromMs, toMs, digest] = members as readonly unknown[];
  if (version !== VERSION || (order !== "newest" && order !== "oldest")) return undefined;
  if (typeof day !== "string" || !DAY.test(day) || typeof digest !== "string" || !DIGEST.test(digest)) return undefined;
  if (!isCount(offset) || !isTime(fromMs) || !isTime(toMs)) return undefined;
  return { order, day, offset, fromMs: fromMs ?? undefined, toMs: toMs ?? undefined, digest };
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

/** Within what a `Date` can hold. */
function isTime(value: unknown): value is number | null {
  return value === null || (Number.isInteger(value) && Math.abs(value as number) <= 8.64e15);
}
