import type { DataLabel } from "../core/types.ts";
import type { Sql } from "../database/dialect.ts";
import { integer, json, text, unreadable } from "../database/rows.ts";

/** Bytes of one stored fingerprint in a row: two halves, and its flags. */
export const STORED_PRINT_BYTES = 9;
/** Most rows that are read at once, and about the most bytes: an answer of a hub has a limit. */
const ROWS_READ = 256;
const BYTES_READ = 4_194_304;

/** A text that a caller wrote, as far as its origin was private or untrusted. */
export interface StoredText {
  readonly seq: number;
  readonly issuer: string;
  readonly subject: string;
  readonly until: number;
  /** The tool that wrote it, and that call. */
  readonly tool: string;
  readonly traceId: string;
  /** The fingerprints were not kept: every answer of this system counts as the text. Empty: they were. */
  readonly system: string;
  readonly labels: readonly DataLabel[];
  readonly prints: Uint8Array;
}

/** Texts in their order, without a gap. */
export interface StoredPage {
  readonly texts: readonly StoredText[];
  /** Whether there are later ones. */
  readonly isMore: boolean;
}

/** Returns the texts after `after`. */
export async function readTexts(sql: Sql, after: number): Promise<StoredPage> {
  const rows = await sql`
    SELECT seq, issuer, subject, until, tool, trace_id, system, labels, prints FROM policy_flow_stored
    WHERE seq > ${after} ORDER BY seq LIMIT ${ROWS_READ}`;
  const texts: StoredText[] = [];
  let bytes = 0;
  for (const row of rows) {
    const { prints } = row;
    if (!(prints instanceof Uint8Array) || prints.byteLength % STORED_PRINT_BYTES !== 0) throw unreadable("prints");
    bytes += prints.byteLength;
    if (texts.length > 0 && bytes > BYTES_READ) return { texts, isMore: true };
    const labels = json(row, "labels") as unknown as readonly DataLabel[];
    const writer = { issuer: text(row, "issuer"), subject: text(row, "subject"), until: integer(row, "until") };
    const call = { tool: text(row, "tool"), traceId: text(row, "trace_id"), system: text(row, "system") };
    texts.push({ seq: integer(row, "seq"), ...writer, ...call, labels, prints });
  }
  return { texts, isMore: rows.length === ROWS_READ };
}

/**
 * Returns the number of the next text. No other transaction gets one before this one has ended: texts become visible in their
 * order, and after this statement all earlier ones are.
 */
export async function nextSeq(sql: Sql): Promise<number> {
  const [row = {}] = await sql`
    UPDATE approval_counters SET value = value + 1 WHERE name = 'flow-stored' RETURNING value`;
  return integer(row, "value");
}

/** Returns the number of the last text that has not expired; 0: there is none. */
export async function lastSeq(sql: Sql, now: number): Promise<number> {
  const [row] = await sql`SELECT seq FROM policy_flow_stored WHERE until > ${now} ORDER BY seq DESC LIMIT 1`;
  return row === undefined ? 0 : integer(row, "seq");
}

export async function insertText(
  sql: Sql,
  { seq, issuer, subject, until, tool, traceId, system, labels, prints }: StoredText,
): Promise<void> {
  await sql`
    INSERT INTO policy_flow_stored (seq, issuer, subject, until, tool, trace_id, system, labels, prints)
    VALUES (${seq}, ${issuer}, ${subject}, ${until}, ${tool}, ${traceId}, ${system}, ${JSON.stringify(labels)}, ${prints})`;
}
