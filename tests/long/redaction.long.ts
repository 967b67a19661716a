import { expect, test } from "bun:test";
import { filler } from "../detection/secret-examples.ts";
import { filled, microseconds, seen, timesClean, UNITS } from "../eval/adversary.ts";
import { evasionScores, falseAlarms, scores, survivors } from "../eval/measure.ts";
import { machineText } from "../eval/negatives.ts";

const CHARS_MAX = 4 * 2 ** 20;
const SMALL = CHARS_MAX / 8;

const TIMEOUT_MS = 60_000;

/** Over the time of clean text of the same length, whether the text is looked through or refused. */
const RATIO_MAX = 12;

/** 10 MB/s on a machine that others use, too. */
const CLEAN_MICROSECONDS_PER_CHAR_MAX = 0.1;

test.each(UNITS.map((unit) => [unit] as const))(
  "%j repeated takes at most a few times as long as clean text",
  (unit) => {
    seen(filled(unit, SMALL));
    expect(timesClean(filled(unit, CHARS_MAX), RATIO_MAX)).toBeLessThan(RATIO_MAX);
  },
);

test(
  "base64 of base64 of base64 too",
  () => {
    let text = "john@example.com ".repeat(100_000);
    for (let depth = 0; depth < 3; depth += 1) text = Buffer.from(text).toString("base64");
    expect(timesClean(text.slice(0, CHARS_MAX), RATIO_MAX)).toBeLessThan(RATIO_MAX);
  },
  TIMEOUT_MS,
);

/** Of all units together: more of them exceed the work budget, and nothing is released. */
const REPEATS = 100;

test("all near-anchors together hide no secret after them", () => {
  const secret = `ghp_${filler(36)}`;
  const text = `${UNITS.map((unit) => unit.repeat(REPEATS)).join(" ")}\n\n${secret}\n\nx@example.com`;
  const left = seen(text);
  expect(left).toBeString();
  expect(left).not.toContain(secret);
  expect(left).not.toContain("x@example.com");
});

test("clean machine text is scanned fast", () => {
  const text = machineText(3, CHARS_MAX);
  expect(microseconds(text, 5) / text.length).toBeLessThan(CLEAN_MICROSECONDS_PER_CHAR_MAX);
});

test("the complete corpora", () => {
  expect(scores(5_000).filter(({ precision, recall }) => Math.min(precision, recall) < 0.99)).toEqual([]);
  expect(evasionScores(300).filter(({ isExpected, recall }) => isExpected && recall < 0.99)).toEqual([]);
  expect(survivors(10_000)).toEqual([]);
  const { megabytes, found } = falseAlarms(16 * 2 ** 20);
  expect(found.slice(Math.floor(megabytes))).toEqual([]);
});
