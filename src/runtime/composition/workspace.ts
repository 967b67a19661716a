import { mkdirSync, realpathSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { errorText, systemCode } from "../../core/error-text.ts";
import { isBelow } from "../../core/paths.ts";
import type { Handler } from "../../core/types.ts";
import type { ConfinementKind } from "../../targets/files/confinement.ts";
import { fsHandler, noFsHandler } from "../../targets/files/handler.ts";
import { type MountName, type Mounts, openMounts } from "../../targets/files/mounts.ts";
import { workflowRules } from "../../targets/files/workflow.ts";
import { type Config, pathFrom } from "../config/config.ts";
import { ownCode } from "../own-code.ts";

/** The workspace's directories, checked before agents can access them. Problems are added to `problems`. */

export interface Workspace {
  readonly handler: Handler;
  /** Why no file tool can work here. */
  readonly fault: string | undefined;
  /** The mechanism that confines paths to their mounts; undefined when there are no mounts. */
  readonly confinement: ConfinementKind | undefined;
}

export interface WorkspaceParts {
  readonly now: () => number;
  readonly newId: () => string;
}

export function openWorkspace(config: Config, { now, newId }: WorkspaceParts, problems: string[]): Workspace {
  const before = problems.length;
  const directories = mountDirectories(config, problems);
  const own = ownPlaces(config);
  problems.push(...overlaps(directories, own));
  const workflow = readWorkflow(config, problems);
  if (directories.size === 0 || problems.length > before || workflow === undefined) {
    return without(directories.size === 0 ? "workspace names no directory" : "the workspace cannot be used");
  }
  const mounts = tryToOpen(directories, own, problems);
  if (mounts === undefined) return without("nothing here keeps paths inside a directory (no openat2, no O_PATH)");
  const handler = fsHandler({ mounts, limits: config.workspace, workflow, now, newId });
  return { handler, fault: undefined, confinement: mounts.confinement.kind };
}

function without(fault: string): Workspace {
  return { handler: noFsHandler(fault), fault, confinement: undefined };
}

function tryToOpen(
  directories: ReadonlyMap<MountName, string>,
  own: readonly ConfiguredPath[],
  problems: string[],
): Mounts | undefined {
  try {
    const protectedPaths = [...own.map(({ path }) => path), ownCode()];
    return openMounts({ directories, protectedPaths });
  } catch (error) {
    problems.push(`workspace: cannot be opened (${systemCode(error)})`);
    return undefined;
  }
}

function readWorkflow(config: Config, problems: string[]): ReturnType<typeof workflowRules> | undefined {
  try {
    return workflowRules(config.workspace.workflow);
  } catch (error) {
    problems.push(`workspace.workflow.schema: ${errorText(error)}`);
    return undefined;
  }
}

function mountDirectories(config: Config, problems: string[]): ReadonlyMap<MountName, string> {
  const { project, pkg, state, runId } = config.workspace;
  const directories = new Map<MountName, string>();
  const add = (name: MountName, path: string | undefined): void => {
    const directory = path === undefined ? undefined : realDirectory(pathFrom(config, path));
    if (directory !== undefined) directories.set(name, directory);
    else if (path !== undefined) problems.push(`workspace.${name}: there is no directory ${path}`);
  };
  add("project", project);
  add("pkg", pkg);
  const run = state === undefined || runId === undefined ? state : join(state, "runs", runId, "state");
  if (run !== undefined) makeDirectory(pathFrom(config, run));
  add("state", run);
  return directories;
}

/** Creates the directory. A failure leaves it missing, and the caller reports that. */
function makeDirectory(path: string): void {
  try {
    mkdirSync(path, { recursive: true, mode: 0o700 });
  } catch {
    // Reported by the next check of the directory.
  }
}

export interface ConfiguredPath {
  /** The configuration's name for the path. */
  readonly field: string;
  /** Absolute. From `ownPlaces`: the real path, or its existing part resolved when the file does not exist yet. */
  readonly path: string;
}

/** Configuration keys whose values are the service's own files or directories. */
const PATH_KEY = /^(?:dir|socket|proto|descriptorSet|kubeconfig|rootCert|clientCert|clientKey|[a-zA-Z]*(?:File|Dir))$/;
/** URLs of files: `sqlite:` with any path, every other scheme with one that begins with a slash or dots. */
const FILE_URL = /^(?:sqlite:(?:\/\/)?|[a-z][a-z0-9+.-]*:\/\/(?=\.{0,2}\/))/;

/**
 * Returns all of the service's own paths that agents must not access: configuration, manifests, contracts, keys, audit, stores.
 */
export function ownPlaces(config: Config): readonly ConfiguredPath[] {
  return namedPlaces(config).map(({ field, path }) => ({ field, path: realPlace(path) }));
}

/** Returns the same paths, absolute and as the configuration names them: links are not resolved. */
export function namedPlaces(config: Config): readonly ConfiguredPath[] {
  const places: ConfiguredPath[] = [];
  const add = (field: string, path: string): void => {
    places.push({ field, path: pathFrom(config, path) });
  };
  const visit = (value: unknown, field: string): void => {
    if (typeof value !== "object" || value === null) return;
    for (const [key, inner] of Object.entries(value)) {
      const below = Array.isArray(value) ? `${field}[${key}]` : `${field}${field === "" ? "" : "."}${key}`;
      if (typeof inner === "string" && PATH_KEY.test(key)) add(below, inner);
      else if (typeof inner === "string" && FILE_URL.test(inner)) add(below, inner.replace(FILE_URL, ""));
      else visit(inner, below);
    }
  };
  const { server, tools, audit, jwt, systems, commands, approvals, assertion, telemetry, origin } = config;
  for (const [index, source] of tools.entries()) if (typeof source === "string") add(`tools[${index}]`, source);
  visit({ server, audit, jwt, systems, commands, approvals, assertion, telemetry }, "");
  if (statSync(origin, { throwIfNoEntry: false })?.isFile() === true) add("the configuration", origin);
  return places;
}

/**
 * Returns overlaps: a mount and one of the service's own paths, one below the other, or two mounts of which one could be written
 * through the other.
 */
function overlaps(directories: ReadonlyMap<MountName, string>, own: readonly ConfiguredPath[]): readonly string[] {
  const mounts = [...directories].map(([name, path]) => ({ name, field: `workspace.${name}`, path }));
  const withOwn = mounts.flatMap((mount) =>
    own
      .filter((place) => isBelow(place.path, mount.path) || isBelow(mount.path, place.path))
      .map((place) => `${mount.field}: ${mount.path} and ${place.field}: ${place.path} lie one below the other`),
  );
  const withMounts = mounts.flatMap((mount) =>
    mounts
      .filter((other) => isBelow(mount.path, other.path) && (mount.path !== other.path || mount.name < other.name))
      .filter((other) => mount !== other && (mount.path === other.path || other.name === "pkg"))
      .map((other) => `${mount.field}: ${mount.path} lies in ${other.field}: ${other.path}, which has other rules`),
  );
  return [...withOwn, ...withMounts];
}

/** Returns the real path of the nearest existing directory, with the names below it that do not exist yet appended. */
function realPlace(path: string): string {
  const absolute = resolve(path);
  try {
    return realpathSync(absolute);
  } catch {
    const above = dirname(absolute);
    return above === absolute ? absolute : join(realPlace(above), absolute.slice(above.length));
  }
}

function realDirectory(path: string): string | undefined {
  try {
    const real = realpathSync(path);
    return statSync(real).isDirectory() ? real : undefined;
  } catch {
    return undefined;
  }
}
