import { basename, dirname, extname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { type Sources, sourceAt } from "./sources.ts";

/**
 * The runtime keeps every loaded module under its path for the life of the process. A file that has changed since is therefore
 * loaded under its path and its digest, and so are its relative imports. Rejected: removing a module from the runtime's table
 * and loading it again. If the module never finished loading, the second loading never finishes either.
 */
const DIGEST = "?v=";

/** Maps files that were loaded under their plain path to their digest. Lives as long as the runtime's table. */
const firstDigests = new Map<string, string>();
/** Names under which a module has loaded. */
const loadedNames = new Set<string>();
/**
 * Names under which a module failed to load. The runtime would report the same failure forever, although the cause may be fixed
 * by the next time.
 */
const failedNames = new Set<string>();
/** Maps modules with relative imports to the sources that resolve those imports. */
const importers = new Map<string, Sources>();
let hasResolver = false;

interface FreshImport {
  readonly module: Promise<Record<string, unknown>>;
  /**
   * Names of all its modules, for `forgetModules`. Do not use the names of a module that failed to load: they are taken forever.
   */
  readonly names: readonly string[];
}

/**
 * Loads the current version of a manifest.
 * @throws when one of its imports cannot be loaded again
 */
export function importFresh(file: string, sources: Sources): FreshImport {
  const names = sources.closure(file).map((path) => {
    importers.set(path, sources);
    return nameOf(path, sources);
  });
  if (names.some((name) => pathOf(name) !== name)) registerResolver();
  assertResolvable(file, sources);
  const name = nameOf(file, sources);
  return { names, module: import(name === file ? pathToFileURL(file).href : name) };
}

/** Records whether the modules have loaded. After a failure, the next import uses a new name. */
export function recordLoading(names: readonly string[], hasLoaded: boolean): void {
  for (const name of names) {
    if (hasLoaded) loadedNames.add(name);
    else if (!loadedNames.has(name)) failedNames.add(name);
  }
}

export function forgetModules(names: Iterable<string>, used: ReadonlySet<string>): void {
  const usedPaths = new Set([...used].map(pathOf));
  for (const name of names) {
    if (used.has(name)) continue;
    delete require.cache[name];
    loadedNames.delete(name);
    const path = pathOf(name);
    if (name === path) firstDigests.delete(path);
    if (!usedPaths.has(path)) importers.delete(path);
  }
}

/**
 * @throws {Error} when a changed file is imported without an extension: the runtime does not call the resolver for such an import
 * and would return the old module
 */
function assertResolvable(file: string, sources: Sources): void {
  for (const importer of sources.closure(file)) {
    for (const { specifier, path } of sources.imports(importer)) {
      if (extname(specifier) !== "" || nameOf(path, sources) === path) continue;
      throw new Error(
        `${basename(importer)} imports "${specifier}", which has changed: write it with its extension, or restart`,
      );
    }
  }
}

function pathOf(name: string): string {
  const at = name.lastIndexOf(DIGEST);
  return at < 0 ? name : name.slice(0, at);
}

function nameOf(path: string, sources: Sources): string {
  const digest = sources.digest(path);
  const first = firstDigests.get(path) ?? digest;
  firstDigests.set(path, first);
  const name = first === digest ? path : `${path}${DIGEST}${digest}`;
  let unused = name;
  for (let attempt = 1; failedNames.has(unused); attempt += 1) unused = `${path}${DIGEST}${digest}-${attempt}`;
  return unused;
}

/** Registers a resolver for relative imports. Needed as soon as the first file has changed. */
function registerResolver(): void {
  if (hasResolver) return;
  hasResolver = true;
  Bun.plugin({
    name: "changed manifests",
    setup(build) {
      build.onResolve({ filter: /^\.{1,2}\// }, ({ path, importer }) => {
        const sources = importers.get(importer);
        const found = sources && sourceAt(join(dirname(importer), path));
        return found === undefined || sources === undefined ? undefined : { path: nameOf(found, sources) };
      });
    },
  });
}
