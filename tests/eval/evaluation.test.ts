import { expect, test } from "bun:test";
import { evasionScores, falseAlarms, scores, survivors } from "./measure.ts";

const LEAST = 0.99;

test.each(scores(300).map((score) => [score.kind, score] as const))(
  "%s: precision and recall",
  (_kind, { precision, recall }) => {
    expect(precision).toBeGreaterThanOrEqual(LEAST);
    expect(recall).toBeGreaterThanOrEqual(LEAST);
  },
);

test.each(
  evasionScores(20)
    .filter(({ isExpected }) => isExpected)
    .map((score) => [`${score.kind}, ${score.evasion}`, score] as const),
)("%s: found", (_title, { recall }) => {
  expect(recall).toBeGreaterThanOrEqual(LEAST);
});

test("at most one false alarm a megabyte", () => {
  const { megabytes, found } = falseAlarms(2 ** 20);
  // These files hold real addresses and numbers: the README's example, the table of addresses, the examples of formats.
  const real = [
    "src/egress/addresses.ts: IP",
    "src/core/schema/violation-text.ts: IP",
    "src/core/schema/violation-text.ts: PHONE",
  ];
  const alarms = found.filter(
    (alarm) => !alarm.includes("@example.org") && !real.some((file) => alarm.startsWith(file)),
  );
  expect(alarms.slice(Math.floor(megabytes))).toEqual([]);
});

test("no value planted in a tree is released", () => {
  expect(survivors(1_000)).toEqual([]);
});
