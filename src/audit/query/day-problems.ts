import type { StreamName } from "../chain/chain.ts";
import { dayFilesOf } from "../journal/line-files.ts";
import { walkFromBegin } from "../journal/pruned-start.ts";
import { readPlace } from "../journal/saved-position.ts";
import { otherDayOf, readableBounds } from "./day-bounds.ts";
import { daysIn, streamDir } from "./days.ts";

/**
 * What is wrong with the day files of a stream, as far as their names and their first and last lines show it: one sentence
 * each. For readers, whose answer may miss lines; `verify` reads everything.
 */
export function dayProblems(dir: string, stream: StreamName): readonly string[] {
  // Before the files: the log only grows.
  const claimed = readPlace(dir)?.streams[stream].head.seq ?? 0;
  const problems: string[] = [];
  let next = firstSeq(dir, stream);
  for (const day of daysIn(streamDir(dir, stream))) {
    // Who reads a file that cannot be read says why; who does not misses its lines.
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

/** Of the first line that is left. */
function firstSeq(dir: string, stream: StreamName): number {
  try {
    return walkFromBegin(dir, stream, dayFilesOf(dir, stream)).expected?.seq ?? 0;
  } catch {
    // The reading of the file itself says why.
    return 0;
  }
}
