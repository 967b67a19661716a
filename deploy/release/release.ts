import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { binaries } from "./binaries.ts";
import { packChart } from "./chart.ts";
import { packClient, packService } from "./npm.ts";
import { python } from "./python.ts";
import { sbom } from "./sbom.ts";
import { seal, signerOf } from "./signing.ts";
import { ROOT, sourceOf } from "./source.ts";

type Paths = string | readonly string[];

/** The parts of a release, in the order in which they are built. Each writes its files into the folder and returns their paths. */
const PARTS: Readonly<Record<string, (folder: string) => Promise<Paths>>> = {
  service: packService,
  client: packClient,
  python,
  chart: packChart,
  sbom,
  binaries,
};

/**
 * `bun run release [part …] [--key FILE]`: builds all parts of a release, or some of them, into `dist/`, and signs a whole one.
 * Publishes nothing.
 */
async function release(names: readonly string[], keyFile?: string): Promise<void> {
  const unknown = names.filter((name) => !Object.hasOwn(PARTS, name));
  if (unknown.length > 0) fail(`there is no part ${unknown.join(", ")}: choose from ${Object.keys(PARTS).join(", ")}`);
  if (names.length > 0 && keyFile !== undefined) fail("only a whole release is signed: name no part, or no key");
  const source = await sourceOf();
  const signer = keyFile === undefined ? undefined : signerOf(keyFile, source);
  const folder = join(ROOT, "dist");
  mkdirSync(folder, { recursive: true });
  const paths: string[] = [];
  for (const [name, build] of Object.entries(PARTS)) {
    if (names.length > 0 && !names.includes(name)) continue;
    const built = [await build(folder)].flat();
    for (const path of built) console.log(`${name}: ${path}`);
    paths.push(...built);
  }
  if (names.length > 0) return;
  for (const path of await seal(paths, source, signer)) console.log(path);
  if (signer === undefined) console.log("not signed: --key names an Ed25519 key of OpenSSH (docs/releasing.md)");
}

function fail(problem: string): never {
  console.error(problem);
  process.exit(64);
}

const { positionals, values } = parseArgs({ allowPositionals: true, options: { key: { type: "string" } } });
await release(positionals, values.key);
