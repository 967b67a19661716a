import type { StreamName } from "../chain/chain.ts";
import type { ChainWalk } from "../chain/chain-walk.ts";
import { MerkleTree } from "../chain/merkle-tree.ts";
import { type DayFile, dayFilesOf } from "../journal/line-files.ts";
import { type Cut, walkFromBegin } from "../journal/pruned-begin.ts";
import { walkInSteps } from "../verify/file-walk.ts";

/** By day: where the chain can be cut behind its file; `undefined` when no line of the stream has a link. */
export type Cuts = ReadonlyMap<string, Cut | undefined>;

/** Follows the chain through the files of these days, which are the oldest. Files from the first fault on are not among the cuts. */
export function* readCuts(dir: string, stream: StreamName, days: readonly string[]): Generator<number, Cuts> {
  const files = dayFilesOf(dir, stream);
  const reader = new CutReader(walkFromBegin(dir, stream, files));
  for (const file of days.length === 0 ? [] : files) {
    const isGoing = days.includes(file.day);
    // Whether a chain begins behind lines without links is told by its first line alone, wherever that is.
    if (!isGoing && reader.hasChain) break;
    const isSound = yield* reader.read(file);
    if (!isSound) break;
    if (isGoing) reader.cut(file.day);
  }
  return reader.cuts();
}

class CutReader {
  readonly #walk: ChainWalk;
  readonly #cuts = new Map<string, Cut | undefined>();
  readonly #unchained: string[] = [];
  #firstPrev: string | undefined;

  constructor(walk: ChainWalk) {
    this.#walk = walk;
  }

  get hasChain(): boolean {
    return (this.#walk.expected?.seq ?? 0) > 0;
  }

  /** `false` when a line does not follow, or has no end. */
  *read(file: DayFile): Generator<number, boolean> {
    const { halt, torn } = yield* walkInSteps([file], { index: 0, offset: 0 }, (bytes, from, to) => {
      const isTaken = this.#walk.take(bytes, from, to);
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
