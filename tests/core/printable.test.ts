import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { table } from "../../src/cli/output.ts";
import {
  isMisreadable,
  printable,
  printableAscii,
  printableCell,
  printableName,
  splitAtLookAlikes,
  wrap,
} from "../../src/core/printable.ts";

test.each([
  ["a line that is erased and written anew", "\u001b[2K\rsafe", "\\u{1b}[2K\\u{d}safe"],
  ["line ends and tabs", "a\n\tb\u0085\u2028c", "a\\u{a}\\u{9}b\\u{85}\\u{2028}c"],
  ["C1 controls", "\u009b2J\u0090", "\\u{9b}2J\\u{90}"],
  ["bidi controls", "\u202ecod.exe\u202c\u2066\u061c", "\\u{202e}cod.exe\\u{202c}\\u{2066}\\u{61c}"],
  ["zero width", "a\u200bb\u200dc\ufeffd\u00ade", "a\\u{200b}b\\u{200d}c\\u{feff}d\\u{ad}e"],
  ["tags", "a\u{e0041}\u{e007f}", "a\\u{e0041}\\u{e007f}"],
  [
    "fillers and variation selectors",
    "\u3164\uffa0\u115f\ufe0f\u{e0100}",
    "\\u{3164}\\u{ffa0}\\u{115f}\\u{fe0f}\\u{e0100}",
  ],
  ["blanks", "a\u00a0b\u3000c\u2800d\u1680", "a\\u{a0}b\\u{3000}c\\u{2800}d\\u{1680}"],
  ["lone surrogates", "\ud800a\udc00", "\\u{d800}a\\u{dc00}"],
  ["private and unassigned", "\ue000\u{f0000}\u0378", "\\u{e000}\\u{f0000}\\u{378}"],
  ["DEL", "\u007f", "\\u{7f}"],
  ["marks without a letter", '"\u0301', '"\\u{301}'],
  ["marks that strike letters out", "r\u0336m\u20dd", "r\\u{336}m\\u{20dd}"],
  ["heaps of marks", `a${"\u0301".repeat(6)}`, `a${"\u0301".repeat(4)}\\u{301}\\u{301}`],
  ["padding", `ls${" ".repeat(300)}; rm -rf x`, "ls⟦300 spaces⟧; rm -rf x"],
  ["padding as somebody writes it", "ls⟦300 spaces⟧", "ls\\u{27e6}300 spaces\\u{27e7}"],
])("%s", (_, text, shown) => {
  expect(printable(text)).toBe(shown);
});

test.each([
  "git commit -m 'a   b'",
  "C:\\Users\\x \\u{1b} \\\\u{1b}",
  "Grüße, naïve café, cafe\u0301",
  "日本語のテキスト、한국어",
  "नमस्ते दुनिया, สวัสดี",
  "שלום مرحبا",
  "€ → ≠ 😀 👍🏽",
  "",
])("%s is unchanged", (text) => {
  expect(printable(text)).toBe(text);
});

test.each([
  ["сurl", true],
  ["Ηello", true],
  ["שלום", true],
  ["a\u{10920}", true],
  // Words of another script that look like Latin ones, and other forms of ASCII characters.
  ["рау-bot", true],
  ["НОМЕ", true],
  ["ｃurl", true],
  ["𝐚nn", true],
  ["ɑnn", true],
  ["Ⅰnn", true],
  ["ann＠corp.example", true],
  ["corp․example", true],
  ["bank.example∕login", true],
  ["curl", false],
  ["привет, curl", false],
  ["и это с тобой", false],
  ["η αγορά", false],
  ["1º, 2ª, x² …", false],
  ["你好：ok！", false],
  ["Grüße", false],
  ["日本語 text", false],
])("%s can be misread: %p", (text, misreadable) => {
  expect(isMisreadable(text)).toBe(misreadable);
});

