import type { StreamName } from "../chain/chain.ts";
import { dayFilesOf } from "../journal/line-files.ts";
import { walkFromBegin } from "../journal/pruned-start.ts";
import { readPlace } from "../journal/saved-position.ts";
import { otherDayOf, readableBounds } from "./day-bounds.ts";
import { daysIn, streamDir } from "./days.ts";

/**
 * Returns problems with the day files of a stream, one sentence each, as far as file names and first and last lines
 * show them. For readers, whose results may miss lines; `verify` reads everything.
 */
export function dayProblems(dir: string, stream: StreamName): readonly string[] {
  // Read before the files, because the log only grows.
  const claimed = readPlace(dir)?.streams[stream].head.seq ?? 0;
  const problems: string[] = [];
  let next = firstSeq(dir, stream);
  for (const day of daysIn(streamDir(dir, stream))) {
    // A query that reads an unreadable file reports the reason; a query that does not read it misses its lines.
    const bounds = readableBounds(streamDir(dir, stream), day);
    const otherDay = otherDayOf(bounds);
    if (otherDay !== undefined) problems.push(`${day}.jsonl of ${stream} holds lines of ${otherDay}`);
    const [first, last] = [bounds?.first.link?.seq, bounds?.last.link?.seq];
    if (first !== undefined && first !== next) {
      problems.push(`before ${day}.jsonl of ${stream} lines are missing or are in another file`);
    }
    if (last !== undefined) next = last + 1;
  }
  if (next < claimed) problems.push(`${stream} held ${claimed} lines, and its last file ends after ${next}`);
  return problems;
}

/** Returns the `seq` of the first line that is left. */
function firstSeq(dir: string, stream: StreamName): number {
  try {
    return walkFromBegin(dir, stream, dayFilesOf(dir, stream)).expected?.seq ?? 0;
  } catch {
    // Reading the file itself reports the reason.
    return 0;
  }
}
