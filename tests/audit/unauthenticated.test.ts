import { describe, expect, test } from "bun:test";
import {
  FURTHER_SOURCES,
  sumEntry,
  UnauthenticatedLimit,
  type UnauthenticatedSum,
} from "../../src/audit/unauthenticated.ts";
import { NOON } from "./support/open.ts";

const MINUTE = 60_000;
const CODE = "UNAUTHENTICATED" as const;

/** Knocks `times` times and returns how many knocks get a line of their own. */
function knock(
  limit: UnauthenticatedLimit,
  source: string,
  options: { readonly times: number; readonly now: number },
): number {
  let lines = 0;
  for (let count = 0; count < options.times; count += 1) {
    lines += limit.sumUp({ source, code: CODE, traceId: `t-${count}` }, options.now) === undefined ? 1 : 0;
  }
  return lines;
}

describe("StrangerLimit", () => {
  test.each([
    [1, 1, [] as UnauthenticatedSum[]],
    [60, 60, []],
    [61, 60, [{ source: "a", code: CODE, count: 1 }]],
    [1_000, 60, [{ source: "a", code: CODE, count: 940 }]],
  ])("of %d refusals in a minute %d get their own line", (times, lines, sums) => {
    const limit = new UnauthenticatedLimit();
    expect(knock(limit, "a", { times, now: NOON })).toBe(lines);
    expect(limit.drain(NOON + MINUTE)).toEqual(sums);
  });

  test("a counted refusal has a receipt for its own trace", () => {
    const limit = new UnauthenticatedLimit({ linesPerMinuteMax: 0 });
    expect(limit.sumUp({ source: "a", code: CODE, traceId: "t-7" }, NOON)).toEqual({ traceId: "t-7" } as never);
  });

  test("sources are counted separately, and each minute starts again", () => {
    const limit = new UnauthenticatedLimit({ linesPerMinuteMax: 2 });
    expect(knock(limit, "a", { times: 5, now: NOON })).toBe(2);
    expect(knock(limit, "b", { times: 3, now: NOON })).toBe(2);
    expect(knock(limit, "a", { times: 5, now: NOON + MINUTE })).toBe(2);
    expect(limit.drain(NOON + MINUTE)).toEqual([
      { source: "a", code: CODE, count: 3 },
      { source: "b", code: CODE, count: 1 },
    ]);
  });

  test("a sum is due when its minute is over, and is returned once", () => {
    const limit = new UnauthenticatedLimit({ linesPerMinuteMax: 1 });
    knock(limit, "a", { times: 4, now: NOON });
    expect(limit.drain(NOON + MINUTE - 1)).toEqual([]);
    expect(limit.drain(NOON + MINUTE)).toEqual([{ source: "a", code: CODE, count: 3 }]);
    expect(limit.drain(NOON + 2 * MINUTE)).toEqual([]);
  });

  test("at the end the rest of the current minute can be fetched", () => {
    const limit = new UnauthenticatedLimit({ linesPerMinuteMax: 1 });
    knock(limit, "a", { times: 4, now: NOON });
    expect(limit.drain(Number.POSITIVE_INFINITY)).toEqual([{ source: "a", code: CODE, count: 3 }]);
  });

  test("a clock that is set back loses nothing and counting continues", () => {
    const limit = new UnauthenticatedLimit({ linesPerMinuteMax: 1 });
    knock(limit, "a", { times: 3, now: NOON });
    knock(limit, "a", { times: 4, now: NOON - 10 * MINUTE });
    expect(limit.drain(NOON - 9 * MINUTE)).toEqual([{ source: "a", code: CODE, count: 5 }]);
  });

  test("above the maximum of sources all further ones share one bucket, and no refusal is lost", () => {
    const limit = new UnauthenticatedLimit({ linesPerMinuteMax: 1, sourcesMax: 3 });
    let lines = 0;
    for (let source = 0; source < 100; source += 1) {
      lines += knock(limit, `source ${source}`, { times: 2, now: NOON });
    }
    const sums = limit.drain(NOON + MINUTE);
    expect(sums).toContainEqual({ source: FURTHER_SOURCES, code: CODE, count: 193 });
    expect(sums).toHaveLength(4);
    expect(lines + sums.reduce((sum, { count }) => sum + count, 0)).toBe(200);
  });

  test("the largest sums of the current minute can be fetched before it is over, each refusal once", () => {
    const limit = new UnauthenticatedLimit({ linesPerMinuteMax: 1 });
    for (const [source, times] of [
      ["a", 3],
      ["b", 9],
      ["c", 5],
    ] as const)
      knock(limit, source, { times, now: NOON });
    expect(limit.drainLargest(2)).toEqual([
      { source: "b", code: CODE, count: 8 },
      { source: "c", code: CODE, count: 4 },
    ]);
    expect(knock(limit, "b", { times: 2, now: NOON })).toBe(0);
    expect(limit.drain(NOON + 1)).toEqual([]);
    expect(limit.drain(NOON + MINUTE)).toEqual([
      { source: "a", code: CODE, count: 2 },
      { source: "b", code: CODE, count: 2 },
    ]);
  });

  test("a returned sum is due at once, together with later refusals", () => {
    const limit = new UnauthenticatedLimit({ linesPerMinuteMax: 0, sourcesMax: 2 });
    knock(limit, "a", { times: 4, now: NOON });
    for (const sum of limit.drainLargest(10)) limit.giveBack(sum);
    expect(limit.drain(NOON)).toEqual([{ source: "a", code: CODE, count: 4 }]);
    for (const source of ["a", "b", "c", "d"]) limit.giveBack({ source, code: CODE, count: 1 });
    expect(limit.drain(NOON)).toHaveLength(3);
  });

  test("the current limit of lines a minute applies", () => {
    const options = { linesPerMinuteMax: 1 };
    const limit = new UnauthenticatedLimit(options);
    expect(knock(limit, "a", { times: 3, now: NOON })).toBe(1);
    options.linesPerMinuteMax = 5;
    expect(knock(limit, "a", { times: 3, now: NOON })).toBe(2);
  });

  test("sums that nobody fetches are limited too", () => {
    const limit = new UnauthenticatedLimit({ linesPerMinuteMax: 0, sourcesMax: 3 });
    for (let minute = 0; minute < 50; minute += 1) {
      knock(limit, `source ${minute}`, { times: 1, now: NOON + minute * MINUTE });
    }
    const sums = limit.drain(NOON + 50 * MINUTE);
    expect(sums).toHaveLength(4);
    expect(sums.reduce((sum, { count }) => sum + count, 0)).toBe(50);
  });
});

