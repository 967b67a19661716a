import fs from "node:fs";
import { dirname, join } from "node:path";
import { STREAMS, type StreamName } from "../chain/chain.ts";
import {
  type ChainWalk,
  type Cut,
  recordPruned,
  runWithPauses,
  walkFromStart,
  walkInSteps,
} from "../chain/chain-walk.ts";
import { readLastNotes } from "../chain/checkpoint.ts";
import { MerkleTree } from "../chain/merkle-tree.ts";
import { type DayFile, dayFilesOf, daysIn, readLastLine, stampAt, streamDir } from "../journal/day-files.ts";
import { syncDirectory } from "../journal/file-operations.ts";
import { boundsOf, otherDayOf } from "../query/day-bounds.ts";
import { dayOf } from "../query/time-range.ts";
import { parseLine } from "../query/view.ts";
import { type ExportPosition, readExportPositions } from "./positions.ts";

/** Ending of the reasons that an operator has to investigate. */
export const SEE_VERIFY = "stc audit verify shows more";

interface PruneOptions {
  readonly dir: string;
  /** Unix milliseconds. */
  readonly nowMs: number;
  /** Files of days that ended at least this many milliseconds ago may be deleted. */
  readonly keepMs: number;
  /**
   * Exporters that must have sent a file before it is deleted, even if they never ran. Exporters that ran before must always
   * have sent it.
   */
  readonly exporters?: readonly string[];
  /** Nothing more is deleted after it aborts. */
  readonly signal?: AbortSignal;
}

/** One file beyond the retention time, and the reason if it is kept. */
export interface Aged {
  readonly stream: StreamName;
  readonly day: string;
  readonly path: string;
  readonly bytes: number;
  readonly keptBecause: string | undefined;
}

/**
 * Returns the files beyond the retention time, oldest first. Files are deleted only from the start of a stream: after a file
 * that is kept, all later files are kept too.
 */
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

/**
 * Deletes the files that may be deleted. Before each deletion, a durable record stores the state of the chain from
 * which the remaining lines can be verified. A file that does not verify is evidence: it and all later files are kept.
 * Other work runs while the lines are read. `announce` is awaited before each deletion.
 */
export async function pruneFiles(
  aged: readonly Aged[],
  { dir, nowMs, keepMs, signal }: PruneOptions,
  announce?: (file: Aged) => Promise<void>,
): Promise<readonly Aged[]> {
  const pruned: Aged[] = [];
  for (const stream of STREAMS) {
    const files = aged.filter((file) => file.stream === stream);
    const deletable = files.filter(({ keptBecause }) => keptBecause === undefined);
    const days = deletable.map(({ day }) => day);
    const cuts = await runWithPauses(readCuts(dir, stream, { days, before: dayOf(nowMs - keepMs) }), signal);
    for (const file of files) {
      const { day, path, bytes } = file;
      if (file.keptBecause !== undefined || !cuts.has(day)) {
        pruned.push({ ...file, keptBecause: file.keptBecause ?? `it does not verify: ${SEE_VERIFY}` });
        continue;
      }
      signal?.throwIfAborted();
      await announce?.(file);
      recordPruned(dir, { timestamp: new Date(nowMs).toISOString(), stream, day, bytes, cut: cuts.get(day) });
      fs.unlinkSync(path);
      // Makes each deletion durable before the next one: if only the later one were durable, the stream would have a gap.
      syncDirectory(dirname(path));
      pruned.push(file);
    }
  }
  return pruned;
}

function reasonToKeep(facts: fs.Stats, isNewest: boolean, young: () => string | undefined): string | undefined {
  if (!facts.isFile()) return "it is not a regular file";
  return young() ?? (isNewest ? "the log goes on from its newest file" : undefined);
}

function newestOf(dir: string, days: readonly string[]): string | undefined {
  let newest: { readonly day: string; readonly timeMs: number } | undefined;
  for (const day of days) {
    const isFile = fs.lstatSync(join(dir, `${day}.jsonl`)).isFile();
    const timeMs = isFile ? boundsOf(dir, day)?.last.timeMs : undefined;
    if (timeMs !== undefined && timeMs >= (newest?.timeMs ?? 0)) newest = { day, timeMs };
  }
  return newest?.day;
}

