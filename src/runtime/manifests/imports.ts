import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import * as zod from "zod";
import { defineToolInFile } from "../../core/define-tool.ts";

/** Names that this process answers itself from now on. A registration lasts for the life of the process. */
const answered = new Set<string>();

/**
 * Makes `safe-tool-call` and `zod` importable for a manifest wherever it lies, without a package install. The first is
 * always this very package. A `zod` that the manifest's own folder has stays the one it gets.
 *
 * Rejected: `onResolve`, which this runtime does not ask about bare names.
 */
export async function offerImports(manifest: string): Promise<void> {
  if (!answered.has("safe-tool-call")) {
    answer("safe-tool-call", { ...(await import("../../index.ts")), defineTool: defineToolInFile });
  }
  if (!answered.has("zod") && !hasPackage(dirname(manifest), "zod")) answer("zod", zod);
}

function answer(name: string, exports: Record<string, unknown>): void {
  answered.add(name);
  Bun.plugin({ name, setup: (build) => void build.module(name, () => ({ loader: "object", exports })) });
}

function hasPackage(folder: string, name: string): boolean {
  if (existsSync(join(folder, "node_modules", name, "package.json"))) return true;
  const above = dirname(folder);
  return above !== folder && hasPackage(above, name);
}
