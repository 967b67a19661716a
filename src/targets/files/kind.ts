import { mkdirSync, realpathSync, statSync } from "node:fs";
import { join } from "node:path";
import { errorText, systemCode } from "../../core/error-text.ts";
import { ManifestError, NotRegistered } from "../../core/errors.ts";
import { isTable } from "../../core/json.ts";
import { oneOf, unknownKeys, unless } from "../../core/manifest/checks.ts";
import { isBelow, type OpenedKind, type OwnPath, type TargetContext, type TargetKind } from "../../core/target-kind.ts";
import { type FsLimits, fsHandler } from "./handler.ts";
import { type MountName, type Mounts, openMounts } from "./mounts.ts";
import { type WorkflowRules, type WorkflowSettings, workflowRules } from "./workflow.ts";

export interface FilesContext extends TargetContext {
  readonly config: {
    readonly workspace: FsLimits & {
      readonly project?: string | undefined;
      readonly pkg?: string | undefined;
      readonly state?: string | undefined;
      readonly runId?: string | undefined;
      readonly workflow: WorkflowSettings;
    };
  };
}

const WRITES = ["write", "apply_patch"];
const OPERATIONS = ["list", "read", "search", ...WRITES];

export const files: TargetKind<FilesContext> = {
  name: "fs",
  key: "fs",
  data: false,
  check: (part, { classification }) => {
    if (!isTable(part)) return [{ field: "target.fs", message: "must be { operation }" }];
    const { operation } = part;
    return [
      ...unknownKeys("target.fs", part, ["operation"]),
      ...unless(oneOf(OPERATIONS)(operation), "target.fs.operation", `must be one of ${OPERATIONS.join(", ")}`),
      ...unless(
        !oneOf(WRITES)(operation) || classification !== "read",
        "classification",
        `read cannot ${String(operation)} files`,
      ),
    ];
  },
  category: (isRead) => (isRead ? "network" : "write"),
  sections: ["workspace"],
  open,
};

function open(context: FilesContext): OpenedKind {
  const { config, problems, ownPaths, now, newId } = context;
  const before = problems.length;
  const directories = mountDirectories(context);
  problems.push(...overlaps(directories, ownPaths));
  const workflow = readWorkflow(config.workspace, problems);
  if (directories.size === 0) return unavailable(context, "workspace names no directory");
  if (problems.length > before || workflow === undefined) return unavailable(context, "the workspace cannot be used");
  const mounts = tryToOpen(directories, context);
  if (mounts === undefined) {
    return unavailable(context, "this system cannot confine paths to a directory (no openat2, no O_PATH)");
  }
  return {
    ...fsHandler({ mounts, limits: config.workspace, workflow, now, newId }),
    facts: { files: mounts.confinement.kind },
    offers: { workspaceMounts: (use) => mountNames(context, use) },
  };
}

/** Returns a kind that rejects every file tool. */
function unavailable(context: FilesContext, reason: string): OpenedKind {
  return {
    bind(tool) {
      throw new ManifestError(tool.name, [{ field: "target.fs", message: `cannot be reached: ${reason}` }]);
    },
    offers: {
      workspaceMounts(use) {
        mountNames(context, use);
        throw new NotRegistered(reason);
      },
    },
    close: async () => {},
  };
}

/** Returns the mounts for file tools. `@pkg` is read-only. */
function mountNames({ config: { workspace } }: FilesContext, use: "read" | "write"): readonly string[] {
  const mounts = (["project", "pkg", "state"] as const).filter(
    (name) => workspace[name] !== undefined && (use === "read" || name !== "pkg"),
  );
  if (mounts.length === 0) throw new NotRegistered("workspace names no directory for it");
  return mounts.map((name) => `@${name}`);
}

function tryToOpen(
  directories: ReadonlyMap<MountName, string>,
  { ownPaths, ownCode, problems }: FilesContext,
): Mounts | undefined {
  try {
    return openMounts({ directories, protectedPaths: [...ownPaths.map(({ path }) => path), ownCode] });
  } catch (error) {
    problems.push(`workspace: cannot be opened (${systemCode(error)})`);
    return undefined;
  }
}

function readWorkflow(
  { workflow }: FilesContext["config"]["workspace"],
  problems: string[],
): WorkflowRules | undefined {
  try {
    return workflowRules(workflow);
  } catch (error) {
    problems.push(`workspace.workflow.schema: ${errorText(error)}`);
    return undefined;
  }
}

function mountDirectories({ config, pathOf, problems }: FilesContext): ReadonlyMap<MountName, string> {
  const { project, pkg, state, runId } = config.workspace;
  const directories = new Map<MountName, string>();
  const add = (name: MountName, path: string | undefined): void => {
    const directory = path === undefined ? undefined : realDirectory(pathOf(path));
    if (directory !== undefined) directories.set(name, directory);
    else if (path !== undefined) problems.push(`workspace.${name}: there is no directory ${path}`);
  };
  add("project", project);
  add("pkg", pkg);
  const run = state === undefined || runId === undefined ? state : join(state, "runs", runId, "state");
  if (run !== undefined) makeDirectory(pathOf(run));
  add("state", run);
  return directories;
}

/** Creates the directory. Ignores errors: the caller reports a missing directory. */
function makeDirectory(path: string): void {
  try {
    mkdirSync(path, { recursive: true, mode: 0o700 });
  } catch {}
}

function realDirectory(path: string): string | undefined {
  try {
    const real = realpathSync(path);
    return statSync(real).isDirectory() ? real : undefined;
  } catch {
    return undefined;
  }
}

/** Returns an error for each mount that overlaps one of the service's own paths, or another mount with other rules. */
function overlaps(directories: ReadonlyMap<MountName, string>, own: readonly OwnPath[]): readonly string[] {
  const mounts = [...directories].map(([name, path]) => ({ name, field: `workspace.${name}`, path }));
  const withOwn = mounts.flatMap((mount) =>
    own
      .filter(({ path }) => isBelow(path, mount.path) || isBelow(mount.path, path))
      .map(({ field, path }) => `${mount.field}: ${mount.path} and ${field}: ${path} overlap`),
  );
  const withMounts = mounts.flatMap((mount) =>
    mounts
      .filter((other) => isBelow(mount.path, other.path) && (mount.path !== other.path || mount.name < other.name))
      .filter((other) => mount !== other && (mount.path === other.path || other.name === "pkg"))
      .map((other) => `${mount.field}: ${mount.path} lies in ${other.field}: ${other.path}, which has other rules`),
  );
  return [...withOwn, ...withMounts];
}
