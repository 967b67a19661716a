import type { CLibrary } from "./c-library.ts";
import { errnoRefusal } from "./refusals.ts";

/** What getdents64 says of a name; `unknown` where the file system does not say. */
export type EntryKind = "file" | "directory" | "link" | "other" | "unknown";

export interface Entry {
  readonly name: string;
  readonly kind: EntryKind;
}

export interface Entries {
  /** In the order of their code units, without `.` and `..`. */
  readonly entries: readonly Entry[];
  /** Names that are not UTF-8: no path could name them. */
  readonly unreadable: number;
  /** Whether the directory holds more than were looked at. */
  readonly truncated: boolean;
}

const BUFFER_BYTES = 65_536;
const LENGTH_AT = 16;
const KIND_AT = 18;
const NAME_AT = 19;

const KINDS: Readonly<Record<number, EntryKind>> = { 0: "unknown", 4: "directory", 8: "file", 10: "link" };

/** Reads a directory from a descriptor that was opened for it and nothing else: reading moves its place. */
export function readEntries(library: CLibrary, directory: number, entriesMax: number): Entries {
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
