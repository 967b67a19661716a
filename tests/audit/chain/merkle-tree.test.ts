import { describe, expect, test } from "bun:test";
import { hash } from "node:crypto";
import fc from "fast-check";
import { leafHash, MerkleTree, nodeHash } from "../../../src/audit/chain/merkle-tree.ts";

/** The leaves and roots that implementations of RFC 6962 are compared with. */
const LEAVES = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"];
const ROOTS = [
  "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
  "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
  "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
  "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
  "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
  "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
  "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
  "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
  "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
];

function leafOf(bytes: Uint8Array): Buffer {
  const room = Buffer.concat([Buffer.of(10), bytes]);
  const digest = leafHash(room, 1, room.length);
  expect(room[0]).toBe(10);
  return digest;
}

describe("the RFC 6962 tree", () => {
  test("has the same roots as other implementations", () => {
    const tree = new MerkleTree();
    const roots = [tree.root().toString("hex")];
    for (const leaf of LEAVES) {
      tree.append(leafOf(Buffer.from(leaf, "hex")));
      roots.push(tree.root().toString("hex"));
    }
    expect(roots).toEqual(ROOTS);
  });

  test("continues from its stored hashes", () => {
    const leaves = fc.array(fc.uint8Array({ maxLength: 8 }), { maxLength: 70 });
    fc.assert(
      fc.property(leaves, fc.nat(70), (all, cut) => {
        const [whole, before] = [new MerkleTree(), new MerkleTree()];
        const size = Math.min(cut, all.length);
        for (const leaf of all) whole.append(leafOf(leaf));
        for (const leaf of all.slice(0, size)) before.append(leafOf(leaf));
        const after = MerkleTree.fromBase64(size, before.toBase64());
        for (const leaf of all.slice(size)) after?.append(leafOf(leaf));
        expect(after?.root().equals(whole.root())).toBe(true);
        expect(whole.root().equals(recursive(all.map(leafOf)))).toBe(true);
      }),
    );
  });

  test("hashes that do not match the size are refused", () => {
    const digest = Buffer.alloc(32).toString("base64");
    expect(MerkleTree.fromBase64(3, [digest])).toBeUndefined();
    expect(MerkleTree.fromBase64(2, [digest, digest])).toBeUndefined();
    expect(MerkleTree.fromBase64(1, [Buffer.alloc(31).toString("base64")])).toBeUndefined();
    expect(MerkleTree.fromBase64(2 ** 40, [digest])?.size).toBe(2 ** 40);
  });
});

/** The definition, word by word. */
function recursive(leaves: readonly Buffer[]): Buffer {
  const [first] = leaves;
  if (first === undefined) return hash("sha256", "", "buffer");
  if (leaves.length === 1) return first;
  const half = 2 ** (Math.ceil(Math.log2(leaves.length)) - 1);
  return nodeHash(recursive(leaves.slice(0, half)), recursive(leaves.slice(half)));
}

test("every sibling of a later leaf can be continued from the part that a tree has of it", () => {
  const leaves = Array.from({ length: 40 }, (_, index) => leafOf(Buffer.of(index)));
  const grown = (tree: MerkleTree, from: number, to: number): MerkleTree => {
    for (const leaf of leaves.slice(from, to)) tree.append(leaf);
    return tree;
  };
  for (let known = 0; known <= leaves.length; known += 1) {
    const tree = grown(new MerkleTree(), 0, known);
    for (let height = 0; height <= 5; height += 1) {
      const width = 2 ** height;
      // A sibling that lies before a leaf which the tree does not have.
      for (let from = 0; from + width < leaves.length; from += width * 2) {
        const to = from + width;
        if (to + width <= known) continue;
        const continued = grown(tree.part(from, to), Math.max(from, Math.min(known, to)), to);
        expect([known, from, to, continued.root()]).toEqual([
          known,
          from,
          to,
          grown(new MerkleTree(), from, to).root(),
        ]);
      }
    }
  }
});
