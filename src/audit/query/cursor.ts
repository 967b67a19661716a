/** Maximum characters of a cursor. */
const CURSOR_CHARACTERS_MAX = 512;
const VERSION = 1;
const DAY = /^\d{4}-\d{2}-\d{2}$/;
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
}

export function writeCursor({ order, day, offset, fromMs, toMs, digest }: Cursor): string {
  const members = [VERSION, order, day, offset, fromMs ?? null, toMs ?? null, digest];
  return Buffer.from(JSON.stringify(members)).toString("base64url");
}

/** Returns `undefined` when the text is not a cursor of this service. */
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

/** Returns true for `null` and for times in the range of `Date`. */
function isTime(value: unknown): value is number | null {
  return value === null || (Number.isInteger(value) && Math.abs(value as number) <= 8.64e15);
}
