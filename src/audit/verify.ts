import type { KeyObject } from "node:crypto";
import { type Link, readIntentSeq, readLink, STREAMS, type StreamName } from "./chain.ts";
import { ChainWalk } from "./chain-walk.ts";
import { type FoundNote, readNotes } from "./checkpoint-files.ts";
import { type Damage, explainHalt, type LinePlace, linkAt } from "./damage.ts";
import { type Halt, type TornEnd, walkFiles } from "./file-walk.ts";
import { type DayFile, dayFilesOf } from "./line-files.ts";
import { walkFromBegin } from "./pruned-begin.ts";
import { readPlace } from "./saved-place.ts";
import { type CheckpointsReport, foreignNote, lostNote, verifyCheckpoints } from "./verify-checkpoints.ts";

/** How often progress is told, in lines. */
const PROGRESS_LINES = 50_000;

export interface VerifyOptions {
  readonly dir: string;
  /** Public keys of checkpoints. Without any, signatures are not judged. */
  readonly keys: readonly KeyObject[];
  /** Days, `YYYY-MM-DD`, both included. A part of the log is checked by its chain alone. */
  readonly from?: string | undefined;
  readonly to?: string | undefined;
  readonly onProgress?: (bytes: number, bytesInAll: number) => void;
}

export interface StreamReport {
  readonly stream: StreamName;
  readonly files: number;
  /** With a link that holds, up to the damage if there is any. */
  readonly lines: number;
  /** Without a link: from before the chain. */
  readonly linesBefore: number;
  /** Of the last line that holds. */
  readonly lastSeq: number | undefined;
  /** The lines before this one were deleted by retention; the checkpoints' roots cannot be compared then. */
  readonly prunedTo: number | undefined;
  /** Checkpoints whose root was compared with the lines. */
  readonly compared: number;
  /** Bytes after the last line end: what a crash cut short, or what is being written right now. */
  readonly tornBytes: number;
  readonly damage: Damage | undefined;
}

export interface VerifyReport {
  readonly streams: readonly StreamReport[];
  readonly checkpoints: CheckpointsReport;
}

/** Reads the whole log, or the named days of it, and reports the first thing that is wrong in each stream. */
export function verifyLog(options: VerifyOptions): VerifyReport {
  const { dir, keys } = options;
  // Before the lines: what is written meanwhile must not look as if lines were missing.
  const saved = readPlace(dir);
  const found = readNotes(dir);
  const checkpoints = verifyCheckpoints(found, keys);
  const progress = progressOf(options);
  const walked = STREAMS.map((stream) => {
    const claimed = saved?.streams[stream].head.seq ?? 0;
    return verifyStream(options, { stream, notes: notesOf(found.notes, stream), claimed, progress });
  });
  const [calls, journal] = walked;
  const logIds = { calls: calls?.logId, journal: journal?.logId };
  const foreign = isWhole(options) ? foreignNote(found.notes, logIds) : undefined;
  const announced = calls?.lastIntentSeq ?? -1;
  return {
    streams: walked.map(({ report }) =>
      report.stream === "journal" ? withIntents(report, announced, options) : report,
    ),
    checkpoints: { ...checkpoints, damage: worst(checkpoints.damage, foreign ?? lostNote(found.notes, saved)) },
  };
}

interface StreamTask {
  readonly stream: StreamName;
  readonly notes: readonly FoundNote[];
  /** Lines that the saved place speaks of. */
  readonly claimed: number;
  readonly progress: (bytes: number) => void;
}

interface Walked {
  readonly report: StreamReport;
  readonly logId: string | undefined;
  /** The greatest `intentSeq` of a line. */
  readonly lastIntentSeq: number;
}

function verifyStream(options: VerifyOptions, task: StreamTask): Walked {
  const { stream, notes, progress } = task;
  const files = dayFilesOf(options.dir, stream).filter(({ day }) => isWithin(day, options));
  const walk = options.from === undefined ? walkFromBegin(options.dir, stream, files) : ChainWalk.fromWithin();
  const roots = new Map(notes.map(({ checkpoint }) => [checkpoint?.size ?? 0, checkpoint?.root]));
  let compared = 0;
  let lastIntentSeq = -1;
  let isMismatch = false;
  const { halt, torn } = walkFiles(files, { index: 0, offset: 0 }, (bytes, from, to) => {
    progress(to - from + 1);
    if (!walk.take(bytes, from, to)) {
      return false;
    }
    lastIntentSeq = Math.max(lastIntentSeq, readIntentSeq(bytes, from, to) ?? -1);
    const root = walk.tree === undefined || walk.lines === 0 ? undefined : roots.get(walk.tree.size);
    if (root !== undefined) {
      compared += 1;
      isMismatch = walk.tree?.root().equals(root) === false;
    }
    return !isMismatch;
  });
  const facts = { files, walk, halt, torn, isMismatch };
  const damage = damageOf(options, task, facts);
  const lines = walk.lines - (isMismatch ? 1 : 0);
  const tornBytes = torn.find(({ index }) => index === files.length - 1)?.bytes ?? 0;
  const lastSeq = walk.lines === 0 ? undefined : (walk.expected?.seq ?? 0) - 1;
  const { linesBefore, logId } = walk;
  const prunedTo = options.from === undefined && walk.tree === undefined ? (lastSeq ?? 0) - walk.lines + 1 : undefined;
  return {
    report: { stream, files: files.length, lines, linesBefore, lastSeq, prunedTo, compared, tornBytes, damage },
    logId,
    lastIntentSeq,
  };
}

