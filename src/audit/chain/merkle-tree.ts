import { SHA256_BYTES, sha256 } from "../../core/digest.ts";

const LEAF = 0;
const NODE = 1;
/** Input of a node's hash: a prefix and two hashes. Filled and hashed synchronously, so one buffer can be shared. */
const node = Buffer.alloc(1 + 2 * SHA256_BYTES, NODE);

/**
 * Returns the RFC 6962 hash of the leaf `bytes[from, to)`. The byte before `from` must exist: it temporarily holds the
 * leaf prefix and is then restored.
 */
export function leafHash(bytes: Buffer, from: number, to: number): Buffer {
  const before = bytes[from - 1] ?? LEAF;
  bytes[from - 1] = LEAF;
  const digest = sha256(bytes.subarray(from - 1, to));
  bytes[from - 1] = before;
  return digest;
}

export function nodeHash(left: Uint8Array, right: Uint8Array): Buffer {
  node.set(left, 1);
  node.set(right, 1 + SHA256_BYTES);
  return sha256(node);
}

/**
 * An RFC 6962 tree that only grows. For n leaves it holds log n hashes: the roots of the full subtrees, from which
 * every later root can be computed.
 */
export class MerkleTree {
  #size = 0;
  /** Roots by height; `undefined` where the size does not contain that power of two. */
  #subtrees: (Buffer | undefined)[] = [];

  /** Restores a tree from the result of `toBase64()`. Returns `undefined` when the hashes do not match the size. */
  static fromBase64(size: number, encoded: unknown): MerkleTree | undefined {
    if (!Array.isArray(encoded)) return undefined;
    const hashes = encoded.map((digest) => Buffer.from(String(digest), "base64"));
    const tree = new MerkleTree();
    tree.#size = size;
    let taken = 0;
    for (let rest = size, height = 0; rest > 0; rest = Math.floor(rest / 2), height += 1) {
      if (rest % 2 === 1) {
        taken += 1;
        tree.#subtrees[height] = hashes[hashes.length - taken];
      }
    }
    const fits = taken === hashes.length && hashes.every((digest) => digest.length === SHA256_BYTES);
    return fits ? tree : undefined;
  }

  get size(): number {
    return this.#size;
  }

  append(leaf: Buffer): void {
    let height = 0;
    let top = leaf;
    for (let left = this.#subtrees[0]; left !== undefined; left = this.#subtrees[height]) {
      top = nodeHash(left, top);
      this.#subtrees[height] = undefined;
      height += 1;
    }
    this.#subtrees[height] = top;
    this.#size += 1;
  }

  root(): Buffer {
    let root: Buffer | undefined;
    for (const subtree of this.#subtrees) {
      if (subtree !== undefined) root = root === undefined ? subtree : nodeHash(subtree, root);
    }
    return root ?? sha256("");
  }

  /** Returns the roots of the full subtrees in base64, from the largest to the smallest. */
  toBase64(): readonly string[] {
    const subtrees = this.#subtrees.filter((subtree) => subtree !== undefined).reverse();
    return subtrees.map((digest) => digest.toString("base64"));
  }

  copy(): MerkleTree {
    const tree = new MerkleTree();
    tree.#size = this.#size;
    tree.#subtrees = this.#subtrees.slice();
    return tree;
  }
}
