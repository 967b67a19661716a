import type { KeyObject } from "node:crypto";
import fs from "node:fs";
import { dirname, join } from "node:path";
import { type ChainHead, type ChainLink, readIntentSeq, readLink, STREAMS, type StreamName } from "../chain/chain.ts";
import {
  ChainWalk,
  type Halt,
  type LinePosition,
  RECORD_FILE,
  runToEnd,
  type TornEnd,
  type WalkStart,
  walkFiles,
  walkFromStart,
  walkInSteps,
} from "../chain/chain-walk.ts";
import { NoteCursor, originOf, type SignedSize } from "../chain/checkpoint.ts";
import {
  type DayFile,
  dayFilesOf,
  folderOf,
  isDayFile,
  type LineVisit,
  lineEnds,
  stampAt,
} from "../journal/day-files.ts";
import { readSavedPosition } from "../journal/saved-position.ts";
import { boundsOf } from "../query/day-bounds.ts";
import { type Damage, damageAt, explainHalt, linkAt, lostPosition, misnamedFile } from "./damage.ts";
import {
  type CheckpointsReport,
  type Covered,
  foreignNote,
  isSignedFurther,
  lostNote,
  type NotesReport,
  type StreamNotes,
  UnsignedLines,
  verifyCheckpoints,
} from "./verify-checkpoints.ts";

export interface VerifyOptions {
  readonly dir: string;
  /** Public keys that verify checkpoints. When empty, signatures are not checked. */
  readonly keys: readonly KeyObject[];
  /** First and last day to verify (`YYYY-MM-DD`), inclusive. A part of the log is verified by its chain alone. */
  readonly from?: string | undefined;
  readonly to?: string | undefined;
  /** The verified positions from an earlier result: only later lines are read. */
  readonly since?: Readonly<Record<StreamName, VerifiedPosition>> | undefined;
  /** Gets each line of the journal that follows. */
  readonly onJournalLine?: ((bytes: Buffer, from: number, to: number) => void) | undefined;
}

export interface StreamReport {
  readonly stream: StreamName;
  readonly files: number;
  /** Number of lines with a valid link, up to the damage if there is any. */
  readonly lines: number;
  /** Number of lines without a link, which were written before the chain existed. */
  readonly linesBefore: number;
  /** `seq` of the last valid line. */
  readonly lastSeq: number | undefined;
  /** The lines before this `seq` were deleted by retention. */
  readonly prunedTo: number | undefined;
  /** Number of checkpoints whose root was compared with the lines. */
  readonly compared: number;
  /** Name of this log in its checkpoints; `undefined` before its first line with a link. */
  readonly origin: string | undefined;
  /**
   * Lines that compared checkpoints cover: of the given keys, if there are any. `undefined` when no checkpoint was compared, or when
   * there are lines before the chain's first one that it does not follow from.
   */
  readonly covered: Covered | undefined;
  /** Bytes after the last line end: left by a crash, or being written right now. */
  readonly tornBytes: number;
  readonly damage: Damage | undefined;
}

export interface VerifyReport {
  readonly streams: readonly StreamReport[];
  readonly checkpoints: CheckpointsReport;
}

export interface VerifiedLog {
  readonly report: VerifyReport;
  /**
   * Positions from which to continue; `undefined` when there is a problem, or when the streams were not followed from
   * their start.
   */
  readonly positions: Readonly<Record<StreamName, VerifiedPosition>> | undefined;
}

/** Reads the whole log, or the requested days, and reports the first problem in each stream. */
export function verifyLog(options: VerifyOptions): VerifyReport {
  return runToEnd(verifyInSteps(options)).report;
}

/**
 * Does the same as `verifyLog`, with a pause after every few milliseconds of work, during which no file is open. Yields
 * the bytes of lines of each step.
 */
