import { lstatSync, mkdirSync, mkdtempSync, readdirSync, realpathSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, isAbsolute, join } from "node:path";
import { NotRegistered } from "../../core/errors.ts";
import { isTable } from "../../core/json.ts";
import { unboundedStrings } from "../../core/schema/bounds.ts";
import {
  type ConfinementShown,
  isBelow,
  type OpenedKind,
  type OwnPath,
  type TargetContext,
  type TargetKind,
  type ToolNote,
} from "../../core/target-kind.ts";
import type { CliTarget, Handler, Tool } from "../../core/types.ts";
import { type ChildConfinement, openConfinement } from "./confinement/confinement.ts";
import { SYSTEM_DIRECTORIES } from "./confinement/profile.ts";
import { findProgram } from "./environment.ts";
import { inspectRepository, repositoryFault } from "./git-repository.ts";
import { cliHandler, type Survivors } from "./handler.ts";
import { cliFaults } from "./manifest.ts";
import { PLATFORM_SYSTEMS, platformAccess, readPlatformFiles } from "./platform.ts";
import { realDirectory } from "./shell.ts";

export interface CommandContext extends TargetContext {
  readonly config: {
    readonly systems: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
    readonly commands: {
      readonly allowed: readonly string[];
      readonly confinement: ConfinementShown["mode"];
      readonly launchers: number;
      readonly unconfinedBash: boolean;
      readonly memoryBytesMax?: number | undefined;
    };
    readonly workspace: { readonly project?: string | undefined };
    readonly searchPath: string;
  };
  readonly onSurvivors?: ((survivors: Survivors) => void) | undefined;
}

/** A configured git repository that has passed the inspection. Paths are absolute and without links. */
interface Repository {
  readonly directory: string;
  readonly gitDirectory: string;
}

export const command: TargetKind<CommandContext> = {
  name: "cli",
  key: "cli",
  systems: { named: PLATFORM_SYSTEMS },
  data: false,
  check: cliFaults,
  checkInput: (input) =>
    unboundedStrings(input).map(({ field, message }) => ({
      field: field === "" ? "input" : `input.${field}`,
      message,
    })),
  hasErrorText: (cli) => isTable(cli) && !("shell" in cli),
  reachesOthers: usesNetwork,
  category: () => "command",
  startsShells: true,
  open,
};

/** Creates a command target; the system defaults to the command's name. */
export function cliCommand<Input, Names extends string = never>(
  command: CliTarget<Input, Names>["cli"] & { readonly system?: string },
): CliTarget<Input, Names> {
  const { system = command.command, ...cli } = command;
  return { system, cli };
}

/**
 * Returns whether the command may use the network: with the arguments of any example, when that depends on them. A shell that is
 * not confined may always do so.
 */
function usesNetwork(cli: unknown, accepts: readonly unknown[], isShellConfined: boolean): boolean {
  const { confinement, shell } = cli as CliTarget["cli"];
  if (shell !== undefined && !isShellConfined) return true;
  if (typeof confinement !== "function") return confinement?.network !== undefined;
  if (accepts.length === 0) return true;
  return accepts.some((input) => {
    try {
      return confinement(input as never).network !== undefined;
    } catch {
      return true;
    }
  });
}

