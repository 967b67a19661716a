import { stat } from "node:fs/promises";
import { systemCode } from "../core/system-code.ts";

/** Well below the second within which a change has to count. */
const LOOK_EVERY_MS = 250;

/**
 * Looks at files from time to time and tells when one is another than before. Asked of the paths, not of the files behind
 * them: Kubernetes and editors put another file in a file's place, and a watch on the old one would hear nothing. A file that is
 * gone counts as changed, once. The first look counts too: what changed before it, nobody has heard of.
 */
export function watchFiles(paths: readonly string[], onChange: () => void): { close(): void } {
  let before: string | undefined;
  let isLooking = false;
  const look = async (): Promise<void> => {
    if (isLooking) return;
    isLooking = true;
    const now = (await Promise.all(paths.map(sightOf))).join(" ");
    isLooking = false;
    if (before === now) return;
    before = now;
    onChange();
  };
  void look();
  const timer = setInterval(() => void look(), LOOK_EVERY_MS);
  timer.unref();
  return { close: () => clearInterval(timer) };
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
