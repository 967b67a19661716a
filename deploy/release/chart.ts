import { chmodSync, copyFileSync, cpSync, readdirSync } from "node:fs";
import { join, relative } from "node:path";
import { CHART } from "../helm/values-schema.ts";
import { packFolder } from "./archive.ts";
import { inTemporaryFolder } from "./run.ts";
import { ROOT, sourceOf } from "./source.ts";

/**
 * Packs the Helm chart. Returns the archive's path. Rejected: `helm package`, which writes the files' own times into the archive. Its
 * name would also be that of the package for npm.
 */
export async function packChart(folder: string): Promise<string> {
  const source = await sourceOf();
  return inTemporaryFolder(async (staged) => {
    const name = "safe-tool-call";
    const top = join(staged, name);
    // The cases of the tests stay behind, as `.helmignore` says.
    cpSync(CHART, top, { recursive: true, filter: (path) => relative(CHART, path) !== "ci" });
    copyFileSync(join(ROOT, "LICENSE"), join(top, "LICENSE"));
    chmodSync(top, 0o755);
    for (const entry of readdirSync(top, { recursive: true, withFileTypes: true })) {
      chmodSync(join(entry.parentPath, entry.name), entry.isDirectory() ? 0o755 : 0o644);
    }
    return packFolder(join(folder, `safe-tool-call-chart-${source.version}.tgz`), { staged, name, source });
  });
}
