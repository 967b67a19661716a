import { expect, test } from "bun:test";
import fc from "fast-check";
import { foldBytes } from "../../../src/audit/query/filter.ts";

test("for every byte: capital ASCII letters become small, all others stay", () => {
  const all = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
  const want = all.map((byte) => (byte >= 0x41 && byte <= 0x5a ? byte + 0x20 : byte));
  expect([...foldBytes(all)]).toEqual([...want]);
});

test("bytes of any length at any offset", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 64 }), fc.nat(8), (bytes, from) => {
      const part = Buffer.from(bytes).subarray(from);
      const want = part.map((byte) => (byte >= 0x41 && byte <= 0x5a ? byte + 0x20 : byte));
      expect([...foldBytes(part)]).toEqual([...want]);
    }),
  );
});
