import { realpathSync } from "node:fs";
import { dirname } from "node:path";
import { EMBEDDED } from "../core/embedded-code.ts";

/** Returns whether this process runs from the sources of a clone, not from the package or as the single binary. */
export function isClone(): boolean {
  return import.meta.path.endsWith(".ts");
}

/** Returns the path of the service's own code, links resolved: its folder, or the single binary. */
export function ownCode(): string {
  return realpathSync(import.meta.dir.startsWith(EMBEDDED) ? process.execPath : dirname(import.meta.dir));
}
