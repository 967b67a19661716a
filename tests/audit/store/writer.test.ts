import { expect, test } from "bun:test";
import fc from "fast-check";
import { logRows } from "../../../src/audit/store/writer.ts";

const row = (log: string, seq: number, instance = "pod") => ({
  log,
  stream: "calls",
  seq,
  instance,
  time_ms: seq * 10,
});

test("how far a log is stored does not depend on the order of its lines", () => {
  const rows = [row("a", 0, "before"), row("a", 1), row("a", 2, "after"), row("b", 7)];
  const state = [
    { log: "a", stream: "calls", instance: "after", tenant: "", next_seq: 3, time_ms: 20 },
    { log: "b", stream: "calls", instance: "pod", tenant: "", next_seq: 8, time_ms: 70 },
  ];
  fc.assert(
    fc.property(fc.shuffledSubarray(rows, { minLength: rows.length }), (shuffled) => {
      expect([...logRows(shuffled)].sort((one, other) => (one.log < other.log ? -1 : 1))).toEqual(state);
    }),
  );
});

test("lines without a link bring no log further", () => {
  expect(logRows([row("a", Number.MIN_SAFE_INTEGER)])).toEqual([]);
});
