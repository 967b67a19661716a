import { lstatSync, readdirSync, type Stats } from "node:fs";
import { isAbsolute, join } from "node:path";

/** The GIT_DIR and GIT_WORK_TREE of a repository. A bare repository has no work tree. */
interface GitRepository {
  readonly gitDir: string;
  readonly workTree?: string;
}

type Inspection = GitRepository | { readonly fault: string };

const COPY_OBJECTS =
  "it borrows another repository's objects (a clone with --shared or --reference); run `git repack -a -d` in it, then remove that file";

/** Files that make a repository use objects, references or settings of another location, and how to fix each. */
const SHARED_PARTS: readonly (readonly [file: string, remedy: string])[] = [
  ["commondir", "it is a part of another repository; name that one"],
  ["objects/info/alternates", COPY_OBJECTS],
  ["objects/info/http-alternates", COPY_OBJECTS],
];

/** Directories in which a symbolic link would expose another repository's objects. */
const OBJECT_DIRECTORIES = ["objects", "objects/info", "objects/pack"];

/** Parts that must be in the repository itself. */
const OWN_DIRECTORIES = ["objects", "refs"];
const OWN_IF_PRESENT = [
  ...["config", "config.worktree", "packed-refs", "shallow", "index", "info", "info/attributes"],
  ...["refs/heads", "refs/tags", "refs/remotes"],
];

/**
 * Checks that a directory may be served as a git repository. All its parts must be its own: no linked work tree or
 * submodule (`.git` is a file), no shared objects, no symbolic link to another repository. Faults are for the operator.
 */
export function inspectRepository(path: string): Inspection {
  if (!isAbsolute(path)) return { fault: "the path is not absolute" };
  try {
    return inspectDirectory(path);
  } catch {
    return { fault: "the repository cannot be read" };
  }
}

function inspectDirectory(path: string): Inspection {
  const top = statsOf(path);
  if (top === undefined) return { fault: "there is no such directory" };
  if (!top.isDirectory()) return { fault: "the path is not a directory (a symbolic link does not count)" };
  const dotGit = statsOf(join(path, ".git"));
  if (dotGit === undefined) return inspectGitDirectory(path, {});
  if (dotGit.isFile())
    return {
      fault:
        ".git is a file: a linked work tree or submodule takes its objects from elsewhere; name the repository that owns them, whose branches are the same",
    };
  if (!dotGit.isDirectory()) return { fault: ".git is not a directory" };
  return inspectGitDirectory(join(path, ".git"), { workTree: path });
}

/** Returns the problem of a repository at the time of a call, for the cli handler's `inspections`. */
export function repositoryFault(path: string): string | undefined {
  const inspected = inspectRepository(path);
  return "fault" in inspected ? inspected.fault : undefined;
}

function inspectGitDirectory(gitDir: string, workTree: Pick<GitRepository, "workTree">): Inspection {
  const head = statsOf(join(gitDir, "HEAD"));
  if (head === undefined || !head.isFile()) return { fault: "it is not a git repository: HEAD is not a file" };
  for (const name of OWN_DIRECTORIES) {
    if (!statsOf(join(gitDir, name))?.isDirectory()) return { fault: `it is not a git repository of its own: ${name}` };
  }
  const link = OWN_IF_PRESENT.find((name) => statsOf(join(gitDir, name))?.isSymbolicLink());
  if (link !== undefined) return { fault: `${link} is a symbolic link` };
  const foreign = OBJECT_DIRECTORIES.find((name) => containsLink(join(gitDir, name)));
  if (foreign !== undefined) return { fault: `${foreign} contains a symbolic link` };
  for (const [name, remedy] of SHARED_PARTS) {
    const stats = statsOf(join(gitDir, name));
    // Git leaves empty alternates files, which have no effect.
    const borrows = stats !== undefined && (!stats.isFile() || stats.size > 0);
    if (borrows) return { fault: `${name} points to another location: ${remedy}` };
  }
  return { gitDir, ...workTree };
}

function containsLink(directory: string): boolean {
  if (statsOf(directory) === undefined) return false;
  return readdirSync(directory, { withFileTypes: true }).some((entry) => entry.isSymbolicLink());
}

function statsOf(path: string): Stats | undefined {
  return lstatSync(path, { throwIfNoEntry: false });
}
