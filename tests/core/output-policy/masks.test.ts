import { expect, test } from "bun:test";
import fc from "fast-check";
import { mask } from "../../../src/core/output-policy/masks.ts";

test.each([
  ["John Smith", "J*** S****"],
  ["J Smith", "* S****"],
  ["J. Smith", "** S****"],
  ["O'Brien-Smith", "O************"],
  ["  John\tSmith\n", "  J*** S**** "],
  ["john@example.com", "j***@e******.com"],
  ["john.smith+tag@mail.example.co.uk", "j*************@m***.e******.c*.uk"],
  ["j@x.org", "*@*.org"],
  ["a@b.averyveryverysecretvalue", "*@*.a***********************"],
  ["ann@example.c0m", "a**@e******.c**"],
  ["not an e@mail", "n** a* e*****"],
  ["a@b@c.org", "a********"],
  ["4111 1111 1111 1234", "**** **** **** 1234"],
  ["+49 (170) 123-4567", "+** (***) ***-4567"],
  ["12345678", "****5678"],
  ["1234567", "*****67"],
  ["12345", "***45"],
  ["1234", "****"],
  ["DE89370400440532013000", "******************3000"],
  ["MU17BOMM0101101030300200000MUR", "**************************0***"],
  ["12345678Z", "*****678*"],
  ["1990-01-02", "****-01-02"],
  ["AB12", "A***"],
  ["12 Main Street", "** M*** S*****"],
  ["王小明", "王**"],
  ["Ελένη Παπαδοπούλου", "Ε**** Π***********"],
  ["e\u0301lodie", "e\u0301*****"],
  ["👨‍👩‍👧 Smith", "* S****"],
  ["👨‍👩‍👧Smith", "👨‍👩‍👧*****"],
  ["１２３４５６７８", "****５６７８"],
  ["***", "[masked]"],
  ["A***", "****"],
  ["-", "*"],
  ["", ""],
  [" ", " "],
  [42, "***"],
  [-0.5, "***"],
  [true, "***"],
  [null, null],
])("%p becomes %p", (value, masked) => {
  expect(mask(value)).toBe(masked);
});

test("a cluster that hides text keeps its first code point alone", () => {
  const tags = String.fromCodePoint(...[..."secret"].map((char) => 0xe0000 + (char.codePointAt(0) ?? 0)));
  expect(mask(`🏴${tags}Smith`)).toBe("🏴*****");
  expect(mask(`e${"\u0301".repeat(500)}lodie`)).toBe("e*****");
});

test("long text is cut", () => {
  const masked = mask("secret ".repeat(100_000));
  expect(masked?.length).toBe(1_025);
  expect(masked?.endsWith("…")).toBe(true);
});

const anyText = fc.oneof(
  fc.string({ unit: "binary", maxLength: 60 }),
  fc.string({ unit: "grapheme", maxLength: 60 }),
  fc.string({
    unit: fc.constantFrom("a", "B", "1", "9", " ", "-", "@", ".", "*", "é", "😀", "\u200d", "\ud800"),
    maxLength: 40,
  }),
);

test("a visible value is never released unchanged, and every value masks the same way twice", () => {
  fc.assert(
    fc.property(anyText, (text) => {
      const masked = mask(text);
      if (/[\p{L}\p{N}\p{P}\p{S}]/u.test(text)) expect(masked).not.toBe(text);
      expect(mask(text)).toBe(masked);
    }),
  );
});

test("of letters the first of each word or label is kept, of digits at most four", () => {
  const words = fc.array(fc.string({ unit: fc.constantFrom(..."abcdXYZ"), minLength: 2, maxLength: 9 }), {
    minLength: 1,
    maxLength: 5,
  });
  fc.assert(
    fc.property(words, (parts) => {
      expect(mask(parts.join(" "))).toBe(parts.map((part) => part.slice(0, 1) + "*".repeat(part.length - 1)).join(" "));
    }),
  );
  fc.assert(
    fc.property(anyText, (text) => {
      const masked = mask(text) ?? "";
      expect([...masked].filter((char) => /\p{Nd}/u.test(char)).length).toBeLessThanOrEqual(4);
    }),
  );
});
