import { basename, dirname, extname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { type Sources, sourceAt } from "./sources.ts";

/**
 * The runtime keeps every module that it has loaded, under its path, for the life of the process. A file that has changed since is
 * therefore loaded under its path and its digest, and so is what it imports by a relative path.
 *
 * Rejected: taking a module out of the runtime's table to load it again, which never ends after a module that never ended.
 */
const DIGEST = "?v=";

/** Files that were loaded under their plain path, and with what digest. Lasts as long as the runtime's table does. */
const plain = new Map<string, string>();
/** Names under which some module has loaded. */
const loaded = new Set<string>();
/** Names under which one did not, and the runtime would say so for ever: what it lacked may be there by the next time. */
const spent = new Set<string>();
/** Whoever imports by a relative path, and whose imports are looked at. */
const importers = new Map<string, Sources>();
let isAsked = false;

export interface FreshImport {
  /** What it exports, once it has loaded. */
  readonly module: Promise<Record<string, unknown>>;
  /** Names of all its modules, for `forgetModules`; not to be used of one that did not load: its name is taken for good. */
  readonly names: readonly string[];
}

/** Loads a manifest as it stands now. @throws when what it imports cannot be loaded anew */
export function importFresh(file: string, sources: Sources): FreshImport {
  const names = sources.closure(file).map((path) => {
    importers.set(path, sources);
    return nameOf(path, sources);
  });
  if (names.some((name) => pathOf(name) !== name)) askAboutImports();
  assertAsked(file, sources);
  const name = nameOf(file, sources);
  return { names, module: import(name === file ? pathToFileURL(file).href : name) };
}

/** Says that such a manifest has loaded, or did not: the next one to want it anew then loads it anew. */
export function settleModules(names: readonly string[], hasLoaded: boolean): void {
  for (const name of names) {
    if (hasLoaded) loaded.add(name);
    else if (!loaded.has(name)) spent.add(name);
  }
}

/** Lets those modules go that nothing in `used` needs any more. */
export function forgetModules(names: Iterable<string>, used: ReadonlySet<string>): void {
  const usedPaths = new Set([...used].map(pathOf));
  for (const name of names) {
    if (used.has(name)) continue;
    delete require.cache[name];
    loaded.delete(name);
    const path = pathOf(name);
    if (name === path) plain.delete(path);
    if (!usedPaths.has(path)) importers.delete(path);
  }
}

/** The runtime does not ask about an import without an extension, and would give what it has. */
function assertAsked(file: string, sources: Sources): void {
  for (const importer of sources.closure(file)) {
    for (const { named, path } of sources.imports(importer)) {
      if (extname(named) !== "" || nameOf(path, sources) === path) continue;
      throw new Error(
        `${basename(importer)} imports "${named}", which has changed: write it with its extension, or restart`,
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
  const first = plain.get(path) ?? digest;
  plain.set(path, first);
  const name = first === digest ? path : `${path}${DIGEST}${digest}`;
  let unspent = name;
  for (let attempt = 1; spent.has(unspent); attempt += 1) unspent = `${path}${DIGEST}${digest}-${attempt}`;
  return unspent;
}

/** From the first file that has changed on, the runtime asks which file a relative import means. */
function askAboutImports(): void {
  if (isAsked) return;
  isAsked = true;
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
