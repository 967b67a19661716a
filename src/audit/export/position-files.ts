import fs from "node:fs";
import { join } from "node:path";
import type { StreamName } from "../chain/chain.ts";
import { makeDirectory, readSmallFile, syncDirectory } from "../journal/file-operations.ts";
import type { Position } from "../query/params.ts";

/** Folder in the audit directory in which exporters store their positions and the lines that were refused for good. */
export const EXPORT_DIR = "export";

const PLACE_FILE = /^([a-z0-9][a-z0-9-]{0,63})\.(calls|journal)\.json$/;
const DAY = /^\d{4}-\d{2}-\d{2}$/;
const PLACE_BYTES_MAX = 1_024;
const { O_CREAT, O_NOFOLLOW, O_NONBLOCK, O_TRUNC, O_WRONLY } = fs.constants;

/** The position of an exporter in a stream: the receiver has accepted every line before it. */
export interface ExportPosition {
  readonly exporter: string;
  readonly stream: StreamName;
  /** `undefined` when nothing was accepted yet, or the stored position cannot be read. */
  readonly position: Position | undefined;
}

/** Returns the positions of every exporter that has ever run on this log. */
export function readExportPlaces(dir: string): readonly ExportPosition[] {
  const folder = join(dir, EXPORT_DIR);
  const names = fs.existsSync(folder) ? fs.readdirSync(folder).sort() : [];
  return names.flatMap((name) => {
    const [, exporter, stream] = PLACE_FILE.exec(name) ?? [];
    if (exporter === undefined || (stream !== "calls" && stream !== "journal")) return [];
    return [{ exporter, stream, position: readPosition(join(folder, name)) }];
  });
}

export function readExportPlace(dir: string, exporter: string, stream: StreamName): ExportPosition {
  return { exporter, stream, position: readPosition(join(dir, EXPORT_DIR, `${exporter}.${stream}.json`)) };
}

/**
 * Writes a position. It is durable on return, and the file is complete at every moment: a new file is written and
 * renamed over the old one.
 */
export function writeExportPlace(dir: string, { exporter, stream, position }: ExportPosition): void {
  const folder = join(dir, EXPORT_DIR);
  makeDirectory(folder);
  const path = join(folder, `${exporter}.${stream}.json`);
  const fd = fs.openSync(`${path}.new`, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK, 0o600);
  try {
    // Unlike `writeSync`, this goes on after a short write.
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
    const { day, offset } = JSON.parse(readSmallFile(path, PLACE_BYTES_MAX) ?? "") as Partial<Position>;
    const isPlace = typeof day === "string" && DAY.test(day) && Number.isSafeInteger(offset) && Number(offset) >= 0;
    return isPlace ? { day, offset: Number(offset) } : undefined;
  } catch {
    return undefined;
  }
}
