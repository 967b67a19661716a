import { realpathSync } from "node:fs";
import { dirname } from "node:path";

/** The folder that the runtime shows to code inside a compiled binary; no file system holds it. */
const EMBEDDED = "/$bunfs/";

/** Whether this runs as the single binary. */
export function isCompiled(): boolean {
  return import.meta.dir.startsWith(EMBEDDED);
}

/** Where the service's own code lies, links resolved: its folder, or the single binary. */
export function ownCode(): string {
  return realpathSync(isCompiled() ? process.execPath : dirname(import.meta.dir));
}
