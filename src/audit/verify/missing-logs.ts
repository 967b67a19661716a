import { dayFilesOf, visitLines } from "../journal/day-files.ts";
import { logsIn, workerFolder } from "../logs.ts";
import { parseLine } from "../query/view.ts";

const STARTED = Buffer.from('"type":"worker.started"');

/**
 * Returns the folders of workers that the journal of a directory says were started, and that are not there: a whole log that is
 * deleted leaves no gap in any chain.
 */
export function missingLogs(dir: string): readonly string[] {
  const there = new Set(logsIn(dir).map(({ name }) => name));
  const started = new Set<string>();
  for (const { path } of dayFilesOf(dir, "journal")) {
    visitLines(path, 0, (bytes, from, to) => {
      const line = bytes.subarray(from, to);
      const { type, worker } = (line.includes(STARTED) && parseLine(line.toString())) || {};
      if (type === "worker.started" && Number.isSafeInteger(worker)) started.add(workerFolder(Number(worker)));
      return true;
    });
  }
  return [...started].filter((name) => !there.has(name));
}
