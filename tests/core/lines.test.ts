import { expect, test } from "bun:test";
import fc from "fast-check";
import { Lines } from "../../src/core/lines.ts";

/** Reads pieces, and returns the lines; a line that is too long as its beginning and `…`. */
function linesOf(pieces: readonly string[], bytesMax = 8): readonly string[] {
  const read: string[] = [];
  const text = (bytes: Uint8Array): string => Buffer.from(bytes).toString("utf8");
  const lines = new Lines({
    bytesMax,
    onLine: (line) => read.push(text(line)),
    onTooLong: (beginning) => read.push(`${text(beginning)}…`),
  });
  for (const piece of pieces) lines.add(Buffer.from(piece));
  lines.end();
  return read;
}

test.each<[readonly string[], readonly string[]]>([
  [["a\nb\n"], ["a", "b"]],
  [["a\r\n\r\nb"], ["a", "", "b"]],
  [
    ["ab", "cd", "\nef", "gh\n"],
    ["abcd", "efgh"],
  ],
  [["12345678\n"], ["12345678"]],
  [["123456789\nb\n"], ["12345678…", "b"]],
  [
    ["1234", "56789", "0\nb"],
    ["12345678…", "b"],
  ],
  [["123456789"], ["12345678…"]],
  [[], []],
  [["\n"], [""]],
])("%j are the lines %j", (pieces, lines) => {
  expect(linesOf(pieces)).toEqual([...lines]);
});

test("the lines do not depend on how the bytes are divided", () => {
  const text = fc.array(fc.constantFrom("a", "é", "\n", "\r\n", "0123456789"), { maxLength: 40 });
  fc.assert(
    fc.property(text, fc.array(fc.nat(20), { maxLength: 20 }), (parts, sizes) => {
      const whole = Buffer.from(parts.join(""));
      const pieces: Uint8Array[] = [];
      let at = 0;
      for (const size of sizes) {
        pieces.push(whole.subarray(at, at + size));
        at += size;
      }
      const read: string[][] = [[whole], [...pieces, whole.subarray(at)]].map((all) => {
        const lines: string[] = [];
        const splitter = new Lines({
          bytesMax: 8,
          onLine: (line) => lines.push(Buffer.from(line).toString("hex")),
          onTooLong: (beginning) => lines.push(`${Buffer.from(beginning).toString("hex")}…`),
        });
        for (const piece of all) splitter.add(piece);
        splitter.end();
        return lines;
      });
      expect(read[1]).toEqual(read[0] ?? []);
    }),
    { seed: 20_261_123 },
  );
});
