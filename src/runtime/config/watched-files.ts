import { stat } from "node:fs/promises";
import { systemCode } from "../../core/error-text.ts";

/** Below one second, the time within which a change must take effect. */
const CHECK_EVERY_MS = 250;
/** Minimum pause between two checks per watched file, so that checking stays cheap for any number of files. */
const PAUSE_PER_FILE_MS = 2;

interface WatchOptions {
  /**
   * Maximum number of checks in a row for which a change is held back while the files still change, so that half-written or
   * half-replaced files are not read. Default 0: every change is reported immediately.
   */
  readonly unstableChecksMax?: number;
}

/**
 * Checks files periodically and reports when one has changed. It checks paths, not open files: Kubernetes and editors replace a
 * file with another, and a watch on the old file, or on a folder that is removed and created again, would report nothing. A
 * missing file counts as changed, once. The first check also reports, because a file may have changed before it. The list of
 * files is requested before every check.
 */
export function watchFiles(
  files: () => readonly string[],
  onChange: () => void,
  { unstableChecksMax = 0 }: WatchOptions = {},
): { close(): void } {
  let reported: string | undefined;
  let before: string | undefined;
  let unstableChecks = 0;
  let next: ReturnType<typeof setTimeout> | undefined;
  let isClosed = false;
  const check = async (): Promise<void> => {
    const paths = files();
    const now = await statesOf(paths);
    if (isClosed) return;
    next = setTimeout(() => void check(), Math.max(CHECK_EVERY_MS, paths.length * PAUSE_PER_FILE_MS));
    next.unref();
    const isStable = now === before || unstableChecks >= unstableChecksMax;
    before = now;
    unstableChecks = now === reported || isStable ? 0 : unstableChecks + 1;
    if (now === reported || !isStable) return;
    reported = now;
    onChange();
  };
  void check();
  return {
    close() {
      isClosed = true;
      clearTimeout(next);
    },
  };
}

/** Reads the state of one file after the other: thousands at once would delay the audit's writes. */
async function statesOf(paths: readonly string[]): Promise<string> {
  const states: string[] = [];
  for (const path of paths) states.push(`${path} ${await stateOf(path)}`);
  return states.join("\n");
}

/** Returns values that differ when the file differs, however quickly it was replaced. */
async function stateOf(path: string): Promise<string> {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs } = await stat(path, { bigint: true });
    return `${dev}:${ino}:${size}:${mtimeNs}:${ctimeNs}`;
  } catch (error) {
    return systemCode(error);
  }
}
