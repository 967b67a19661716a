import type { SettledLog } from "../audit-log.ts";
import type { ExportLine } from "../export/batch.ts";
import type { ReceiverOutcome } from "../export/receiver.ts";
import { rowOf, type StoreRow } from "./columns.ts";
import type { UpkeepState } from "./upkeep.ts";

/** Writes the lines of an exporter to a store. */
export interface StoreWriter {
  /** Stores lines, each once however often it is sent. No lines: checks the connection. Never rejects. */
  write(lines: readonly ExportLine[]): Promise<ReceiverOutcome>;
  /** Returns the state of the work on what is stored. */
  upkeep?(): UpkeepState;
  /** Stores until when a log is complete, if its lines are stored. Never rejects. */
  settle(settled: SettledLog): Promise<ReceiverOutcome>;
  close(): Promise<void>;
}

export interface WriterOptions {
  /** Lines of older days are not stored, and deleted. */
  readonly retentionDays: number | undefined;
  /** The tenant whose old lines are deleted; undefined: the service itself. Several may fill one store. */
  readonly tenant?: string | undefined;
}

/** A line that has no row: sending it again cannot help. */
export class LineWithoutRow extends Error {
  override readonly name = "LineWithoutRow";
}

export interface CheckpointRow {
  readonly log: string;
  readonly stream: string;
  readonly size: number;
  readonly note: string;
}

/** Returns the rows of what an exporter sends. @throws {LineWithoutRow} */
export function storedOf(lines: readonly ExportLine[]): {
  readonly rows: readonly StoreRow[];
  readonly checkpoints: readonly CheckpointRow[];
} {
  const checkpoints = lines.flatMap(({ log, covers: stream, seq: size, line: note }) =>
    log === undefined || stream === undefined || size === undefined ? [] : [{ log, stream, size, note }],
  );
  try {
    return { rows: lines.filter(({ stream }) => stream !== "checkpoints").map(rowOf), checkpoints };
  } catch (error) {
    throw new LineWithoutRow("a line cannot be stored", { cause: error });
  }
}

/** Columns of the table of logs that a writer fills. */
export const LOG_COLUMNS = ["log", "stream", "instance", "tenant", "next_seq", "time_ms"] as const;

interface LogRow {
  readonly log: string;
  readonly stream: string;
  readonly instance: string;
  /** Empty for a log of the service itself. */
  readonly tenant: string;
  readonly next_seq: number;
  readonly time_ms: number | null;
}

/**
 * Returns how far the rows bring their logs, a row for each log and stream, whatever the order of the rows: a transport may change it.
 * Lines without a link do not count.
 */
export function logRows(rows: readonly StoreRow[]): readonly LogRow[] {
  const logs = new Map<string, LogRow>();
  for (const { log, stream, instance, tenant, seq, time_ms } of rows) {
    if (typeof seq !== "number" || seq < 0) continue;
    const key = `${log} ${stream}`;
    if (seq < (logs.get(key)?.next_seq ?? 0)) continue;
    logs.set(key, {
      log: String(log),
      stream: String(stream),
      instance: typeof instance === "string" ? instance : "",
      tenant: typeof tenant === "string" ? tenant : "",
      next_seq: seq + 1,
      time_ms: typeof time_ms === "number" ? time_ms : null,
    });
  }
  return [...logs.values()];
}