function open(context: CommandContext): OpenedKind {
  const { config, now, newId, onSurvivors } = context;
  const { commands: settings } = config;
  const { commands, broken } = resolveCommands(context);
  const repositories = readRepositories(context);
  const repositoryNamed = (name: string): Repository => {
    const repository = repositories.get(name);
    if (repository === undefined) throw new NotRegistered(`systems.git.repositories.${name} is not usable`);
    return repository;
  };
  let confinement: ChildConfinement | undefined;
  let handler: Handler | undefined;
  return {
    offers: {
      repository: (name) => repositoryNamed(name).directory,
      gitDirectory: (name) => repositoryNamed(name).gitDirectory,
      shellWorkspace: () => shellWorkspace(context),
    },
    async prepare(tools) {
      confinement = await openConfinement(tools, {
        mode: settings.confinement,
        unconfinedShell: settings.unconfinedBash,
        launchersMax: settings.launchers,
        commands,
        systemAccess: platformAccess(context),
        newId,
      });
      handler = cliHandler({
        commands,
        confinement,
        now,
        newId,
        onSurvivors,
        memoryBytesMax: settings.memoryBytesMax,
        emptyDirectory: privateEmptyDirectory(),
        inspections: new Map([["git", repositoryFault], ...readPlatformFiles(context)]),
      });
      context.problems.push(...overlaps(context, confinement, repositories));
      return confinement.withheld;
    },
    isBroken: ({ target }) => "cli" in target && broken.has(target.cli.command) && !commands.has(target.cli.command),
    bind(tool) {
      if (handler === undefined) throw new Error("prepare the tools before binding them");
      return handler.bind(tool);
    },
    report: (tools) => ({
      notes: confinementNotes(shownConfinement(context, confinement)),
      toolNotes: tools.flatMap(exampleNotes),
    }),
    confinement: () => shownConfinement(context, confinement),
    close: async () => handler?.close(),
  };
}

/** Returns a note when no example runs the argv builder: an agent would be the first to find a mistake in it. */
function exampleNotes({ name, examples }: Tool): readonly ToolNote[] {
  if (examples.accepts.length > 0) return [];
  return [{ tool: name, field: "examples.accepts", message: "is empty: the argv was never tried" }];
}

function shownConfinement(
  { config }: CommandContext,
  confinement: ChildConfinement | undefined,
): ConfinementShown | undefined {
  if (confinement === undefined || confinement.levels.size + confinement.faults.size === 0) return undefined;
  return {
    mode: config.commands.confinement,
    tools: Object.fromEntries(confinement.levels),
    faults: Object.fromEntries(confinement.faults),
  };
}

function confinementNotes(shown: ConfinementShown | undefined): readonly string[] {
  if (shown === undefined) return [];
  const toolsWithLevel = (wanted: string): readonly string[] =>
    Object.entries(shown.tools).flatMap(([tool, level]) => (level === wanted ? [tool] : []));
  const confined = toolsWithLevel("confined");
  return [
    ...(confined.length > 0 ? [`confined: ${confined.join(", ")}`] : []),
    ...toolsWithLevel("none").map(
      (tool) =>
        `tool ${tool} runs unconfined (${shown.faults[tool] ?? "the kernel cannot, or commands.confinement is off"})`,
    ),
  ];
}

interface Programs {
  /** Maps base commands to absolute paths of binaries. */
  readonly commands: ReadonlyMap<string, string>;
  /** Base commands that are allowed but were not found. */
  readonly broken: ReadonlySet<string>;
}

export function resolveCommands({ config, problems }: Pick<CommandContext, "config" | "problems">): Programs {
  const { commands: settings, searchPath } = config;
  const commands = new Map<string, string>();
  const broken = new Set<string>();
  const report = (allowed: string, problem: string): void => {
    broken.add(basename(allowed));
    problems.push(problem);
  };
  for (const [index, allowed] of settings.allowed.entries()) {
    const field = `commands.allowed[${index}]`;
    if (!isAbsolute(allowed) && /[\s/]/.test(allowed)) {
      report(allowed, `${field}: ${allowed} must be a plain program name such as git, or an absolute path`);
      continue;
    }
    // A shell without confinement runs only if the configuration explicitly permits it.
    if (basename(allowed) === "bash" && settings.confinement === "off" && !settings.unconfinedBash) continue;
    const binary = findProgram(allowed, searchPath);
    const searched = isAbsolute(allowed) ? "" : " on the service's PATH";
    if (binary !== undefined) commands.set(basename(allowed), binary);
    else report(allowed, `${field}: no program ${allowed} was found${searched}`);
  }
  return { commands, broken };
}

