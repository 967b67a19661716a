import { stat } from "node:fs/promises";
import { systemCode } from "../../core/error-text.ts";

/** Well below the second within which a change has to count. */
const LOOK_EVERY_MS = 250;
/** Of the pause between two looks, for every file: however many there are, looking at them takes little. */
const PAUSE_PER_FILE_MS = 2;

interface WatchOptions {
  /**
   * For so many looks in a row nothing is told while the files still change, so that what is half written, or half exchanged,
   * is left alone. 0 when it is not given: every change is told as soon as it is seen.
   */
  readonly looksToRestMax?: number;
}

/**
 * Looks at files from time to time and tells when one is another than before. Asked of the paths, not of the files behind
 * them: Kubernetes and editors put another file in a file's place, and a watch on the old one, or on a folder that is removed
 * and made anew, would hear nothing. A file that is gone counts as changed, once. The first look counts too: what changed
 * before it, nobody has heard of. Which files they are is asked before every look.
 */
export function watchFiles(
  files: () => readonly string[],
  onChange: () => void,
  { looksToRestMax = 0 }: WatchOptions = {},
): { close(): void } {
  let told: string | undefined;
  let before: string | undefined;
  let looksAtUnrest = 0;
  let next: ReturnType<typeof setTimeout> | undefined;
  let isClosed = false;
  const look = async (): Promise<void> => {
    const paths = files();
    const now = await sightOfAll(paths);
    if (isClosed) return;
    next = setTimeout(() => void look(), Math.max(LOOK_EVERY_MS, paths.length * PAUSE_PER_FILE_MS));
    next.unref();
    const isAtRest = now === before || looksAtUnrest >= looksToRestMax;
    before = now;
    looksAtUnrest = now === told || isAtRest ? 0 : looksAtUnrest + 1;
    if (now === told || !isAtRest) return;
    told = now;
    onChange();
  };
  void look();
  return {
    close() {
      isClosed = true;
      clearTimeout(next);
    },
  };
}

/** One after the other: thousands at once would stand before what the audit writes. */
async function sightOfAll(paths: readonly string[]): Promise<string> {
  const sights: string[] = [];
  for (const path of paths) sights.push(`${path} ${await sightOf(path)}`);
  return sights.join("\n");
}

/** What differs when the file does, however quickly it was exchanged. */
async function sightOf(path: string): Promise<string> {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs } = await stat(path, { bigint: true });
    return `${dev}:${ino}:${size}:${mtimeNs}:${ctimeNs}`;
  } catch (error) {
    return systemCode(error);
  }
}
