import { type DayFile, dayFilesOf, visitLines } from "../journal/day-files.ts";
import { type ChainLink, logIdOf, readLink, type StreamName } from "./chain.ts";
import { walkFromStart } from "./chain-walk.ts";
import { readLastNotes } from "./checkpoint.ts";

/** Returns `logIdIn`, which reads each log once. */
export function logIds(): typeof logIdIn {
  const ids = new Map<string, string | undefined>();
  return (dir, stream) => {
    const key = `${stream} ${dir}`;
    if (!ids.has(key)) ids.set(key, logIdIn(dir, stream));
    return ids.get(key);
  };
}

/**
 * Returns the id of the log that holds a stream's lines, as in the origin of its checkpoints: with it, `(log id, stream, seq)`
 * names a line anywhere. Returns `undefined` before the first line that has a link. Verifies nothing.
 */
export function logIdIn(dir: string, stream: StreamName): string | undefined {
  const files = dayFilesOf(dir, stream);
  return walkFromStart(dir, stream, files).logId ?? logIdOfFirst(files) ?? signedLogId(dir, stream);
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
