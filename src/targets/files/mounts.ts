import { closeSync, constants, openSync, statSync } from "node:fs";
import { Refusal } from "../../core/errors.ts";
import { O_DIRECTORY, O_PATH } from "./c-library.ts";
import {
  type ConfinementKind,
  chooseConfinement,
  type FileIdentity,
  identify,
  idOf,
  type PathConfinement,
  READING,
} from "./confinement.ts";
import { ELOOP, ENOENT, errnoRefusal, fileRefusal, notRegular } from "./refusals.ts";
import { walk } from "./walk.ts";

export interface Mount {
  readonly name: MountName;
  /** Descriptor of the directory, open until `close`, so that another directory with its name is never used. */
  readonly fd: number;
  readonly id: string;
  readonly writable: boolean;
}

export interface Mounts {
  readonly confinement: PathConfinement;
  readonly names: readonly MountName[];
  readonly byName: ReadonlyMap<MountName, Mount>;
  /** `device:inode` of the service's own files and directories, which no path may access. */
  readonly protectedIds: ReadonlySet<string>;
  close(): void;
}

interface MountOptions {
  readonly directories: ReadonlyMap<MountName, string>;
  /** Absolute paths, without links, of files and directories that no path may access. Missing ones are ignored. */
  readonly protectedPaths: readonly string[];
  /** Allows only this kind of confinement; for tests. */
  readonly confinement?: ConfinementKind;
}

/**
 * Opens the mounts.
 *
 * @returns undefined when nothing can keep paths inside a directory
 */
export function openMounts({ directories, protectedPaths, confinement: only }: MountOptions): Mounts | undefined {
  const mounts: Mount[] = [];
  const close = (): void => {
    for (const { fd } of mounts.splice(0)) closeSync(fd);
  };
  try {
    for (const name of MOUNT_NAMES) {
      const directory = directories.get(name);
      if (directory === undefined) continue;
      const fd = openSync(directory, O_PATH | O_DIRECTORY | constants.O_RDONLY);
      mounts.push({ name, fd, id: identify(fd).id, writable: name !== "pkg" });
    }
  } catch (error) {
    close();
    throw error;
  }
  const confinements = mounts.map(({ fd }) => chooseConfinement(fd, only));
  // All mounts use the same kind: the walk, if one of them needs it.
  const confinement = confinements.find((one) => one?.kind === "walk") ?? confinements[0];
  if (confinement === undefined || confinements.includes(undefined)) {
    close();
    return undefined;
  }
  const byName = new Map(mounts.map((mount) => [mount.name, mount]));
  return {
    confinement,
    names: [...byName.keys()],
    byName,
    protectedIds: idsOf(protectedPaths),
    close() {
      // Later files get the numbers of closed descriptors, so these must not be found again.
      byName.clear();
      close();
    },
  };
}

function idsOf(paths: readonly string[]): ReadonlySet<string> {
  const found = paths.map((path) => statSync(path, { bigint: true, throwIfNoEntry: false }));
  return new Set(found.flatMap((stat) => (stat === undefined ? [] : [idOf(stat)])));
}

/** An agent's path as a mount and the relative path as written; "" for the mount itself. */
interface MountedPath {
  readonly mount: Mount;
  readonly relative: string;
}

/**
 * Splits `@mount/relative`. The mount's name must match exactly. Nothing is decoded, normalized or trimmed, so that the
 * checked path is the opened path.
 *
 * @throws {Refusal} E_SANDBOX_VIOLATION for any other form
 */
