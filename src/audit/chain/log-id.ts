import { type DayFile, dayFilesOf, visitLines } from "../journal/day-files.ts";
import { type ChainLink, logIdOf, readLink, type StreamName } from "./chain.ts";
import { walkFiles, walkFromStart } from "./chain-walk.ts";
import { readLastNotes } from "./checkpoint.ts";

/** Returns `logIdIn`, which reads each log once. */
export function logIds(): (dir: string, stream: StreamName) => string | undefined {
  const ids = new Map<string, string | undefined>();
  return (dir, stream) => {
    const key = `${stream} ${dir}`;
    if (!ids.has(key)) ids.set(key, logIdIn(dir, stream));
    return ids.get(key);
  };
}

/**
 * Returns the id of the log that holds a stream's lines, as in the origin of its checkpoints: with it, `(log id, stream, seq)`
 * names a line anywhere. Returns `undefined` before the first line that has a link. `verified`: only the id that follows from
 * a valid first line, or from retention's record of it. `claimed`: otherwise the id that the first line or a checkpoint names.
 */
export function logIdIn(
  dir: string,
  stream: StreamName,
  evidence: "verified" | "claimed" = "claimed",
): string | undefined {
  const files = dayFilesOf(dir, stream);
  const walk = walkFromStart(dir, stream, files);
  const isBefore = (): boolean => walk.lines === 0;
  walkFiles(files, { index: 0, offset: 0 }, (bytes, from, to) => isBefore() && walk.take(bytes, from, to));
  if (evidence === "verified") return walk.logId;
  return walk.logId ?? logIdOfFirst(files) ?? signedLogId(dir, stream);
}

function logIdOfFirst(files: readonly DayFile[]): string | undefined {
  const link = firstLink(files);
  return link?.seq === 0 ? logIdOf(link.hash) : undefined;
}

/** Lines from before the chain have no link. */
function firstLink(files: readonly DayFile[]): ChainLink | undefined {
  let link: ChainLink | undefined;
  for (const { path } of files) {
    visitLines(path, 0, (bytes, from, to) => {
      link = readLink(bytes, from, to);
      return link === undefined;
    });
    if (link !== undefined) break;
  }
  return link;
}

/** When the first lines were deleted, and the record of that does not name the log. */
function signedLogId(dir: string, stream: StreamName): string | undefined {
  return readLastNotes(dir).findLast(({ checkpoint }) => checkpoint?.stream === stream)?.checkpoint?.logId;
}
