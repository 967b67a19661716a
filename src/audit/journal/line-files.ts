import fs from "node:fs";
import { join } from "node:path";
import { AuditLogError } from "../audit-log-error.ts";
import type { StreamName } from "../chain/chain.ts";
import { listDayFiles } from "./torn-tail.ts";

/** Folder of the journal in the audit directory. */
export const JOURNAL_DIR = "journal";
/**
 * Bytes that are read at a time. The log never writes a longer line; such a line is passed on in pieces, which do not
 * fit into the chain.
 */
const BLOCK_BYTES = 1_048_576;
const LINE_END = 0x0a;
/** A line that is being written is complete a moment later, so the end of the file is read this many times. */
const LOOKS_AT_END_MAX = 4;
const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = fs.constants;

/** One day file of a stream. */
export interface DayFile {
  /** Relative to the audit directory: `journal/2026-02-16.jsonl`. */
  readonly file: string;
  readonly path: string;
  readonly day: string;
  readonly size: number;
}

/** Returns the folder of a stream's files, relative to the audit directory. */
export function folderOf(stream: StreamName): string {
  return stream === "journal" ? JOURNAL_DIR : "";
}

/**
 * Returns the day files of a stream, oldest first. Returns none when the folder is missing: a log written before the
 * journal existed has none.
 */
export function dayFilesOf(dir: string, stream: StreamName): readonly DayFile[] {
  const folder = folderOf(stream);
  const names = fs.existsSync(join(dir, folder)) ? listDayFiles(join(dir, folder)) : [];
  return names.map((name) => {
    const path = join(dir, folder, name);
    return { file: join(folder, name), path, day: name.slice(0, "YYYY-MM-DD".length), size: fs.statSync(path).size };
  });
}

/**
 * Receives one line, `bytes[from, to)`, without its line end. The buffer is reused for later lines; the visitor may
 * temporarily overwrite the byte before `from`. Returning `false` stops the visit.
 */
export type LineVisit = (bytes: Buffer, from: number, to: number) => boolean;

/** Visits the complete lines from byte `offset` on, in order. Returns the number of bytes after the last line end. */
export function visitLines(path: string, offset: number, visit: LineVisit): number {
  const fd = fs.openSync(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
  try {
    if (!fs.fstatSync(fd).isFile()) {
      throw new AuditLogError(`${path} is not a regular file: move it away`);
    }
    return visitOpen(fd, offset, visit);
  } finally {
    fs.closeSync(fd);
  }
}

function visitOpen(fd: number, offset: number, visit: LineVisit): number {
  const buffer = Buffer.allocUnsafe(1 + BLOCK_BYTES);
  let position = offset;
  let held = 0;
  let looksAtEnd = 0;
  for (;;) {
    const count = fs.readSync(fd, buffer, 1 + held, BLOCK_BYTES - held, position);
    position += count;
    const filled = 1 + held + count;
    let from = 1;
    for (let to = endIn(buffer, 1 + held, filled); to !== -1; to = endIn(buffer, from, filled)) {
      if (!visit(buffer, from, to)) {
        return 0;
      }
      from = to + 1;
    }
    held = filled - from;
    looksAtEnd = count === 0 ? looksAtEnd + 1 : 0;
    if (count === 0 && (held === 0 || looksAtEnd === LOOKS_AT_END_MAX)) {
      return held;
    }
    if (held === BLOCK_BYTES) {
      if (!visit(buffer, from, filled)) {
        return 0;
      }
      held = 0;
    }
    buffer.copy(buffer, 1, from, from + held);
  }
}

function endIn(buffer: Buffer, from: number, filled: number): number {
  const at = buffer.indexOf(LINE_END, from);
  return at < filled ? at : -1;
}
