import { ownHash, readLink } from "../chain/chain.ts";
import { ChainWalk, walkFromStart } from "../chain/chain-walk.ts";
import { dayFilesOf, isOfOtherDay, LINE_END, streamDir, visitLines } from "../journal/day-files.ts";
import type { Filter } from "../query/filter.ts";
import { daysHolding } from "../query/query.ts";
import { dayOf } from "../query/time-range.ts";
import type { Damage } from "./damage.ts";
import { verifyCalls } from "./verify.ts";

type TimeRange = Pick<Filter, "fromMs" | "toMs">;

/** The start of a line: the day of its file and the byte offset. */
interface Place {
  readonly day: string;
  readonly offset: number;
}

/** The lines that do not verify. */
class UnverifiedLines {
  readonly #offsets = new Map<string, Set<number>>();

  get count(): number {
    return [...this.#offsets.values()].reduce((sum, { size }) => sum + size, 0);
  }

  has({ day, offset }: Place): boolean {
    return this.#offsets.get(day)?.has(offset) === true;
  }

  add({ day, offset }: Place): void {
    const offsets = this.#offsets.get(day) ?? new Set();
    this.#offsets.set(day, offsets.add(offset));
  }
}

interface CheckedCalls {
  /** The first problem. */
  readonly damage: Damage | undefined;
  /** Number of lines without a link, written before the chain existed. */
  readonly linesBefore: number;
  readonly unverified: UnverifiedLines;
}

/**
 * Verifies the calls of the days that a search of this time range reads. Yields the bytes of each step. The verifier
 * stops at the first problem: only then the lines are read once more, to find all that do not verify.
 */
export function* checkCalls(dir: string, range: TimeRange): Generator<number, CheckedCalls> {
  const { fromMs, toMs } = range;
  const from = fromMs === undefined ? undefined : dayOf(fromMs);
  const days = { from, to: toMs === undefined ? undefined : dayOf(toMs - 1) };
  const { damage, linesBefore } = yield* verifyCalls({ dir, ...days });
  const isSound = damage === undefined || damage.isTornEnd === true;
  if (isSound) return { damage, linesBefore, unverified: new UnverifiedLines() };
  return { damage, ...searched(dir, range, damage) };
}

function searched(dir: string, range: TimeRange, damage: Damage): Omit<CheckedCalls, "damage"> {
  const all = dayFilesOf(dir, "calls");
  const days = new Set(daysHolding(streamDir(dir, "calls"), { ...range, exact: {} }));
  const search = new Search(range.fromMs === undefined ? walkFromStart(dir, "calls", all) : ChainWalk.fromWithin());
  for (const { file, path, day } of all.filter((each) => days.has(each.day))) {
    let [offset, line] = [0, 1];
    visitLines(path, 0, (bytes, from, to) => {
      if (file > damage.file || (file === damage.file && line >= damage.line)) search.passed(damage);
      search.take({ day, offset }, bytes, [from, to]);
      offset += to - from + (bytes[to] === LINE_END ? 1 : 0);
      line += 1;
      return true;
    });
  }
  return search.end();
}

/** Follows the chain past lines that do not follow, and collects them. */
class Search {
  readonly #found = new UnverifiedLines();
  #walk: ChainWalk;
  #before: Place | undefined;
  /** The lines without a link before the chain's first line, which confirms them all or none. */
  #unchained: Place[] = [];
  #isChained = false;
  #isDamaged = false;
  /** True when the lines form a chain, but not the one that a checkpoint covers. */
  #isRewritten = false;

  constructor(walk: ChainWalk) {
    this.#walk = walk;
  }

  /** Called from the line of the first problem on. */
  passed({ kind }: Damage): void {
    this.#isDamaged = true;
    this.#isRewritten ||= kind === "checkpoint mismatch";
  }

  take(place: Place, bytes: Buffer, [from, to]: readonly [from: number, to: number]): void {
    const isLinked = readLink(bytes, from, to) !== undefined;
    // After a break, the walk would take lines without a link for lines from before the chain.
    const isLost = !isLinked && this.#isDamaged;
    if (this.#isRewritten || isOfOtherDay(place.day, bytes, [from, to])) this.#found.add(place);
    if (isLost || !this.#walk.take(bytes, from, to)) this.#break(place, bytes, [from, to]);
    else if (!isLinked) this.#unchained.push(place);
    this.#isChained ||= isLinked;
    this.#before = place;
  }

  /** Starts again at this line when it agrees with its own hash, otherwise at the next one that does. */
  #break(place: Place, bytes: Buffer, [from, to]: readonly [from: number, to: number]): void {
    const { expected } = this.#walk;
    this.#found.add(place);
    if (!this.#isChained) this.#loseUnchained();
    this.#isDamaged = true;
    this.#walk = ChainWalk.fromWithin();
    const link = readLink(bytes, from, to);
    if (link === undefined || ownHash(bytes, from, to) !== link.hash) return;
    this.#walk.take(bytes, from, to);
    // The line was written after another line than the one before it, or in its place: either may be the genuine one.
    const isOther = link.seq === expected?.seq || (link.seq + 1 === expected?.seq && link.hash !== expected.prev);
    if (isOther && this.#before !== undefined) this.#found.add(this.#before);
  }

  #loseUnchained(): void {
    for (const place of this.#unchained) this.#found.add(place);
    this.#unchained = [];
  }

  end(): Omit<CheckedCalls, "damage"> {
    if (!this.#isChained) this.#loseUnchained();
    return { linesBefore: this.#unchained.length, unverified: this.#found };
  }
}
