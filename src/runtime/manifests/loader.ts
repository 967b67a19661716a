import { existsSync, readdirSync, realpathSync, statSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import * as zod from "zod";
import { z } from "zod";
import {
  type DefineTool,
  definedInFile,
  isTool,
  isToolFactory,
  refusedManifest,
  type ToolFactory,
} from "../../core/define-tool.ts";
import { errorText, systemCode } from "../../core/error-text.ts";
import { type Fault, ManifestError, NotRegistered } from "../../core/errors.ts";
import { isTable } from "../../core/json.ts";
import type { DeclaredKind, Offers } from "../../core/target-kind.ts";
import { resultWithin } from "../../core/time-limits.ts";
import type { Tool, ToolConfig } from "../../core/types.ts";
import { type Config, pathFrom, type SystemConfig } from "../config/config.ts";
import { fileName, importFresh, recordLoading } from "./fresh-modules.ts";
import { packageExports } from "./package-exports.ts";
import { type LoadedTools, Sources } from "./sources.ts";

const FILES_MAX = 10_000;
const DEPTH_MAX = 16;

/** Functions that the kinds of targets provide to manifests. */
export interface Offered {
  readonly offers: Partial<Offers>;
  readonly kinds: readonly DeclaredKind[];
  /** Declares the tools with these kinds. */
  readonly define: DefineTool;
}

/**
 * Loads every tool that the configuration names: each exported tool of each `*.ts` at or below the paths, the tool of each
 * `*.tool.yaml`, and tools given as values. A broken manifest does not prevent the others from being checked.
 */
export async function loadTools(config: Config, offered: Offered): Promise<LoadedTools> {
  const loader = new ManifestLoader(config, offered);
  for (const [index, source] of config.tools.entries()) {
    if (typeof source === "string") await loader.path(pathFrom(config, source), `tools[${index}]`);
    else loader.value(source, undefined, `tools[${index}]`);
  }
  return loader;
}

class ManifestLoader implements LoadedTools {
  readonly tools: Tool[] = [];
  readonly origins = new Map<Tool, string>();
  readonly lines = new Map<Tool, (fault: Fault) => number | undefined>();
  readonly settingsRead = new Map<Tool, Readonly<Record<string, unknown>>>();
  readonly notRegistered: string[] = [];
  readonly problems: string[] = [];
  readonly sources: Sources;
  readonly modules = new Set<string>();
  readonly #seen = new Set<unknown>();
  readonly #files = new Set<string>();
  #found = 0;
  readonly #names = new Map<string, string>();
  readonly #config: Config;
  readonly #offered: Offered;
  readonly #folder: string;
  readonly #timeoutMs: number;

  constructor(config: Config, offered: Offered) {
    this.sources = new Sources(config.tenant);
    this.#config = config;
    this.#offered = offered;
    this.#folder = config.folder;
    this.#timeoutMs = config.reload.importTimeoutMs;
  }

  async path(path: string, field: string): Promise<void> {
    let files: readonly string[];
    let isFolder: boolean;
    try {
      isFolder = statSync(path).isDirectory();
      files = isFolder ? manifestTree(path).files : [path];
    } catch (error) {
      this.problems.push(`${field}: ${path} cannot be read (${systemCode(error)})`);
      return;
    }
    const before = this.#found + this.problems.length;
    let isNew = files.length === 0;
    for (const found of files) {
      const file = realPath(found);
      if (file === undefined) this.problems.push(`${field}: ${found} cannot be read`);
      if (file === undefined || this.#files.has(file)) continue;
      isNew = true;
      this.#files.add(file);
      await this.#file(file);
    }
    if (this.#found + this.problems.length > before || !isNew) return;
    // A folder may be filled later; a named file must be a manifest.
    const list = isFolder ? this.notRegistered : this.problems;
    list.push(`${field}: ${path} contains no tool: no export was made by defineTool`);
  }

  value(value: unknown, file: string | undefined, field: string): void {
    const manifest = refusedManifest(value);
    if (isTool(value) || isToolFactory(value) || manifest !== undefined) this.#found += 1;
    if (this.#seen.has(value)) return;
    this.#seen.add(value);
    const where = file ?? field;
    try {
      if (manifest !== undefined) this.#add(this.#offered.define(manifest), where, file);
      else if (isTool(value)) this.#add(value, where, file);
      else if (isToolFactory(value)) this.#make(value, where, file);
      else if (file === undefined) this.problems.push(`${field}: is neither a path nor made by defineTool`);
    } catch (error) {
      if (error instanceof NotRegistered) this.notRegistered.push(`${where}: ${error.message}`);
      else this.#addProblems(where, error);
    }
  }

  async #file(file: string): Promise<void> {
    const shown = relative(this.#folder, file) || file;
    try {
      if (DATA_ONLY.test(file)) return await this.#dataOnly(file, shown);
      await offerImports(file);
      const { module: loading, names } = importFresh(file, this.sources);
      const module = await this.#withinTimeout(loading).catch((error: unknown) => {
        recordLoading(names, false);
        throw error;
      });
      recordLoading(names, true);
      for (const name of names) this.modules.add(name);
      for (const [name, exported] of Object.entries(module)) this.value(exported, shown, name);
    } catch (error) {
      this.#addProblems(shown, error);
    }
  }

  async #dataOnly(file: string, shown: string): Promise<void> {
    const { readDataOnly } = await import("./data-only.ts");
    this.#found += 1;
    const read = readDataOnly(this.sources.text(file), this.#offered);
    if ("tool" in read) {
      this.#add(read.tool, shown, shown);
      this.lines.set(read.tool, read.lineOf);
    } else this.problems.push(...read.problems.map((problem) => `${shown}: ${problem}`));
  }

  /** Limits the loading time: a module that never finishes would block everything else. */
  #withinTimeout<T>(loading: Promise<T>): Promise<T> {
    const timeoutMs = this.#timeoutMs;
    return resultWithin(loading, timeoutMs, () => new Error(`its loading did not end within ${timeoutMs} ms`));
  }

  #make(factory: ToolFactory, where: string, file: string | undefined): void {
    const read: Record<string, unknown> = {};
    const settings = {
      ...toolConfig(this.#config, (name, value) => {
        read[name] = value;
      }),
      ...this.#offered.offers,
    };
    const tool = factory.make(settings, this.#offered.define);
    this.settingsRead.set(tool, read);
    this.#add(tool, where, file);
  }

  #add(tool: Tool, where: string, file: string | undefined): void {
    const taken = this.#names.get(tool.name);
    if (taken !== undefined) {
      this.problems.push(`${where}: tool ${tool.name}: name: is already taken by ${taken}`);
      return;
    }
    this.#names.set(tool.name, where);
    this.tools.push(tool);
    if (file !== undefined) this.origins.set(tool, file);
  }

  #addProblems(where: string, error: unknown): void {
    try {
      this.problems.push(...problemsOf(error).map((problem) => `${where}: ${problem}`));
    } catch {
      // The thrown value throws again when it is inspected.
      this.problems.push(`${where}: cannot be loaded`);
    }
  }
}

