import type { DataLabel } from "../core/types.ts";
import type { Sql } from "../database/dialect.ts";
import { integer, json, oneOf, text } from "../database/rows.ts";

/** The values of a row of labels. `lost`: fingerprints of text that caused labels are missing. */
export const MARKS = ["private", "untrusted", "lost"] as const;
export type Mark = (typeof MARKS)[number];
const CLEARED = "cleared";
const STORED_MARKS = [...MARKS, CLEARED] as const;

/** A label is written again when it would last longer by this share of its time. */
const RENEWED_SHARE = 0.05;
/** Longer than any fingerprint lasts. */
const CLEARED_MS = 366 * 86_400_000;

/** A caller, with the session, whose labels a call carries. */
export interface Carrier {
  readonly issuer: string;
  readonly subject: string;
  /** The session that labels are narrowed to; empty: every session. */
  readonly session: string;
}

/** A caller, whatever the session. */
export type FlowCaller = Pick<Carrier, "issuer" | "subject">;

/** The labels of a caller. */
export interface CarriedLabels {
  /** Sorted. */
  readonly labels: readonly DataLabel[];
  /** The fingerprints of some untrusted or private text are not known any more, or never were. */
  readonly isLost: boolean;
}

/** The call that wrote a text. */
export interface Writing {
  readonly tool: string;
  readonly traceId: string;
}

/** One row of a caller's labels, for operators. */
export interface LabelRow {
  readonly session: string;
  readonly label: Mark;
  readonly since: number;
  readonly until: number;
  /** The tool whose answer earned it first, and that call. */
  readonly tool: string;
  readonly traceId: string;
  /** The answer earned it by a text that a caller had stored: the tool that wrote it, and that call. */
  readonly stored?: Writing | undefined;
}

/** A row of labels as calls are judged by it. `cleared`: what came until `since` is forgotten. */
export interface MarkRow {
  readonly session: string;
  readonly mark: (typeof STORED_MARKS)[number];
  readonly since: number;
  readonly until: number;
}

/** Labels that are not narrowed to a session belong to every session, and a caller without a session carries those of all. */
export async function marksOf(sql: Sql, { issuer, subject, session }: Carrier): Promise<readonly MarkRow[]> {
  const rows = await sql`
    SELECT session, label, since, until FROM policy_flow_labels
    WHERE issuer = ${issuer} AND subject = ${subject}
      AND (${session} = '' OR session = '' OR session = ${session})`;
  return [...rows].map((row) => ({
    session: text(row, "session"),
    mark: oneOf(row, "label", STORED_MARKS),
    since: integer(row, "since"),
    until: integer(row, "until"),
  }));
}

/** Returns when the caller was cleared last; 0: never. */
export function clearedAt(rows: readonly MarkRow[]): number {
  return Math.max(0, ...rows.filter(({ mark }) => mark === CLEARED).map(({ since }) => since));
}

export function carriedIn(rows: readonly MarkRow[], now: number): CarriedLabels {
  const marks = new Set(rows.filter(({ until }) => until > now).map(({ mark }) => mark));
  return {
    labels: (["private", "untrusted"] as const).filter((label) => marks.has(label)),
    isLost: marks.has("lost"),
  };
}

/** Returns the marks that are not among a carrier's rows, or would last longer now. */
export function missingMarks<T extends { readonly mark: Mark }>(
  earned: readonly T[],
  rows: readonly MarkRow[],
  { session, now, lastMs }: { readonly session: string; readonly now: number; readonly lastMs: number },
): readonly T[] {
  return earned.filter(({ mark }) => {
    const lasts = rows.find((row) => row.mark === mark && row.session === session)?.until ?? 0;
    return lasts <= now || now + lastMs - lasts > lastMs * RENEWED_SHARE;
  });
}

interface NewMark {
  readonly mark: MarkRow["mark"];
  readonly now: number;
  readonly until: number;
  readonly tool: string;
  readonly traceId: string;
  readonly stored?: Writing | undefined;
}

export async function setMark(sql: Sql, { issuer, subject, session }: Carrier, mark: NewMark): Promise<void> {
  const { mark: label, now, until, tool, traceId } = mark;
  const stored = mark.stored === undefined ? null : JSON.stringify(mark.stored);
  await sql`
    INSERT INTO policy_flow_labels (issuer, subject, session, label, since, until, tool, trace_id, stored)
    VALUES (${issuer}, ${subject}, ${session}, ${label}, ${now}, ${until}, ${tool}, ${traceId}, ${stored})
    ON CONFLICT (issuer, subject, session, label) DO UPDATE SET
      until = excluded.until,
      since = CASE WHEN policy_flow_labels.until <= ${now} THEN excluded.since ELSE policy_flow_labels.since END,
      tool = CASE WHEN policy_flow_labels.until <= ${now} THEN excluded.tool ELSE policy_flow_labels.tool END,
      stored = CASE WHEN policy_flow_labels.until <= ${now} THEN excluded.stored ELSE policy_flow_labels.stored END,
      trace_id = CASE WHEN policy_flow_labels.until <= ${now} THEN excluded.trace_id ELSE policy_flow_labels.trace_id END
    WHERE policy_flow_labels.until < excluded.until`;
}

/** Returns the labels of a caller in all sessions that have not expired. */
export async function labelRows(sql: Sql, { issuer, subject }: FlowCaller, now: number): Promise<readonly LabelRow[]> {
  const rows = await sql`
    SELECT session, label, since, until, tool, trace_id, stored FROM policy_flow_labels
    WHERE issuer = ${issuer} AND subject = ${subject} AND until > ${now} ORDER BY session, label`;
  return [...rows].flatMap((row) => {
    const label = oneOf(row, "label", STORED_MARKS);
    if (label === CLEARED) return [];
    const times = { since: integer(row, "since"), until: integer(row, "until") };
    const call = { tool: text(row, "tool"), traceId: text(row, "trace_id") };
    const stored = row["stored"] === null ? undefined : (json(row, "stored") as unknown as Writing);
    return [{ session: text(row, "session"), label, ...times, ...call, stored }];
  });
}

const CLEARED_COUNTER = "flow-cleared";

/** Removes all labels and fingerprints of a caller, and counts that. */
export async function clearRows(sql: Sql, { issuer, subject }: FlowCaller, now: number): Promise<void> {
  await sql`DELETE FROM policy_flow_labels WHERE issuer = ${issuer} AND subject = ${subject}`;
  await sql`DELETE FROM policy_flow_sources WHERE issuer = ${issuer} AND subject = ${subject}`;
  const until = now + CLEARED_MS;
  await setMark(sql, { issuer, subject, session: "" }, { mark: CLEARED, now, until, tool: "", traceId: "" });
  await sql`
    INSERT INTO approval_counters AS counter (name, value) VALUES (${CLEARED_COUNTER}, 1)
    ON CONFLICT (name) DO UPDATE SET value = counter.value + 1`;
}

/** Returns how many times callers were cleared. */
export async function clearedCount(sql: Sql): Promise<number> {
  const [row] = await sql`SELECT value FROM approval_counters WHERE name = ${CLEARED_COUNTER}`;
  return row === undefined ? 0 : integer(row, "value");
}
