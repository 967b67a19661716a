import { expect, test } from "bun:test";
import fc from "fast-check";
import {
  CHAIN_BYTES_MAX,
  chainBytes,
  genesisOf,
  LineChain,
  ownHash,
  readIntentSeq,
  readLink,
} from "../../../src/audit/chain/chain.ts";
import { MerkleTree } from "../../../src/audit/chain/merkle-tree.ts";

const PREV = "ab".repeat(32);

/** The line that the chain makes of a body, without its end. */
function sealed(body: string, seq: number): Buffer {
  const chain = new LineChain({ seq, prev: PREV, tree: new MerkleTree(), logId: undefined });
  const bytes = Buffer.alloc(Buffer.byteLength(body) + CHAIN_BYTES_MAX + 2);
  const end = chain.seal(body, bytes, 1);
  expect(end - 1).toBe(Buffer.byteLength(body) + chainBytes(seq) + 1);
  expect(bytes[end - 1]).toBe(10);
  return bytes.subarray(1, end - 1);
}

const seqs = fc.oneof(fc.nat(20), fc.maxSafeNat());

test("a sealed line is the same JSON with three more fields, and its link can be read from its end", () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue(), { minKeys: 1 }), seqs, (value, seq) => {
      fc.pre(!["seq", "prev", "hash"].some((key) => key in value));
      const body = JSON.stringify(value);
      const line = sealed(body, seq);
      const link = readLink(line, 0, line.length);
      expect(JSON.parse(line.toString())).toEqual({ ...JSON.parse(body), ...link });
      expect(link).toEqual({ seq, prev: PREV, hash: ownHash(line, 0, line.length) });
    }),
  );
});

test("any changed byte shows in the link or in the hash", () => {
  const line = sealed('{"text":"ä,\\"seq\\":1"}', 7);
  fc.assert(
    fc.property(fc.nat(line.length - 1), fc.integer({ min: 1, max: 255 }), (at, flip) => {
      const harmed = Buffer.from(line);
      harmed[at] = (harmed[at] ?? 0) ^ flip;
      const link = readLink(harmed, 0, harmed.length);
      expect(link === undefined || link.hash !== ownHash(harmed, 0, harmed.length)).toBe(true);
    }),
  );
});

test.each([
  ["nothing", ""],
  ["a link without a line", sealed('{"a":1}', 0).subarray(6).toString()],
  ["a seq with a zero in front", sealed('{"a":1}', 5).toString().replace('"seq":5', '"seq":05')],
  ["a seq that is no whole number", sealed('{"a":1}', 5).toString().replace('"seq":5', '"seq":-5')],
  ["a seq without digits", sealed('{"a":1}', 5).toString().replace('"seq":5', '"seq":')],
  [
    "a seq without bound",
    sealed('{"a":1}', 5)
      .toString()
      .replace('"seq":5', `"seq":${"9".repeat(17)}`),
  ],
  ["a space before its end", sealed('{"a":1}', 5).toString().replace(/\}$/, " }")],
])("%s has no link", (_name, text) => {
  const line = Buffer.from(text);
  expect(readLink(line, 0, line.length)).toBeUndefined();
});

test("hostile bytes have no link and break nothing", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 400 }), (bytes) => {
      const line = Buffer.from(bytes);
      expect(readLink(line, 0, line.length)).toBeUndefined();
      readIntentSeq(line, 0, line.length);
    }),
  );
});

test.each([
  ['{"a":1,"intentSeq":12}', 12],
  ['{"intentSeq":12,"a":1}', undefined],
  ['{"a":"x,\\"intentSeq\\":12"}', undefined],
  ['{"a":1}', undefined],
])("the intent of %s is %p", (body, want) => {
  const line = sealed(body, 3);
  expect(readIntentSeq(line, 0, line.length)).toBe(want as number);
});

test("the streams begin differently", () => {
  expect(genesisOf("calls").digest("hex")).not.toBe(genesisOf("journal").digest("hex"));
});