export function* verifyInSteps(options: VerifyOptions): Generator<number, VerifiedLog> {
  const { dir, keys, since } = options;
  // Read before the lines: otherwise lines written in the meantime would look as if they were missing.
  const saved = readSavedPosition(dir);
  const verified = { calls: since?.calls.head.seq ?? 0, journal: since?.journal.head.seq ?? 0 };
  const notes = yield* verifyCheckpoints({ dir, keys, from: notesFrom(options), verified });
  const calls = yield* verifyStream(options, taskOf("calls", notes, saved));
  const journal = yield* verifyStream(options, taskOf("journal", notes, saved));
  const logIds = { calls: calls.logId, journal: journal.logId };
  const foreign = isWhole(options) ? foreignNote(notes, logIds) : undefined;
  const { checkpoints, signed, otherKeys } = notes;
  const report = {
    streams: [calls.report, withIntents(journal.report, calls.lastIntentSeq, options)],
    checkpoints: { checkpoints, signed, otherKeys, damage: worst(notes.damage, foreign ?? lostNote(notes, saved)) },
  };
  const positions = calls.position && journal.position && { calls: calls.position, journal: journal.position };
  return { report, positions: isSound(report) ? positions : undefined };
}

/** Verifies the calls without the journal, and without the signatures of checkpoints. */
export function* verifyCalls(options: Pick<VerifyOptions, "dir" | "from" | "to">): Generator<number, StreamReport> {
  // Read before the lines, as above.
  const saved = readSavedPosition(options.dir);
  const notes = yield* verifyCheckpoints({ dir: options.dir, keys: [], verified: { calls: 0, journal: 0 } });
  const { report } = yield* verifyStream({ ...options, keys: [] }, taskOf("calls", notes, saved));
  return report;
}

/** Returns the day of the file that contains the first note that was not checked before. */
function notesFrom({ since }: VerifyOptions): string | undefined {
  return since && [since.calls.day, since.journal.day].sort()[0];
}

/**
 * Returns true when there is no damage. Bytes without a line end do not count: they are a line that is being written.
 */
export function isSound({ streams, checkpoints }: VerifyReport): boolean {
  return [...streams, checkpoints].every(({ damage }) => damage === undefined || damage.isTornEnd === true);
}

interface Walked {
  readonly report: StreamReport;
  readonly logId: string | undefined;
  /** The largest `intentSeq` of a line. */
  readonly lastIntentSeq: number;
  readonly position: VerifiedPosition | undefined;
}

