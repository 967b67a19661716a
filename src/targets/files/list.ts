import { closeSync } from "node:fs";
import type { Json } from "../../core/types.ts";
import { O_NOFOLLOW, O_PATH } from "./c-library.ts";
import { type Entry, readEntries } from "./entries.ts";
import { type Identity, identify } from "./identity.ts";
import { aim, type Mounts, openForReading } from "./mounts.ts";
import { fileRefusal } from "./refusals.ts";

export interface ListOrder {
  readonly path: string;
  /** Names that begin with a dot, and links, too. */
  readonly all: boolean;
  readonly maxEntries: number;
}

/** Names of one directory that are looked at before they are put in order. */
const SCANNED_ENTRIES_MAX = 20_000;

/**
 * What a directory holds, in the order of names.
 *
 * @throws {Refusal} ENOENT, ENOTDIR, E_SANDBOX_VIOLATION
 */
export function listDirectory(mounts: Mounts, { path, all, maxEntries }: ListOrder): Json {
  const { fd, identity } = openForReading(mounts, aim(mounts, path));
  try {
    if (identity.kind !== "directory") throw fileRefusal("ENOTDIR", { message: "The path is a file: use fs_read." });
    const found = readEntries(mounts.confinement.library, fd, SCANNED_ENTRIES_MAX);
    const listed = found.entries.filter(({ name, kind }) => all || (!name.startsWith(".") && kind !== "link"));
    const shown = listed.slice(0, maxEntries).flatMap((entry) => described(mounts, fd, entry));
    const skipped = found.entries.length - listed.length + found.unreadable;
    const truncated = found.truncated || listed.length > maxEntries;
    return {
      ...{ path, entries: shown, truncated, skipped },
      ...(truncated && { hint: "There is more than is listed. List a directory below, or use fs_search." }),
    };
  } finally {
    closeSync(fd);
  }
}

/** Nothing, for what is gone by now. */
function described({ confinement }: Mounts, directory: number, { name, kind }: Entry): readonly Json[] {
  if (kind === "directory" || kind === "link" || kind === "other") return [{ name, type: kind }];
  const fd = confinement.step(directory, name, O_PATH | O_NOFOLLOW);
  if (fd < 0) return [];
  let found: Identity;
  try {
    found = identify(fd);
  } finally {
    closeSync(fd);
  }
  return [found.kind === "file" ? { name, type: "file", bytes: found.bytes } : { name, type: found.kind }];
}
