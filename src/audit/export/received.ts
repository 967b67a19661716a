import { isTable } from "../../core/json.ts";
import { LOG_ID } from "../chain/checkpoint.ts";
import { isDay } from "../journal/day-files.ts";
import { parseLine } from "../query/view.ts";
import { type ExportLine, exportLine } from "./batch.ts";
import { EXPORT_STREAMS } from "./positions.ts";

/** Lines that exporters sent, read from a text that another system kept. */
export interface Received {
  readonly lines: readonly ExportLine[];
  /** Records of exporters that lack what names a line, and records of other services. */
  readonly faulty: number;
  readonly others: number;
}

/** Where a line was in its log, as a receiver got it. */
export interface ReceivedLine {
  readonly stream?: unknown;
  readonly log?: unknown;
  readonly day?: unknown;
  readonly offset?: unknown;
  readonly line?: unknown;
}

/**
 * Reads one JSON text: a request or a batch of OTLP logs, as a collector keeps it, or an object with `stream`, `log`, `day`, `offset`
 * and `line`, as in a file of dead letters. Returns undefined for any other text.
 */
export function readReceived(text: string): Received | undefined {
  const read = parseLine(text);
  if (read === undefined) return undefined;
  const { resourceLogs } = read;
  if (Array.isArray(resourceLogs)) return sorted(recordsOf(resourceLogs).map(lineOfRecord));
  return "stream" in read && "line" in read ? sorted([readLine(read)]) : undefined;
}

/** Returns undefined when something is missing, or cannot be what an exporter sends. */
export function readLine({ stream: named, log, day, offset, line }: ReceivedLine): ExportLine | undefined {
  const stream = EXPORT_STREAMS.find((each) => each === named);
  if (stream === undefined || typeof line !== "string" || !isDay(day)) return undefined;
  if (typeof offset !== "number" || !Number.isSafeInteger(offset) || offset < 0) return undefined;
  // A log has no id before its first line that has a link.
  const isUnnamed = log === undefined || log === "";
  if (!isUnnamed && !(typeof log === "string" && LOG_ID.test(log))) return undefined;
  const read = exportLine({ stream, day, offset, line, log: isUnnamed ? undefined : log });
  return stream === "checkpoints" && read.covers === undefined ? undefined : read;
}

/** Reads `YYYY-MM-DD:offset`. */
export function readPlace(place: unknown): Pick<ReceivedLine, "day" | "offset"> {
  const [, day, digits] = typeof place === "string" ? (/^([^:]*):(\d{1,15})$/.exec(place) ?? []) : [];
  return { day, offset: digits === undefined ? undefined : Number(digits) };
}

const OTHER = "other";
type Read = ExportLine | typeof OTHER | undefined;

function sorted(read: readonly Read[]): Received {
  return {
    lines: read.filter((each): each is ExportLine => each !== undefined && each !== OTHER),
    faulty: read.filter((each) => each === undefined).length,
    others: read.filter((each) => each === OTHER).length,
  };
}

function recordsOf(resourceLogs: readonly unknown[]): readonly unknown[] {
  const members = (value: unknown, name: string): readonly unknown[] => {
    const found = isTable(value) ? value[name] : undefined;
    return Array.isArray(found) ? found : [];
  };
  return resourceLogs
    .flatMap((resource) => members(resource, "scopeLogs"))
    .flatMap((scope) => members(scope, "logRecords"));
}

function lineOfRecord(record: unknown): Read {
  const { body, attributes } = isTable(record) ? record : {};
  const values = new Map<unknown, unknown>();
  for (const attribute of Array.isArray(attributes) ? attributes : []) {
    if (isTable(attribute)) values.set(attribute["key"], textOf(attribute["value"]));
  }
  const stream = values.get("stc.stream");
  if (stream === undefined) return OTHER;
  return readLine({ stream, log: values.get("stc.log"), ...readPlace(values.get("stc.place")), line: textOf(body) });
}

function textOf(value: unknown): unknown {
  return isTable(value) ? value["stringValue"] : undefined;
}
