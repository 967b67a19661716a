import { fileRefusal } from "./refusals.ts";

/** Where agents' paths begin. */
export const MOUNT_NAMES = ["project", "pkg", "state"] as const;
export type MountName = (typeof MOUNT_NAMES)[number];

export interface MountPath {
  readonly mount: MountName;
  /** Below the mount, as it was written: "" for the mount itself, else without the first slash. */
  readonly relative: string;
}

const PATH_CHARACTERS_MAX = 4_096;

/**
 * Reads `@mount/relative`. The mount's name counts exactly; nothing is decoded, normalised or trimmed, so that what is checked
 * is what is opened.
 *
 * @throws {Refusal} E_SANDBOX_VIOLATION for any other form
 */
export function readMountPath(path: string, mounted: readonly MountName[]): MountPath {
  const mount = mounted.find((name) => path === `@${name}` || path.startsWith(`@${name}/`));
  if (mount === undefined) {
    const names = mounted.map((name) => `@${name}`);
    throw fileRefusal("E_SANDBOX_VIOLATION", { details: { mounts: names } });
  }
  if (path.includes("\0") || !path.isWellFormed()) {
    throw fileRefusal("E_SANDBOX_VIOLATION", { message: "A path holds neither NUL nor lone surrogates." });
  }
  if (path.length > PATH_CHARACTERS_MAX) throw fileRefusal("ENAMETOOLONG");
  // Slashes in a row are one, also behind the mount's name: nothing below is ever taken from the root of the machine.
  return { mount, relative: path.slice(mount.length + 2).replace(/^\/+/, "") };
}

/** The path by which agents know what lies there. */
export function mountPath(mount: MountName, components: readonly string[]): string {
  return [`@${mount}`, ...components].join("/");
}
