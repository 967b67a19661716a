import { expect, test } from "bun:test";
import { eventsOf } from "../../../src/console/app/calls/model.ts";

const at = (ms: number): string => new Date(Date.UTC(2026, 2, 10, 12) + ms).toISOString();
const call = (seq: number, ms: number, decision = "ALLOWED") => ({
  seq,
  hash: `call ${seq}`,
  timestamp: at(ms),
  decision,
});
const noted = (seq: number, ms: number, type: string) => ({ seq, hash: `journal ${seq}`, timestamp: at(ms), type });

const keys = (...given: Parameters<typeof eventsOf>): readonly string[] => eventsOf(...given).map(({ key }) => key);

test("events of the journal and of calls are merged by time", () => {
  const journal = [noted(0, 1, "approval.asked"), noted(1, 30, "approval.voted"), noted(2, 40, "approval.claimed")];
  const calls = [call(0, 2, "PENDING"), call(1, 50)];
  expect(keys(calls, journal)).toEqual(["journal 0", "call 0", "journal 1", "journal 2", "call 1"]);
});

test("events of one millisecond stay in the log's order, those of the journal before the call's own line", () => {
  const journal = ["approval.claimed", "intent", "approval.settled"].map((type, seq) => noted(seq, 5, type));
  expect(keys([call(0, 5)], journal)).toEqual(["journal 0", "journal 1", "journal 2", "call 0"]);
});

test("events stay in the log's order when the clock was set back between them", () => {
  const journal = [noted(0, 10, "approval.asked"), noted(1, 4, "approval.voted"), noted(2, 6, "approval.claimed")];
  expect(keys([call(0, 3, "PENDING"), call(1, 20)], journal)).toEqual([
    ...["call 0", "journal 0", "journal 1", "journal 2", "call 1"],
  ]);
  expect(keys([call(0, 9, "PENDING"), call(1, 7)], [])).toEqual(["call 0", "call 1"]);
});

test("a line without a time stays behind the line before it", () => {
  expect(keys([call(0, 9)], [noted(0, 1, "intent"), { hash: "broken", timestamp: 7 }])).toEqual([
    ...["journal 0", "broken", "call 0"],
  ]);
});
