import fs from "node:fs";
import { join } from "node:path";
import { makeDirectory } from "../journal/file-operations.ts";
import type { ExportLine } from "./batch.ts";
import { EXPORT_DIR } from "./place-files.ts";

/** Of one exporter's dead letters. Full, they stop it: what nobody wants and nobody can keep would be lost. */
const FILE_BYTES_MAX = 67_108_864;
const { O_APPEND, O_CREAT, O_NOFOLLOW, O_NONBLOCK, O_WRONLY } = fs.constants;

export interface DeadLetters {
  readonly exporter: string;
  readonly reason: string;
  readonly lines: readonly ExportLine[];
}

/**
 * Keeps lines that the far side refused for good in `export/<name>.dead.jsonl`, durably. The audit itself still holds them.
 *
 * @throws when the file is full or cannot be written
 */
export function keepDeadLetters(dir: string, { exporter, reason, lines }: DeadLetters): void {
  const folder = join(dir, EXPORT_DIR);
  makeDirectory(folder);
  const path = join(folder, `${exporter}.dead.jsonl`);
  const text = lines
    .map(({ stream, day, offset, line }) => `${JSON.stringify({ exporter, reason, stream, day, offset, line })}\n`)
    .join("");
  const fd = fs.openSync(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0o600);
  try {
    const facts = fs.fstatSync(fd);
    if (!facts.isFile()) throw new Error(`${path} is not a regular file: move it away`);
    let rest: Uint8Array = Buffer.from(text);
    if (facts.size + rest.length > FILE_BYTES_MAX) {
      throw new Error(`${path} is full: mend what is refused, then move the file away`);
    }
    while (rest.length > 0) rest = rest.subarray(fs.writeSync(fd, rest));
    fs.fsyncSync(fd);
  } finally {
    fs.closeSync(fd);
  }
}
