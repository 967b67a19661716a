import fs from "node:fs";
import { join } from "node:path";
import { STREAMS } from "../chain/chain.ts";
import { isDay } from "../journal/day-files.ts";
import { makeDirectory, readSmallFile, syncDirectory } from "../journal/file-operations.ts";
import type { Position } from "../query/params.ts";

/** Exporters send the lines of both streams, and the checkpoints of both. */
export const EXPORT_STREAMS = [...STREAMS, "checkpoints"] as const;
export type ExportStream = (typeof EXPORT_STREAMS)[number];

/** Folder in the audit directory in which exporters store their positions and the lines that were refused for good. */
export const EXPORT_DIR = "export";

const POSITION_FILE = /^([a-z0-9][a-z0-9-]{0,63})\.(calls|journal|checkpoints)\.json$/;
const POSITION_BYTES_MAX = 1_024;
const { O_CREAT, O_NOFOLLOW, O_NONBLOCK, O_TRUNC, O_WRONLY } = fs.constants;

/** Returns the file of the lines that a receiver refused for good. */
export function deadLettersOf(dir: string, exporter: string): string {
  return join(dir, EXPORT_DIR, `${exporter}.dead.jsonl`);
}

/** The position of an exporter in a stream: the receiver has accepted every line before it. */
export interface ExportPosition {
  readonly exporter: string;
  readonly stream: ExportStream;
  /** `undefined` when nothing was accepted yet, or the stored position cannot be read. */
  readonly position: Position | undefined;
}

export function readExportPositions(dir: string): readonly ExportPosition[] {
  const folder = join(dir, EXPORT_DIR);
  const names = fs.existsSync(folder) ? fs.readdirSync(folder).sort() : [];
  return names.flatMap((name) => {
    const [, exporter, named] = POSITION_FILE.exec(name) ?? [];
    const stream = EXPORT_STREAMS.find((one) => one === named);
    if (exporter === undefined || stream === undefined) return [];
    return [{ exporter, stream, position: readPosition(join(folder, name)) }];
  });
}

export function readExportPosition(dir: string, exporter: string, stream: ExportStream): ExportPosition {
  return { exporter, stream, position: readPosition(join(dir, EXPORT_DIR, `${exporter}.${stream}.json`)) };
}

/**
 * Writes a position. It is durable on return, and the file is complete at every moment: a new file is written and
 * renamed over the old one.
 */
export function writeExportPosition(dir: string, { exporter, stream, position }: ExportPosition): void {
  const folder = join(dir, EXPORT_DIR);
  makeDirectory(folder);
  const path = join(folder, `${exporter}.${stream}.json`);
  const fd = fs.openSync(`${path}.new`, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK, 0o600);
  try {
    // Unlike `writeSync`, this continues after a short write.
    fs.writeFileSync(fd, `${JSON.stringify(position)}\n`);
    fs.fsyncSync(fd);
  } finally {
    fs.closeSync(fd);
  }
  fs.renameSync(`${path}.new`, path);
  syncDirectory(folder);
}

function readPosition(path: string): Position | undefined {
  try {
    const { day, offset } = JSON.parse(readSmallFile(path, POSITION_BYTES_MAX) ?? "") as Partial<Position>;
    const isValid = isDay(day) && Number.isSafeInteger(offset) && Number(offset) >= 0;
    return isValid ? { day, offset: Number(offset) } : undefined;
  } catch {
    return undefined;
  }
}
