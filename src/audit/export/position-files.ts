import fs from "node:fs";
import { join } from "node:path";
import { makeDirectory, readSmallFile, syncDirectory } from "../journal/file-operations.ts";
import type { Position } from "../query/cursor.ts";
import type { Stream } from "../query/days.ts";

/** Folder below the audit directory in which exporters keep how far they are, and what nobody wanted. */
export const EXPORT_DIR = "export";

const PLACE_FILE = /^([a-z0-9][a-z0-9-]{0,63})\.(calls|journal)\.json$/;
const DAY = /^\d{4}-\d{2}-\d{2}$/;
const PLACE_BYTES_MAX = 1_024;
const { O_CREAT, O_NOFOLLOW, O_NONBLOCK, O_TRUNC, O_WRONLY } = fs.constants;

/** How far an exporter is in a stream: everything before it has been taken by the far side. */
export interface ExportPosition {
  readonly exporter: string;
  readonly stream: Stream;
  /** `undefined` when nothing was taken yet, or nobody can read how far it was. */
  readonly position: Position | undefined;
}

/** Of every exporter that ever ran here. */
export function readExportPlaces(dir: string): readonly ExportPosition[] {
  const folder = join(dir, EXPORT_DIR);
  const names = fs.existsSync(folder) ? fs.readdirSync(folder).sort() : [];
  return names.flatMap((name) => {
    const [, exporter, stream] = PLACE_FILE.exec(name) ?? [];
    if (exporter === undefined || (stream !== "calls" && stream !== "journal")) return [];
    return [{ exporter, stream, position: readPosition(join(folder, name)) }];
  });
}

export function readExportPlace(dir: string, exporter: string, stream: Stream): ExportPosition {
  return { exporter, stream, position: readPosition(join(dir, EXPORT_DIR, `${exporter}.${stream}.json`)) };
}

/** Durable when it returns, and whole at every moment: it is written beside and moved into place. */
export function writeExportPlace(dir: string, { exporter, stream, position }: ExportPosition): void {
  const folder = join(dir, EXPORT_DIR);
  makeDirectory(folder);
  const path = join(folder, `${exporter}.${stream}.json`);
  const fd = fs.openSync(`${path}.new`, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK, 0o600);
  try {
    fs.writeSync(fd, `${JSON.stringify(position)}\n`);
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
