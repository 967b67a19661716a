import { join } from "node:path";
import { AuditLogError } from "../audit-log-error.ts";
import { cutTornTail, listDayFiles, readLastLine, type TornTail } from "./torn-tail.ts";

/** How far the clock may be behind the log, in milliseconds. Stamps stand still that long; more is a wrong clock. */
const CLOCK_BEHIND_MS_MAX = 24 * 60 * 60 * 1_000;

export interface Resumed {
  /** Milliseconds since 1970 of the newest line in any stream, 0 when there is none. */
  readonly lastMs: number;
  readonly tornTails: readonly TornTail[];
}

/**
 * Makes the files of a former run fit to be appended to, before anything is written. `folders` are the streams' folders
 * below `dir`. Throws an `AuditLogError` when the end of the log cannot be read or is ahead of `now`.
 */
export function resume(dir: string, folders: readonly string[], now: number): Resumed {
  const tornTails: TornTail[] = [];
  let lastMs = 0;
  for (const folder of folders) {
    const names = listDayFiles(join(dir, folder));
    for (const name of names) {
      const tail = cutTornTail(dir, join(folder, name));
      if (tail !== undefined) {
        tornTails.push(tail);
      }
    }
    lastMs = Math.max(lastMs, newestMs(join(dir, folder), names));
  }
  if (lastMs - now > CLOCK_BEHIND_MS_MAX) {
    const [last, clock] = [new Date(lastMs).toISOString(), new Date(now).toISOString()];
    throw new AuditLogError(
      `${dir} holds a line of ${last}, but the clock says ${clock}: set the clock, or move the directory away as a whole`,
    );
  }
  return { lastMs, tornTails };
}

/** A file may be empty: its creation and its first line are two steps. */
function newestMs(dir: string, names: readonly string[]): number {
  for (const name of names.toReversed()) {
    const line = readLastLine(join(dir, name));
    if (line !== undefined) {
      return timestampOf(line, join(dir, name));
    }
  }
  return 0;
}

function timestampOf(line: string, path: string): number {
  const ms = Date.parse(stampIn(line) ?? "");
  if (Number.isNaN(ms)) {
    throw new AuditLogError(
      `the last line of ${path} is not a line of this log: find out who wrote it, then move the file away`,
    );
  }
  return ms;
}

function stampIn(line: string): string | undefined {
  try {
    const parsed: unknown = JSON.parse(line);
    const hasStamp = typeof parsed === "object" && parsed !== null && "timestamp" in parsed;
    return hasStamp && typeof parsed.timestamp === "string" ? parsed.timestamp : undefined;
  } catch {
    return undefined;
  }
}
