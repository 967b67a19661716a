import { expect, test } from "bun:test";
import fc from "fast-check";
import { foldBytes, Matcher } from "../../../src/audit/query/filter.ts";
import { parseLine } from "../../../src/audit/query/view.ts";
import { viewOf } from "../../../src/core/audit-fields.ts";
import { entryLine } from "../../support/audit-lines.ts";

test("for every byte: capital ASCII letters become small, all others stay", () => {
  const all = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
  const want = all.map((byte) => (byte >= 0x41 && byte <= 0x5a ? byte + 0x20 : byte));
  expect([...foldBytes(all)]).toEqual([...want]);
});

test("bytes of any length at any offset", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 64 }), fc.nat(8), (bytes, from) => {
      const part = Buffer.from(bytes).subarray(from);
      const want = part.map((byte) => (byte >= 0x41 && byte <= 0x5a ? byte + 0x20 : byte));
      expect([...foldBytes(part)]).toEqual([...want]);
    }),
  );
});

const ASKED = entryLine("2026-02-16T10:00:00.000Z", {
  decisionReasons: [
    { point: "risk", verdict: "requireApproval", reason: "floor:risk:high" },
    { point: "spending", verdict: "deny", reason: 'over "100"' },
  ],
});

test.each([
  ["risk", true],
  ["ris", false],
  ["spending", true],
  ["floor:", true],
  ["floor:risk:high", true],
  ["risk:high", false],
  ['over "1', true],
  ["floor:risk:high\nspending", false],
  ["floor:risk:high\tspending", false],
])("a line is found by the name of a point or the beginning of a reason: %s %p", (reason, isFound) => {
  const matcher = new Matcher({ exact: { reason } });
  const entry = viewOf(parseLine(ASKED) ?? {});
  if (entry === undefined) throw new Error("no entry");
  expect(matcher.accepts(entry, ASKED)).toBe(isFound);
  if (isFound) expect(matcher.needles.every((needle) => Buffer.from(ASKED).includes(needle))).toBe(true);
});

test("a line without decisions of policy points has no reason", () => {
  const line = entryLine("2026-02-16T10:00:00.000Z");
  const entry = viewOf(parseLine(line) ?? {});
  expect(entry !== undefined && new Matcher({ exact: { reason: "risk" } }).accepts(entry, line)).toBe(false);
});

const APPROVED = 'human:https://people.test|alice, human:https://other.test|od"d';

test.each([
  [APPROVED, "alice", true],
  [APPROVED, "https://people.test|alice", true],
  [APPROVED, 'od"d', true],
  [APPROVED, "https://other.test|alice", false],
  [APPROVED, "lice", false],
  [APPROVED, "human", false],
  [APPROVED, "https://people.test", false],
  ["callback", "callback", true],
  ["callback", "call", false],
  ["APPROVAL_REQUIRED", "APPROVAL_REQUIRED", false],
])("a line approved by %s is found by the approver %s: %p", (by, approver, isFound) => {
  const line = entryLine("2026-02-16T10:00:00.000Z", { approval: { by, id: "a-1" } });
  const matcher = new Matcher({ exact: { approver } });
  const entry = viewOf(parseLine(line) ?? {});
  if (entry === undefined) throw new Error("no entry");
  expect(matcher.accepts(entry, line)).toBe(isFound);
  if (isFound) expect(matcher.needles.every((needle) => Buffer.from(line).includes(needle))).toBe(true);
});

test("an earlier version's line of a call that waits has no approver", () => {
  const line = entryLine("2026-02-16T10:00:00.000Z", { approval: { by: "APPROVAL_DENIED", id: "a-1" } });
  expect(viewOf(parseLine(line) ?? {})).toMatchObject({ approvedBy: undefined, approvalId: "a-1" });
});