function* verifyStream(options: VerifyOptions, task: StreamTask): Generator<number, Walked> {
  const { stream } = task;
  const since = options.since?.[stream];
  const all = dayFilesOf(options.dir, stream);
  const files = all.filter(({ day }) => isWithin(day, options));
  const { walk, ...start } = startOf(options, stream, files);
  const begin = walk.expected?.seq ?? 0;
  const cursor = new NoteCursor(options.dir, stream, since?.day);
  let [compared, lastIntentSeq, lastCompared] = [0, -1, begin];
  const mismatches: Mismatch[] = [];
  const unsigned = new UnsignedLines(task.notes.covered?.size ?? 0);
  const { halt, torn, end } = yield* walkInSteps(files, { ...start, checksDays: true }, (bytes, from, to) => {
    if (!walk.take(bytes, from, to)) return false;
    lastIntentSeq = Math.max(lastIntentSeq, readIntentSeq(bytes, from, to) ?? -1);
    if (stream === "journal") options.onJournalLine?.(bytes, from, to);
    const { tree, lines } = walk;
    if (lines > 0) unsigned.take((walk.expected?.seq ?? 0) - 1, Date.parse(stampAt(bytes, from) ?? ""));
    if (tree === undefined || lines === 0) return true;
    for (let note = cursor.at(tree.size); note !== undefined; note = cursor.at(tree.size)) {
      compared += 1;
      if (!tree.root().equals(note.checkpoint.root)) {
        mismatches.push({ note, first: lastCompared });
        return false;
      }
      lastCompared = tree.size;
    }
    return true;
  });
  const [mismatch] = mismatches;
  const isLost = options.from !== undefined && walk.linesBefore > 0;
  const found =
    shortened(since, files) ??
    (isLost ? lostStart(all, files) : undefined) ??
    damageOf(task, { files, walk, halt, torn, mismatch }, options.to === undefined) ??
    downgradeOf(options, task, { files, first: unsigned.downgrade() });
  // A file renamed to a day outside the requested ones is not reported as missing, but its wrong name is reported.
  const damage = found ?? misnamedFile(all.filter(({ day }) => !isWithin(day, options)));
  const lines = walk.lines - (mismatch === undefined && halt?.isOfOtherDay !== true ? 0 : 1);
  const tornBytes = torn.find(({ index }) => index === files.length - 1)?.bytes ?? 0;
  const lastSeq = walk.lines === 0 ? undefined : (walk.expected?.seq ?? 0) - 1;
  const { linesBefore, logId } = walk;
  const origin = logId && originOf(stream, logId);
  const covered = compared === 0 || walk.isLooseBefore ? undefined : task.notes.covered;
  const isBegin = options.from === undefined && since === undefined;
  const prunedTo = isBegin && begin > 0 ? begin : undefined;
  const head = walk.head();
  return {
    report: {
      stream,
      files: files.length,
      lines,
      linesBefore,
      lastSeq,
      prunedTo,
      compared,
      origin,
      covered,
      tornBytes,
      damage,
    },
    logId,
    lastIntentSeq,
    position: head && { head, day: files[end.index]?.day ?? "", offset: end.offset },
  };
}

interface UnsignedFrom {
  readonly files: readonly DayFile[];
  /** `seq` of the first line that is not signed. */
  readonly first: number | undefined;
}

/** Returns the damage when a signed log continues without signatures, because its further lines can be rebuilt without the key. */
function downgradeOf(
  options: VerifyOptions,
  { stream, isSigned }: StreamTask,
  unsigned: UnsignedFrom,
): Damage | undefined {
  const { dir, keys } = options;
  const { files, first } = unsigned;
  if (first === undefined || keys.length === 0 || !isWhole(options) || !isSigned) return undefined;
  if (isSignedFurther(dir, stream, { size: first, keys })) return undefined;
  const message = "no given key signed the lines from here on, although the log was signed before";
  const at = placeOf(files, first);
  return at && damageAt(files, at, { kind: "not signed", seq: first, message });
}

/** Returns where reading starts, and the walk that expects the first line there. */
function startOf(
  { dir, from, since }: VerifyOptions,
  stream: StreamName,
  files: readonly DayFile[],
): WalkStart & { readonly walk: ChainWalk } {
  const position = since?.[stream];
  if (position === undefined) {
    return {
      index: 0,
      offset: 0,
      walk: from === undefined ? walkFromStart(dir, stream, files) : ChainWalk.fromWithin(),
    };
  }
  const at = files.findIndex(({ day }) => day >= position.day);
  const index = at === -1 ? files.length : at;
  return {
    index,
    offset: files[index]?.day === position.day ? position.offset : 0,
    walk: ChainWalk.after(position.head),
  };
}

/**
 * Returns the damage when the requested days start with a line without a link, although the chain had started on an
 * earlier day.
 */
function lostStart(all: readonly DayFile[], files: readonly DayFile[]): Damage | undefined {
  const index = files.findIndex(({ size }) => size > 0);
  const before = all.findLast(({ day, size }) => size > 0 && day < (files[index]?.day ?? ""));
  const link = before && boundsOf(dirname(before.path), before.day)?.last.link;
  const message = "has lost its place in the chain";
  return link && damageAt(files, { index, line: 1 }, { kind: "changed", seq: link.seq + 1, message });
}

