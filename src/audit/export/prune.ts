import fs from "node:fs";
import { dirname, join } from "node:path";
import type { StreamName } from "../chain/chain.ts";
import type { ChainWalk } from "../chain/chain-walk.ts";
import { readLastNotes } from "../chain/checkpoint-files.ts";
import { MerkleTree } from "../chain/merkle-tree.ts";
import { syncDirectory } from "../journal/file-operations.ts";
import { type DayFile, dayFilesOf } from "../journal/line-files.ts";
import { type Cut, recordPruned, walkFromBegin } from "../journal/pruned-start.ts";
import { readLastLine } from "../journal/torn-tail.ts";
import { boundsOf, otherDayOf } from "../query/day-bounds.ts";
import { daysIn, type Stream, streamDir } from "../query/days.ts";
import { stampAt } from "../query/scan.ts";
import { dayOf } from "../query/time-range.ts";
import { parseLine } from "../query/view.ts";
import { walkInSteps } from "../verify/file-walk.ts";
import { type ExportPosition, readExportPlaces } from "./position-files.ts";

/** Ends the reasons that somebody has to look into. */
export const SEE_VERIFY = "stc audit verify tells more";

const STREAMS = ["calls", "journal"] as const;

interface PruneOptions {
  readonly dir: string;
  /** Milliseconds since 1970. */
  readonly nowMs: number;
  /** Files of days that ended so long ago, in milliseconds, may go. */
  readonly keepMs: number;
  /** Exporters that must have passed a file even if they never ran; those that ever ran must in any case. */
  readonly exporters?: readonly string[];
}

/** One file that is older than it must be, and why it stays if it does. */
export interface Aged {
  readonly stream: Stream;
  readonly day: string;
  readonly path: string;
  readonly bytes: number;
  readonly keptBecause: string | undefined;
}

/** What may go, oldest first. A stream is cut from its begin only: behind a file that stays every other stays too. */
export function agedFiles(options: PruneOptions): readonly Aged[] {
  const before = dayOf(options.nowMs - options.keepMs);
  const today = dayOf(options.nowMs);
  return STREAMS.flatMap((stream) => {
    const dir = streamDir(options.dir, stream);
    const days = daysIn(dir);
    const newest = newestOf(dir, days);
    const rules = rulesOf(options, stream);
    const aged: Aged[] = [];
    for (const day of days.filter((one) => one < before && one < today)) {
      const path = join(dir, `${day}.jsonl`);
      const facts = fs.lstatSync(path);
      const bytes = facts.size;
      const isNewest = day === newest || day === days.at(-1);
      const blocked = aged.at(-1)?.keptBecause === undefined ? undefined : "an older file stays";
      const keptBecause =
        blocked ?? reasonToKeep(facts, isNewest, () => youngLines(dir, day, before)) ?? rules(day, path, bytes);
      aged.push({ stream, day, path, bytes, keptBecause });
    }
    return aged;
  });
}

interface PruneSteps {
  /** Before a file goes, and awaited. */
  readonly announce?: (file: Aged) => Promise<void>;
}

/**
 * Deletes what may go; each file is on the record, durably, before, with what the rest of its chain has to follow from. A
 * file that does not verify is evidence: it stays, and so does what is behind it. Others run while the lines are read.
 */
export async function pruneFiles(
  aged: readonly Aged[],
  { dir, nowMs, keepMs }: PruneOptions,
  { announce }: PruneSteps = {},
): Promise<readonly Aged[]> {
  const settled: Aged[] = [];
  for (const stream of STREAMS) {
    const files = aged.filter((file) => file.stream === stream);
    const going = files.filter(({ keptBecause }) => keptBecause === undefined);
    const days = going.map(({ day }) => day);
    const cuts = await inPauses(readCuts(dir, stream, { days, before: dayOf(nowMs - keepMs) }));
    for (const file of files) {
      const { day, path, bytes } = file;
      if (file.keptBecause !== undefined || !cuts.has(day)) {
        settled.push({ ...file, keptBecause: file.keptBecause ?? `it does not verify: ${SEE_VERIFY}` });
        continue;
      }
      await announce?.(file);
      recordPruned(dir, { timestamp: new Date(nowMs).toISOString(), stream, day, bytes, cut: cuts.get(day) });
      fs.unlinkSync(path);
      // Names that go in another order than they were taken away would leave a gap.
      syncDirectory(dirname(path));
      settled.push(file);
    }
  }
  return settled;
}

