import { type ChainHead, type Link, readLink, type StreamName } from "../chain/chain.ts";
import type { ChainWalk } from "../chain/chain-walk.ts";
import type { SignedSize } from "../chain/note-cursor.ts";
import type { DayFile } from "../journal/line-files.ts";
import { type Damage, explainHalt, type LinePlace, linkAt } from "./damage.ts";
import { type Halt, type TornEnd, walkFiles } from "./file-walk.ts";
import type { StreamNotes } from "./verify-checkpoints.ts";

/** How far a stream was found sound. */
export interface VerifiedPlace {
  readonly head: ChainHead;
  readonly day: string;
  readonly offset: number;
}

/** One stream, and what is known of it beside its lines. */
export interface StreamTask {
  readonly stream: StreamName;
  readonly notes: StreamNotes;
  /** Lines that the saved place speaks of. */
  readonly claimed: number;
}

/** What was verified before must still be there, or lines after it: whether it is the same is for a reading of the whole log to say. */
export function shortened(place: VerifiedPlace | undefined, files: readonly DayFile[]): Damage | undefined {
  if (place === undefined || files.some(({ day }) => day > place.day)) {
    return undefined;
  }
  const newest = files.at(-1);
  if (newest?.day === place.day && newest.size >= place.offset) {
    return undefined;
  }
  const message = `the log ends before the place up to which it was verified, behind line ${place.head.seq - 1} of the chain`;
  return { kind: "cut off", file: newest?.file ?? place.day, line: 0, seq: place.head.seq, message };
}

/** A checkpoint that does not agree with the lines up to its size; those before `first` are what another one says. */
export interface Mismatched {
  readonly note: SignedSize;
  readonly first: number;
}

export interface WalkFacts {
  readonly files: readonly DayFile[];
  readonly walk: ChainWalk;
  readonly halt: Halt | undefined;
  readonly torn: readonly TornEnd[];
  readonly mismatched: Mismatched | undefined;
}

/** What is wrong in a stream, after it was walked through; `isToEnd` when the walk was to come to the end of the log. */
export function damageOf(task: StreamTask, facts: WalkFacts, isToEnd: boolean): Damage | undefined {
  const { files, walk, halt, torn, mismatched } = facts;
  if (halt !== undefined && mismatched !== undefined) {
    return mismatch(facts, halt.at, mismatched);
  }
  if (halt !== undefined) {
    const cut = torn.find(({ index }) => index === halt.before?.index && index < halt.at.index);
    const { sizesByDay } = task.notes;
    return cut === undefined ? explainHalt(files, { halt, walk, sizesByDay }) : tornDamage(facts, cut);
  }
  const early = torn.find(({ index }) => index < files.length - 1);
  if (early !== undefined) {
    return { ...tornDamage(facts, early), kind: "inserted", message: "stands after the last line end" };
  }
  return isToEnd ? endDamage(task, facts) : undefined;
}

/** Whether the end is where it should be. */
function endDamage({ stream, notes, claimed }: StreamTask, facts: WalkFacts): Damage | undefined {
  const { files, walk, torn } = facts;
  const lines = walk.expected?.seq ?? 0;
  const wanted = Math.max(claimed, notes.newest?.checkpoint?.size ?? 0);
  const [last] = torn;
  if (lines >= wanted) {
    return last && { ...tornDamage(facts, last), isTornEnd: true };
  }
  const file = files.at(-1)?.file ?? stream;
  if (walk.lines === 0 && walk.linesBefore > 0) {
    const line = Math.max(1, walk.linesBefore - wanted + 1);
    return { kind: "changed", file, line, seq: 0, message: "has lost its place in the chain" };
  }
  const message = `the log ends here, and held ${wanted} lines`;
  return { kind: "cut off", file, line: last?.line ?? lineCount(facts), seq: lines, message };
}

function tornDamage({ files, walk }: WalkFacts, { index, line, bytes }: TornEnd): Damage {
  const seq = walk.expected?.seq;
  return { kind: "cut off", file: files[index]?.file ?? "", line, seq, message: `${bytes} bytes without a line end` };
}

/** Lines of the last file, all of which hold. */
function lineCount({ files }: WalkFacts): number {
  let count = 0;
  const index = files.length - 1;
  if (index >= 0) {
    walkFiles(files, { index, offset: 0 }, () => {
      count += 1;
      return true;
    });
  }
  return count;
}

/** The chain holds, and yet it is not what was signed: it was made anew from some line on. */
function mismatch({ files, walk }: WalkFacts, at: LinePlace, { note, first }: Mismatched): Damage {
  const { size } = note.checkpoint;
  const next = lineAfter(files, at);
  if (next?.seq === size && next.prev !== walk.expected?.prev) {
    const message = "is not the line that the next one was written after";
    return { kind: "changed", file: files[at.index]?.file ?? "", line: at.line, seq: size - 1, message };
  }
  const message = `lines ${first} to ${size - 1} are not those that the checkpoint in ${note.file}, line ${note.line}, covers`;
  const place = placeOf(files, first) ?? { file: files[at.index]?.file ?? "", line: at.line };
  return { kind: "checkpoint mismatch", ...place, seq: first, message };
}

function lineAfter(files: readonly DayFile[], { index, offset }: LinePlace): Link | undefined {
  let seen = 0;
  const { halt } = walkFiles(files, { index, offset }, () => {
    seen += 1;
    return seen < 2;
  });
  return halt && linkAt(files, halt.at);
}

/** Where line `seq` of the chain stands. */
function placeOf(files: readonly DayFile[], seq: number): { readonly file: string; readonly line: number } | undefined {
  const { halt } = walkFiles(
    files,
    { index: 0, offset: 0 },
    (bytes, from, to) => readLink(bytes, from, to)?.seq !== seq,
  );
  return halt && { file: files[halt.at.index]?.file ?? "", line: halt.at.line };
}
