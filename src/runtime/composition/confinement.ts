import { realpathSync, statSync } from "node:fs";
import { isBelow } from "../../core/paths.ts";
import { type ChildConfinement, openConfinement } from "../../targets/command/confinement/confinement.ts";
import { SYSTEM_DIRECTORIES } from "../../targets/command/confinement/profile.ts";
import type { Config } from "../config/config.ts";
import type { Repository } from "../manifests/loader.ts";
import type { LoadedTools } from "../manifests/sources.ts";
import { ownCode } from "../own-code.ts";
import { platformReaches } from "../platform/files.ts";
import { type ConfiguredPath, ownPlaces } from "./workspace.ts";

/** The confinement of the tools' commands, and what is shown of it. */
export interface CommandConfinement {
  readonly confinement: ChildConfinement;
  /** The tools without those that may not run on this machine. */
  readonly loaded: LoadedTools;
}

export interface ConfinementShown {
  readonly mode: "require" | "prefer" | "off";
  /** Maps each tool to `confined` or `none`. */
  readonly tools: Readonly<Record<string, string>>;
  /** Maps each tool to the problem with its confinement. */
  readonly faults: Readonly<Record<string, string>>;
}

export interface CommandParts {
  readonly commands: ReadonlyMap<string, string>;
  readonly repositories: ReadonlyMap<string, Repository>;
  /** Returns unguessable ids. */
  readonly newId: () => string;
}

/** Tries every tool's confinement and drops the tools that must not run without it. */
export async function holdCommands(
  config: Config,
  { loaded, commands, repositories, newId }: CommandParts & { readonly loaded: LoadedTools },
  problems: string[],
): Promise<CommandConfinement> {
  const { confinement: mode, unconfinedBash, launchers } = config.commands;
  const confinement = await openConfinement(loaded.tools, {
    ...{ mode, unconfinedShell: unconfinedBash, launchersMax: launchers, commands },
    ...{ reaches: platformReaches(config), newId },
  });
  problems.push(...overlaps(config, confinement, repositories));
  const { withheld } = confinement;
  return {
    confinement,
    loaded: {
      ...{ origins: loaded.origins, problems: loaded.problems, sources: loaded.sources, modules: loaded.modules },
      tools: loaded.tools.filter(({ name }) => !withheld.has(name)),
      notRegistered: [...loaded.notRegistered, ...withheld.values()],
    },
  };
}

/** Returns the confinement to show; undefined when no tool starts a command. */
export function shownConfinement(config: Config, { levels, faults }: ChildConfinement): ConfinementShown | undefined {
  if (levels.size + faults.size === 0) return undefined;
  return {
    mode: config.commands.confinement,
    tools: Object.fromEntries(levels),
    faults: Object.fromEntries(faults),
  };
}

/** Returns the service's own files and directories that a command could read or change in its granted directories. */
function overlaps(
  config: Config,
  { granted }: ChildConfinement,
  repositories: ReadonlyMap<string, Repository>,
): readonly string[] {
  const own = [...ownPlaces(config), { field: "the service itself", path: ownCode() }];
  const usesGit = [...granted].some(({ command }) => command === "git");
  const directories = [
    ...granted.flatMap(({ tool, paths }) => paths.map((path) => ({ field: `tool ${tool}`, path }))),
    ...(usesGit ? [...repositories] : []).map(([name, { gitDirectory }]) => ({
      field: `systems.git.repositories.${name}`,
      path: gitDirectory,
    })),
  ].filter(({ path }) => isDirectory(path));
  const found = directories.flatMap((directory) => clashes({ ...directory, path: real(directory.path) }, own));
  // Code and contracts may be in the system's program directories: they are not secret.
  const secret = ownPlaces(config).filter(({ field }) => !/^tools\[|\.(?:proto|descriptorSet|rootCert)$/.test(field));
  const system = SYSTEM_DIRECTORIES.filter((path) => granted.length > 0 && isDirectory(path)).flatMap((path) =>
    secret
      .filter((place) => isBelow(place.path, real(path)))
      .map((place) => clash({ field: "every command", path }, place)),
  );
  return [...new Set([...found, ...system])];
}

function clashes(directory: ConfiguredPath, own: readonly ConfiguredPath[]): readonly string[] {
  return own
    .filter(({ path }) => isBelow(path, directory.path) || (isBelow(directory.path, path) && isDirectory(path)))
    .map((place) => clash(directory, place));
}

function clash(directory: ConfiguredPath, place: ConfiguredPath): string {
  return `${directory.field}: may use ${directory.path}, and ${place.field}: ${place.path} lies in it or around it`;
}

function isDirectory(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}

function real(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}
