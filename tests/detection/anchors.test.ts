import { expect, test } from "bun:test";
import fc from "fast-check";
import { Anchors } from "../../src/detection/anchors.ts";

type Seen = readonly [word: string, start: number];

function scanned(words: readonly string[], text: string): readonly Seen[] {
  const seen: Seen[] = [];
  new Anchors(() => words).scan(text, {
    word: (index, start) => {
      seen.push([words[index] ?? "", start]);
    },
    mark: () => 0,
  });
  return seen;
}

/** Returns each occurrence of each word, by its end; for the same end, the longest first. */
function naive(words: readonly string[], text: string): readonly Seen[] {
  const found = words.flatMap((word) =>
    [...new Array<number>(text.length).keys()].flatMap((at): Seen[] =>
      text.toLowerCase().startsWith(word, at) ? [[word, at]] : [],
    ),
  );
  return found.toSorted(([one, at], [other, there]) => at + one.length - there - other.length || at - there);
}

const letters = fc.string({ unit: fc.constantFrom("a", "b", "A", "B", "1", "-", "é", "🙂"), maxLength: 40 });
const word = fc.string({ unit: fc.constantFrom("a", "b", "1", "-"), minLength: 1, maxLength: 5 });

test("finds the same as a search for each word", () => {
  fc.assert(
    fc.property(fc.uniqueArray(word, { minLength: 1, maxLength: 12 }), letters, (words, text) => {
      expect(scanned(words, text)).toEqual(naive(words, text));
    }),
    { numRuns: 500, seed: 41 },
  );
});

test("reports marks, and none before the last reported position", () => {
  const marks: number[] = [];
  const words: number[] = [];
  new Anchors(() => ["a1"], "0123456789").scan("1a1 23 4 a1", {
    word: (_index, start) => {
      words.push(start);
    },
    mark: (at) => {
      marks.push(at);
      return at + 3;
    },
  });
  expect([marks, words]).toEqual([
    [0, 4, 7, 10],
    [1, 9],
  ]);
});