/** Returns the reason to keep a file because of the days of its lines, which its name may not show. */
function youngLines(dir: string, day: string, before: string): string | undefined {
  const bounds = boundsOf(dir, day);
  const otherDay = otherDayOf(bounds);
  if (otherDay !== undefined) return `it holds lines of ${otherDay}: ${SEE_VERIFY}`;
  const lastDay = bounds?.last.timeMs === undefined ? "" : dayOf(bounds.last.timeMs);
  return lastDay >= before ? `it holds lines of ${lastDay}` : undefined;
}

type Rule = (day: string, path: string, bytes: number) => string | undefined;

function rulesOf({ dir, exporters = [] }: PruneOptions, stream: StreamName): Rule {
  const positions = readExportPositions(dir).filter((position) => position.stream === stream);
  const missing = exporters
    .filter((exporter) => !positions.some((position) => position.exporter === exporter))
    .map((exporter) => ({ exporter, stream, position: undefined }));
  const covered = coveredLines(dir, stream);
  return (day, path, bytes) => {
    const behind = [...positions, ...missing].find((position) => !hasPassed(position, day, bytes));
    if (behind !== undefined) return `the exporter ${behind.exporter} has not sent it yet`;
    if (covered === undefined) return undefined;
    const seq = lastSeqOf(path);
    return seq !== undefined && seq >= covered ? "no checkpoint covers it" : undefined;
  };
}

function hasPassed({ position }: ExportPosition, day: string, bytes: number): boolean {
  if (position === undefined) return false;
  return position.day > day || (position.day === day && position.offset >= bytes);
}

/** Returns the number of lines of the stream that a checkpoint covers; `undefined` when the log has no checkpoints. */
function coveredLines(dir: string, stream: StreamName): number | undefined {
  const notes = readLastNotes(dir);
  if (notes.length === 0) return undefined;
  return Math.max(0, ...notes.flatMap(({ checkpoint }) => (checkpoint?.stream === stream ? [checkpoint.size] : [])));
}

function lastSeqOf(path: string): number | undefined {
  const seq = parseLine(readLastLine(path) ?? "")?.["seq"];
  return Number.isSafeInteger(seq) ? (seq as number) : undefined;
}

/** State of the chain after each day's file, by day; `undefined` when the lines have no hash chain. */
type Cuts = ReadonlyMap<string, Cut | undefined>;

interface DeletableDays {
  readonly days: readonly string[];
  /** Only lines of days before this one may be deleted. */
  readonly before: string;
}

/**
 * Follows the chain through the files of these days, which are the oldest. The cuts end before the first file with a problem: a
 * line that does not continue the chain, belongs to another day than the file, or is too recent to be deleted.
 */
function* readCuts(dir: string, stream: StreamName, { days, before }: DeletableDays): Generator<number, Cuts> {
  const files = dayFilesOf(dir, stream);
  const reader = new CutReader(walkFromStart(dir, stream, files), before);
  for (const file of days.length === 0 ? [] : files) {
    const isDeletable = days.includes(file.day);
    // Without a chained line so far, reads on: only the first one shows that a chain starts after lines without hashes.
    if (!isDeletable && reader.hasChain) break;
    const isSound = yield* reader.read(file);
    if (!isSound) break;
    if (isDeletable && reader.isOld) reader.cut(file.day);
    else if (isDeletable) break;
  }
  return reader.cuts();
}

class CutReader {
  readonly #walk: ChainWalk;
  readonly #cuts = new Map<string, Cut | undefined>();
  readonly #unchained: string[] = [];
  readonly #before: string;
  #firstPrev: string | undefined;
  isOld = true;

  constructor(walk: ChainWalk, before: string) {
    this.#walk = walk;
    this.#before = before;
  }

  get hasChain(): boolean {
    return (this.#walk.expected?.seq ?? 0) > 0;
  }

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