/** Adds the damage when a call names an intent that the journal does not contain: the end of the journal is missing. */
function withIntents(report: StreamReport, announced: number, options: VerifyOptions): StreamReport {
  const lines = (report.lastSeq ?? -1) + 1;
  if (report.damage !== undefined || announced < lines || !isWhole(options)) return report;
  const file = dayFilesOf(options.dir, "journal").at(-1)?.file ?? "journal";
  const message = `a call names line ${announced} of the journal, which ends before it`;
  return { ...report, damage: { kind: "cut off", file, line: 1, seq: lines, message } };
}

function isWhole({ from, to, since }: VerifyOptions): boolean {
  return from === undefined && to === undefined && since === undefined;
}

function isWithin(day: string, { from, to }: VerifyOptions): boolean {
  return (from === undefined || day >= from) && (to === undefined || day <= to);
}

export function bytesToVerify(options: VerifyOptions): number {
  const files = STREAMS.flatMap((stream) => dayFilesOf(options.dir, stream));
  return files.filter(({ day }) => isWithin(day, options)).reduce((sum, { size }) => sum + size, 0);
}

const LOOKS_LIKE_LINES = /\d{4}-?\d{2}-?\d{2}|\.jsonl/i;

/** Returns the names in the log's folders that look like day files but are not: their contents are not read. */
export function unreadNames(dir: string): readonly string[] {
  return STREAMS.flatMap((stream) => {
    const folder = folderOf(stream);
    const names = fs.existsSync(join(dir, folder)) ? fs.readdirSync(join(dir, folder)) : [];
    const isRead = (name: string): boolean => isDayFile(name) || name === RECORD_FILE;
    return names.filter((name) => LOOKS_LIKE_LINES.test(name) && !isRead(name)).map((name) => join(folder, name));
  });
}

/**
 * Returns the exit code: 0 sound, 1 tampered, 2 only a torn end, 3 lines missing, 4 signature problem. 5 is reserved
 * for "cannot be read".
 */
export function exitCodeOf({ streams, checkpoints }: VerifyReport): 0 | 1 | 2 | 3 | 4 {
  const codes = [...streams.map(({ damage }) => damage), checkpoints.damage].map(codeOf);
  return ([1, 4, 3, 2] as const).find((code) => codes.includes(code)) ?? 0;
}

const MISSING: readonly string[] = ["removed", "cut off", "gap"] satisfies readonly Damage["kind"][];

function codeOf(damage: Damage | undefined): 0 | 1 | 2 | 3 | 4 {
  if (damage === undefined) return 0;
  if (damage.isTornEnd === true) return 2;
  if (damage.kind === "bad signature" || damage.kind === "not signed") return 4;
  return MISSING.includes(damage.kind) ? 3 : 1;
}

/** Returns the more serious damage: a torn end is reported only when there is nothing worse. */
function worst(first: Damage | undefined, other: Damage | undefined): Damage | undefined {
  return first === undefined || (first.isTornEnd === true && other !== undefined) ? other : first;
}

interface VerifiedPosition {
  readonly head: ChainHead;
  readonly day: string;
  readonly offset: number;
}

/** One stream, and the facts about it that are not in its lines. */
interface StreamTask {
  readonly stream: StreamName;
  readonly notes: StreamNotes;
  /** True when the log has checkpoints, and nothing is wrong with them. */
  readonly isSigned: boolean;
  /** Number of lines according to the saved position. */
  readonly claimed: number;
}

function taskOf(stream: StreamName, notes: NotesReport, saved: ReturnType<typeof readSavedPosition>): StreamTask {
  const { checkpoints, damage } = notes;
  const isSigned = checkpoints > 0 && (damage === undefined || damage.isTornEnd === true);
  return { stream, notes: notes.streams[stream], isSigned, claimed: saved?.streams[stream].head.seq ?? 0 };
}

/**
 * Returns the damage when the log ends before the verified position. Only a reading of the whole log shows whether the
 * lines before it are unchanged.
 */
