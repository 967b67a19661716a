import { closeSync, readFileSync } from "node:fs";
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

/** What keeps paths below their directory: the kernel in one call, or a walk that opens one plain name at a time. */
export type ConfinementKind = "openat2" | "walk";

export interface PathConfinement {
  readonly kind: ConfinementKind;
  readonly library: FileSystemCalls;
  /** Opens one plain name of a directory, never through a link; a descriptor, or a negative errno. */
  step(directory: number, name: string, flags: number, mode?: number): number;
  /** The whole path in one call, links followed within the directory. Undefined where the kernel cannot keep to it. */
  readonly openBeneath: ((directory: number, path: string) => number) | undefined;
}

/** Without waiting for a pipe's other end, and without a terminal of ours. */
export const READING = O_RDONLY | O_NONBLOCK | O_NOCTTY;

const EAGAIN = 11;
const EXDEV = 18;

/**
 * Chooses once, by trying it: the directory itself must open, and what lies above it must not. An errno of a later call never
 * changes the choice, since a filter may answer what it likes.
 *
 * @returns undefined where neither way works: then there are no file tools
 */
export function chooseConfinement(probe: number, only?: ConfinementKind): PathConfinement | undefined {
  const library = loadCLibrary();
  if (library === undefined) return undefined;
  const candidates = [kernel(library), walking(library)].filter(({ kind }) => only === undefined || kind === only);
  return candidates.find((candidate) => holds(candidate, probe));
}

function kernel(library: FileSystemCalls): PathConfinement {
  return {
    kind: "openat2",
    library,
    step: (directory, name, flags, mode = 0) => library.openBeneath(directory, name, { flags, mode, resolve: EXACT }),
    openBeneath: (directory, path) => library.openBeneath(directory, path, { flags: READING, resolve: FOLLOW }),
  };
}

function walking(library: FileSystemCalls): PathConfinement {
  return {
    kind: "walk",
    library,
    step(directory, name, flags, mode = 0) {
      const fd = library.openName(directory, name, { flags, mode });
      // Nothing says "not across a mount" here, and a part of the same device may be mounted too.
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

/** For the walk "..", like any name with a slash, is nothing that it would ever be asked to open; only the kernel can be. */
function holds({ kind, step, openBeneath }: PathConfinement, probe: number): boolean {
  const self = step(probe, ".", O_PATH | O_DIRECTORY);
  if (self < 0) return false;
  closeSync(self);
  if (kind === "walk") return true;
  const above = openBeneath?.(probe, "..") ?? 0;
  if (above >= 0) closeSync(above);
  // While names are moved elsewhere on the machine the kernel may not be sure, and then it refuses too.
  return above === -EXDEV || above === -EAGAIN;
}
