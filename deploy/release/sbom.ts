import { join } from "node:path";
import { bundledPackages, directIds, type Package } from "./packages.ts";
import { RUNTIMES, type Runtime } from "./runtimes.ts";
import { MANIFEST, type Source, sourceOf } from "./source.ts";

/** Libraries in Bun's binary: the names in `process.versions`, and the licenses that Bun's documentation names. */
const IN_BUN: Readonly<Record<string, string>> = {
  ares: "MIT",
  boringssl: "OpenSSL, ISC and others",
  icu: "Unicode License",
  libarchive: "BSD-2-Clause and others",
  libdeflate: "MIT",
  llhttp: "MIT",
  lolhtml: "BSD-3-Clause",
  lshpack: "MIT",
  mimalloc: "MIT",
  picohttpparser: "MIT or Perl License",
  sqlite: "public domain",
  tinycc: "LGPL-2.1",
  usockets: "Apache-2.0",
  uwebsockets: "Apache-2.0",
  webkit: "LGPL-2",
  zlib: "Zlib",
  zstd: "BSD-3-Clause or GPL-2.0",
};

interface Component {
  readonly "bom-ref": string;
  readonly type: string;
  readonly group?: string;
  readonly name: string;
  readonly version: string;
  readonly purl?: string;
  readonly hashes?: readonly { readonly alg: "SHA-512"; readonly content: string }[];
  readonly properties?: readonly { readonly name: string; readonly value: string }[];
  readonly licenses: readonly { readonly license: { readonly id: string } | { readonly name: string } }[];
}

interface Dependency {
  readonly ref: string;
  readonly dependsOn: readonly string[];
}

/** Writes the bill of materials of a release. Returns its path. */
export async function sbom(folder: string): Promise<string> {
  const source = await sourceOf();
  const path = join(folder, `${MANIFEST.name}-${source.version}.cdx.json`);
  await Bun.write(path, await billOfMaterials(source));
  return path;
}

/**
 * Returns the bill of materials of a release in CycloneDX 1.6: the packages that the bundle contains code of, with the hashes of
 * `bun.lock`, and Bun for each platform. The same source gives the same text.
 */
export async function billOfMaterials(source: Source): Promise<string> {
  const packages = await bundledPackages();
  const refs = new Map(packages.map((found) => [found.id, purl(found)]));
  const refsOf = (ids: readonly string[]): readonly string[] => ids.flatMap((id) => refs.get(id) ?? []);
  const product = own(source);
  const runtimes = RUNTIMES.map(runtimeComponent);
  const libraries = Object.entries(IN_BUN).map(libraryInBun);
  const references = (components: readonly Component[]): readonly string[] => components.map((part) => part["bom-ref"]);
  const dependencies: readonly Dependency[] = [
    { ref: product["bom-ref"], dependsOn: [...refsOf(directIds(packages)), ...references(runtimes)] },
    ...packages.map((found) => ({ ref: purl(found), dependsOn: refsOf(found.dependencies) })),
    ...runtimes.map((runtime) => ({ ref: runtime["bom-ref"], dependsOn: references(libraries) })),
    ...libraries.map((library) => ({ ref: library["bom-ref"], dependsOn: [] })),
  ];
  const document = {
    $schema: "http://cyclonedx.org/schema/bom-1.6.schema.json",
    bomFormat: "CycloneDX",
    specVersion: "1.6",
    serialNumber: `urn:uuid:${Bun.randomUUIDv5(`${product["bom-ref"]}?commit=${source.commit}`, "url")}`,
    version: 1,
    metadata: {
      timestamp: new Date(source.epochSeconds * 1000).toISOString(),
      lifecycles: [{ phase: "build" }],
      component: product,
    },
    components: [...packages.map(packageComponent), ...runtimes, ...libraries],
    dependencies,
  };
  return `${JSON.stringify(document, undefined, 2)}\n`;
}

function own({ version, commit }: Source): Component {
  const properties = [{ name: "safe-tool-call:commit", value: commit }];
  return {
    ...npmComponent({ type: "application", name: MANIFEST.name, version, license: MANIFEST.license }),
    properties,
  };
}

function packageComponent(found: Package): Component {
  return npmComponent({ type: "library", ...found });
}

function runtimeComponent({ package: name, integrity }: Runtime): Component {
  return npmComponent({ type: "platform", name, version: MANIFEST.engines.bun, integrity, license: "MIT" });
}

/** @throws {Error} when the Bun that runs this is not the pinned one: it would list other versions */
function libraryInBun([name, license]: readonly [string, string]): Component {
  const version = process.versions[name];
  if (version === undefined || Bun.version !== MANIFEST.engines.bun) {
    throw new Error(`the bill of materials needs Bun ${MANIFEST.engines.bun}; this is ${Bun.version}`);
  }
  return {
    type: "library",
    "bom-ref": `bun/${name}@${version}`,
    name,
    version,
    licenses: [{ license: { name: license } }],
  };
}

interface NpmComponent {
  readonly type: string;
  readonly name: string;
  readonly version: string;
  readonly license: string;
  readonly integrity?: string;
}

function npmComponent({ type, name: fullName, version, license, integrity }: NpmComponent): Component {
  const [, group, name = ""] = /^(?:(@[^/]+)\/)?(.+)$/.exec(fullName) ?? [];
  const reference = purl({ name: fullName, version });
  return {
    type,
    "bom-ref": reference,
    ...(group === undefined ? {} : { group }),
    name,
    version,
    ...(integrity === undefined ? {} : { hashes: [{ alg: "SHA-512", content: hexOf(integrity) }] }),
    licenses: [{ license: { id: license } }],
    purl: reference,
  };
}

export function purl({ name, version }: { readonly name: string; readonly version: string }): string {
  return `pkg:npm/${name.replace("@", "%40")}@${version}`;
}

/** Returns the digest of an integrity, `sha512-` and base64, in hexadecimal. */
export function hexOf(integrity: string): string {
  return Buffer.from(integrity.slice("sha512-".length), "base64").toString("hex");
}
