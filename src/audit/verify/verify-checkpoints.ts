import type { KeyObject } from "node:crypto";
import { STREAMS, type StreamName } from "../chain/chain.ts";
import {
  CHECKPOINT_DIR,
  type Checkpoint,
  eachNote,
  type FoundNote,
  originOf,
  readCheckpoint,
  type TornNotes,
} from "../chain/checkpoint.ts";
import { isUnsigned, verifyNote } from "../chain/signed-note.ts";
import type { SavedPosition } from "../journal/saved-position.ts";
import type { Damage, DamageKind } from "./damage.ts";

/** Number of notes that are checked between two pauses: each may need a signature verification. */
const STEP_NOTES = 64;

/** The result of checking the checkpoint files on their own. */
export interface CheckpointsReport {
  readonly checkpoints: number;
  /** Number of checkpoints signed by one of the given keys. */
  readonly signed: number;
  readonly damage: Damage | undefined;
}

/** The notes of a log, as far as its lines are compared with them; nothing else of the notes is kept. */
export interface NotesReport extends CheckpointsReport {
  readonly streams: Readonly<Record<StreamName, StreamNotes>>;
}

interface NotesOptions {
  readonly dir: string;
  /** When empty, signatures are not checked. */
  readonly keys: readonly KeyObject[];
  /** Only the files of this day and later days are read. */
  readonly from?: string | undefined;
  /** Notes up to these sizes were verified before. */
  readonly verified: Readonly<Record<StreamName, number>>;
}

const NOTE_FAULTS = { "bad signature": "its signature is wrong", "unknown key": "no given key signed it" } as const;

/**
 * Checks the notes without the lines: format, signature, order. Yields 0 after each step, because notes are not bytes of
 * lines.
 */
export function* verifyCheckpoints({ dir, keys, from, verified }: NotesOptions): Generator<number, NotesReport> {
  const streams = { calls: new StreamNotes(), journal: new StreamNotes() };
  let damage: Damage | undefined;
  let [checkpoints, signed] = [0, 0];
  const assess = (note: FoundNote): Damage | undefined => {
    const { checkpoint } = note;
    if (checkpoint === undefined) return noteDamage(note, "changed", "is no checkpoint");
    if (keys.length > 0 && checkpoint.size > verified[checkpoint.stream]) {
      if (isUnsigned(checkpoint)) return noteDamage(note, "not signed", "the checkpoint has no signature");
      const verdict = verifyNote(checkpoint, checkpoint.origin, keys);
      if (verdict !== "valid") return noteDamage(note, "bad signature", NOTE_FAULTS[verdict]);
      signed += 1;
    }
    const isOrdered = checkpoint.size >= streams[checkpoint.stream].size;
    return isOrdered ? undefined : noteDamage(note, "reordered", "covers fewer lines than one before it");
  };
  const notes = eachNote(dir, from);
  for (;;) {
    const step = notes.next();
    if (step.done === true) return { checkpoints, signed, damage: damage ?? tornDamage(step.value), streams };
    const note = step.value;
    checkpoints += 1;
    damage ??= assess(note);
    if (note.checkpoint !== undefined) streams[note.checkpoint.stream].take(note, note.checkpoint);
    if (checkpoints % STEP_NOTES === 0) yield 0;
  }
}

/** The notes of one stream. */
export class StreamNotes {
  first: FoundNote | undefined;
  newest: FoundNote | undefined;
  /** First note that belongs to a different log than the first note. */
  foreign: FoundNote | undefined;
  /** Number of lines that the newest note covers. */
  size = 0;
  /** The largest number of lines that a note in each day's file covers. */
  readonly sizesByDay = new Map<string, number>();

  take(note: FoundNote, { size, origin }: Checkpoint): void {
    this.first ??= note;
    this.newest = note;
    this.size = size;
    this.sizesByDay.set(note.day, Math.max(size, this.sizesByDay.get(note.day) ?? 0));
    if (origin !== this.first.checkpoint?.origin) this.foreign ??= note;
  }
}

function tornDamage(torn: readonly TornNotes[]): Damage | undefined {
  const worst = torn.find(({ mayBeCrash }) => !mayBeCrash) ?? torn[0];
  if (worst === undefined) return undefined;
  const { file, line, mayBeCrash } = worst;
  return { kind: "cut off", file, line, message: "ends amid a note", ...(mayBeCrash && { isTornEnd: true }) };
}

/**
 * Returns the damage when the last signed checkpoint, which is stored in the saved position, is missing from the
 * checkpoint files.
 */
export function lostNote({ streams }: NotesReport, saved: SavedPosition | undefined): Damage | undefined {
  for (const stream of STREAMS) {
    const last = readCheckpoint(saved?.streams[stream].note ?? "");
    const { newest, size } = streams[stream];
    if (last !== undefined && last.size > size) {
      const message = `the checkpoints of ${stream} end here, at ${size} lines; ${last.size} were signed`;
      return { kind: "cut off", file: newest?.file ?? CHECKPOINT_DIR, line: newest?.line ?? 0, message };
    }
  }
  return undefined;
}

/** Returns the damage when a note belongs to a different log than the lines. */
export function foreignNote(
  { streams }: NotesReport,
  logIds: Readonly<Record<StreamName, string | undefined>>,
): Damage | undefined {
  for (const stream of STREAMS) {
    const logId = logIds[stream];
    const { first, foreign } = streams[stream];
    if (logId === undefined) continue;
    const isFirst = first !== undefined && first.checkpoint?.origin !== originOf(stream, logId);
    const note = isFirst ? first : foreign;
    if (note !== undefined) return noteDamage(note, "checkpoint mismatch", "speaks of another log than this one");
  }
  return undefined;
}

function noteDamage({ file, line }: FoundNote, kind: DamageKind, message: string): Damage {
  return { kind, file, line, message };
}
