import { cLibrary } from "./c-library.ts";
import { knowsLandlock } from "./landlock.ts";

const PR_GET_DUMPABLE = 3;
const PR_SET_DUMPABLE = 4;

/**
 * Why no child can be confined here, or `undefined`. Makes the process non-dumpable on the way, so that others of its user can
 * neither trace it nor read its memory and environment; nothing keeps root from that.
 */
export function kernelFault(): string | undefined {
  if (process.platform !== "linux" || process.arch !== "x64") return "it is built for Linux on x86_64";
  try {
    const c = cLibrary();
    if (!knowsLandlock(c)) return "the kernel has no Landlock of ABI 6 or later";
    c.prctl(PR_SET_DUMPABLE, 0n, 0n, 0n, 0n);
    const isDumpable = c.prctl(PR_GET_DUMPABLE, 0n, 0n, 0n, 0n) !== 0;
    return isDumpable && c.getuid() !== 0 ? "the service can be traced by others of its user" : undefined;
  } catch (error) {
    return error instanceof Error ? error.message : "the C library cannot be used";
  }
}
