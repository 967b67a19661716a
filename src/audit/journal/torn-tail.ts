import { createHash } from "node:crypto";
import fs from "node:fs";
import { join } from "node:path";
import { AuditLogError } from "../audit-log-error.ts";
import { LINE_BYTES_MAX } from "../entry.ts";
import { makeDirectory, syncDirectory } from "./file-operations.ts";
import { QUEUE_BYTES_MAX } from "./line-writer.ts";

const QUARANTINE = ".quarantine";
const QUARANTINE_FILE_MODE = 0o600;
/** Maximum number of torn tails of one day file in quarantine. */
const TAILS_MAX = 1_000;
/** A torn tail is part of one batch; the service never writes a longer one. */
const TAIL_BYTES_MAX = QUEUE_BYTES_MAX;
const READ_BYTES = LINE_BYTES_MAX;
const DAY_FILE = /^\d{4}-\d{2}-\d{2}\.jsonl$/;
const LINE_END = 0x0a;
const { O_CREAT, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_RDWR, O_WRONLY } = fs.constants;
const READ = O_RDONLY | O_NONBLOCK;
const READ_WRITE = O_RDWR | O_NONBLOCK;
const CREATE = O_WRONLY | O_CREAT | O_EXCL;

/** Bytes that were cut off the end of a file: an incomplete line that a crash left. */
export interface TornTail {
  readonly file: string;
  readonly bytes: number;
  readonly sha256: string;
  readonly quarantine: string;
}

/** Returns the names of the day files in a directory, oldest first. */
export function listDayFiles(dir: string): readonly string[] {
  return fs
    .readdirSync(dir)
    .filter((name) => DAY_FILE.test(name))
    .sort();
}

/**
 * Copies the bytes after the last line end to quarantine, durably, then cuts them off. They were never acknowledged,
 * and if they stayed, the next line would be appended to them. Returns `undefined` when the file ends with a complete
 * line.
 */
export function cutTornTail(auditDir: string, file: string): TornTail | undefined {
  const path = join(auditDir, file);
  const found = withFile(path, READ, (fd) => {
    const { size } = fs.fstatSync(fd);
    const end = endOfLastLine(fd, size, path);
    return { end, tail: readAt(fd, end, size - end) };
  });
  if (found.tail.length === 0) {
    return undefined;
  }
  const quarantine = keep(auditDir, file, found.tail);
  withFile(path, READ_WRITE, (fd) => {
    fs.ftruncateSync(fd, found.end);
    fs.fsyncSync(fd);
  });
  const sha256 = createHash("sha256").update(found.tail).digest("hex");
  return { file, bytes: found.tail.length, sha256, quarantine };
}

/**
 * Returns the last line of a file that ends with a complete line, without its line end; `undefined` when the file is
 * empty.
 */
export function readLastLine(path: string): string | undefined {
  return withFile(path, READ, (fd) => {
    const { size } = fs.fstatSync(fd);
    const from = Math.max(0, size - LINE_BYTES_MAX - 2);
    const end = readAt(fd, from, size - from);
    const line = end.subarray(end.lastIndexOf(LINE_END, -2) + 1, -1);
    return size === 0 ? undefined : line.toString();
  });
}

function endOfLastLine(fd: number, size: number, path: string): number {
  let to = size;
  while (to > 0 && size - to <= TAIL_BYTES_MAX) {
    const from = Math.max(0, to - READ_BYTES);
    const at = readAt(fd, from, to - from).lastIndexOf(LINE_END);
    if (at >= 0) {
      return from + at + 1;
    }
    to = from;
  }
  if (to === 0) {
    return 0;
  }
  throw new AuditLogError(`${path} has no line end in its last ${TAIL_BYTES_MAX} bytes: it is not ours; move it away`);
}

function readAt(fd: number, position: number, length: number): Buffer {
  const bytes = Buffer.alloc(length);
  let filled = 0;
  while (filled < length) {
    const count = fs.readSync(fd, bytes, filled, length - filled, position + filled);
    if (count === 0) {
      break;
    }
    filled += count;
  }
  return bytes.subarray(0, filled);
}

function keep(auditDir: string, file: string, tail: Buffer): string {
  const dir = join(auditDir, QUARANTINE);
  makeDirectory(dir);
  const name = freeName(dir, file.replaceAll("/", "-"));
  withFile(join(dir, name), CREATE, (fd) => {
    let written = 0;
    while (written < tail.length) {
      written += fs.writeSync(fd, tail, written);
    }
    fs.fsyncSync(fd);
  });
  syncDirectory(dir);
  return join(QUARANTINE, name);
}

function freeName(dir: string, file: string): string {
  for (let count = 1; count <= TAILS_MAX; count += 1) {
    const name = `${file}.${count}`;
    if (fs.lstatSync(join(dir, name), { throwIfNoEntry: false }) === undefined) {
      return name;
    }
  }
  throw new AuditLogError(`${dir} holds ${TAILS_MAX} torn ends of ${file}: look into why, then move them away`);
}

function withFile<T>(path: string, flags: number, use: (fd: number) => T): T {
  const fd = fs.openSync(path, flags | O_NOFOLLOW, QUARANTINE_FILE_MODE);
  try {
    if (!fs.fstatSync(fd).isFile()) {
      throw new AuditLogError(`${path} is not a regular file: move it away`);
    }
    return use(fd);
  } finally {
    fs.closeSync(fd);
  }
}
