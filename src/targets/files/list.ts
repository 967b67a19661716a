import { closeSync } from "node:fs";
import type { Json } from "../../core/types.ts";
import { type FileSystemCalls, O_NOFOLLOW, O_PATH } from "./c-library.ts";
import { type FileIdentity, identify } from "./confinement.ts";
import { type Mounts, openForReading, resolveMount } from "./mounts.ts";
import { errnoRefusal, fileRefusal } from "./refusals.ts";

export interface ListRequest {
  readonly path: string;
  /** True to include names that start with a dot, and links. */
  readonly all: boolean;
  readonly maxEntries: number;
}

const ENTRIES_READ_MAX = 20_000;

/**
 * Returns the entries of a directory, ordered by name.
 *
 * @throws {Refusal} ENOENT, ENOTDIR, E_SANDBOX_VIOLATION
 */
export function listDirectory(mounts: Mounts, { path, all, maxEntries }: ListRequest): Json {
  const { fd, identity } = openForReading(mounts, resolveMount(mounts, path));
  try {
    if (identity.kind !== "directory") throw fileRefusal("ENOTDIR", { message: "The path is a file: use fs_read." });
    const found = readEntries(mounts.confinement.library, fd, ENTRIES_READ_MAX);
    const listed = found.entries.filter(({ name, kind }) => all || (!name.startsWith(".") && kind !== "link"));
    const shown = listed.slice(0, maxEntries).flatMap((entry) => described(mounts, fd, entry));
    const skipped = found.entries.length - listed.length + found.unreadable;
    const truncated = found.truncated || listed.length > maxEntries;
    return {
      path,
      entries: shown,
      truncated,
      skipped,
      ...(truncated && { hint: "The list is incomplete. List a directory below, or use fs_search." }),
    };
  } finally {
    closeSync(fd);
  }
}

function described({ confinement }: Mounts, directory: number, { name, kind }: Entry): readonly Json[] {
  if (kind === "directory" || kind === "link" || kind === "other") return [{ name, type: kind }];
  const fd = confinement.step(directory, name, O_PATH | O_NOFOLLOW);
  if (fd < 0) return [];
  let found: FileIdentity;
  try {
    found = identify(fd);
  } finally {
    closeSync(fd);
  }
  return [found.kind === "file" ? { name, type: "file", bytes: found.bytes } : { name, type: found.kind }];
}

/** The kind that getdents64 reports; `unknown` on file systems that report none. */
type EntryKind = "file" | "directory" | "link" | "other" | "unknown";

export interface Entry {
  readonly name: string;
  readonly kind: EntryKind;
}

interface Entries {
  /** Ordered by code units, without `.` and `..`. */
  readonly entries: readonly Entry[];
  /** Number of names that are not UTF-8, which no path can contain. */
  readonly unreadable: number;
  readonly truncated: boolean;
}

const BUFFER_BYTES = 65_536;
const LENGTH_AT = 16;
const KIND_AT = 18;
const NAME_AT = 19;

const KINDS: Readonly<Record<number, EntryKind>> = { 0: "unknown", 4: "directory", 8: "file", 10: "link" };

/** Reads a directory. Needs a descriptor of its own, because reading moves its position. */
export function readEntries(library: FileSystemCalls, directory: number, entriesMax: number): Entries {
  const buffer = Buffer.alloc(BUFFER_BYTES);
  const entries: Entry[] = [];
  let unreadable = 0;
  for (;;) {
    const filled = library.readEntries(directory, buffer);
    if (filled < 0) throw errnoRefusal(filled, "getdents64");
    if (filled === 0) return { entries: sorted(entries), unreadable, truncated: false };
    for (let at = 0; at < filled; at += buffer.readUInt16LE(at + LENGTH_AT)) {
      const raw = buffer.subarray(at + NAME_AT, buffer.indexOf(0, at + NAME_AT));
      const name = raw.toString("utf8");
      if (name === "." || name === "..") continue;
      if (!Buffer.from(name).equals(raw)) unreadable += 1;
      else entries.push({ name, kind: KINDS[buffer[at + KIND_AT] ?? 0] ?? "other" });
      if (entries.length + unreadable > entriesMax) {
        return { entries: sorted(entries.slice(0, entriesMax)), unreadable, truncated: true };
      }
    }
  }
}

function sorted(entries: readonly Entry[]): readonly Entry[] {
  return [...entries].sort((a, b) => (a.name < b.name ? -1 : 1));
}