test.each([
  ["invoices@kaur\u0456.example", ["invoices@kaur", "\u0456", ".example"]],
  ["\u0430pp\u0430", ["", "\u0430", "pp", "\u0430", ""]],
  ["Москвa, curl", ["Москв", "a", ", curl"]],
  ["www.\u0441\u043e.example", ["www.", "\u0441", "", "\u043e", ".example"]],
  ["\uff41nn", ["", "\uff41", "nn"]],
  ["привет, curl", ["привет, curl"]],
  ["שלום", ["שלום"]],
  ["curl", ["curl"]],
])("%j is split at the letters that look like others", (text, parts) => {
  expect(splitAtLookAlikes(text)).toEqual(parts);
});

test.each([
  ["\u0430nn", "\u0430nn ⟦in ASCII: \\u{430}nn⟧"],
  ["Jane \u0430nn and b\u043eb", "Jane \u0430nn and b\u043eb ⟦in ASCII: \\u{430}nn b\\u{43e}b⟧"],
  ["\u05e9\u05dc", "\u05e9\u05dc ⟦in ASCII: \\u{5e9}\\u{5dc}⟧"],
  ["ann ⟦in ASCII: bob⟧", "ann \\u{27e6}in ASCII: bob\\u{27e7}"],
  ["Иван Петров", "Иван Петров"],
  ["Jürgen", "Jürgen"],
  ["王小明 (Wang)", "王小明 (Wang)"],
])("the name %j is printed as %j", (name, shown) => {
  expect(printableName(name)).toBe(shown);
  expect(printableCell(name)).toBe(shown);
});

test("a cell of a table has no gap that looks like a column", () => {
  expect(printableCell("a b  c\u001b   d")).toBe("a b⟦2 spaces⟧c\\u{1b}⟦3 spaces⟧d");
});

test("ASCII form", () => {
  expect(printableAscii("сurl \u001b\ud800😀    x\\")).toBe("\\u{441}url \\u{1b}\\u{d800}\\u{1f600}\\u{20}*4x\\");
});

const hostile = fc.string({
  unit: fc.oneof(
    fc.string({ minLength: 1, maxLength: 1, unit: "binary" }),
    fc.constantFrom("\u001b", "\u202e", "\u{e0041}", "\ud800", "\udfff", "\u0301", "    ", "a", "\\", "\r", "\n"),
    fc.integer({ min: 0, max: 0xffff }).map((unit) => String.fromCharCode(unit)),
  ),
  maxLength: 200,
});

describe("whatever the text", () => {
  test("no hidden character is left, and the ASCII form is ASCII", () => {
    fc.assert(
      fc.property(hostile, (text) => {
        expect(printable(text).replaceAll(" ", "")).not.toMatch(/[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}]/u);
        expect(printable(text)).not.toContain("    ");
        expect(printableAscii(text)).toMatch(/^[\x20-\x7e]*$/);
      }),
    );
  });

  test("no two texts without backslashes and long gaps look the same", () => {
    const undo = (shown: string): string =>
      shown
        .replace(/⟦(\d+) spaces⟧/g, (_, count) => " ".repeat(Number(count)))
        .replace(/\\u\{([0-9a-f]+)\}/g, (_, hex) => String.fromCodePoint(Number.parseInt(hex, 16)));
    fc.assert(
      fc.property(
        hostile.filter((text) => !text.includes("\\")),
        (text) => {
          expect(undo(printable(text))).toBe(text);
        },
      ),
    );
  });

  test("wrapped lines fit, lose nothing, and only the first begins at the margin", () => {
    fc.assert(
      fc.property(hostile, fc.integer({ min: 20, max: 80 }), (text, columns) => {
        const line = printable(text);
        const [first = "", ...rest] = wrap(line, columns);
        expect([first, ...rest.map((part) => part.slice(6))].join("")).toBe(line);
        for (const part of rest) expect(part).toStartWith("    | ");
        for (const part of [first, ...rest]) expect(Bun.stringWidth(part)).toBeLessThan(columns);
      }),
    );
  });
});

test("a table may have any number of rows", () => {
  const rows = Array.from({ length: 1_000_000 }, (_, at) => [String(at), "b"]);
  expect(table([["A", "B"], ...rows]).split("\n")[1]).toBe("0       b");
});
