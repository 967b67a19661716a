import { existsSync, statSync } from "node:fs";
import type { EpochMs } from "../../core/types.ts";
import { logIdIn } from "../chain/log-id.ts";
import { visitLines } from "../journal/day-files.ts";
import { parseLine } from "../query/view.ts";
import { type ExportLine, eachBatch, type Lag, lagAt, startOf } from "./batch.ts";
import {
  deadLettersOf,
  EXPORT_STREAMS,
  type ExportStream,
  readExportPosition,
  readExportPositions,
} from "./positions.ts";

/** Lines of a stream that an exporter has not sent, by its position in the log. Also works for a log that no process writes any more. */
export interface Unsent {
  readonly exporter: string;
  readonly stream: ExportStream;
  /** Id of the log; checkpoints are of both streams' logs. */
  readonly log: string | undefined;
  readonly lines: number;
  /** The first and the last of the lines: their `seq`, missing in lines of before the chain, and their timestamp. */
  readonly first: UnsentLine | undefined;
  readonly last: UnsentLine | undefined;
  /** Lines that the receiver refused for good: the exporter has passed them, and keeps them in a file. */
  readonly deadLines: number;
}

interface UnsentLine {
  readonly seq: number | undefined;
  readonly timestamp: string;
}

/** Returns the exporters that have sent something of the log. */
export function exportersOf(dir: string): readonly string[] {
  return [...new Set(readExportPositions(dir).map(({ exporter }) => exporter))];
}

/** Reads everything that the exporter has not sent. */
export function readUnsent(dir: string, exporter: string): readonly Unsent[] {
  const dead = deadLinesOf(dir, exporter);
  return EXPORT_STREAMS.map((stream) => {
    const from = readExportPosition(dir, exporter, stream).position ?? startOf(dir, stream);
    let lines = 0;
    let [first, last]: (ExportLine | undefined)[] = [];
    for (const batch of eachBatch({ dir, stream, from })) {
      lines += batch.lines.length;
      first ??= batch.lines[0];
      last = batch.lines.at(-1);
    }
    const log = stream === "checkpoints" ? undefined : logIdIn(dir, stream);
    const deadLines = dead.get(stream) ?? 0;
    return { exporter, stream, log, lines, first: unsentLine(first), last: unsentLine(last), deadLines };
  });
}

export interface ExportBacklog {
  readonly streams: readonly (Lag & { readonly stream: ExportStream })[];
  /** Size of the file of the lines that the receiver refused for good. */
  readonly deadBytes: number;
}

/** Reads how far an exporter is behind, without reading everything that it has not sent. */
export function readBacklog(dir: string, exporter: string, nowMs: EpochMs): ExportBacklog {
  const streams = EXPORT_STREAMS.map((stream) => {
    const from = readExportPosition(dir, exporter, stream).position ?? startOf(dir, stream);
    return { stream, ...lagAt({ dir, stream, from }, nowMs) };
  });
  return { streams, deadBytes: statSync(deadLettersOf(dir, exporter), { throwIfNoEntry: false })?.size ?? 0 };
}

function unsentLine(line: ExportLine | undefined): UnsentLine | undefined {
  return line && { seq: line.seq, timestamp: new Date(line.timeMs).toISOString() };
}

/** Returns the number of lines of each stream that the receiver refused for good. */
function deadLinesOf(dir: string, exporter: string): ReadonlyMap<unknown, number> {
  const counts = new Map<unknown, number>();
  const path = deadLettersOf(dir, exporter);
  if (!existsSync(path)) return counts;
  visitLines(path, 0, (bytes, from, to) => {
    const stream = parseLine(bytes.toString("utf8", from, to))?.["stream"];
    counts.set(stream, (counts.get(stream) ?? 0) + 1);
    return true;
  });
  return counts;
}