/** Returns the problems of a thrown value, in operators' terms. */
function problemsOf(error: unknown): readonly string[] {
  if (!isManifestError(error)) return loadProblems(error).map((problem) => `cannot be loaded: ${problem}`);
  return error.faults.map(({ field, message }) => `tool ${error.tool}: ${field}: ${message}`);
}

/** Returns undefined for a dangling link. */
function realPath(path: string): string | undefined {
  try {
    return realpathSync(path);
  } catch {
    return undefined;
  }
}

/** Checks the name too: a manifest may have loaded its own copy of the package. */
function isManifestError(error: unknown): error is ManifestError {
  return (
    error instanceof ManifestError || (error instanceof Error && error.name === "ManifestError" && "faults" in error)
  );
}

/** Manifests without code. */
const DATA_ONLY = /\.tool\.ya?ml$/;

function isManifest(name: string): boolean {
  return DATA_ONLY.test(name) || (/\.ts$/.test(name) && !/\.(d|test|spec)\.ts$/.test(name));
}

/** Returns every manifest file at or below a folder, in a fixed order, and the folders that may contain one. */
export function manifestTree(root: string): { readonly files: readonly string[]; readonly folders: readonly string[] } {
  const files: string[] = [];
  const folders: string[] = [];
  const visit = (folder: string, depth: number): void => {
    if (folders.length < FILES_MAX) folders.push(folder);
    const entries = readdirSync(folder, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1));
    for (const entry of entries) {
      if (entry.name.startsWith(".") || entry.name === "node_modules") continue;
      const path = join(folder, entry.name);
      if (entry.isDirectory() && depth < DEPTH_MAX) visit(path, depth + 1);
      else if (isManifest(entry.name) && files.length < FILES_MAX) files.push(path);
    }
  };
  visit(root, 0);
  return { files, folders };
}

