import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { binaries } from "./binaries.ts";
import { packClient, packService } from "./npm.ts";
import { sbom } from "./sbom.ts";
import { ROOT } from "./source.ts";

/** The parts of a release, in the order in which they are built. Each writes its files into the folder. */
const PARTS: Readonly<Record<string, (folder: string) => Promise<unknown>>> = {
  service: packService,
  client: packClient,
  binaries,
  sbom,
};

/** `bun run release [part …]`: builds all parts of a release, or some of them, into `dist/`. Publishes nothing. */
async function release(names: readonly string[]): Promise<void> {
  const unknown = names.filter((name) => !Object.hasOwn(PARTS, name));
  if (unknown.length > 0) {
    console.error(`there is no part ${unknown.join(", ")}: choose from ${Object.keys(PARTS).join(", ")}`);
    process.exit(64);
  }
  const folder = join(ROOT, "dist");
  mkdirSync(folder, { recursive: true });
  for (const [name, build] of Object.entries(PARTS)) {
    if (names.length === 0 || names.includes(name)) console.log(`${name}: ${String(await build(folder))}`);
  }
}

await release(process.argv.slice(2));
