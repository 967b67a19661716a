import { chmodSync, cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

export const ROOT = resolve(import.meta.dir, "../..");
/** Runs the repository's own compiler. */
export const TSC = [process.execPath, join(ROOT, "node_modules/typescript/bin/tsc")];

/** Builds the package of the TypeScript client. Returns the tarball's path. */
export function packClient(folder: string): Promise<string> {
  const source = join(ROOT, "clients/typescript");
  return packed(folder, async (staged) => {
    for (const file of ["package.json", "README.md", "LICENSE"]) cpSync(join(source, file), join(staged, file));
    await run([...TSC, "-p", source, "--outDir", join(staged, "dist")], ROOT);
  });
}

/** Packs what `stage` writes into an empty folder. The same files give the same bytes. Returns the tarball's path. */
async function packed(folder: string, stage: (staged: string) => Promise<void>): Promise<string> {
  mkdirSync(folder, { recursive: true });
  const staged = mkdtempSync(join(tmpdir(), "stc-npm-"));
  try {
    await stage(staged);
    // The packer sets times and owners, but keeps the modes of files, which depend on the umask. It makes `bin` executable.
    for (const entry of readdirSync(staged, { recursive: true, withFileTypes: true })) {
      if (entry.isFile()) chmodSync(join(entry.parentPath, entry.name), 0o644);
    }
    const pack = ["pm", "pack", "--quiet", "--ignore-scripts", "--gzip-level", "9", "--destination", folder];
    return (await run([process.execPath, ...pack], staged)).trim();
  } finally {
    rmSync(staged, { recursive: true, force: true });
  }
}

/** Returns what a program writes. */
async function run(command: readonly string[], cwd: string): Promise<string> {
  // TypeScript would leave its cache in the temporary folder.
  const env = { ...process.env, NODE_DISABLE_COMPILE_CACHE: "1" };
  const child = Bun.spawn([...command], { cwd, env, stdio: ["ignore", "pipe", "inherit"] });
  const [out, code] = await Promise.all([child.stdout.text(), child.exited]);
  if (code !== 0) throw new Error(`${command.join(" ")} ended with ${code}: ${out}`);
  return out;
}