/** Reads `systems.git.repositories` and inspects each repository. */
export function readRepositories({ config, pathOf, problems }: CommandContext): ReadonlyMap<string, Repository> {
  const repositories = new Map<string, Repository>();
  const declared = config.systems["git"]?.["repositories"];
  if (Array.isArray(declared)) {
    problems.push("systems.git.repositories: must map names to directories: { payments: /srv/git/payments }");
  }
  if (!isTable(declared)) return repositories;
  for (const [name, path] of Object.entries(declared as Readonly<Record<string, string>>)) {
    const directory = realDirectory(pathOf(path));
    const inspected = directory === undefined ? { fault: "there is no such directory" } : inspectRepository(directory);
    if ("fault" in inspected) problems.push(`systems.git.repositories.${name}: ${path}: ${inspected.fault}`);
    else repositories.set(name, { directory: inspected.workTree ?? inspected.gitDir, gitDirectory: inspected.gitDir });
  }
  return repositories;
}

function shellWorkspace({ config, pathOf }: CommandContext): string {
  const { allowed, confinement, unconfinedBash } = config.commands;
  if (!allowed.some((program) => basename(program) === "bash")) {
    throw new NotRegistered("bash is not among commands.allowed");
  }
  // Whether the kernel can confine it is checked later, together with all other command tools.
  if (confinement === "off" && !unconfinedBash) {
    throw new NotRegistered("no confinement; commands.unconfinedBash: true lets it run unconfined");
  }
  const { project } = config.workspace;
  if (project === undefined) throw new NotRegistered("workspace.project is not set");
  const directory = realDirectory(pathOf(project));
  if (directory === undefined) throw new Error(`workspace.project: there is no directory ${project}`);
  return directory;
}

/**
 * Returns the working directory and home of commands: private, empty, and the same at every start, so that plans are
 * the same too. If the path belongs to another user, returns a new directory.
 */
function privateEmptyDirectory(): string {
  // Not userInfo(): in a container, the user may have no name.
  const uid = process.getuid?.();
  const path = join(realpathSync(tmpdir()), `safe-tool-call-${uid}-empty`);
  try {
    mkdirSync(path, { mode: 0o500 });
  } catch {
    const found = lstatSync(path);
    const isOurs = found.isDirectory() && found.uid === uid && (found.mode & 0o077) === 0;
    if (!isOurs || readdirSync(path).length > 0) return mkdtempSync(`${path}-`);
  }
  return path;
}

/** Returns an error for each of the service's own paths that a command could access in its directories. */
function overlaps(
  { ownPaths, ownCode }: CommandContext,
  { granted }: ChildConfinement,
  repositories: ReadonlyMap<string, Repository>,
): readonly string[] {
  const own = [...ownPaths, { field: "the service itself", path: ownCode }];
  const usesGit = granted.some((each) => each.command === "git");
  const directories = [
    ...granted.flatMap(({ tool, paths }) => paths.map((path) => ({ field: `tool ${tool}`, path }))),
    ...(usesGit ? [...repositories] : []).map(([name, { gitDirectory }]) => ({
      field: `systems.git.repositories.${name}`,
      path: gitDirectory,
    })),
  ];
  const found = directories.flatMap(({ field, path }) => {
    const directory = realDirectory(path);
    if (directory === undefined) return [];
    const isClash = (other: string): boolean =>
      isBelow(other, directory) || (isBelow(directory, other) && realDirectory(other) !== undefined);
    return own.filter((each) => isClash(each.path)).map((each) => overlapText({ field, path: directory }, each));
  });
  // Code and contracts may be in the system's program directories: they are not secret.
  const secret = ownPaths.filter(({ field }) => !/^tools\[|\.(?:proto|descriptorSet|rootCert)$/.test(field));
  const system = (granted.length > 0 ? SYSTEM_DIRECTORIES : []).flatMap((path) => {
    const real = realDirectory(path);
    const inside = secret.filter((each) => real !== undefined && isBelow(each.path, real));
    return inside.map((each) => overlapText({ field: "every command", path }, each));
  });
  return [...new Set([...found, ...system])];
}

function overlapText(directory: OwnPath, own: OwnPath): string {
  return `${directory.field}: may use ${directory.path}, and ${own.field}: ${own.path} is inside it or contains it`;
}
