import type { TargetContext } from "../../../../src/core/target-kind.ts";
import { readPlainFile } from "../../../../src/runtime/config/plain-file.ts";
import { watchFiles } from "../../../../src/runtime/config/watched-files.ts";

/** Reads and watches files by their absolute paths, as the service does. */
export const FILES: Pick<TargetContext, "readFile" | "watchFiles" | "pathOf"> = {
  pathOf: (path) => path,
  readFile: readPlainFile,
  watchFiles: (paths, changed) => {
    const watching = watchFiles(() => paths, changed);
    return () => watching.close();
  },
};