function shortened(position: VerifiedPosition | undefined, files: readonly DayFile[]): Damage | undefined {
  if (position === undefined || files.some(({ day }) => day > position.day)) return undefined;
  const newest = files.at(-1);
  if (newest?.day === position.day && newest.size >= position.offset) return undefined;
  const message = `the log ends before the place up to which it was verified, behind line ${position.head.seq - 1} of the chain`;
  return { kind: "cut off", file: newest?.file ?? position.day, line: 0, seq: position.head.seq, message };
}

/**
 * A checkpoint whose root does not match the lines up to its size; an earlier checkpoint confirms the lines before
 * `first`.
 */
interface Mismatch {
  readonly note: SignedSize;
  readonly first: number;
}

interface WalkFacts {
  readonly files: readonly DayFile[];
  readonly walk: ChainWalk;
  readonly halt: Halt | undefined;
  readonly torn: readonly TornEnd[];
  readonly mismatch: Mismatch | undefined;
}

/** Returns the damage of a stream after a walk. `isToEnd` is true when the walk should reach the end of the log. */
function damageOf(task: StreamTask, facts: WalkFacts, isToEnd: boolean): Damage | undefined {
  const { files, walk, halt, torn, mismatch } = facts;
  if (halt !== undefined && mismatch !== undefined) return rewritten(facts, halt.at, mismatch);
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

/** Returns the damage when the log does not end where it should. */
function endDamage({ stream, notes, claimed }: StreamTask, facts: WalkFacts): Damage | undefined {
  const { files, walk, torn } = facts;
  const lines = walk.expected?.seq ?? 0;
  const wanted = Math.max(claimed, notes.size);
  const [last] = torn;
  if (lines >= wanted) return last && { ...tornDamage(facts, last), isTornEnd: true };
  const file = files.at(-1)?.file ?? stream;
  if (walk.lines === 0 && walk.linesBefore > 0) return lostPosition(file, walk.linesBefore - wanted);
  const message = `the log ends here, and held ${wanted} lines`;
  return { kind: "cut off", file, line: last?.line ?? lineCount(files), seq: lines, message };
}

function tornDamage({ files, walk }: WalkFacts, torn: TornEnd): Damage {
  const message = `${torn.bytes} bytes without a line end`;
  return damageAt(files, torn, { kind: "cut off", seq: walk.expected?.seq, message });
}

function lineCount(files: readonly DayFile[]): number {
  const last = files.at(-1);
  return last === undefined ? 0 : lineEnds(last.path, last.size);
}

/**
 * Returns the damage of a chain that is consistent but differs from what was signed: it was rewritten from some line
 * on.
 */
function rewritten({ files, walk }: WalkFacts, at: LinePosition, { note, first }: Mismatch): Damage {
  const { size } = note.checkpoint;
  const next = lineAfter(files, at);
  if (next?.seq === size && next.prev !== walk.expected?.prev) {
    const message = "is not the line that the next one was written after";
    return damageAt(files, at, { kind: "changed", seq: size - 1, message });
  }
  const message = `lines ${first} to ${size - 1} are not those that the checkpoint in ${note.file}, line ${note.line}, covers`;
  return damageAt(files, placeOf(files, first) ?? at, { kind: "checkpoint mismatch", seq: first, message });
}

function lineAfter(files: readonly DayFile[], at: LinePosition): ChainLink | undefined {
  let seen = 0;
  const { halt } = walkFiles(files, at, () => {
    seen += 1;
    return seen < 2;
  });
  return halt && linkAt(files, halt.at);
}

function placeOf(files: readonly DayFile[], seq: number): LinePosition | undefined {
  const isOther: LineVisit = (bytes, from, to) => readLink(bytes, from, to)?.seq !== seq;
  return walkFiles(files, { index: 0, offset: 0 }, isOther).halt?.at;
}
