import type { KeyObject } from "node:crypto";
import { STREAMS, type StreamName } from "../chain/chain.ts";
import { CHECKPOINT_DIR, originOf, readCheckpoint } from "../chain/checkpoint.ts";
import { eachNote, type FoundNote, type TornNotes } from "../chain/checkpoint-files.ts";
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

/** The part of one stream's notes with which its lines are compared; nothing else of the notes is kept. */
export interface StreamNotes {
  readonly newest: FoundNote | undefined;
  /** The largest number of lines that a note in each day's file covers. */
  readonly sizesByDay: ReadonlyMap<string, number>;
}

export interface NotesFacts extends CheckpointsReport {
  readonly streams: Readonly<Record<StreamName, StreamNotes>>;
  /** Returns the damage when a note belongs to a different log than the lines. */
  foreign(logIds: Readonly<Record<StreamName, string | undefined>>): Damage | undefined;
}

export interface NotesOptions {
  readonly dir: string;
  /** When empty, signatures are not checked. */
  readonly keys: readonly KeyObject[];
  /** Only the files of this day and later days are read. */
  readonly from?: string | undefined;
  /** Notes up to these sizes were verified before. */
  readonly verified: Readonly<Record<StreamName, number>>;
}

/** Checks the notes without the lines: format, signature, order. Yields the number of notes of each step. */
export function* verifyCheckpoints(options: NotesOptions): Generator<number, NotesFacts> {
  const reader = new NotesReader(options);
  const notes = eachNote(options.dir, options.from);
  for (;;) {
    const step = notes.next();
    if (step.done === true) {
      return reader.end(step.value);
    }
    reader.take(step.value);
    if (reader.checkpoints % STEP_NOTES === 0) yield STEP_NOTES;
  }
}

class StreamReader {
  first: FoundNote | undefined;
  newest: FoundNote | undefined;
  /** First note that belongs to a different log than the first note. */
  stranger: FoundNote | undefined;
  size = 0;
  readonly sizesByDay = new Map<string, number>();

  take(note: FoundNote, size: number): void {
    this.first ??= note;
    this.newest = note;
    this.size = size;
    this.sizesByDay.set(note.day, Math.max(size, this.sizesByDay.get(note.day) ?? 0));
    if (note.checkpoint?.origin !== this.first.checkpoint?.origin) this.stranger ??= note;
  }
}

class NotesReader {
  readonly #options: NotesOptions;
  readonly #streams: Readonly<Record<StreamName, StreamReader>> = {
    calls: new StreamReader(),
    journal: new StreamReader(),
  };
  #damage: Damage | undefined;
  checkpoints = 0;
  #signed = 0;

  constructor(options: NotesOptions) {
    this.#options = options;
  }

  take(note: FoundNote): void {
    const { checkpoint } = note;
    this.checkpoints += 1;
    if (checkpoint === undefined) {
      this.#damage ??= noteDamage(note, "changed", "is no checkpoint");
      return;
    }
    const stream = this.#streams[checkpoint.stream];
    this.#damage ??= this.#judge(note, stream.size);
    stream.take(note, checkpoint.size);
  }

  end(torn: readonly TornNotes[]): NotesFacts {
    const { calls, journal } = this.#streams;
    return {
      checkpoints: this.checkpoints,
      signed: this.#signed,
      damage: this.#damage ?? tornDamage(torn),
      streams: { calls, journal },
      foreign: (logIds) => foreignNote(this.#streams, logIds),
    };
  }

  #judge(note: FoundNote, sizeBefore: number): Damage | undefined {
    const { checkpoint } = note;
    const { keys, verified } = this.#options;
    if (checkpoint === undefined) return undefined;
    const isJudged = keys.length > 0 && checkpoint.size > verified[checkpoint.stream];
    const verdict = isJudged ? verifyNote(checkpoint, checkpoint.origin, keys) : undefined;
    if (isJudged && isUnsigned(checkpoint)) return noteDamage(note, "not signed", "the checkpoint has no signature");
    if (verdict === "bad signature") return noteDamage(note, "bad signature", "its signature is wrong");
    if (verdict === "unknown key") return noteDamage(note, "bad signature", "no given key signed it");
    this.#signed += verdict === "valid" ? 1 : 0;
    return checkpoint.size < sizeBefore
      ? noteDamage(note, "reordered", "covers fewer lines than one before it")
      : undefined;
  }
}

function tornDamage(torn: readonly TornNotes[]): Damage | undefined {
  const worst = torn.find(({ mayBeCrash }) => !mayBeCrash) ?? torn[0];
  if (worst === undefined) {
    return undefined;
  }
  const { file, line, mayBeCrash } = worst;
  return { kind: "cut off", file, line, message: "ends amid a note", ...(mayBeCrash && { isTornEnd: true }) };
}

/**
 * Returns the damage when the last signed checkpoint, which is stored in the saved position, is missing from the
 * checkpoint files.
 */
export function lostNote({ streams }: NotesFacts, saved: SavedPosition | undefined): Damage | undefined {
  for (const stream of STREAMS) {
    const last = readCheckpoint(saved?.streams[stream].note ?? "");
    const { newest } = streams[stream];
    const size = newest?.checkpoint?.size ?? 0;
    if (last !== undefined && last.size > size) {
      const message = `the checkpoints of ${stream} end here, at ${size} lines; ${last.size} were signed`;
      return { kind: "cut off", file: newest?.file ?? CHECKPOINT_DIR, line: newest?.line ?? 0, message };
    }
  }
  return undefined;
}

function foreignNote(
  streams: Readonly<Record<StreamName, StreamReader>>,
  logIds: Readonly<Record<StreamName, string | undefined>>,
): Damage | undefined {
  for (const stream of STREAMS) {
    const logId = logIds[stream];
    const { first, stranger } = streams[stream];
    if (logId === undefined) continue;
    const isFirst = first !== undefined && first.checkpoint?.origin !== originOf(stream, logId);
    const note = isFirst ? first : stranger;
    if (note !== undefined) {
      return noteDamage(note, "checkpoint mismatch", "speaks of another log than this one");
    }
  }
  return undefined;
}

function noteDamage({ file, line }: FoundNote, kind: DamageKind, message: string): Damage {
  return { kind, file, line, message };
}
