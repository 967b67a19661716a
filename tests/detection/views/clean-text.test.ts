import { expect, test } from "bun:test";
import fc from "fast-check";
import { cleanText } from "../../../src/detection/views/clean-text.ts";

const ROWS: readonly (readonly [title: string, given: string, want: string])[] = [
  ["zero-width blank", "pass\u200bword", "password"],
  ["tags", `hi${String.fromCodePoint(0xe0049, 0xe0067, 0xe006e)}`, "hi"],
  ["direction", "a\u202eb\u2066c\u2069", "abc"],
  ["soft hyphen and byte order mark", "\ufeffso\u00adft", "soft"],
  ["selectors that spell bytes", `x\ufe01\ufe02${String.fromCodePoint(0xe0101)}`, "x"],
  ["joiner between Latin letters", "a\u200db\u200cc", "abc"],
  ["family of emoji", "👩‍👩‍👧", "👩‍👩‍👧"],
  ["heart with its selector", "❤️ ok", "❤️ ok"],
  ["keycap", "1️⃣", "1️⃣"],
  ["Persian non-joiner", "می‌خواهم", "می‌خواهم"],
  ["a row of joiners", "👩\u200d\u200d\u200d👧", "👩\u200d👧"],
  ["colours of a terminal", "a\u001b[1;31mred\u001b[0m \u009b2Jb", "ared b"],
  ["a title of a terminal", "a\u001b]0;run me\u0007b\u001b]8;;https://x.example\u001b\\c", "abc"],
  ["colours that a script writes out", "printf '\\033[31m' \\u001b[0m \\e[1m", "printf '\\033[31m' \\u001b[0m \\e[1m"],
  ["one in the midst of another", "\u001b[3\u001b[31m1mx", "[31mx"],
  ["bells, backspaces and zeros", "a\u0007\u0008\0b\u007fc", "abc"],
  ["backslashes that begin nothing", "C:\\e\\x1bar \\u001b \\d+", "C:\\e\\x1bar \\u001b \\d+"],
  ["halves of a tag around a whole one", "a\udb40\u{e0041}\udc41b", "a\ufffd\ufffdb"],
  ["half of a character, and nothing that cannot be seen", "cut \ud83d", "cut \ud83d"],
  ["plain", "line\n\ttab é 漢字", "line\n\ttab é 漢字"],
];

test.each(ROWS)("%s", (_title, given, want) => {
  expect(cleanText(given)).toBe(want);
});

test("idempotent, and never longer", () => {
  fc.assert(
    fc.property(
      fc.string({
        unit: fc.oneof(
          fc.constantFrom(
            "\u200b",
            "\u200d",
            "\ufe0f",
            "👩",
            "م",
            "a",
            "1",
            "\u001b",
            "[",
            "m",
            "\\",
            "\\u001b[",
            "\u009b",
            "\udb40",
            "\udc41",
            "\u{e0041}",
          ),
          fc.string({ unit: "binary", maxLength: 1 }),
        ),
      }),
      (text) => {
        const once = cleanText(text);
        expect(cleanText(once)).toBe(once);
        expect(once.length).toBeLessThanOrEqual(text.length);
      },
    ),
    { numRuns: 500, seed: 41 },
  );
});

test("every invisible character is removed", () => {
  const invisible = /[\p{Cf}\p{Cc}\p{Default_Ignorable_Code_Point}]/u;
  const left: string[] = [];
  for (let point = 0; point <= 0x10ffff; point += 1) {
    if (point >= 0xd800 && point <= 0xdfff) continue;
    const character = String.fromCodePoint(point);
    const cleaned = cleanText(`a${character}.`);
    if (invisible.test(character) && !"\t\n\r".includes(character) ? cleaned !== "a." : cleaned !== `a${character}.`)
      left.push(point.toString(16));
  }
  expect(left).toEqual([]);
});
