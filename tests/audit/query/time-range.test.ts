import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { dayOf, readDuration, readTime } from "../../../src/audit/query/time-range.ts";

const NOW = Date.parse("2026-02-16T12:34:56.789Z");

describe("valid times", () => {
  test.each([
    ["30s", "2026-02-16T12:34:26.789Z"],
    ["30m", "2026-02-16T12:04:56.789Z"],
    ["3h", "2026-02-16T09:34:56.789Z"],
    ["7d", "2026-02-09T12:34:56.789Z"],
    ["2w", "2026-02-02T12:34:56.789Z"],
    ["999999w", "1970-01-01T00:00:00.000Z"],
    ["today", "2026-02-16T00:00:00.000Z"],
    ["yesterday", "2026-02-15T00:00:00.000Z"],
    ["2026-02-16", "2026-02-16T00:00:00.000Z"],
    ["2024-02-29", "2024-02-29T00:00:00.000Z"],
    ["2026-02-16T01:02", "2026-02-16T01:02:00.000Z"],
    ["2026-02-16T01:02:03", "2026-02-16T01:02:03.000Z"],
    ["2026-02-16T01:02:03.5Z", "2026-02-16T01:02:03.500Z"],
    ["2026-02-16T01:02:03.123456789Z", "2026-02-16T01:02:03.123Z"],
    ["2026-02-16T01:02:03+02:00", "2026-02-15T23:02:03.000Z"],
    ["2026-02-16T23:30-01:30", "2026-02-17T01:00:00.000Z"],
  ])("%s is %s", (text, iso) => {
    expect(new Date(readTime(text, NOW) ?? Number.NaN).toISOString()).toBe(iso);
  });

  test.each([
    ...["", " ", "0h", "-3h", "3", "3y", "h", "3 h", "3H", "1234567h", "now", "Today", "tomorrow"],
    ...["2026-02-30", "2026-13-01", "2026-00-10", "2026-1-1", "26-01-01", "2026-02-16 12:00", "2025-02-29"],
    ...["2026-02-16T24:00", "2026-02-16T12:60", "2026-02-16T12:00:60Z", "2026-02-16T12", "2026-02-16T12:00z"],
    ...[
      "2026-02-16T12:00+2:00",
      "2026-02-16T12:00+15:00",
      "2026-02-16T12:00+0200",
      "1771200000",
      "2026-02-16T12:00Z\n",
    ],
  ])("%p is not a time", (text) => {
    expect(readTime(text, NOW)).toBeUndefined();
  });

  test("any instant is read back as it was written", () => {
    const instant = fc.date({ min: new Date(0), max: new Date("9999-12-31T23:59:59.999Z"), noInvalidDate: true });
    fc.assert(fc.property(instant, (date) => readTime(date.toISOString(), NOW) === date.getTime()));
  });

  test("no text makes it throw", () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 40 }), (text) => {
        const ms = readTime(text, NOW);
        return ms === undefined || Number.isFinite(ms);
      }),
    );
  });
});

test.each([
  ["1s", 1_000],
  ["90m", 5_400_000],
  ["1d", 86_400_000],
])("%s lasts %d ms", (text, ms) => {
  expect(readDuration(text)).toBe(ms);
});

test.each([
  [Number.NEGATIVE_INFINITY, "0000-01-01"],
  [0, "1970-01-01"],
  [NOW, "2026-02-16"],
  [Number.POSITIVE_INFINITY, "9999-12-31"],
])("the day of %p is %s", (ms, day) => {
  expect(dayOf(ms)).toBe(day);
});
