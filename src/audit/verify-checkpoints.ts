import type { KeyObject } from "node:crypto";
import { STREAMS, type StreamName } from "./chain.ts";
import { CHECKPOINT_DIR, originOf, readCheckpoint } from "./checkpoint.ts";
import type { FoundNote, TornNotes } from "./checkpoint-files.ts";
import type { Damage, DamageKind } from "./damage.ts";
import type { SavedPlace } from "./saved-place.ts";
import { verifyNote } from "./signed-note.ts";

/** What the files of checkpoints say, and what is wrong with them by themselves. */
export interface CheckpointsReport {
  readonly checkpoints: number;
  /** Those whose signature one of the given keys made. */
  readonly signed: number;
  readonly damage: Damage | undefined;
}

interface NoteFiles {
  readonly notes: readonly FoundNote[];
  readonly torn: readonly TornNotes[];
}

/** Looks at the notes alone: form, signature, order. Without keys signatures are not judged. */
export function verifyCheckpoints({ notes, torn }: NoteFiles, keys: readonly KeyObject[]): CheckpointsReport {
  const sizes: Record<StreamName, number> = { calls: 0, journal: 0 };
  let signed = 0;
  for (const note of notes) {
    const { checkpoint } = note;
    if (checkpoint === undefined) {
      return { checkpoints: notes.length, signed, damage: noteDamage(note, "changed", "is no checkpoint") };
    }
    const verdict = keys.length === 0 ? undefined : verifyNote(checkpoint, checkpoint.origin, keys);
    if (verdict === "bad signature" || verdict === "unknown key") {
      const message = verdict === "bad signature" ? "its signature is wrong" : "no given key signed it";
      return { checkpoints: notes.length, signed, damage: noteDamage(note, "bad signature", message) };
    }
    signed += verdict === "valid" ? 1 : 0;
    if (checkpoint.size < sizes[checkpoint.stream]) {
      const message = "covers fewer lines than one before it";
      return { checkpoints: notes.length, signed, damage: noteDamage(note, "reordered", message) };
    }
    sizes[checkpoint.stream] = checkpoint.size;
  }
  return { checkpoints: notes.length, signed, damage: tornDamage(notes, torn) };
}

function tornDamage(notes: readonly FoundNote[], torn: readonly TornNotes[]): Damage | undefined {
  const worst = torn.find(({ mayBeCrash }) => !mayBeCrash) ?? torn[0];
  if (worst === undefined) {
    return undefined;
  }
  const { file, mayBeCrash } = worst;
  const line = notes.findLast((note) => note.file === file)?.line ?? 1;
  return { kind: "cut off", file, line, message: "ends amid a note", ...(mayBeCrash && { isTornEnd: true }) };
}

/** The saved place holds the last checkpoint that was signed: it must still be among the others. */
export function lostNote(notes: readonly FoundNote[], saved: SavedPlace | undefined): Damage | undefined {
  for (const stream of STREAMS) {
    const last = readCheckpoint(saved?.streams[stream].note ?? "");
    const newest = notes.findLast(({ checkpoint }) => checkpoint?.stream === stream);
    const size = newest?.checkpoint?.size ?? 0;
    if (last !== undefined && last.size > size) {
      const message = `the checkpoints of ${stream} end here, at ${size} lines; ${last.size} were signed`;
      return { kind: "cut off", file: newest?.file ?? CHECKPOINT_DIR, line: newest?.line ?? 0, message };
    }
  }
  return undefined;
}

/** A checkpoint that speaks of another log than the lines do. */
export function foreignNote(notes: readonly FoundNote[], logIds: Readonly<Record<StreamName, string | undefined>>) {
  for (const stream of STREAMS) {
    const logId = logIds[stream];
    const note = notes.find(({ checkpoint }) => {
      return checkpoint?.stream === stream && logId !== undefined && checkpoint.origin !== originOf(stream, logId);
    });
    if (note !== undefined) {
      return noteDamage(note, "checkpoint mismatch", "speaks of another log than this one");
    }
  }
  return undefined;
}

function noteDamage({ file, line }: FoundNote, kind: DamageKind, message: string): Damage {
  return { kind, file, line, message };
}