export function resolveMount({ names, byName }: Mounts, path: string): MountedPath {
  const name = names.find((one) => path === `@${one}` || path.startsWith(`@${one}/`));
  if (name === undefined) {
    throw fileRefusal("E_SANDBOX_VIOLATION", { details: { mounts: names.map((one) => `@${one}`) } });
  }
  if (path.includes("\0") || !path.isWellFormed()) {
    throw fileRefusal("E_SANDBOX_VIOLATION", { message: "A path must not contain NUL or lone surrogates." });
  }
  if (path.length > PATH_CHARACTERS_MAX) throw fileRefusal("ENAMETOOLONG");
  const mount = byName.get(name);
  if (mount === undefined) throw new Refusal("TARGET_UNAVAILABLE", "The workspace is closed.");
  // Removes slashes after the mount's name: an absolute path would be resolved from the root of the machine.
  return { mount, relative: path.slice(name.length + 2).replace(/^\/+/, "") };
}

/**
 * Opens a file or directory for reading; the caller closes it. The check and the opening use the same file: either the
 * kernel does both in one call, or a walk opens what it has checked.
 *
 * @throws {Refusal} ENOENT, E_SANDBOX_VIOLATION …
 */
export function openForReading(
  mounts: Mounts,
  { mount, relative }: MountedPath,
): { readonly fd: number; readonly identity: FileIdentity } {
  const { openBeneath } = mounts.confinement;
  const fd =
    openBeneath === undefined ? openByWalk(mounts, { mount, relative }) : openBeneath(mount.fd, relative || ".");
  if (fd < 0) throw errnoRefusal(fd, "open");
  try {
    const identity = identify(fd);
    if (mounts.protectedIds.has(identity.id)) throw fileRefusal("E_SANDBOX_VIOLATION");
    if (identity.kind !== "file" && identity.kind !== "directory") throw notRegular();
    return { fd, identity };
  } catch (error) {
    closeSync(fd);
    throw error;
  }
}

/** Maximum attempts when a name is replaced by a link between check and open. More count as an attack. */
const TRIES_MAX = 4;

function openByWalk(mounts: Mounts, { mount, relative }: MountedPath): number {
  const { step } = mounts.confinement;
  let fd = -ELOOP;
  for (let tries = 0; tries < TRIES_MAX && fd === -ELOOP; tries += 1) {
    const walked = walk(mounts.confinement, mount, relative);
    try {
      const here = walked.directories.at(-1)?.fd ?? -1;
      if (walked.name === undefined) fd = step(here, ".", READING | O_DIRECTORY);
      else fd = walked.found === undefined ? -ENOENT : step(here, walked.name, READING);
    } finally {
      walked.close();
    }
  }
  return fd;
}

const MOUNT_NAMES = ["project", "pkg", "state"] as const;
export type MountName = (typeof MOUNT_NAMES)[number];

const PATH_CHARACTERS_MAX = 4_096;

/** Returns the path of a file or directory in the form that agents use. */
export function mountPath(mount: MountName, components: readonly string[]): string {
  return [`@${mount}`, ...components].join("/");
}

/** Invisible characters, which some file systems ignore in names. */
const IGNORABLE = /\p{Default_Ignorable_Code_Point}/gu;

/** Names that Git treats as `.git`, because some file systems fold case, drop characters or have short names. */
const GIT = /^(?:\.git|git~\d{1,4})$/;
/** The same for `.gitmodules`. The last alternative is its hashed short name on NTFS. */
const GIT_MODULES = /^(?:\.gitmodules|gitmod~[1-4]|gi7eb[a0-9~]{1,3})$/;

/** Returns whether a name is that of Git's directory, of the file that points to it, or of the list of submodules. */
export function isGitInternal(name: string): boolean {
  const folded = foldName(name);
  return GIT.test(folded) || GIT_MODULES.test(folded);
}

/** Returns the same text for all names that some file system may treat as equal. */
export function foldName(name: string): string {
  const visible = name.normalize("NFKC").toLowerCase().replace(IGNORABLE, "").normalize("NFKC").toLowerCase();
  // Windows shares ignore text after a colon, and trailing dots and spaces.
  const [stem = ""] = visible.split(":", 1);
  let end = stem.length;
  while (end > 0 && (stem[end - 1] === "." || stem[end - 1] === " ")) end -= 1;
  return stem.slice(0, end);
}
