import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { retryAfterMs } from "../../src/egress/retry-after.ts";

const AT = Date.UTC(2026, 10, 6, 8, 49, 37);
const headersOf = (header: string | undefined, date?: string) => ({
  ...(header !== undefined && { "retry-after": header }),
  ...(date && { date }),
});
const waitOf = (header: string | undefined, date?: string) => retryAfterMs(headersOf(header, date), { now: () => AT });

describe("the time that an answer asks to wait", () => {
  test.each<[string | undefined, number | undefined]>([
    ["30", 30_000],
    [" 30 ", 30_000],
    ["1.5", 1_500],
    ["0", undefined],
    ["3600", 3_600_000],
    ["86400", 3_600_000],
    ["999999999", 3_600_000],
    ["Fri, 06 Nov 2026 08:50:37 GMT", 60_000],
    ["Friday, 06-Nov-26 08:50:37 GMT", 60_000],
    ["Fri Nov  6 08:50:37 2026", 60_000],
    ["Fri, 06 Nov 2026 08:49:37 GMT", undefined],
    ["Thu, 05 Nov 2026 08:49:37 GMT", undefined],
    ["Sat, 07 Nov 2026 08:49:37 GMT", 3_600_000],
    ["-30", undefined],
    ["30s", undefined],
    ["1e3", undefined],
    ["soon", undefined],
    ["2026-11-06T08:50:37Z", undefined],
    ["Fri, 99 Nov 2026 08:50:37 GMT", undefined],
    ["", undefined],
    [undefined, undefined],
  ])("%j is %j ms", (header, ms) => {
    expect(waitOf(header)).toBe(ms);
  });

  test("a date is compared with the sender's own clock", () => {
    expect(waitOf("Fri, 06 Nov 2026 12:00:30 GMT", "Fri, 06 Nov 2026 12:00:00 GMT")).toBe(30_000);
    expect(waitOf("Fri, 06 Nov 2026 08:50:37 GMT", "no date")).toBe(60_000);
  });

  test("without a clock, a date counts if the sender says what its clock shows", () => {
    const [date, until] = ["Fri, 06 Nov 2026 12:00:00 GMT", "Fri, 06 Nov 2026 12:00:30 GMT"];
    expect(retryAfterMs(headersOf(until, date), {})).toBe(30_000);
    expect(retryAfterMs(headersOf(until), {})).toBeUndefined();
  });

  test("another limit replaces the hour", () => {
    expect(retryAfterMs(headersOf("7200"), { msMax: 7_000_000 })).toBe(7_000_000);
  });

  test("any text is at most an hour, and a whole number of milliseconds", () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.stringMatching(/^[0-9.]{1,12}$/)), (header) => {
        const ms = waitOf(header) ?? 1;
        expect(Number.isInteger(ms) && ms > 0 && ms <= 3_600_000).toBe(true);
      }),
    );
  });
});
