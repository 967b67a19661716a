import { expect, test } from "bun:test";
import { DETECTOR_RULES } from "../../src/detection/rules/rules.ts";
import { filler } from "../detection/secret-examples.ts";
import { filled, microseconds, seen, timesClean, UNITS } from "../eval/adversary.ts";
import { type Next, numbers, pick } from "../eval/corpora.ts";
import { machineText } from "../eval/negatives.ts";
import { rounds } from "../support/rounds.ts";

const UNIT_CHARS_MAX = 64;
const TRIAL_CHARS = 2 ** 17;
/** A search finds most slow units in its first steps, because it begins with the slowest known ones. */
const TRIALS = rounds({ few: 100, many: 200 });
const KEPT = 24;
/** Long enough that the budget which every text has, however short, counts little. */
const FULL_CHARS = 4 * 2 ** 20;
const WORST = 10;
const RATIO_MAX = 12;

const PIECES: readonly string[] = [
  ...UNITS,
  ...Object.values(DETECTOR_RULES).flatMap((rules) => rules.flatMap(({ anchors }) => anchors)),
  ...[
    " ",
    "\n",
    "=",
    ":",
    '"',
    "'",
    "\\",
    "1",
    "a",
    "A",
    "-",
    ".",
    "/",
    "@",
    "+",
    "(",
    "0",
    "é",
    "\u200b",
    "%",
    "&",
    ";",
    "|",
  ],
];

/** A unit that is like another one. */
function mutated(next: Next, units: readonly string[]): string {
  const unit = pick(next, units);
  const at = Math.floor(next() * (unit.length + 1));
  const shape = next();
  if (shape < 0.4) return `${unit.slice(0, at)}${pick(next, PIECES)}${unit.slice(at)}`;
  if (shape < 0.6) return `${unit.slice(0, at)}${unit.slice(at + 1 + Math.floor(next() * 3))}`;
  if (shape < 0.8) return `${unit}${pick(next, units)}`;
  return next() < 0.5 ? unit.slice(at) + unit.slice(0, at) : `${unit.slice(0, at)}${pick(next, PIECES)}`;
}

interface Tried {
  readonly unit: string;
  readonly cost: number;
}

/** The slowest units that so many steps of trying and keeping the worst come to. */
function slowest(seed: number): readonly Tried[] {
  const next = numbers(seed);
  const clean = microseconds(machineText(3, TRIAL_CHARS), 5);
  let kept: readonly Tried[] = [];
  const keep = (unit: string): void => {
    const text = filled(unit, TRIAL_CHARS);
    const once = microseconds(text, 1) / clean;
    const leastKept = kept.length < KEPT ? 0 : (kept.at(-1)?.cost ?? 0);
    // A second round never makes it slower.
    if (once <= leastKept) return;
    const cost = Math.min(once, microseconds(text, 1) / clean);
    kept = [...kept, { unit, cost }].toSorted((one, other) => other.cost - one.cost).slice(0, KEPT);
  };
  UNITS.forEach(keep);
  for (let trial = 0; trial < TRIALS; trial += 1) {
    const unit = mutated(
      next,
      kept.map((one) => one.unit),
    ).slice(0, UNIT_CHARS_MAX);
    if (unit === "" || kept.some((one) => one.unit === unit)) continue;
    keep(unit);
  }
  return kept;
}

test("the slowest texts that a search finds take at most a few times as long as clean text", () => {
  const worst = slowest(17)
    .slice(0, WORST)
    .map(({ unit }) => ({ unit, ratio: timesClean(filled(unit, FULL_CHARS), RATIO_MAX) }));
  expect(worst.filter(({ ratio }) => ratio >= RATIO_MAX)).toEqual([]);
}, 600_000);

const SECRETS = [
  `ghp_${filler(36)}`,
  `AKIA${filler(16, "A2B3C4D5E6F7G")}`,
  "x.y@example.com",
  "5500 0000 0000 0004",
  "219-09-9998",
  "NL91ABNA0417164300",
];

test("no text that a search puts around a secret hides it", () => {
  const next = numbers(29);
  const survivors: string[] = [];
  for (let trial = 0; trial < 20_000; trial += 1) {
    const secret = pick(next, SECRETS);
    const noise = () => filled(mutated(next, PIECES) || "x", 1 + Math.floor(next() * 300));
    const text = `${noise()}\n\n${secret}\n\n${noise()}`;
    if (seen(text)?.includes(secret) === true) survivors.push(text);
  }
  expect(survivors).toEqual([]);
}, 600_000);
