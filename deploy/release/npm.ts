import { chmodSync, cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import manifest from "../../package.json" with { type: "json" };
import { writeDeclarations } from "./declarations.ts";
import { run } from "./run.ts";
import { RUNTIMES } from "./runtimes.ts";
import { ROOT } from "./source.ts";

/** Runs the repository's own compiler. */
export const TSC = [process.execPath, join(ROOT, "node_modules/typescript/bin/tsc")];

/** TypeScript would leave its cache in the temporary folder. */
const env = { NODE_DISABLE_COMPILE_CACHE: "1" };

/** The packages of Bun for every platform of a release, and for development on older Macs. */
const BUN_PACKAGES = [...RUNTIMES.map((runtime) => runtime.package), "@oven/bun-darwin-x64"];

/** Builds the package of the TypeScript client. Returns the tarball's path. */
export function packClient(folder: string): Promise<string> {
  const source = join(ROOT, "clients/typescript");
  return packed(folder, async (staged) => {
    for (const file of ["package.json", "README.md", "LICENSE"]) cpSync(join(source, file), join(staged, file));
    await run([...TSC, "-p", source, "--outDir", join(staged, "dist")], { cwd: ROOT, env });
  });
}

/** Builds the package of the service, which is also the library. Returns the tarball's path. */
export function packService(folder: string): Promise<string> {
  return packed(folder, async (staged) => {
    writeFileSync(join(staged, "package.json"), `${JSON.stringify(serviceManifest(), null, 2)}\n`);
    for (const file of ["README.md", "LICENSE", "THIRD_PARTY", "CHANGELOG.md"])
      cpSync(join(ROOT, file), join(staged, file));
    for (const file of new Bun.Glob("docs/*.md").scanSync(ROOT)) cpSync(join(ROOT, file), join(staged, file));
    cpSync(join(import.meta.dir, "launcher/stc.cjs"), join(staged, "bin/stc.cjs"));
    await bundle(join(staged, "lib"));
    await run([...TSC, "-p", "tsconfig.package.json", "--outDir", join(staged, "declarations")], { cwd: ROOT, env });
    writeDeclarations(join(staged, "declarations"), join(staged, "types"));
    rmSync(join(staged, "declarations"), { recursive: true });
  });
}

/**
 * Returns the published manifest. Its only dependencies are the programs of Bun, of which a package manager fetches the one for
 * the platform. Rejected: the package `bun`, whose install script moves the program and which some package managers do not run.
 */
function serviceManifest(): object {
  const { name, version, description, license, repository, type, engines, dependencies } = manifest;
  return {
    ...{ name, version, description, license, repository, type },
    keywords: ["llm", "agents", "tools", "approvals", "audit", "mcp", "proxy"],
    engines: { node: ">=20" },
    // The second name is for `npx safe-tool-call`.
    bin: { stc: "bin/stc.cjs", "safe-tool-call": "bin/stc.cjs" },
    exports: {
      ".": { types: "./types/index.d.ts", bun: "./lib/library.js" },
      "./package.json": "./package.json",
    },
    optionalDependencies: Object.fromEntries(BUN_PACKAGES.map((name) => [name, engines.bun])),
    peerDependencies: { zod: `^${dependencies.zod}` },
    peerDependenciesMeta: { zod: { optional: true } },
  };
}

/** Bundles the programs and the library, with everything that they need, into one folder. */
async function bundle(outdir: string): Promise<void> {
  const source = join(ROOT, "src");
  // The name `index.js` belongs to the console's page.
  const library = join(source, "library.ts");
  await Bun.build({
    root: source,
    entrypoints: [
      join(source, "cli/main.ts"),
      join(source, "cli/launched.ts"),
      join(source, "targets/command/confinement/launcher.ts"),
      join(source, "targets/sql/sqlite/sqlite-child.ts"),
      library,
    ],
    files: { [library]: 'export * from "./index.ts";' },
    outdir,
    target: "bun",
    splitting: true,
    minify: { syntax: true, whitespace: true },
    naming: { entry: "[name].[ext]" },
    // In packages in CommonJS. Otherwise the bundle would contain this machine's paths.
    define: { __dirname: "import.meta.dir", __filename: "import.meta.path" },
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
    return (await run([process.execPath, ...pack], { cwd: staged })).trim();
  } finally {
    rmSync(staged, { recursive: true, force: true });
  }
}
