import type { KeyObject } from "node:crypto";
import type { EpochMs } from "../../core/types.ts";
import { STREAMS, type StreamName } from "../chain/chain.ts";
import {
  CHECKPOINT_DIR,
  type Checkpoint,
  eachNote,
  type FoundNote,
  originOf,
  readCheckpoint,
  readLastNotes,
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
  /** Number of checkpoints that only other keys signed; a later one of the same stream, by a given key, covers their lines. */
  readonly otherKeys: number;
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

/**
 * Checks the notes without the lines: format, signature, order. Yields 0 after each step, because notes are not bytes of
 * lines.
 */
export function* verifyCheckpoints({ dir, keys, from, verified }: NotesOptions): Generator<number, NotesReport> {
  const streams = { calls: new StreamNotes(), journal: new StreamNotes() };
  const unknown: Record<StreamName, Damage | undefined> = { calls: undefined, journal: undefined };
  let damage: Damage | undefined;
  let [checkpoints, signed, otherKeys] = [0, 0, 0];
  const assess = (note: FoundNote): Damage | undefined => {
    const { checkpoint } = note;
    if (checkpoint === undefined) return noteDamage(note, "changed", "is no checkpoint");
    const { stream } = checkpoint;
    if (keys.length > 0 && checkpoint.size > verified[stream]) {
      if (isUnsigned(checkpoint, checkpoint.origin))
        return noteDamage(note, "not signed", "the checkpoint has no signature of this log");
      const verdict = verifyNote(checkpoint, checkpoint.origin, keys);
      if (verdict === "bad signature") return noteDamage(note, "bad signature", "its signature is wrong");
      if (verdict === "valid") signed += 1;
      else otherKeys += 1;
      unknown[stream] =
        verdict === "valid"
          ? undefined
          : (unknown[stream] ?? noteDamage(note, "bad signature", "no given key signed it or a later one"));
    }
    if (unknown[stream] === undefined) streams[stream].cover(note, checkpoint);
    const isOrdered = checkpoint.size >= streams[checkpoint.stream].size;
    return isOrdered ? undefined : noteDamage(note, "reordered", "covers fewer lines than one before it");
  };
  const notes = eachNote(dir, from);
  for (;;) {
    const step = notes.next();
    if (step.done === true) {
      const found = damage ?? unknown.calls ?? unknown.journal ?? tornDamage(step.value);
      return { checkpoints, signed, otherKeys, damage: found, streams };
    }
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
  covered: Covered | undefined;

  take(note: FoundNote, { size, origin }: Checkpoint): void {
    this.first ??= note;
    this.newest = note;
    this.size = size;
    this.sizesByDay.set(note.day, Math.max(size, this.sizesByDay.get(note.day) ?? 0));
    if (origin !== this.first.checkpoint?.origin) this.foreign ??= note;
  }

  /** A given key has signed the note, or no key was given. */
  cover({ file }: FoundNote, { size }: Checkpoint): void {
    this.covered = { size, since: this.covered?.since ?? { file, size } };
  }
}

/** The lines that checkpoints cover. */
export interface Covered {
  /** The lines with a smaller `seq` are covered. */
  readonly size: number;
  /** The first checkpoint, and the number of lines that were there before it: a change of one before that does not show. */
  readonly since: { readonly file: string; readonly size: number };
}

/**
 * Longest time between the earliest and the latest line without a checkpoint, in milliseconds. The service signs about a second after a
 * line, and refuses calls when it cannot.
 */
const UNSIGNED_MS_MAX = 60_000;

/** The lines of a stream after the last one that a given key has signed. */
export class UnsignedLines {
  readonly #size: number;
  #earliestMs = Number.POSITIVE_INFINITY;
  #latestMs = Number.NEGATIVE_INFINITY;

  /** `size`: number of lines that are signed. */
  constructor(size: number) {
    this.#size = size;
  }

  /** `ms`: time of the line; NaN without one. */
  take(seq: number, ms: EpochMs): void {
    if (seq < this.#size) return;
    // The service did not write a line without a time: the range of such lines has no limit.
    this.#earliestMs = Math.min(this.#earliestMs, Number.isNaN(ms) ? Number.NEGATIVE_INFINITY : ms);
    this.#latestMs = Math.max(this.#latestMs, Number.isNaN(ms) ? Number.POSITIVE_INFINITY : ms);
  }

  /** Returns the `seq` of the first line, when the lines are more than those that a running service signs next. */
  downgrade(): number | undefined {
    return this.#latestMs - this.#earliestMs > UNSIGNED_MS_MAX ? this.#size : undefined;
  }
}

/** Returns true when a given key has signed more lines than this since the notes were read: the service is writing. */
export function isSignedFurther(dir: string, stream: StreamName, { size, keys }: SignedLines): boolean {
  return readLastNotes(dir).some(
    ({ checkpoint }) =>
      checkpoint?.stream === stream &&
      checkpoint.size > size &&
      verifyNote(checkpoint, checkpoint.origin, keys) === "valid",
  );
}

interface SignedLines {
  readonly size: number;
  readonly keys: readonly KeyObject[];
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
