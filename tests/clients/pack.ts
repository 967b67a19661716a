import { cpSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { runProgram } from "./runtimes.ts";

const ROOT = resolve(import.meta.dir, "../..");
/** Runs the repository's own compiler. */
export const TSC = [process.execPath, join(ROOT, "node_modules/typescript/bin/tsc")];

/** Builds the TypeScript client and packs it into the folder. Returns the tarball's path. */
export async function packClient(destination: string): Promise<string> {
  const source = join(ROOT, "clients/typescript");
  const staged = mkdtempSync(join(tmpdir(), "stc-client-package-"));
  try {
    mkdirSync(destination, { recursive: true });
    for (const file of ["package.json", "README.md", "LICENSE"]) cpSync(join(source, file), join(staged, file));
    await runProgram([...TSC, "-p", source, "--outDir", join(staged, "dist")], { cwd: ROOT });
    const written = await runProgram(["npm", "pack", "--silent", "--pack-destination", destination], { cwd: staged });
    return join(destination, written.trim());
  } finally {
    rmSync(staged, { recursive: true, force: true });
  }
}

if (import.meta.main) console.log(await packClient(process.cwd()));
