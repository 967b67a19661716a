import { type BigIntStats, closeSync, fstatSync, readFileSync } from "node:fs";
import {
  EXACT,
  type FileSystemCalls,
  FOLLOW,
  loadCLibrary,
  O_DIRECTORY,
  O_NOCTTY,
  O_NONBLOCK,
  O_PATH,
  O_RDONLY,
} from "./c-library.ts";

/** The mechanism that keeps paths below their directory: one system call, or a walk that opens one name at a time. */
export type ConfinementKind = "openat2" | "walk";

export interface PathConfinement {
  readonly kind: ConfinementKind;
  readonly library: FileSystemCalls;
  /** Opens one plain name in a directory, never through a link. Returns a descriptor or a negative errno. */
  step(directory: number, name: string, flags: number, mode?: number): number;
  /** Opens a whole path in one call, following links below the directory. Undefined when the kernel cannot do that. */
  readonly openBeneath: ((directory: number, path: string) => number) | undefined;
}

/** Flags for reading that neither wait for a pipe's other end nor acquire a controlling terminal. */
export const READING = O_RDONLY | O_NONBLOCK | O_NOCTTY;

const EAGAIN = 11;
const EXDEV = 18;

/**
 * Chooses a mechanism by trying it: the directory itself must open, and its parent must not. Errors of later calls
 * never change the choice, because a seccomp filter may return any errno.
 *
 * @returns undefined when neither mechanism works: then there are no file tools
 */
export function chooseConfinement(probe: number, only?: ConfinementKind): PathConfinement | undefined {
  const library = loadCLibrary();
  if (library === undefined) return undefined;
  const candidates = [kernelConfinement(library), walkConfinement(library)];
  return candidates.find((candidate) => (only === undefined || candidate.kind === only) && isUsable(candidate, probe));
}

function kernelConfinement(library: FileSystemCalls): PathConfinement {
  return {
    kind: "openat2",
    library,
    step: (directory, name, flags, mode = 0) => library.openBeneath(directory, name, { flags, mode, resolve: EXACT }),
    openBeneath: (directory, path) => library.openBeneath(directory, path, { flags: READING, resolve: FOLLOW }),
  };
}

function walkConfinement(library: FileSystemCalls): PathConfinement {
  return {
    kind: "walk",
    library,
    step(directory, name, flags, mode = 0) {
      const fd = library.openName(directory, name, { flags, mode });
      // `openat` may enter another mount, even one of the same device.
      if (fd < 0 || isOneMount(fd, directory)) return fd;
      closeSync(fd);
      return -EXDEV;
    },
    openBeneath: undefined,
  };
}

const MOUNT_ID = /^mnt_id:\t(\d{1,12})$/m;

function isOneMount(one: number, other: number): boolean {
  const first = mountOf(one);
  return first !== undefined && first === mountOf(other);
}

function mountOf(fd: number): string | undefined {
  try {
    return MOUNT_ID.exec(readFileSync(`/proc/self/fdinfo/${fd}`, "latin1"))?.[1];
  } catch {
    return undefined;
  }
}

/** Returns whether a mechanism works. Only the kernel's is tried with "..", because the walk never opens "..". */
function isUsable({ kind, step, openBeneath }: PathConfinement, probe: number): boolean {
  const self = step(probe, ".", O_PATH | O_DIRECTORY);
  if (self < 0) return false;
  closeSync(self);
  if (kind === "walk") return true;
  const above = openBeneath?.(probe, "..") ?? 0;
  if (above >= 0) closeSync(above);
  // The kernel may refuse with EAGAIN while directories are renamed.
  return above === -EXDEV || above === -EAGAIN;
}

/** Properties of the file that a descriptor refers to. */
export interface FileIdentity {
  readonly kind: "file" | "directory" | "link" | "other";
  /** `device:inode`: identifies a file, whatever its name. */
  readonly id: string;
  readonly links: number;
  readonly bytes: number;
  /** Permission bits. */
  readonly mode: number;
  readonly owner: { readonly uid: number; readonly gid: number };
  /** Changes with every change of content or attributes. */
  readonly version: string;
}

export function identify(fd: number): FileIdentity {
  const stat = fstatSync(fd, { bigint: true });
  return {
    kind: kindOf(stat),
    id: idOf(stat),
    links: Number(stat.nlink),
    bytes: Number(stat.size),
    mode: Number(stat.mode & 0o777n),
    owner: { uid: Number(stat.uid), gid: Number(stat.gid) },
    version: `${stat.size}:${stat.mtimeNs}:${stat.ctimeNs}`,
  };
}

export function idOf({ dev, ino }: Pick<BigIntStats, "dev" | "ino">): string {
  return `${dev}:${ino}`;
}

function kindOf(stat: BigIntStats): FileIdentity["kind"] {
  if (stat.isFile()) return "file";
  if (stat.isDirectory()) return "directory";
  return stat.isSymbolicLink() ? "link" : "other";
}
