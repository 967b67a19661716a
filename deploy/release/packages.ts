import { relative, resolve } from "node:path";
import { ROOT } from "./source.ts";

/** A package from npm, as `bun.lock` and the installed package describe it. */
export interface Package {
  /** `name@version`. */
  readonly id: string;
  readonly name: string;
  readonly version: string;
  /** `sha512-…`, in base64. */
  readonly integrity: string;
  readonly license: string;
  readonly author: string;
  readonly folder: string;
  /** Ids of the packages that this one asks for. */
  readonly dependencies: readonly string[];
}

type Names = Readonly<Record<string, string>>;

interface LockedDetails {
  readonly dependencies?: Names;
  readonly peerDependencies?: Names;
}

type LockedPackage = readonly [id: string, registry: string, details: LockedDetails, integrity: string];

interface Lock {
  readonly workspaces: { readonly "": { readonly dependencies: Names } };
  /** By position in the tree: `a/b` is the `b` below `a`. */
  readonly packages: Readonly<Record<string, LockedPackage>>;
}

const SEGMENT = /(?:@[^/]+\/)?[^/]+/g;
const LOCK = Bun.JSONC.parse(await Bun.file(`${ROOT}/bun.lock`).text()) as Lock;
const DIRECT = Object.keys(LOCK.workspaces[""].dependencies);
/** The programs and the library: what a user receives is bundled from these. */
const ENTRY_POINTS = ["src/cli/binary.ts", "src/cli/launched.ts", "src/index.ts"];

/** Returns the packages that the service asks for, direct and indirect, sorted by id. */
export function productionPackages(): Promise<readonly Package[]> {
  return packagesAt(reachable());
}

/**
 * Returns the packages of which the bundle contains code, sorted by id.
 * @throws {Error} when it contains code of a package that is only for development
 */
export function bundledPackages(): Promise<readonly Package[]> {
  bundled ??= findBundled();
  return bundled;
}

let bundled: Promise<readonly Package[]> | undefined;

async function findBundled(): Promise<readonly Package[]> {
  const asked = new Set(reachable());
  const positions = await bundledPositions();
  const other = positions.filter((position) => !asked.has(position));
  if (other.length > 0) throw new Error(`bundled, but not a dependency in package.json: ${other.join(", ")}`);
  return packagesAt(positions);
}

/** Returns those of the packages that package.json names. */
export function directIds(packages: readonly Package[]): readonly string[] {
  const direct = new Set(DIRECT.map((name) => locked(name)[0]));
  return packages.map(({ id }) => id).filter((id) => direct.has(id));
}

function reachable(): readonly string[] {
  const found = new Set<string>();
  const visit = (position: string): void => {
    if (found.has(position)) return;
    found.add(position);
    for (const name of Object.keys(locked(position)[2].dependencies ?? {})) visit(positionOf(name, position));
  };
  for (const name of DIRECT) visit(name);
  return [...found];
}

/** Returns where a package that is asked for at a position lies: the nearest one, as Node finds it. */
function positionOf(name: string, from: string): string {
  const parents = from.match(SEGMENT) ?? [];
  for (let depth = parents.length; depth >= 0; depth -= 1) {
    const position = [...parents.slice(0, depth), name].join("/");
    if (position in LOCK.packages) return position;
  }
  throw new Error(`bun.lock: ${name}, which ${from} needs, is missing`);
}

function locked(position: string): LockedPackage {
  const found = LOCK.packages[position];
  if (found === undefined) throw new Error(`bun.lock: ${position} is missing`);
  return found;
}

async function bundledPositions(): Promise<readonly string[]> {
  const { metafile } = await Bun.build({
    entrypoints: ENTRY_POINTS.map((path) => resolve(ROOT, path)),
    target: "bun",
    splitting: true,
    metafile: true,
  });
  const files = Object.keys(metafile?.inputs ?? {}).map((path) => relative(ROOT, resolve(path)));
  const positions = files.map((path) =>
    [...path.matchAll(/node_modules\/((?:@[^/]+\/)?[^/]+)/g)].map(([, name]) => name).join("/"),
  );
  return [...new Set(positions)].filter((position) => position !== "");
}

async function packagesAt(positions: readonly string[]): Promise<readonly Package[]> {
  const packages = await Promise.all(positions.map(packageAt));
  // One version may lie at several positions, with other versions around it.
  const byId = new Map<string, Package>();
  for (const found of packages) {
    const dependencies = new Set([...(byId.get(found.id)?.dependencies ?? []), ...found.dependencies]);
    byId.set(found.id, { ...found, dependencies: [...dependencies].sort() });
  }
  return [...byId.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
}

async function packageAt(position: string): Promise<Package> {
  const [id, , { dependencies = {}, peerDependencies = {} }, integrity] = locked(position);
  const folder = `${ROOT}/node_modules/${(position.match(SEGMENT) ?? []).join("/node_modules/")}`;
  const installed = (await Bun.file(`${folder}/package.json`).json()) as InstalledManifest;
  const at = id.lastIndexOf("@");
  const peers = Object.keys(peerDependencies).filter((name) => name in LOCK.packages);
  return {
    id,
    name: id.slice(0, at),
    version: id.slice(at + 1),
    integrity,
    license: installed.license ?? "none",
    author: authorOf(installed),
    folder,
    dependencies: [...Object.keys(dependencies), ...peers].map((name) => locked(positionOf(name, position))[0]),
  };
}

interface InstalledManifest {
  readonly name: string;
  readonly license?: string;
  readonly author?: string | { readonly name: string };
}

function authorOf({ name, author }: InstalledManifest): string {
  if (author === undefined) return `the authors of ${name}`;
  return (typeof author === "string" ? author : author.name).replace(/ <.*/, "");
}