async function inPauses<T>(steps: Generator<number, T>): Promise<T> {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

function reasonToKeep(facts: fs.Stats, isNewest: boolean, young: () => string | undefined): string | undefined {
  if (!facts.isFile()) return "it is not a regular file";
  return young() ?? (isNewest ? "the log goes on from its newest file" : undefined);
}

/** The day whose file has the youngest last line, whatever the names say. */
function newestOf(dir: string, days: readonly string[]): string | undefined {
  let newest: { readonly day: string; readonly timeMs: number } | undefined;
  for (const day of days) {
    const isFile = fs.lstatSync(join(dir, `${day}.jsonl`)).isFile();
    const timeMs = isFile ? boundsOf(dir, day)?.last.timeMs : undefined;
    if (timeMs !== undefined && timeMs >= (newest?.timeMs ?? 0)) newest = { day, timeMs };
  }
  return newest?.day;
}

/** A file is as old as its lines, whatever its name says. */
function youngLines(dir: string, day: string, before: string): string | undefined {
  const bounds = boundsOf(dir, day);
  const otherDay = otherDayOf(bounds);
  if (otherDay !== undefined) return `it holds lines of ${otherDay}: ${SEE_VERIFY}`;
  const lastDay = bounds?.last.timeMs === undefined ? "" : dayOf(bounds.last.timeMs);
  return lastDay >= before ? `it holds lines of ${lastDay}` : undefined;
}

type Rule = (day: string, path: string, bytes: number) => string | undefined;

function rulesOf({ dir, exporters = [] }: PruneOptions, stream: Stream): Rule {
  const places = readExportPlaces(dir).filter((place) => place.stream === stream);
  const missing = exporters
    .filter((exporter) => !places.some((place) => place.exporter === exporter))
    .map((exporter) => ({ exporter, stream, position: undefined }));
  const covered = coveredLines(dir, stream);
  return (day, path, bytes) => {
    const behind = [...places, ...missing].find((place) => !hasPassed(place, day, bytes));
    if (behind !== undefined) return `the exporter ${behind.exporter} has not passed it`;
    if (covered === undefined) return undefined;
    const seq = lastSeqOf(path);
    return seq !== undefined && seq >= covered ? "no checkpoint covers it" : undefined;
  };
}

function hasPassed({ position }: ExportPosition, day: string, bytes: number): boolean {
  if (position === undefined) return false;
  return position.day > day || (position.day === day && position.offset >= bytes);
}

/** How many lines of the stream are under a checkpoint; `undefined` when this log has none. */
function coveredLines(dir: string, stream: Stream): number | undefined {
  const notes = readLastNotes(dir);
  if (notes.length === 0) return undefined;
  return Math.max(0, ...notes.flatMap(({ checkpoint }) => (checkpoint?.stream === stream ? [checkpoint.size] : [])));
}

function lastSeqOf(path: string): number | undefined {
  return seqOf(parseLine(readLastLine(path) ?? "")?.["seq"]);
}

function seqOf(value: unknown): number | undefined {
  return Number.isSafeInteger(value) ? (value as number) : undefined;
}

/** By day: where the chain can be cut behind its file; `undefined` when no line of the stream has a link. */
type Cuts = ReadonlyMap<string, Cut | undefined>;

interface Going {
  readonly days: readonly string[];
  /** Only lines of days before this one may go. */
  readonly before: string;
}

/**
 * Follows the chain through the files of these days, which are the oldest. Files from the first fault on are not among the
 * cuts: a line that does not follow, is not of its file's day, or is too young to go.
 */
function* readCuts(dir: string, stream: StreamName, { days, before }: Going): Generator<number, Cuts> {
  const files = dayFilesOf(dir, stream);
  const reader = new CutReader(walkFromBegin(dir, stream, files), before);
  for (const file of days.length === 0 ? [] : files) {
    const isGoing = days.includes(file.day);
    // Whether a chain begins behind lines without links is told by its first line alone, wherever that is.
    if (!isGoing && reader.hasChain) break;
    const isSound = yield* reader.read(file);
    if (!isSound) break;
    if (isGoing && reader.isOld) reader.cut(file.day);
    else if (isGoing) break;
  }
  return reader.cuts();
}

class CutReader {
  readonly #walk: ChainWalk;
  readonly #cuts = new Map<string, Cut | undefined>();
  readonly #unchained: string[] = [];
  readonly #before: string;
  #firstPrev: string | undefined;
  /** No line so far is of the day from which on lines are kept. */
  isOld = true;

  constructor(walk: ChainWalk, before: string) {
    this.#walk = walk;
    this.#before = before;
  }

  get hasChain(): boolean {
    return (this.#walk.expected?.seq ?? 0) > 0;
  }

  /** `false` when a line does not follow, or has no end. */
  *read(file: DayFile): Generator<number, boolean> {
    const start = { index: 0, offset: 0, checksDays: true } as const;
    const { halt, torn } = yield* walkInSteps([file], start, (bytes, from, to) => {
      const isTaken = this.#walk.take(bytes, from, to);
      this.isOld &&= (stampAt(bytes, from) ?? "") < this.#before;
      if (isTaken && this.#walk.lines === 1) this.#firstPrev = this.#walk.lastPrev;
      return isTaken;
    });
    return halt === undefined && torn.length === 0;
  }

  cut(day: string): void {
    const { expected, tree, logId } = this.#walk;
    if (!this.hasChain || expected === undefined) this.#unchained.push(day);
    else this.#cuts.set(day, { next: expected, tree: tree?.copy(), logId });
  }

  cuts(): Cuts {
    const prev = this.#firstPrev;
    const begin = prev === undefined ? undefined : { next: { seq: 0, prev }, tree: new MerkleTree(), logId: undefined };
    for (const day of this.#unchained) this.#cuts.set(day, begin);
    return this.#cuts;
  }
}
