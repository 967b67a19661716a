import type { StreamName } from "../chain/chain.ts";
import type { ChainWalk } from "../chain/chain-walk.ts";
import { MerkleTree } from "../chain/merkle-tree.ts";
import { type DayFile, dayFilesOf } from "../journal/line-files.ts";
import { type Cut, walkFromBegin } from "../journal/pruned-begin.ts";
import { stampAt } from "../query/scan.ts";
import { walkInSteps } from "../verify/file-walk.ts";

/** By day: where the chain can be cut behind its file; `undefined` when no line of the stream has a link. */
export type Cuts = ReadonlyMap<string, Cut | undefined>;

interface Going {
  readonly days: readonly string[];
  /** Only lines of days before this one may go. */
  readonly before: string;
}

/**
 * Follows the chain through the files of these days, which are the oldest. Files from the first fault on are not among the
 * cuts: a line that does not follow, is not of its file's day, or is too young to go.
 */
export function* readCuts(dir: string, stream: StreamName, { days, before }: Going): Generator<number, Cuts> {
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
