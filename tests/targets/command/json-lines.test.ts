import { expect, test } from "bun:test";
import fc from "fast-check";
import { parseJsonLines } from "../../../src/targets/command/unified-diff.ts";

test.each([
  ["nothing", "", [], 0],
  ["lines", '{"a":1}\n[2]\n3\n"x"\nnull\n', [{ a: 1 }, [2], 3, "x", null], 0],
  ["a last line without its end", '{"a":1}\n{"b":2}', [{ a: 1 }, { b: 2 }], 0],
  ["Windows line ends", '{"a":1}\r\n\r\n{"b":2}\r\n', [{ a: 1 }, { b: 2 }], 0],
  ["a line that cannot be read", '{"a":\n{"b":2}\nx\n', [{ b: 2 }], 2],
  ["escapes that spell terminal sequences", '"\\u001b[31mred\\u001b[0m"\n', ["red"], 0],
  ["a line that is too deep", `${"[".repeat(200)}${"]".repeat(200)}\n1\n`, [1], 1],
])("%s", (_title, text, values, unreadableLines) => {
  expect(parseJsonLines(text)).toEqual({ values, unreadableLines } as ReturnType<typeof parseJsonLines>);
});

test("any output: every line is a value, unreadable or empty", () => {
  const line = fc.oneof(fc.json(), fc.string({ unit: "binary" }), fc.constant(""));
  fc.assert(
    fc.property(fc.array(line), (lines) => {
      const text = lines.map((each) => each.replaceAll("\n", " ")).join("\n");
      const { values, unreadableLines } = parseJsonLines(text);
      const full = text.split("\n").filter((each) => each.trim() !== "");
      expect(values.length + unreadableLines).toBe(full.length);
    }),
  );
});
