import { SHA256_BYTES, sha256 } from "../../core/digest.ts";

const LEAF = 0;
const NODE = 1;
/** Input of a node's hash: a prefix and two hashes. Filled and hashed synchronously, so one buffer can be shared. */
const node = Buffer.alloc(1 + 2 * SHA256_BYTES, NODE);
const RIGHT_AT = 1 + SHA256_BYTES;
/** A tree of 2^53 leaves has subtrees of this many heights. */
const HEIGHTS_MAX = 54;

/**
 * Returns the RFC 6962 hash of the leaf `bytes[from, to)`, in `into`. The byte before `from` must exist: it temporarily
 * holds the leaf prefix and is then restored.
 */
export function leafHash(bytes: Buffer, from: number, to: number, into?: Buffer): Buffer {
  const before = bytes[from - 1] ?? LEAF;
  bytes[from - 1] = LEAF;
  const digest = sha256(bytes.subarray(from - 1, to), into);
  bytes[from - 1] = before;
  return digest;
}

export function nodeHash(left: Uint8Array, right: Uint8Array): Buffer {
  node.set(left, 1);
  node.set(right, RIGHT_AT);
  return sha256(node);
}

/**
 * An RFC 6962 tree that only grows. For n leaves it holds log n hashes: the roots of the full subtrees, from which
 * every later root can be computed.
 */
export class MerkleTree {
  #size = 0;
  /** Roots by height. The binary digits of the size say which of them exist. */
  #roots = Buffer.alloc(HEIGHTS_MAX * SHA256_BYTES);
  readonly #joined = Buffer.alloc(SHA256_BYTES);

  /** Restores a tree from the result of `toBase64()`. Returns `undefined` when the hashes do not match the size. */
  static fromBase64(size: number, encoded: unknown): MerkleTree | undefined {
    if (!Array.isArray(encoded)) return undefined;
    const hashes = encoded.map((digest) => Buffer.from(String(digest), "base64")).reverse();
    const tree = new MerkleTree();
    tree.#size = size;
    const heights = tree.#heights();
    if (hashes.length !== heights.length || hashes.some(({ length }) => length !== SHA256_BYTES)) return undefined;
    for (const [index, height] of heights.entries()) tree.#roots.set(hashes[index] ?? [], height * SHA256_BYTES);
    return tree;
  }

  get size(): number {
    return this.#size;
  }

  append(leaf: Uint8Array): void {
    let at = 0;
    let top = leaf;
    for (let rest = this.#size; rest % 2 === 1; rest = Math.floor(rest / 2)) {
      this.#roots.copy(node, 1, at, at + SHA256_BYTES);
      node.set(top, RIGHT_AT);
      top = sha256(node, this.#joined);
      at += SHA256_BYTES;
    }
    this.#roots.set(top, at);
    this.#size += 1;
  }

  root(): Buffer {
    let root: Buffer | undefined;
    for (const subtree of this.#subtrees()) root = root === undefined ? subtree : nodeHash(subtree, root);
    return root ?? sha256("");
  }

  /** Returns the roots of the full subtrees in base64, from the largest to the smallest. */
  toBase64(): readonly string[] {
    return this.#subtrees()
      .reverse()
      .map((digest) => digest.toString("base64"));
  }

  copy(): MerkleTree {
    const tree = new MerkleTree();
    tree.#size = this.#size;
    this.#roots.copy(tree.#roots);
    return tree;
  }

  /** Returns the tree of the leaves in `[from, to)` as far as they are in this one, made of full subtrees that lie in that range. */
  part(from: number, to: number): MerkleTree {
    const tree = new MerkleTree();
    let at = 0;
    for (const height of this.#heights().toReversed()) {
      const end = at + 2 ** height;
      if (at >= from && end <= to) {
        this.#roots.copy(tree.#roots, height * SHA256_BYTES, height * SHA256_BYTES, (height + 1) * SHA256_BYTES);
        tree.#size += 2 ** height;
      }
      at = end;
    }
    return tree;
  }

  /** Returns copies of the roots of the full subtrees, from the smallest to the largest. */
  #subtrees(): Buffer[] {
    return this.#heights().map((height) =>
      Buffer.from(this.#roots.subarray(height * SHA256_BYTES, (height + 1) * SHA256_BYTES)),
    );
  }

  /** Returns the heights of the full subtrees, in ascending order. */
  #heights(): readonly number[] {
    const heights: number[] = [];
    let height = 0;
    for (let rest = this.#size; rest > 0; rest = Math.floor(rest / 2)) {
      if (rest % 2 === 1) heights.push(height);
      height += 1;
    }
    return heights;
  }
}
