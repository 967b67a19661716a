import { basename, dirname, extname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { readPlainFile } from "../config/plain-file.ts";
import { CODE, type Sources, sourceAt } from "./sources.ts";

/**
 * The runtime keeps every loaded module under its path for the life of the process. A file that has changed since is therefore
 * loaded under its path and its digest, and so are its relative imports. Rejected: removing a module from the runtime's table
 * and loading it again. If the module never finished loading, the second loading never finishes either.
 */
const DIGEST = "?v=";
/**
 * A tenant has modules of its own: the path that the runtime knows has the tenant's name, in the same folder. For code, the name is
 * in the path itself: the runtime does not say what follows a `?` when it asks how to resolve an import.
 */
const OF_TENANT = "~tenant-";
const CODE_OF_TENANT = /~tenant-[a-z0-9-]+\.\w+(?:\?|$)/;

/** Maps paths that were loaded without a digest to their digest. Lives as long as the runtime's table. */
const firstDigests = new Map<string, string>();
/** Names under which a module has loaded. */
const loadedNames = new Set<string>();
/**
 * Names under which a module failed to load. The runtime would report the same failure forever, although the cause may be fixed
 * by the next time.
 */
const failedNames = new Set<string>();
/** Maps paths that the runtime knows to their files, and to the sources that resolve their relative imports. */
const importers = new Map<string, { readonly file: string; readonly sources: Sources }>();
let hasResolver = false;
let hasTenants = false;

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
  const names = sources.closure(file).map((path) => ownName(path, sources));
  if (sources.tenant !== undefined) registerTenants();
  if (sources.tenant !== undefined || names.some((name) => pathOf(name) !== name)) registerResolver();
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
 * @throws {Error} when a changed file, or one of a tenant, is imported without an extension: the runtime does not call the resolver
 * for such an import and would return the old module, or the one of the service itself
 */
function assertResolvable(file: string, sources: Sources): void {
  for (const importer of sources.closure(file)) {
    for (const { specifier, path } of sources.imports(importer)) {
      if (extname(specifier) !== "" || nameOf(path, sources) === path) continue;
      const why =
        sources.tenant === undefined
          ? ", which has changed: write it with its extension, or restart"
          : ": a manifest of a tenant writes it with its extension";
      throw new Error(`${basename(importer)} imports "${specifier}"${why}`);
    }
  }
}

/** Returns the name of a module's file, for messages. */
export function fileName(name: string): string {
  return basename(pathOf(name)).replace(/~tenant-[a-z0-9-]+(?=\.\w+$)/, "");
}

function pathOf(name: string): string {
  const at = name.lastIndexOf(DIGEST);
  return at < 0 ? name : name.slice(0, at);
}

/** Returns the path under which the runtime knows a file. */
function placeOf(file: string, { tenant }: Sources): string {
  if (tenant === undefined) return file;
  const extension = extname(file);
  return CODE.test(file)
    ? `${file.slice(0, -extension.length)}${OF_TENANT}${tenant}${extension}`
    : `${file}?${OF_TENANT}${tenant}`;
}

function nameOf(file: string, sources: Sources): string {
  const digest = sources.digest(file);
  const path = placeOf(file, sources);
  const first = firstDigests.get(path) ?? digest;
  firstDigests.set(path, first);
  const name = first === digest ? path : `${path}${DIGEST}${digest}`;
  let unused = name;
  for (let attempt = 1; failedNames.has(unused); attempt += 1) unused = `${path}${DIGEST}${digest}-${attempt}`;
  return unused;
}

/** Returns the name of a module whose imports these sources resolve. */
function ownName(file: string, sources: Sources): string {
  importers.set(placeOf(file, sources), { file, sources });
  return nameOf(file, sources);
}

/** Registers a resolver for relative imports. Needed as soon as the first file has changed, or has a module for each tenant. */
function registerResolver(): void {
  if (hasResolver) return;
  hasResolver = true;
  Bun.plugin({
    name: "changed manifests",
    setup(build) {
      build.onResolve({ filter: /^\.{1,2}\// }, ({ path, importer }) => {
        const sources = importers.get(importer)?.sources;
        const found = sources && sourceAt(join(dirname(importer), path));
        if (found === undefined || sources === undefined) return undefined;
        return { path: sources.tenant === undefined ? nameOf(found, sources) : ownName(found, sources) };
      });
    },
  });
}

/** Lets the runtime load code under a path with the name of a tenant. */
function registerTenants(): void {
  if (hasTenants) return;
  hasTenants = true;
  Bun.plugin({
    name: "manifests of tenants",
    setup(build) {
      build.onResolve({ filter: CODE_OF_TENANT }, ({ path }) => ({ path }));
      build.onLoad({ filter: CODE_OF_TENANT }, ({ path: name }) => {
        const path = pathOf(name);
        const file = importers.get(path)?.file ?? path;
        const loader = loaderOf(file);
        const contents = readPlainFile(file).toString("utf8");
        if (isCommonJs(contents, loader)) {
          throw new Error(`${basename(file)} is CommonJS: a manifest of a tenant consists of modules with \`export\``);
        }
        return { contents, loader };
      });
    },
  });
}

/** The runtime would not run CommonJS that it has not read itself, and return a module without exports. */
function isCommonJs(code: string, loader: Loader): boolean {
  if (!/\b(?:module\s*\.\s*exports|exports\s*[.[]|export\s*=)/.test(code)) return false;
  try {
    const { exports, imports } = new Bun.Transpiler({ loader }).scan(code);
    return exports.length === 0 && !imports.some(({ kind }) => kind === "import-statement");
  } catch {
    // Invalid code: the runtime reports the problem with its position.
    return false;
  }
}

type Loader = "js" | "jsx" | "ts" | "tsx";

function loaderOf(file: string): Loader {
  const [, language = "", x = ""] = /([jt]s)(x?)$/.exec(file) ?? [];
  return `${language}${x}` as Loader;
}
