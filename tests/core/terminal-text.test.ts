import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { plainText } from "../../src/core/terminal-text.ts";

const ESC = "\u001b";

describe("control sequences are removed, text stays", () => {
  const rows: readonly [string, string, string][] = [
    ["colours", `${ESC}[31mred${ESC}[0m plain`, "red plain"],
    ["256 colours and private modes", `${ESC}[38;5;1mx${ESC}[?25l${ESC}[>0c`, "x"],
    ["sub-parameters", `${ESC}[4:3mx${ESC}[m`, "x"],
    ["a title, ended by BEL", `${ESC}]0;title\u0007x`, "x"],
    ["a link, ended by ST", `${ESC}]8;;http://evil${ESC}\\text${ESC}]8;;${ESC}\\`, "text"],
    ["DCS, SOS, PM and APC", `${ESC}Pa${ESC}\\${ESC}Xb${ESC}\\${ESC}^c${ESC}\\${ESC}_d${ESC}\\x`, "x"],
    ["8 bits", "\u009b31mred\u009d0;t\u009cx", "redx"],
    ["character sets", `${ESC}(0x${ESC}%Gy`, "xy"],
    ["two-letter sequences", `${ESC}c${ESC}7${ESC}=x`, "x"],
    ["a sequence that never ends swallows only its line", `a${ESC}]0;evil\nnext`, "a\nnext"],
    ["a cut CSI", `a${ESC}[31`, "a"],
    ["a CSI that is broken by a letter outside", `${ESC}[31é`, "é"],
    ["ESC at the end", `a${ESC}`, "a"],
    ["ESC before a line end", `a${ESC}\nb`, "a\nb"],
    ["backspaces and bells", "pass\b\b\b\bword\u0007", "password"],
    ["NUL and DEL", "a\0b\u007fc", "abc"],
    ["a carriage return alone", "real\rfake", "realfake"],
    ["tab, line feed and CRLF stay", "a\tb\r\nc\n", "a\tb\r\nc\n"],
    ["a string inside a string", `${ESC}]0;${ESC}[31mx\u0007y`, "xy"],
    ["controls of direction are shown", "a\u202eb\u2066c\u200f", "a[U+202E]b[U+2066]c[U+200F]"],
    ["tag characters go", "a\u{e0041}\u{e0042}\u{e007f}b", "ab"],
    ["the first variation selector stays", "❤\ufe0f\ufe0f\u{e0101}x", "❤\ufe0fx"],
    ["selectors are counted across what goes", "a\ufe0f\u0007\ufe0fb", "a\ufe0fb"],
    [
      "plain text is untouched",
      "é ü 日本語 👩‍👩‍👧 שלום مرحبا [31m \\u001b ",
      "é ü 日本語 👩‍👩‍👧 שלום مرحبا [31m \\u001b ",
    ],
  ];
  test.each(rows)("%s", (_title, given, want) => {
    expect(plainText(given)).toBe(want);
  });
});

const piece = fc.oneof(
  fc.constantFrom(
    ESC,
    "[",
    "]",
    "P",
    "\\",
    "\u0007",
    "\u009b",
    "\u009d",
    "\u009c",
    "31",
    "m",
    ";",
    "\r",
    "\n",
    "\t",
    "\u202e",
    "\ufe0f",
    "\u{e0101}",
    "\u{e0041}",
    "\udb40",
    "\udc41",
    " ",
    "x",
  ),
  fc.string({ unit: "binary", maxLength: 4 }),
);
const hostile = fc.array(piece, { maxLength: 40 }).map((pieces) => pieces.join(""));

test("no control character is left, and a second pass changes nothing", () => {
  fc.assert(
    fc.property(hostile, (text) => {
      const plain = plainText(text);
      expect(plain).not.toMatch(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]/);
      expect(plain).not.toMatch(/\r(?!\n)/);
      expect(plain).not.toMatch(/[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/);
      expect(plain).not.toMatch(/[\u{e0000}-\u{e007f}]/u);
      expect(plain).not.toMatch(/[\ufe00-\ufe0f\u{e0100}-\u{e01ef}]{2}/u);
      expect(plain.isWellFormed()).toBe(true);
      expect(plainText(plain)).toBe(plain);
    }),
    { numRuns: 2_000 },
  );
});

test("the number of lines stays: nothing hides a line", () => {
  fc.assert(
    fc.property(hostile, (text) => {
      expect(plainText(text).split("\n").length).toBe(text.split("\n").length);
    }),
  );
});

test("printable text is never changed", () => {
  fc.assert(
    fc.property(fc.stringMatching(/^[ -~\n\té-ʯΑ-ωא-ת一-龥]*$/), (text) => {
      expect(plainText(text)).toBe(text);
    }),
  );
});

test.each([ESC, `${ESC}]`, `${ESC}[`, "\u009d", "\ufe0f", "\u{e0101}\u0007", "\r", "\u202e", `${ESC}P${ESC}`])(
  "a million of %p is read in one pass",
  (unit) => {
    expect(plainText(unit.repeat(1_000_000 / unit.length)).length).toBeLessThan(9_000_000);
  },
);
