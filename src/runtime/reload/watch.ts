import { watchFiles } from "../config/watched-files.ts";
import type { Reloaded } from "./types.ts";

/** The files to watch and the reload that their changes trigger. */
export interface Watched {
  /** Returns the current files and folders. Called before every check. */
  files(): readonly string[];
  /** Adopts changes; never rejects. A run requested during another one reads the files after that one. */
  run(by: "watch"): Promise<Reloaded>;
}

/** Files that keep changing are read after this number of checks. */
const LOOKS_TO_REST_MAX = 40;

/** Starts watching the configuration's files. Returns a function that stops it. */
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
