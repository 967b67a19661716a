import type { Hash } from "node:crypto";
import fs from "node:fs";
import { join } from "node:path";
import type { LineMembers } from "../../core/audit-fields.ts";
import { present } from "../../core/present.ts";
import { type DayFile, isOfOtherDay, LINE_END, type LineVisit, lineEnds, visitLines } from "../journal/day-files.ts";
import { READ_APPEND, readSmallFile, withFile } from "../journal/file-operations.ts";
import { parseLine } from "../query/view.ts";
import { type ChainHead, followingHash, genesisOf, logIdOf, readLink, type StreamName } from "./chain.ts";
import { leafHash, MerkleTree } from "./merkle-tree.ts";

export interface Expected {
  readonly seq: number;
  readonly prev: string;
}

/** State of the chain at the end of a deleted file, from which the remaining lines can be verified. */
export interface Cut {
  /** Expected link of the next line that has one. */
  readonly next: Expected;
  /** `undefined` when earlier lines were deleted without a record. */
  readonly tree: MerkleTree | undefined;
  readonly logId: string | undefined;
}

/** Follows a chain line by line and stops at the first line that does not follow. `damage.ts` determines the reason. */
export class ChainWalk {
  /** When `undefined`, the first line with a link is trusted. */
  #expected: Expected | undefined;
  /** The expected link of the first line with a link, when lines without one may come before it. */
  #pinned: Expected | undefined;
  /** Hash of the lines written before the chain existed, until its first line. */
  #genesis: Hash | undefined;
  /** Grows with the lines; `undefined` when the hashes of earlier lines are not known. */
  tree: MerkleTree | undefined;
  lastPrev: string | undefined;
  logId: string | undefined;
  /** Number of lines before the first one with a link. */
  linesBefore = 0;
  /** True when nothing covers the lines before the first link: the chain's first line does not follow from them. */
  isLooseBefore = false;
  lines = 0;
  isBroken = false;

  private constructor(expected: Expected | undefined, tree: MerkleTree | undefined, logId?: string) {
    this.#expected = expected;
    this.tree = tree;
    this.logId = logId;
  }

  /** Returns a walk from the first byte of a stream. */
  static fromBegin(stream: StreamName): ChainWalk {
    const walk = new ChainWalk(undefined, new MerkleTree());
    walk.#genesis = genesisOf(stream);
    return walk;
  }

  /** Returns a walk that starts in the middle of a stream and trusts the first line that has a link. */
  static fromWithin(): ChainWalk {
    return new ChainWalk(undefined, undefined);
  }

  static after({ seq, prev, tree, logId }: ChainHead): ChainWalk {
    return new ChainWalk({ seq, prev }, tree.copy(), logId);
  }

  /**
   * Returns a walk that starts after lines deleted by retention. Lines without a link may continue if the chain had not
   * started yet.
   */
  static afterPruned({ next, tree, logId }: Cut): ChainWalk {
    const walk = new ChainWalk(next.seq === 0 ? undefined : next, tree, logId);
    walk.#pinned = next;
    return walk;
  }

