import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { parseTraceparent, parseTracestate, writeTraceparent } from "../../src/core/tracing.ts";

const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN = "00f067aa0ba902b7";

describe("traceparent", () => {
  test.each([
    ["recorded", `00-${TRACE}-${SPAN}-01`, true],
    ["not recorded", `00-${TRACE}-${SPAN}-00`, false],
    ["flags of later versions", `00-${TRACE}-${SPAN}-ff`, true],
    ["another flag alone", `00-${TRACE}-${SPAN}-02`, false],
    ["a later version", `cc-${TRACE}-${SPAN}-01`, true],
    ["a later version with more", `cc-${TRACE}-${SPAN}-01-what-the-future-holds`, true],
  ])("%s", (_title, header, sampled) => {
    expect(parseTraceparent(header)).toEqual({ traceId: TRACE, spanId: SPAN, sampled });
  });

  test.each([
    ["nothing", undefined],
    ["an empty one", ""],
    ["version ff", `ff-${TRACE}-${SPAN}-01`],
    ["version 00 with more", `00-${TRACE}-${SPAN}-01-more`],
    ["a dash too many", `00-${TRACE}-${SPAN}-01-`],
    ["no trace", `00-${"0".repeat(32)}-${SPAN}-01`],
    ["no span", `00-${TRACE}-${"0".repeat(16)}-01`],
    ["capitals", `00-${TRACE.toUpperCase()}-${SPAN}-01`],
    ["a short trace id", `00-${TRACE.slice(1)}-${SPAN}-01`],
    ["a line end", `00-${TRACE}-${SPAN}-01\n`],
    ["a space before it", ` 00-${TRACE}-${SPAN}-01`],
    ["two of them", `00-${TRACE}-${SPAN}-01, 00-${TRACE}-${SPAN}-01`],
    ["a control character in what is more", `cc-${TRACE}-${SPAN}-01-\u0000`],
    ["one that has no end", `cc-${TRACE}-${SPAN}-01-${"x".repeat(300)}`],
  ])("%s is ignored", (_title, header) => {
    expect(parseTraceparent(header)).toBeUndefined();
  });

  test("written values are read back", () => {
    const ids = fc.record({
      traceId: fc.stringMatching(/^[0-9a-f]{31}[1-9a-f]$/),
      spanId: fc.stringMatching(/^[0-9a-f]{15}[1-9a-f]$/),
      sampled: fc.boolean(),
    });
    fc.assert(fc.property(ids, (context) => expect(parseTraceparent(writeTraceparent(context))).toEqual(context)));
  });
});

describe("tracestate", () => {
  test.each([
    ["one member", "vendor=value", "vendor=value"],
    ["spaces and tabs around commas", "a=1 ,\t b=2", "a=1,b=2"],
    ["empty members", "a=1,,b=2,", "a=1,b=2"],
    ["a tenant", "0tenant@vendor=t61rcWkgMzE", "0tenant@vendor=t61rcWkgMzE"],
    ["odd characters that are allowed", "a_b-c*d/e=!#$ ~", "a_b-c*d/e=!#$ ~"],
    ["as many members as there may be", members(32), members(32)],
  ])("%s", (_title, header, want) => {
    expect(parseTracestate(header)).toBe(want);
  });

  test.each([
    ["nothing", undefined],
    ["only commas", ",,"],
    ["a capital in the key", "Vendor=1"],
    ["no value", "vendor="],
    ["no key", "=1"],
    ["no equals sign", "vendor"],
    ["two equals signs", "vendor=a=b"],
    ["the same key twice", "a=1,a=2"],
    ["a line end in the value", "a=1\r\nx-tool: y"],
    ["a character outside ASCII", "a=é"],
    ["a vendor that is too long", `t@${"v".repeat(15)}=1`],
    ["a member too many", members(33)],
    ["more characters than anybody must take", `a=${"x".repeat(250)},b=${"x".repeat(250)},c=${"x".repeat(20)}`],
  ])("%s is not passed on", (_title, header) => {
    expect(parseTracestate(header)).toBeUndefined();
  });

  test("forwarded text is printable, limited, and unchanged by a second pass", () => {
    const member = fc.tuple(fc.stringMatching(/^[a-z][a-z0-9@]{0,6}$/), fc.string({ maxLength: 12 }));
    const header = fc.oneof(
      fc.string({ maxLength: 600 }),
      fc.array(member, { maxLength: 40 }).map((all) => all.map(([key, value]) => `${key}=${value}`).join(",")),
    );
    fc.assert(
      fc.property(header, (text) => {
        const passed = parseTracestate(text);
        if (passed === undefined) return;
        expect(passed).toMatch(/^[ -~]{3,512}$/);
        expect(parseTracestate(passed)).toBe(passed);
      }),
    );
  });
});

function members(count: number): string {
  return Array.from({ length: count }, (_, index) => `k${index}=v`).join(",");
}
