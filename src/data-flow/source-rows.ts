import type { DataLabel } from "../core/types.ts";
import type { Row, Sql } from "../database/dialect.ts";
import { integer, json, text, unreadable } from "../database/rows.ts";
import type { AnswerField } from "./answer-prints.ts";
import { type Carrier, type FlowCaller, setMark } from "./label-rows.ts";
import type { Source } from "./source-index.ts";

/** Most answers of one caller whose fingerprints are kept, and most bytes of them. */
export const SOURCES_MAX = 1_024;
const SOURCE_BYTES_MAX = 16_777_216;
/** About the most bytes that are read at once: an answer of a hub has a limit. */
export const BYTES_READ = 3_145_728;
/** Bytes of a row besides its fields and fingerprints. */
const ROW_BYTES = 512;

export type StoredSource = Source & { readonly prints: Uint8Array };

/** The stored part of an answer, without its times. */
export type SourceRow = Omit<StoredSource, "at" | "until">;

/** Which answers of a carrier a process knows: of those since `since`, these. */
export interface KnownOf extends Carrier {
  readonly since: number;
  readonly known: readonly string[];
}

interface ReadSources {
  readonly sources: readonly StoredSource[];
  readonly bytes: number;
  /** Whether there are more. */
  readonly isMore: boolean;
}

/** Returns answers that are not known, the oldest first, up to `bytesMax`; at least one where nothing has been read before. */
export async function readSources(
  sql: Sql,
  { issuer, subject, session, since, known }: KnownOf,
  { now, bytesMax }: { readonly now: number; readonly bytesMax: number },
): Promise<ReadSources> {
  const listed = await sql`
    SELECT id, at, bytes + length(fields) AS size FROM policy_flow_sources
    WHERE issuer = ${issuer} AND subject = ${subject} AND at >= ${since} AND until > ${now}
      AND (${session} = '' OR session = '' OR session = ${session})
    ORDER BY at, id`;
  const before = new Set(known);
  const fresh = [...listed].filter((row) => !before.has(text(row, "id")));
  const wanted: Row[] = [];
  let bytes = 0;
  for (const row of fresh) {
    const more = integer(row, "size") + ROW_BYTES;
    if (bytes + more > bytesMax && (bytes > 0 || bytesMax < BYTES_READ)) break;
    bytes += more;
    wanted.push(row);
  }
  const isMore = wanted.length < fresh.length;
  const [first] = wanted;
  const last = wanted.at(-1);
  if (first === undefined || last === undefined) return { sources: [], bytes, isMore };
  const ids = new Set(wanted.map((row) => text(row, "id")));
  const rows = await sql`
    SELECT id, at, until, tool, trace_id, reference, labels, fields, prints FROM policy_flow_sources
    WHERE issuer = ${issuer} AND subject = ${subject} AND at >= ${integer(first, "at")} AND at <= ${integer(last, "at")}
      AND until > ${now} AND (${session} = '' OR session = '' OR session = ${session})
    ORDER BY at, id`;
  return { sources: [...rows].filter((row) => ids.has(text(row, "id"))).map(storedSource), bytes, isMore };
}

/** Keeps an answer. One that is kept already stays as it is. */
export async function insertSource(
  sql: Sql,
  { issuer, subject, session }: Carrier,
  { id, tool, traceId, of, labels, at, until, fields, prints }: StoredSource,
): Promise<void> {
  await sql`
    INSERT INTO policy_flow_sources
      (issuer, subject, session, id, at, until, tool, trace_id, reference, labels, fields, bytes, prints)
    VALUES (${issuer}, ${subject}, ${session}, ${id}, ${at}, ${until}, ${tool}, ${traceId}, ${of},
      ${JSON.stringify(labels)}, ${JSON.stringify(fields)}, ${prints.byteLength}, ${prints})
    ON CONFLICT (issuer, subject, id) DO NOTHING`;
}

/** Deletes the oldest answers beyond the limits. A caller who loses fingerprints of what earned labels is marked. */
export async function enforceLimits(sql: Sql, { issuer, subject }: FlowCaller, now: number): Promise<void> {
  const [all = {}] = await sql`
    SELECT count(*) AS sources, coalesce(sum(bytes), 0) AS bytes FROM policy_flow_sources
    WHERE issuer = ${issuer} AND subject = ${subject}`;
  let sources = integer(all, "sources");
  let bytes = integer(all, "bytes");
  if (sources <= SOURCES_MAX && bytes <= SOURCE_BYTES_MAX) return;
  const oldest = await sql`
    SELECT id, until, bytes, labels FROM policy_flow_sources
    WHERE issuer = ${issuer} AND subject = ${subject}
    ORDER BY at, id LIMIT ${bytes > SOURCE_BYTES_MAX ? sources : sources - SOURCES_MAX}`;
  const surplus = oldest.filter((row) => {
    if (sources <= SOURCES_MAX && bytes <= SOURCE_BYTES_MAX) return false;
    sources -= 1;
    bytes -= integer(row, "bytes");
    return true;
  });
  const labelled = surplus.filter((row) => text(row, "labels") !== "[]");
  const until = Math.max(0, ...labelled.map((row) => integer(row, "until")));
  if (until > now)
    await setMark(sql, { issuer, subject, session: "" }, { mark: "lost", now, until, tool: "", traceId: "" });
  for (const row of surplus)
    await sql`DELETE FROM policy_flow_sources WHERE issuer = ${issuer} AND subject = ${subject} AND id = ${text(row, "id")}`;
}

function storedSource(row: Row): StoredSource {
  const prints = row["prints"];
  if (!(prints instanceof Uint8Array)) throw unreadable("prints");
  return {
    id: text(row, "id"),
    tool: text(row, "tool"),
    traceId: text(row, "trace_id"),
    of: text(row, "reference"),
    labels: json(row, "labels") as unknown as readonly DataLabel[],
    at: integer(row, "at"),
    until: integer(row, "until"),
    fields: json(row, "fields") as unknown as readonly AnswerField[],
    prints,
  };
}