test("refusals are counted separately by code, and the line names it", () => {
  const limit = new UnauthenticatedLimit({ linesPerMinuteMax: 1 });
  for (const code of ["UNAUTHENTICATED", "UNAUTHENTICATED", "AUTH_UNAVAILABLE", "MALFORMED_REQUEST"] as const) {
    limit.sumUp({ source: "a", code, traceId: "t" }, NOON);
  }
  const lines = limit.drain(NOON + MINUTE).map((sum) => sumEntry(sum, "t"));
  expect(lines.map(({ decision, error, denial, count }) => [decision, denial?.stage, error?.code, count])).toEqual([
    ["DENIED", "AUTH", "UNAUTHENTICATED", 1],
    ["ERROR", "AUTH", "AUTH_UNAVAILABLE", 1],
    ["DENIED", "REQUEST", "MALFORMED_REQUEST", 1],
  ]);
});

test.each([
  ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2:ffff::1", 2],
  ["2001:db8::1", "2001:db8:0:0:9::9", 2],
  ["2001:db8:1:2::1", "2001:db8:1:3::1", 1],
  ["::ffff:192.0.2.1", "::ffff:192.0.2.2", 1],
  ["192.0.2.1", "192.0.2.2", 1],
])("%s and %s count as one source: %d", (one, other, together) => {
  const limit = new UnauthenticatedLimit({ linesPerMinuteMax: 0 });
  for (const source of [one, other]) limit.sumUp({ source, code: CODE, traceId: "t" }, NOON);
  expect(limit.drain(NOON + MINUTE)[0]?.count).toBe(together);
});

test("the line of a sum names the source and the number of calls", () => {
  expect(sumEntry({ source: "192.0.2.1", code: CODE, count: 940 }, "t-1")).toMatchObject({
    traceId: "t-1",
    caller: { sub: "anonymous", permissions: [] },
    decision: "DENIED",
    denial: { stage: "AUTH", details: { source: "192.0.2.1" } },
    error: { code: "UNAUTHENTICATED" },
    count: 940,
  });
});
