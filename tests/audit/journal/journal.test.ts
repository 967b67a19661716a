import { expect, test } from "bun:test";
import { LINE_BYTES_MAX } from "../../../src/audit/entry.ts";
import { type JournalLine, serializeJournalLine } from "../../../src/audit/journal/journal.ts";

const STAMP = { timestamp: "2026-02-16T12:00:00.000Z", instance: "test", tenant: undefined };

test.each<readonly [string, JournalLine, Record<string, unknown>]>([
  ["a line", { type: "boot", version: "1" }, { ...STAMP, type: "boot", version: "1" }],
  [
    "a forged stamp gives way",
    { type: "boot", timestamp: "1970", instance: "x", tenant: "x" },
    { ...STAMP, type: "boot" },
  ],
  [
    "over the bound, large members are left out and the line says so",
    { type: "intent", traceId: "t-1", tenant: "x", args: { text: "x".repeat(LINE_BYTES_MAX) } },
    { ...STAMP, type: "intent", traceId: "t-1", truncated: true },
  ],
])("%s", (_name, line, want) => {
  expect(JSON.parse(serializeJournalLine(line, STAMP))).toEqual(want);
});

test("the stamp and the type come first, and misleading characters are escaped", () => {
  const line = serializeJournalLine({ text: "\u202e\u2028", type: "boot" }, STAMP);
  expect(line).toBe('{"timestamp":"2026-02-16T12:00:00.000Z","type":"boot","text":"\\u202e\\u2028","instance":"test"}');
});

test("any number of fields of any size fits the limit", () => {
  for (const size of [1, 100, 300, 5_000]) {
    const text = "日\u202e".repeat(size);
    const members = Array.from({ length: 3_000 }, (_member, index) => [`${text.slice(0, 50)}${index}`, text]);
    const line = serializeJournalLine({ type: text.repeat(100), ...Object.fromEntries(members) }, STAMP);
    expect(Buffer.byteLength(line)).toBeLessThanOrEqual(LINE_BYTES_MAX);
    expect(JSON.parse(line).truncated).toBe(true);
  }
});