interface WalkFacts {
  readonly files: readonly DayFile[];
  readonly walk: ChainWalk;
  readonly halt: Halt | undefined;
  readonly torn: readonly TornEnd[];
  readonly isMismatch: boolean;
}

function damageOf(options: VerifyOptions, task: StreamTask, facts: WalkFacts): Damage | undefined {
  const { files, walk, halt, torn, isMismatch } = facts;
  const { stream, notes } = task;
  if (halt !== undefined && isMismatch) {
    return mismatch(facts, halt.at, notes);
  }
  if (halt !== undefined) {
    const cut = torn.find(({ index }) => index === halt.before?.index && index < halt.at.index);
    const places = notes.map((note) => ({ stream, size: note.checkpoint?.size ?? 0, day: note.day }));
    return cut === undefined ? explainHalt(files, { halt, walk, stream, notes: places }) : tornDamage(facts, cut);
  }
  const early = torn.find(({ index }) => index < files.length - 1);
  if (early !== undefined) {
    return { ...tornDamage(facts, early), kind: "inserted", message: "stands after the last line end" };
  }
  return options.to === undefined ? endDamage(task, facts) : undefined;
}

/** Whether the end is where it should be. */
function endDamage({ stream, notes, claimed }: StreamTask, facts: WalkFacts): Damage | undefined {
  const { files, walk, torn } = facts;
  const lines = walk.lines === 0 ? 0 : (walk.expected?.seq ?? 0);
  const sizes = notes.map(({ checkpoint }) => checkpoint?.size ?? 0);
  const wanted = Math.max(claimed, ...sizes.slice(-1));
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
function mismatch({ files, walk }: WalkFacts, at: LinePlace, notes: readonly FoundNote[]): Damage {
  const size = walk.tree?.size ?? 0;
  const next = lineAfter(files, at);
  if (next?.seq === size && next.prev !== walk.expected?.prev) {
    const message = "is not the line that the next one was written after";
    return { kind: "changed", file: files[at.index]?.file ?? "", line: at.line, seq: size - 1, message };
  }
  const before = notes.map(({ checkpoint }) => checkpoint?.size ?? 0).filter((other) => other < size);
  const first = Math.max(0, ...before);
  const note = notes.find(({ checkpoint }) => checkpoint?.size === size);
  const message = `lines ${first} to ${size - 1} are not those that the checkpoint in ${note?.file}, line ${note?.line}, covers`;
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

/** A call that names an intent which the journal does not hold: the journal lost its end. */
function withIntents(report: StreamReport, announced: number, options: VerifyOptions): StreamReport {
  const lines = (report.lastSeq ?? -1) + 1;
  if (report.damage !== undefined || announced < lines || !isWhole(options)) {
    return report;
  }
  const file = dayFilesOf(options.dir, "journal").at(-1)?.file ?? "journal";
  const message = `a call names line ${announced} of the journal, which ends before it`;
  return { ...report, damage: { kind: "cut off", file, line: 1, seq: lines, message } };
}

function notesOf(notes: readonly FoundNote[], stream: StreamName): readonly FoundNote[] {
  return notes.filter(({ checkpoint }) => checkpoint?.stream === stream);
}

function isWhole({ from, to }: VerifyOptions): boolean {
  return from === undefined && to === undefined;
}

function isWithin(day: string, { from, to }: VerifyOptions): boolean {
  return (from === undefined || day >= from) && (to === undefined || day <= to);
}

function progressOf(options: VerifyOptions): (bytes: number) => void {
  const files = STREAMS.flatMap((stream) => dayFilesOf(options.dir, stream));
  const inAll = files.filter(({ day }) => isWithin(day, options)).reduce((sum, { size }) => sum + size, 0);
  let done = 0;
  let lines = 0;
  return (bytes) => {
    done += bytes;
    lines += 1;
    if (lines % PROGRESS_LINES === 0) {
      options.onProgress?.(done, inAll);
    }
  };
}

/** What a program may conclude: 0 sound, 1 tampered, 2 only a torn end, 3 lines missing, 4 signature, 5 is left for "cannot be read". */
export function exitCodeOf({ streams, checkpoints }: VerifyReport): 0 | 1 | 2 | 3 | 4 {
  const codes = [...streams.map(({ damage }) => damage), checkpoints.damage].map(codeOf);
  return ([1, 4, 3, 2] as const).find((code) => codes.includes(code)) ?? 0;
}

const MISSING: readonly string[] = ["removed", "cut off", "gap"] satisfies readonly Damage["kind"][];

function codeOf(damage: Damage | undefined): 0 | 1 | 2 | 3 | 4 {
  if (damage === undefined) {
    return 0;
  }
  if (damage.isTornEnd === true) {
    return 2;
  }
  if (damage.kind === "bad signature") {
    return 4;
  }
  return MISSING.includes(damage.kind) ? 3 : 1;
}

/** A torn end is told only when there is nothing worse. */
function worst(first: Damage | undefined, other: Damage | undefined): Damage | undefined {
  return first === undefined || (first.isTornEnd === true && other !== undefined) ? other : first;
}
