import { createHash } from "node:crypto";
import { chmodSync, copyFileSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { packFolder } from "./archive.ts";
import { NOTICES_FILE } from "./notices.ts";
import { inTemporaryFolder, run } from "./run.ts";
import { RUNTIMES, type Runtime } from "./runtimes.ts";
import { MANIFEST, ROOT, type Source, sourceOf } from "./source.ts";

/** Builds the single binary for every platform, each in an archive. Returns the archives' paths. */
export async function binaries(folder: string): Promise<readonly string[]> {
  const source = await sourceOf();
  const archives: string[] = [];
  // One after the other: each build holds some hundred megabytes.
  for (const runtime of RUNTIMES) archives.push(await binary(folder, source, runtime));
  return archives;
}

async function binary(folder: string, source: Source, runtime: Runtime): Promise<string> {
  return inTemporaryFolder(async (staged) => {
    const bun = await bunOf(runtime, staged);
    const compiled = await compile(join(staged, "stc"), { target: targetOf(runtime), bun });
    return archive(folder, { binary: compiled, platform: runtime.platform, source });
  });
}

/** Returns how Bun names the platform. */
function targetOf({ platform }: Runtime): string {
  return `bun-${platform}`;
}

interface Compilation {
  readonly target?: string;
  /** The Bun that the binary contains. */
  readonly bun: string;
  /** The checkout to build. */
  readonly root?: string;
}

/**
 * Compiles the binary as `bun run compile` does. The bytes depend on the source, on Bun and on the base name of the output, not on
 * the folder: `compile` replaces `__dirname` in packages, which otherwise holds the path of the checkout.
 */
export async function compile(output: string, { target, bun, root = ROOT }: Compilation): Promise<string> {
  const options = [
    `--outfile=${output}`,
    `--compile-executable-path=${bun}`,
    ...(target ? [`--target=${target}`] : []),
  ];
  await run([process.execPath, "run", "compile", ...options], { cwd: root });
  return output;
}

/**
 * Fetches Bun for a platform with npm, and unpacks it into the folder.
 * @throws {Error} when the package is not the one of the table
 */
async function bunOf({ package: name, integrity }: Runtime, folder: string): Promise<string> {
  const packed = await run(["npm", "pack", "--silent", `${name}@${MANIFEST.engines.bun}`], { cwd: folder });
  const tarball = join(folder, packed.trim());
  requireIntegrity(readFileSync(tarball), { name, integrity });
  await run(["tar", "--extract", "--file", tarball, "--directory", folder, "package/bin/bun"]);
  return join(folder, "package/bin/bun");
}

export function requireIntegrity(
  content: Uint8Array,
  { name, integrity }: { readonly name: string; readonly integrity: string },
): void {
  const found = `sha512-${createHash("sha512").update(content).digest("base64")}`;
  if (found !== integrity) throw new Error(`${name}: expected integrity ${integrity}, got ${found}`);
}

interface Contents {
  readonly binary: string;
  readonly platform: string;
  readonly source: Source;
}

/** Packs a binary with its licenses. The same files give the same bytes. Returns the archive's path. */
export async function archive(folder: string, { binary: file, platform, source }: Contents): Promise<string> {
  const name = `stc-${source.version}-${platform}`;
  return inTemporaryFolder(async (staged) => {
    const top = join(staged, name);
    mkdirSync(top);
    for (const [from, to, mode] of [
      [file, "stc", 0o755],
      [join(ROOT, "LICENSE"), "LICENSE", 0o644],
      [NOTICES_FILE, "THIRD_PARTY", 0o644],
    ] as const) {
      copyFileSync(from, join(top, to));
      chmodSync(join(top, to), mode);
    }
    chmodSync(top, 0o755);
    return packFolder(join(folder, `${name}.tar.gz`), { staged, name, source });
  });
}
