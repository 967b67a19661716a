import { type ChainHead, type Link, logIdOf, ownHash, readLink } from "./chain.ts";
import { leafHash, type MerkleTree } from "./merkle-tree.ts";

/** What the next line must say. */
export interface Expected {
  readonly seq: number;
  readonly prev: string;
}

/** Follows a chain line by line. It stops at the first line that does not follow; why is for `damage.ts` to say. */
export class ChainWalk {
  /** `undefined`: the first line with a link is believed. */
  #expected: Expected | undefined;
  /** Grows with the lines while there is one. */
  tree: MerkleTree | undefined;
  /** `prev` of the last line, for telling an insertion from a change. */
  lastPrev: string | undefined;
  logId: string | undefined;
  /** Lines before the first one with a link. */
  linesBefore = 0;
  lines = 0;

  constructor(expected: Expected | undefined, tree?: MerkleTree, logId?: string) {
    this.#expected = expected;
    this.tree = tree;
    this.logId = logId;
  }

  get expected(): Expected | undefined {
    return this.#expected;
  }

  /** The chain so far; `undefined` without a tree. */
  head(): ChainHead | undefined {
    const { tree, logId } = this;
    return tree && this.#expected && { ...this.#expected, tree, logId };
  }

  /** Whether the line follows the one before. Lines without a link may stand before the chain's first line only. */
  take(bytes: Buffer, from: number, to: number): boolean {
    const link = readLink(bytes, from, to);
    if (link === undefined && this.lines === 0 && (this.#expected === undefined || this.#expected.seq === 0)) {
      this.linesBefore += 1;
      return true;
    }
    const { seq, prev } = this.#expected ?? link ?? {};
    if (link === undefined || link.seq !== seq || link.prev !== prev || ownHash(bytes, from, to) !== link.hash) {
      return false;
    }
    this.#step(link);
    this.tree?.append(leafHash(bytes, from, to));
    return true;
  }

  #step({ seq, prev, hash }: Link): void {
    if (seq === 0) {
      this.logId = logIdOf(hash);
    }
    this.lines += 1;
    this.lastPrev = prev;
    this.#expected = { seq: seq + 1, prev: hash };
  }
}