  /** The expected link of the next line; `undefined` before the first line when the start of the chain is not known. */
  get expected(): Expected | undefined {
    return this.#genesis === undefined
      ? (this.#expected ?? this.#pinned)
      : { seq: 0, prev: this.#genesis.copy().digest("hex") };
  }

  /** Returns the end of the chain so far; `undefined` without a tree. */
  head(): ChainHead | undefined {
    const { tree, logId, expected } = this;
    return tree && expected && { ...expected, tree, logId };
  }

  /**
   * Returns true when the line follows the previous one. Lines without a link may only come before the chain's first
   * line.
   */
  take(bytes: Buffer, from: number, to: number): boolean {
    const expected = this.#expected ?? this.#first(bytes, from, to);
    if (expected === undefined) {
      this.linesBefore += 1;
      this.isLooseBefore = this.#genesis === undefined;
      this.#genesis?.update(bytes.subarray(from, to)).update("\n");
      return true;
    }
    const { seq, prev } = expected;
    const hash = followingHash(bytes, { from, to, seq, prev });
    if (hash === undefined) {
      this.isBroken = true;
      return false;
    }
    if (seq === 0) this.logId = logIdOf(hash);
    this.#genesis = undefined;
    this.lines += 1;
    this.lastPrev = prev;
    this.#expected = { seq: seq + 1, prev: hash };
    this.tree?.append(leafHash(bytes, from, to));
    return true;
  }

  /** Returns the expected link of the chain's first line; `undefined` when this line has no link. */
  #first(bytes: Buffer, from: number, to: number): Expected | undefined {
    const link = readLink(bytes, from, to);
    return link && (this.expected ?? link);
  }
}

/** Bytes that are read between two pauses: some milliseconds of hashing. */
const STEP_BYTES = 1_048_576;

/** Position of a line: index of its file among the stream's files, byte offset and line number. */
export interface LinePosition {
  readonly index: number;
  readonly offset: number;
  readonly line: number;
}

export interface Halt {
  readonly at: LinePosition;
  readonly before: LinePosition | undefined;
  /** True when the line follows, but its timestamp does not belong to the day in the file's name. */
  readonly isOfOtherDay: boolean;
}

/**
 * The position at which a walk starts, and whether the walk stops at a chained line whose timestamp belongs to another
 * day than the file.
 */
export interface WalkStart extends Pick<LinePosition, "index" | "offset"> {
  readonly checksDays?: true;
}

export interface TornEnd {
  readonly index: number;
  readonly line: number;
  readonly bytes: number;
}

interface WalkResult {
  readonly halt: Halt | undefined;
  readonly torn: readonly TornEnd[];
  /** Position after the last accepted line. */
  readonly end: Pick<LinePosition, "index" | "offset">;
}

/** Visits the lines of all files from a position on. Returns where `visit` returned `false`. */
export function walkFiles(files: readonly DayFile[], start: WalkStart, visit: LineVisit): WalkResult {
  return runToEnd(walkInSteps(files, start, visit));
}

/**
 * Does the same as `walkFiles`, with a pause after each step, during which no file is open. Yields the bytes of each
 * step.
 */
export function* walkInSteps(
  files: readonly DayFile[],
  start: WalkStart,
  visit: LineVisit,
): Generator<number, WalkResult> {
  const torn: TornEnd[] = [];
  const halts: Halt[] = [];
  let before: LinePosition | undefined;
  let end = { index: start.index, offset: start.offset };
  for (const [index, { path, day }] of files.entries()) {
    if (index < start.index) continue;
    let [offset, line, rest] = [index === start.index ? start.offset : 0, 0, 0];
    for (let isOver = false; !isOver; ) {
      const begin = offset;
      isOver = true;
      rest = visitLines(path, begin, (bytes, from, to) => {
        if (offset - begin >= STEP_BYTES) {
          isOver = false;
          return false;
        }
        const at = { index, offset, line };
        const isTaken = visit(bytes, from, to);
        const isOther = isTaken && start.checksDays === true && isOfOtherDay(day, bytes, [from, to]);
        if (!isTaken || isOther) {
          halts.push({ at, before, isOfOtherDay: isOther });
          return false;
        }
        before = at;
        // A line that is longer than the log ever writes arrives in pieces, of which only the last has a line end.
        offset += to - from + (bytes[to] === LINE_END ? 1 : 0);
        line += 1;
        return true;
      });
      yield offset - begin;
    }
    end = { index, offset };
    const [halt] = halts;
    if (halt !== undefined) return { halt: numbered(files, halt, start), torn, end };
    if (rest > 0) torn.push({ index, line: line + 1, bytes: rest });
  }
  return { halt: undefined, torn, end };
}

/** Adds line numbers, which count from 1 at the start of the file. The walk may have started later in the file. */
function numbered(files: readonly DayFile[], halt: Halt, { index, offset }: WalkStart): Halt {
  const skipped = offset === 0 ? 0 : lineEnds(present(files[index], "the file in which the walk starts").path, offset);
  const number = (position: LinePosition): LinePosition => ({
    ...position,
    line: position.line + 1 + (position.index === index ? skipped : 0),
  });
  return { ...halt, at: number(halt.at), before: halt.before && number(halt.before) };
}

export function runToEnd<T>(steps: Generator<number, T>): T {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}

/** @throws the signal's reason after the step in which it aborts */
export async function runWithPauses<T>(steps: Generator<number, T>, signal?: AbortSignal): Promise<T> {
  for (;;) {
    signal?.throwIfAborted();
    const step = steps.next();
    if (step.done === true) return step.value;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** File that records what retention deleted, one line per deletion. */
export const RECORD_FILE = "pruned.jsonl";
const RECORD_BYTES_MAX = 16_777_216;
const SHA256_HEX = /^[0-9a-f]{64}$/;
const LOG_ID = /^[0-9a-f]{32}$/;

interface Pruned {
  readonly timestamp: string;
  readonly stream: StreamName;
  readonly day: string;
  readonly bytes: number;
  /** `undefined` when no line of the stream has a link. */
  readonly cut: Cut | undefined;
}

/**
 * Records a deletion; the record is durable on return. An incomplete line left by a crash stays on a line of its own.
 */
export function recordPruned(dir: string, { timestamp, stream, day, bytes, cut }: Pruned): void {
  const line = JSON.stringify({ timestamp, type: "audit.pruned", stream, day, bytes, ...(cut && cutMembers(cut)) });
  withFile(join(dir, RECORD_FILE), READ_APPEND, (fd, { size }) => {
    const last = Buffer.alloc(1);
    const isTorn = size > 0 && fs.readSync(fd, last, 0, 1, size - 1) === 1 && last[0] !== LINE_END;
    fs.writeFileSync(fd, `${isTorn ? "\n" : ""}${line}\n`);
    fs.fsyncSync(fd);
  });
}

/**
 * Returns the members that describe the cut. `hashes` are the roots of the full subtrees, from the largest to the
 * smallest; later roots can be computed from them.
 */
function cutMembers({ next, tree, logId }: Cut): object {
  return { nextSeq: next.seq, nextPrev: next.prev, logId, hashes: tree?.toBase64() };
}

/**
 * Returns a walk over everything that is left of a stream: from its first line, or from the first line after those that
 * retention deleted and recorded. When the record holds no hashes, the walk has no tree: checkpoints then cover lines
 * that were deleted.
 */
export function walkFromStart(dir: string, stream: StreamName, files: readonly DayFile[]): ChainWalk {
  const first = files.find(({ size }) => size > 0);
  const cut = first && cutBefore(dir, stream, first);
  return cut === undefined ? ChainWalk.fromBegin(stream) : ChainWalk.afterPruned(cut);
}

/**
 * Returns the state of the chain before the first remaining file; `undefined` when no earlier file is known to be
 * deleted.
 */
function cutBefore(dir: string, stream: StreamName, first: DayFile): Cut | undefined {
  const seq = firstSeq(first);
  const lines = (readSmallFile(join(dir, RECORD_FILE), RECORD_BYTES_MAX) ?? "").split("\n");
  const records = lines.map((line) => parseLine(line) ?? {}).filter((record) => record["stream"] === stream);
  if (seq !== undefined && seq > 0) return cutOf(records.findLast((record) => nextSeqOf(record) === seq));
  const before = records.filter(({ day }) => String(day) < first.day);
  // A first line without a link was written before the chain existed, or not by this service.
  return cutOf(seq === undefined ? before.at(-1) : before.findLast((record) => nextSeqOf(record) === 0));
}

function firstSeq(first: DayFile): number | undefined {
  let seq: number | undefined;
  visitLines(first.path, 0, (bytes, from, to) => {
    seq = readLink(bytes, from, to)?.seq;
    return false;
  });
  return seq;
}

/** Returns the `seq` of the next line. Records of former versions hold the `seq` of the last line instead. */
function nextSeqOf({ nextSeq, lastSeq }: LineMembers): unknown {
  return nextSeq ?? (typeof lastSeq === "number" ? lastSeq + 1 : undefined);
}

function cutOf(record: LineMembers | undefined): Cut | undefined {
  if (record === undefined) return undefined;
  const seq = nextSeqOf(record);
  const prev = record["nextPrev"] ?? record["lastHash"];
  if (!Number.isSafeInteger(seq) || typeof prev !== "string" || !SHA256_HEX.test(prev)) return undefined;
  const logId = record["logId"];
  return {
    next: { seq: seq as number, prev },
    tree: MerkleTree.fromBase64(seq as number, record["hashes"]),
    logId: typeof logId === "string" && LOG_ID.test(logId) ? logId : undefined,
  };
}
