import fs from "node:fs";
import { join } from "node:path";
import { AuditLogError } from "../audit-log-error.ts";
import { RECORD_FILE } from "../chain/chain-walk.ts";
import { CHECKPOINT_DIR, endOfNotes, listNotes, splitNotes } from "../chain/checkpoint.ts";
import { logIdIn } from "../chain/log-id.ts";
import { LINE_BYTES_MAX } from "../entry.ts";
import type { ExportStream } from "../export/positions.ts";
import { dayIn, daysIn, isOfOtherDay, LINE_END, readAt, streamDir } from "../journal/day-files.ts";
import { diskFiles, READ_ONLY, readSmallFile } from "../journal/file-operations.ts";
import type { Position } from "../query/params.ts";

/** Maximum bytes of one part. Parts are uploaded whole, from memory. */
export const PART_BYTES_MAX = 8_388_608;
/** Maximum bytes of the record of deleted days. */
const RECORD_BYTES_MAX = 16_777_216;

/** Whole lines, or whole checkpoints, from one position of a day's file on, as they are in the file. */
export interface DayPart extends Position {
  readonly stream: ExportStream;
  readonly bytes: Buffer;
  /** Id of the directory's journal, which has its first line: the archive's name for the directory. */
  readonly directory: string;
  /** Id of the log that holds the lines; of checkpoints, that of the journal. */
  readonly log: string;
  /** The record of days that were deleted before; only next to the first part of a stream. */
  readonly record: Buffer | undefined;
  /** True when the log had nothing after it. */
  readonly isLast: boolean;
}

interface PartPosition {
  readonly dir: string;
  readonly stream: ExportStream;
  readonly from: Position | undefined;
}

/**
 * Reads the next part, and makes it durable here before it is durable elsewhere: a power failure must not leave the archive with
 * lines that the log has lost. Returns undefined when there is none yet, or when the log has no id yet.
 */
export async function readPart({ dir, stream, from }: PartPosition): Promise<DayPart | undefined> {
  const days = stream === "checkpoints" ? listNotes(dir).map(dayIn) : daysIn(streamDir(dir, stream));
  for (const day of days.filter((one) => one >= (from?.day ?? ""))) {
    const offset = from?.day === day ? from.offset : 0;
    const bytes = await readWhole(pathOf(dir, stream, day), { stream, day, offset });
    if (bytes.length === 0) continue;
    const directory = logIdIn(dir, "journal");
    const log = stream === "checkpoints" ? directory : logIdIn(dir, stream);
    if (directory === undefined || log === undefined) return undefined;
    const record = from === undefined ? recordIn(dir) : undefined;
    const isLast = day === days.at(-1) && bytes.length + LINE_BYTES_MAX < PART_BYTES_MAX;
    return { stream, day, offset, bytes, directory, log, record, isLast };
  }
  return undefined;
}

/** Returns the number of lines or checkpoints in the bytes of a part. */
export function countIn(stream: ExportStream, bytes: Buffer): number {
  if (stream === "checkpoints") return [...splitNotes(bytes.toString("utf8"), "")].length;
  let count = 0;
  for (let at = bytes.indexOf(LINE_END); at !== -1; at = bytes.indexOf(LINE_END, at + 1)) count += 1;
  return count;
}

function pathOf(dir: string, stream: ExportStream, day: string): string {
  if (stream === "checkpoints") return join(dir, CHECKPOINT_DIR, `${day}.txt`);
  return join(streamDir(dir, stream), `${day}.jsonl`);
}

type FilePosition = Position & Pick<DayPart, "stream">;

async function readWhole(path: string, { stream, day, offset }: FilePosition): Promise<Buffer> {
  const fd = fs.openSync(path, READ_ONLY);
  try {
    const facts = fs.fstatSync(fd);
    if (!facts.isFile()) throw new AuditLogError(`${path} is not a regular file: move it away`);
    const length = Math.max(0, Math.min(PART_BYTES_MAX, facts.size - offset));
    if (length === 0) return Buffer.alloc(0);
    await diskFiles.fdatasync(fd);
    const bytes = readAt(fd, offset, Buffer.alloc(length));
    const end = stream === "checkpoints" ? endOfNotes(bytes) : bytes.lastIndexOf(LINE_END) + 1;
    if (end === 0 && length === PART_BYTES_MAX) {
      throw new AuditLogError(`${path} has no whole line at byte ${offset}: stc audit verify shows more`);
    }
    // In the archive, the lines would be those of the day in the file's name.
    if (end > 0 && stream !== "checkpoints" && isOfOtherDay(day, bytes, [0, bytes.indexOf(LINE_END)])) {
      throw new AuditLogError(`${day}.jsonl holds lines of another day: stc audit verify shows more`);
    }
    return bytes.subarray(0, end);
  } finally {
    fs.closeSync(fd);
  }
}

function recordIn(dir: string): Buffer | undefined {
  const text = readSmallFile(join(dir, RECORD_FILE), RECORD_BYTES_MAX);
  return text === undefined || text === "" ? undefined : Buffer.from(text);
}
