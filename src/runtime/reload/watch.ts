import { watchFiles } from "../composition/watched-files.ts";
import type { Reloaded } from "./types.ts";

/** What is watched for, and what it is told. */
export interface Watched {
  /** The files and folders that matter now: asked before every look. */
  files(): readonly string[];
  /** Takes over what has changed, and never rejects. One that comes while another runs sees what is there after it. */
  run(by: "watch"): Promise<Reloaded>;
}

/** Files that never come to rest are read as they are. */
const LOOKS_TO_REST_MAX = 40;

/** Follows the files of the configuration from now on; answers how to stop. */
export function watchReload(watched: Watched): () => void {
  let again: ReturnType<typeof setTimeout> | undefined;
  let isClosed = false;
  const take = async (): Promise<void> => {
    const reloaded = await watched.run("watch");
    clearTimeout(again);
    if (reloaded.outcome !== "busy" || isClosed) return;
    again = setTimeout(() => void take(), reloaded.retryAfterMs);
    again.unref();
  };
  const watching = watchFiles(
    () => watched.files(),
    () => void take(),
    { looksToRestMax: LOOKS_TO_REST_MAX },
  );
  return () => {
    isClosed = true;
    clearTimeout(again);
    watching.close();
  };
}
