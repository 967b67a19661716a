import { closeSync } from "node:fs";
import { Refusal } from "../../core/errors.ts";
import { O_NOFOLLOW, O_PATH } from "./c-library.ts";
import type { FileIdentity } from "./confinement.ts";
import { foldName, isGitInternal, type Mount, type Mounts, mountPath, resolveMount } from "./mounts.ts";
import { fileRefusal, notRegular } from "./refusals.ts";
import { DIRECTORIES_MAX, type WalkedPath, walk } from "./walk.ts";

const GIT_FILES = "Git's own files cannot be written.";
const SERVICE_FILES = "The service's own files are not accessible.";

const WORKFLOW = "workflow.md";

/** Limits of Linux for a name and a path, in bytes. A file with longer ones could not be opened again. */
const NAME_BYTES_MAX = 255;
const PATH_BYTES_MAX = 4_095;

/** Names in a directory by which Git recognizes a repository, or one that shares another one's objects. */
const GIT_SHAPES = [
  ["objects", "refs", "HEAD"],
  ["commondir", "HEAD"],
] as const;

/** The target of a write: an open directory and one plain name in it. */
export interface WriteTarget {
  /** Descriptor, open until `close`. With `missing` directories: the last one that exists. */
  readonly directory: number;
  readonly name: string;
  /** Directories that would have to be created between `directory` and `name`. */
  readonly missing: readonly string[];
  readonly found: FileIdentity | undefined;
  /** Path without links and dots. */
  readonly path: string;
  /** True when this is the workflow of `@state`, whichever path leads to it. */
  readonly isWorkflow: boolean;
  close(): void;
}

/**
 * Finds the target of a write and checks that it may be written.
 *
 * @throws {Refusal} E_SANDBOX_VIOLATION for a read-only mount, another mount's directory, files of Git or the service,
 * hard links, and anything but a regular file; EISDIR
 */
export function locate(mounts: Mounts, path: string): WriteTarget {
  const { mount, relative } = resolveMount(mounts, path);
  // When several mounts name one directory, the strictest counts.
  const same = [...mounts.byName.values()].filter(({ id }) => id === mount.id);
  const readOnly = same.find(({ writable }) => !writable);
  if (readOnly !== undefined) throw forbidden(`@${readOnly.name} is read-only.`);
  const state = same.find(({ name }) => name === "state");
  const walked = walk(mounts.confinement, mount, relative);
  try {
    const { directories, name, found, missing } = walked;
    const last = directories.at(-1);
    if (name === undefined || last === undefined) throw fileRefusal("EISDIR");
    const names = [...directories.slice(1).map((directory) => directory.name), ...missing, name];
    if (names.some(isGitInternal)) throw forbidden(GIT_FILES);
    checkLengths(walked, names);
    checkDirectories(mounts, mount, { directories, last: missing[0] ?? name });
    checkFile(mounts, found);
    return {
      directory: last.fd,
      name,
      missing,
      found,
      path: mountPath(mount.name, names),
      isWorkflow: state !== undefined && isWorkflow(mounts, state, walked),
      close: walked.close,
    };
  } catch (error) {
    walked.close();
    throw error;
  }
}

function checkLengths({ directories, missing }: WalkedPath, names: readonly string[]): void {
  const isTooLong =
    directories.length + missing.length > DIRECTORIES_MAX ||
    names.some((name) => Buffer.byteLength(name) > NAME_BYTES_MAX) ||
    Buffer.byteLength(names.join("/")) > PATH_BYTES_MAX;
  if (isTooLong) throw fileRefusal("ENAMETOOLONG");
}

/** @param last the name that follows the directories in the path */
function checkDirectories(
  mounts: Mounts,
  mount: Mount,
  { directories, last }: Pick<WalkedPath, "directories"> & { readonly last: string },
): void {
  const others = new Set([...mounts.byName.values()].map(({ id }) => id).filter((id) => id !== mount.id));
  for (const [index, { id, fd }] of directories.entries()) {
    if (others.has(id)) throw forbidden("The path leads into another mount. Name the file by that mount.");
    if (mounts.protectedIds.has(id)) throw forbidden(SERVICE_FILES);
    const next = directories[index + 1]?.name ?? last;
    if (isGitDirectory(mounts, fd, next)) throw forbidden(GIT_FILES);
  }
}

/** Returns whether a directory is a Git repository. Counts the next name in the path as existing. */
function isGitDirectory({ confinement }: Mounts, directory: number, next: string): boolean {
  const has = (name: string): boolean => {
    const fd = confinement.step(directory, name, O_PATH | O_NOFOLLOW);
    if (fd >= 0) closeSync(fd);
    return fd >= 0;
  };
  return GIT_SHAPES.some((shape) => shape.every((name) => name === next || has(name)));
}

function checkFile(mounts: Mounts, found: FileIdentity | undefined): void {
  if (found === undefined) return;
  if (found.kind !== "file") throw notRegular();
  if (mounts.protectedIds.has(found.id)) throw forbidden(SERVICE_FILES);
  // A write would separate the file from its other names, whose users would not notice.
  if (found.links > 1) throw forbidden("The file has several names (hard links) and cannot be written.");
}

function isWorkflow(mounts: Mounts, state: Mount, { directories, name = "", found, missing }: WalkedPath): boolean {
  const directory = directories.at(-1)?.id;
  if (missing.length === 0 && directory === state.id && foldName(name) === WORKFLOW) return true;
  const workflow = resolveWorkflow(mounts, state);
  if (workflow === undefined) return false;
  if (workflow.found !== undefined || found !== undefined) return workflow.found?.id === found?.id;
  return workflow.directory === directory && workflow.names === [...missing, name].join("/");
}

/** Returns the file behind `@state/workflow.md`; undefined when it is a link out of the mount. */
function resolveWorkflow(mounts: Mounts, state: Mount) {
  try {
    const walked = walk(mounts.confinement, state, WORKFLOW);
    const directory = walked.directories.at(-1)?.id;
    walked.close();
    return { directory, found: walked.found, names: [...walked.missing, walked.name].join("/") };
  } catch (error) {
    if (error instanceof Refusal) return undefined;
    throw error;
  }
}

function forbidden(message: string): Refusal {
  return fileRefusal("E_SANDBOX_VIOLATION", { message });
}
