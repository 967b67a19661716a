import { FIELD_ROWS, type LineMembers, viewOf } from "../../core/audit-fields.ts";
import { sha256Hex } from "../../core/digest.ts";
import { readLink, type StreamName } from "../chain/chain.ts";
import type { ExportLine } from "../export/batch.ts";
import { idsIn } from "../query/call-history.ts";
import { durationCode } from "../query/line-rows.ts";
import { dayOf } from "../query/time-range.ts";
import { parseLine } from "../query/view.ts";

export type ColumnType = "text" | "name" | "integer" | "real" | "day" | "texts";

/** A column of the table of lines. `name`: a text with few values. */
export interface StoreColumn {
  readonly name: string;
  readonly type: ColumnType;
  readonly isOptional?: true;
}

/** Value of a cell as JSON. */
type Cell = string | number | null | readonly string[];

/** Cells by column. */
export type StoreRow = Readonly<Record<string, Cell>>;

interface FieldColumn extends StoreColumn {
  readonly field: string;
  readonly read: (typeof FIELD_ROWS)[number]["read"];
}

/** The fields that filters read, and others that are worth a column. */
export const FIELD_COLUMNS: readonly FieldColumn[] = FIELD_ROWS.filter(
  ({ filter, isStored }) => filter !== undefined || isStored === true,
).map(({ name, read, filter }) => ({
  field: name,
  name: columnOf(name),
  type: filter === undefined || filter.occurs === "once" ? "text" : "name",
  isOptional: true,
  read,
}));

/** Returns the column of a field: `approvedBy` is in `approved_by`. */
export function columnOf(field: string): string {
  return field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** The members that identify a line. Two lines of a log with one `seq` differ in `hash`: the log has been forked. */
export const KEY_COLUMNS = ["log", "stream", "seq", "day", "hash"] as const;

export const LINE_COLUMNS: readonly StoreColumn[] = [
  { name: "log", type: "name" },
  { name: "stream", type: "name" },
  { name: "seq", type: "integer" },
  { name: "day", type: "day" },
  { name: "hash", type: "text" },
  // Missing for a line without a valid timestamp, which no query returns.
  { name: "time_ms", type: "integer", isOptional: true },
  { name: "line", type: "text" },
  // The ids by which `stc audit show` finds the line.
  { name: "ids", type: "texts" },
  ...FIELD_COLUMNS.map(({ name, type }) => ({ name, type, isOptional: true }) as const),
  { name: "duration", type: "real", isOptional: true },
  // Rounded as statistics over files round it.
  { name: "duration_code", type: "integer", isOptional: true },
  { name: "count", type: "integer" },
];

/** An id that no filter can name has no index entry: filter values are at most this long. */
const ID_CHARACTERS_MAX = 512;

/**
 * Numbers lines from before the chain, and lines that the service did not write, by their position in the file: before all chained
 * lines, in their order.
 */
const UNCHAINED_SEQ = Number.MIN_SAFE_INTEGER;

type RowSource = Pick<ExportLine, "stream" | "day" | "offset" | "line" | "members" | "entry" | "log">;

/** Returns the cells of a line's key, and nothing else of its row. */
export function keyOf({ stream, day, offset, line, entry, log = "" }: Omit<RowSource, "members">) {
  const bytes = Buffer.from(line);
  const link = readLink(bytes, 0, bytes.length);
  return {
    log,
    stream,
    seq: link?.seq ?? UNCHAINED_SEQ + offset,
    day: entry === undefined ? day : dayOf(entry.timeMs),
    // Lines without a link, of several replicas, may have one position.
    hash: link?.hash ?? sha256Hex(bytes),
  };
}

/** Returns the row of a line. */
export function rowOf(source: RowSource): StoreRow {
  const { stream, line, members, entry } = source;
  const { duration } = entry ?? {};
  return {
    ...keyOf(source),
    time_ms: entry?.timeMs ?? null,
    line,
    ids: lineIds(stream, members, entry),
    ...Object.fromEntries(FIELD_COLUMNS.map(({ name, read }) => [name, cellOf(read(members))])),
    duration: duration ?? null,
    duration_code: duration === undefined || entry?.isSum === true ? null : durationCode(duration),
    count: entry?.count ?? 1,
  };
}

/** Returns the names of the columns that do not hold what the row's line says. */
export function changedColumns(row: Readonly<Record<string, unknown>>, stream: StreamName): readonly string[] {
  const line = String(row["line"]);
  const members = parseLine(line) ?? {};
  const offset = Number(row["seq"]) - UNCHAINED_SEQ;
  const log = String(row["log"]);
  const written = rowOf({ stream, day: dayIn(row["day"]), offset, line, members, entry: viewOf(members), log });
  return LINE_COLUMNS.filter(({ name, type }) => !isCell(row[name], type, written[name] ?? null)).map(
    ({ name }) => name,
  );
}

function isCell(value: unknown, type: ColumnType, written: Cell): boolean {
  if (written === null || value === null || value === undefined) return written === (value ?? null);
  if (type === "integer" || type === "real") return Number(value) === written;
  if (type === "texts") return JSON.stringify(value) === JSON.stringify(written);
  return (type === "day" ? dayIn(value) : value) === written;
}

/** Returns the day in a cell of an answer. */
export function dayIn(cell: unknown): string {
  return cell instanceof Date ? cell.toISOString().slice(0, "YYYY-MM-DD".length) : String(cell);
}

function lineIds(stream: ExportLine["stream"], members: LineMembers, entry: ExportLine["entry"]): readonly string[] {
  const ids = stream === "calls" ? [entry?.traceId, entry?.wireTraceId, entry?.approvalId] : idsIn(members);
  const known = ids.flatMap((id) => (id === undefined || id.length > ID_CHARACTERS_MAX ? [] : [storable(id)]));
  return [...new Set(known)];
}

function cellOf(value: unknown): string | null {
  return typeof value === "string" ? storable(value) : null;
}

const NOT_STORABLE = /[\0\ud800-\udfff]/gu;
const REPLACEMENT = /[\u{100000}-\u{1007ff}\u{10fffd}]/gu;
const FOR_NUL = "\u{10fffd}";
/** Added to the low bits of a lone surrogate. */
const FOR_SURROGATES = 0x10_00_00;
const SURROGATE_BITS = 0x7_ff;
const SURROGATES = 0xd8_00;

/**
 * Returns the text with the characters replaced that databases refuse or change, NUL and lone surrogates, each by one of a private
 * range: a part of a text remains a part of it.
 */
export function storable(text: string): string {
  return text.replace(NOT_STORABLE, (unit) =>
    unit === "\0" ? FOR_NUL : String.fromCodePoint(FOR_SURROGATES + (unit.charCodeAt(0) & SURROGATE_BITS)),
  );
}

/** Reverts `storable`. */
export function stored(text: string): string {
  return text.replace(REPLACEMENT, (character) =>
    character === FOR_NUL ? "\0" : String.fromCharCode(SURROGATES + ((character.codePointAt(0) ?? 0) & SURROGATE_BITS)),
  );
}