/**
 * Returns the functions with which manifests read the configuration. The kinds of targets implement the others. `onRead` gets the
 * name and the value of each setting that is read.
 */
function toolConfig(config: Config, onRead: (name: string, value: unknown) => void): ToolConfig {
  const systemRead = (system: string, key: string): SystemConfig | undefined => {
    const entry = config.systems[system];
    onRead(`${system}.${key}`, memberOf(entry, key));
    return entry;
  };
  const names = (system: string, list: string): readonly string[] => listOf(systemRead(system, list), system, list);
  const notOffered = (): never => {
    throw new NotRegistered("this build has no kind of target that offers it");
  };
  return {
    repository: notOffered,
    gitDirectory: notOffered,
    shellWorkspace: notOffered,
    workspaceMounts: notOffered,
    oneOf: (system, list) => z.enum(names(system, list) as [string, ...string[]]),
    sample: (system, list) => names(system, list)[0] ?? "",
    setting: (system, key) => settingOf(systemRead(system, key), system, key),
    path: (system, key) => pathFrom(config, settingOf(systemRead(system, key), system, key)),
    has: (system, key) => isFilled(memberOf(systemRead(system, key), key)),
  };
}

function settingOf(system: SystemConfig | undefined, name: string, key: string): string {
  const value = memberOf(system, key);
  if (typeof value !== "string" || value === "") {
    throw new NotRegistered(`systems.${name}.${key} is not set`);
  }
  return value;
}

function memberOf(system: SystemConfig | undefined, key: string): unknown {
  return system !== undefined && Object.hasOwn(system, key) ? system[key] : undefined;
}

function isFilled(value: unknown): boolean {
  if (Array.isArray(value)) return value.length > 0;
  return isTable(value) ? Object.keys(value).length > 0 : Boolean(value);
}

function listOf(system: SystemConfig | undefined, name: string, list: string): readonly string[] {
  const value: unknown = system?.[list];
  const found = isTable(value) ? Object.keys(value) : value;
  if (!Array.isArray(found) || found.length === 0) {
    throw new NotRegistered(`systems.${name}.${list} is empty`);
  }
  return found;
}

const PROBLEMS_MAX = 5;

/**
 * Returns why a module did not load. For invalid code, the runtime reports the position, and may report several problems in one
 * error.
 */
function loadProblems(error: unknown): readonly string[] {
  const problems: readonly unknown[] = error instanceof AggregateError ? error.errors.slice(0, PROBLEMS_MAX) : [];
  return (problems.length === 0 ? [error] : problems).map((problem) => positionOf(problem) + errorText(problem));
}

/** Returns `file.ts:3:14: `; an empty text without a position. */
function positionOf(problem: unknown): string {
  const position = isTable(problem) ? problem["position"] : undefined;
  if (!isTable(position)) return "";
  const { file, line, column } = position;
  return typeof file === "string" && typeof line === "number" ? `${fileName(file)}:${line}:${String(column)}: ` : "";
}

/** Module names that this process resolves itself. A registration lasts for the life of the process. */
const provided = new Set<string>();

/**
 * Makes `safe-tool-call` and `zod` importable for a manifest anywhere, without installed packages. `safe-tool-call` is always
 * this package itself. A `zod` in the manifest's own folder takes precedence.
 *
 * Rejected: `onResolve`, which this runtime does not call for bare names.
 */
async function offerImports(manifest: string): Promise<void> {
  if (!provided.has("safe-tool-call")) {
    const exports = await packageExports();
    provide("safe-tool-call", { ...exports, defineTool: definedInFile(exports.defineTool) });
  }
  if (!provided.has("zod") && !hasPackage(dirname(manifest), "zod")) provide("zod", zod);
}

function provide(name: string, exports: Record<string, unknown>): void {
  provided.add(name);
  Bun.plugin({ name, setup: (build) => void build.module(name, () => ({ loader: "object", exports })) });
}

function hasPackage(folder: string, name: string): boolean {
  if (existsSync(join(folder, "node_modules", name, "package.json"))) return true;
  const above = dirname(folder);
  return above !== folder && hasPackage(above, name);
}
