import { expect, test } from "bun:test";
import fc from "fast-check";
import { cleanText } from "../../../src/redaction/views/clean-text.ts";

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
          fc.constantFrom("\u200b", "\u200d", "\ufe0f", "👩", "م", "a", "1"),
          fc.string({ unit: "binary", maxLength: 1 }),
        ),
      }),
      (text) => {
        const once = cleanText(text);
        expect(cleanText(once)).toBe(once);
        expect(once.length).toBeLessThanOrEqual(text.length);
      },
    ),
    { numRuns: 500 },
  );
});

test("every character that nobody can see is taken out", () => {
  const invisible = /[\p{Cf}\p{Default_Ignorable_Code_Point}]/u;
  const left: string[] = [];
  for (let point = 0; point <= 0x10ffff; point += 1) {
    if (point >= 0xd800 && point <= 0xdfff) continue;
    const character = String.fromCodePoint(point);
    const cleaned = cleanText(`a${character}b`);
    if (invisible.test(character) ? cleaned !== "ab" : cleaned !== `a${character}b`) left.push(point.toString(16));
  }
  expect(left).toEqual([]);
});
