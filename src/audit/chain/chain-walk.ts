import type { Hash } from "node:crypto";
import {
  type ChainHead,
  type ChainLink,
  followingHash,
  genesisOf,
  logIdOf,
  readLink,
  type StreamName,
} from "./chain.ts";
import { leafHash, MerkleTree } from "./merkle-tree.ts";

/** What the next line must say. */
export interface Expected {
  readonly seq: number;
  readonly prev: string;
}

/** Follows a chain line by line. It stops at the first line that does not follow; why is for `damage.ts` to say. */
export class ChainWalk {
  /** `undefined`: the first line with a link is believed. */
  #expected: Expected | undefined;
  /** What the first line with a link must say, where lines without one may stand before it. */
  #pinned: Expected | undefined;
  /** Over the lines from before the chain, until its first line. */
  #genesis: Hash | undefined;
  /** Grows with the lines while there is one. */
  tree: MerkleTree | undefined;
  /** `prev` of the last line, for telling an insertion from a change. */
  lastPrev: string | undefined;
  logId: string | undefined;
  /** Lines before the first one with a link. */
  linesBefore = 0;
  lines = 0;
  /** A line did not follow. */
  isBroken = false;

  private constructor(expected: Expected | undefined, tree: MerkleTree | undefined) {
    this.#expected = expected;
    this.tree = tree;
  }

  /** From a stream's first byte on. */
  static fromBegin(stream: StreamName): ChainWalk {
    const walk = new ChainWalk(undefined, new MerkleTree());
    walk.#genesis = genesisOf(stream);
    return walk;
  }

  /** From within: with `expected`, or believing the first line that has a link. */
  static fromWithin(expected?: Expected, tree?: MerkleTree, logId?: string): ChainWalk {
    const walk = new ChainWalk(expected, tree);
    walk.logId = logId;
    return walk;
  }

  /** Behind lines that retention deleted: lines without a link may go on as long as the chain had not begun. */
  static behindPruned(next: Expected, tree?: MerkleTree, logId?: string): ChainWalk {
    const walk = ChainWalk.fromWithin(next.seq === 0 ? undefined : next, tree, logId);
    walk.#pinned = next;
    return walk;
  }

  /** What the next line must say; before any line of a chain that is not known from its begin, `undefined`. */
  get expected(): Expected | undefined {
    return this.#genesis === undefined
      ? (this.#expected ?? this.#pinned)
      : { seq: 0, prev: this.#genesis.copy().digest("hex") };
  }

  /** The chain so far; `undefined` without a tree. */
  head(): ChainHead | undefined {
    const { tree, logId, expected } = this;
    return tree && expected && { ...expected, tree, logId };
  }

  /** Whether the line follows the one before. Lines without a link may stand before the chain's first line only. */
  take(bytes: Buffer, from: number, to: number): boolean {
    const expected = this.#expected ?? this.#first(bytes, from, to);
    if (expected === undefined) {
      this.linesBefore += 1;
      this.#genesis?.update(bytes.subarray(from, to)).update("\n");
      return true;
    }
    const { seq, prev } = expected;
    const hash = followingHash(bytes, { from, to, seq, prev });
    if (hash === undefined) {
      this.isBroken = true;
      return false;
    }
    this.#step({ seq, prev, hash });
    this.tree?.append(leafHash(bytes, from, to));
    return true;
  }

  /** What the chain's first line must say; `undefined` while there is no line with a link. */
  #first(bytes: Buffer, from: number, to: number): Expected | undefined {
    const link = readLink(bytes, from, to);
    return link && (this.expected ?? this.#pinned ?? link);
  }

  #step({ seq, prev, hash }: ChainLink): void {
    if (seq === 0) {
      this.logId = logIdOf(hash);
    }
    this.#genesis = undefined;
    this.lines += 1;
    this.lastPrev = prev;
    this.#expected = { seq: seq + 1, prev: hash };
  }
}
