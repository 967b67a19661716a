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

/** The expected link of the next line. */
export interface Expected {
  readonly seq: number;
  readonly prev: string;
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
  /** `prev` of the last line, to distinguish an insertion from a change. */
  lastPrev: string | undefined;
  logId: string | undefined;
  /** Number of lines before the first one with a link. */
  linesBefore = 0;
  lines = 0;
  /** True when a line did not follow. */
  isBroken = false;

  private constructor(expected: Expected | undefined, tree: MerkleTree | undefined) {
    this.#expected = expected;
    this.tree = tree;
  }

  /** Returns a walk from the first byte of a stream. */
  static fromBegin(stream: StreamName): ChainWalk {
    const walk = new ChainWalk(undefined, new MerkleTree());
    walk.#genesis = genesisOf(stream);
    return walk;
  }

  /**
   * Returns a walk that starts in the middle of a stream: from `expected`, or trusting the first line that has a link.
   */
  static fromWithin(expected?: Expected, tree?: MerkleTree, logId?: string): ChainWalk {
    const walk = new ChainWalk(expected, tree);
    walk.logId = logId;
    return walk;
  }

  /**
   * Returns a walk that starts after lines deleted by retention. Lines without a link may continue if the chain had not
   * started yet.
   */
  static behindPruned(next: Expected, tree?: MerkleTree, logId?: string): ChainWalk {
    const walk = ChainWalk.fromWithin(next.seq === 0 ? undefined : next, tree, logId);
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

  /** Returns the expected link of the chain's first line; `undefined` when this line has no link. */
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
