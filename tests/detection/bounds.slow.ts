import { expect, test } from "bun:test";
import type { Json } from "../../src/core/types.ts";
import { Work } from "../../src/detection/bounds.ts";
import { REDACTION_BOUNDS, redact, TooLarge } from "../../src/detection/redact.ts";
import { filterSecrets, findSensitive } from "../../src/detection/sensitive.ts";
import { machineText } from "../eval/negatives.ts";
import { filler } from "./secret-examples.ts";

const CHARS = 4 * 2 ** 20;
const TOKEN = `ghp_${filler(36)}`;

function boundOf(run: () => unknown): string | undefined {
  try {
    run();
    return undefined;
  } catch (error) {
    if (!(error instanceof TooLarge)) throw error;
    return error.bound;
  }
}

test.each([
  [
    "more to find than may be found",
    `a@b.co ${TOKEN} `.repeat(REDACTION_BOUNDS.findingsMax / 2 + 1).slice(0, 8e6),
    "findingsMax",
  ],
  ["words that announce, everywhere", "cpf 1".repeat(CHARS / 5), "stepsMax"],
  ["names inside values, everywhere", "password='x token=\"".repeat(CHARS / 19), "stepsMax"],
  ["tables of one row, everywhere", "password,token\n1,2\n".repeat(CHARS / 19), "stepsMax"],
])("%s: nothing is released in part", (_title, text, bound) => {
  expect(boundOf(() => redact(text, { level: "strict" }))).toBe(bound);
  expect(boundOf(() => findSensitive(text, "strict"))).toBe(bound);
});

test("findings are counted over the whole tree", () => {
  const one = new Array<Json>(REDACTION_BOUNDS.findingsMax).fill("hunter2");
  expect(boundOf(() => redact({ password: one }, { level: "secrets" }))).toBeUndefined();
  expect(boundOf(() => redact({ password: [...one, "hunter2"] }, { level: "secrets" }))).toBe("findingsMax");
});

test("steps are counted over the whole tree", () => {
  const part = "cpf 1".repeat(2 ** 14);
  expect(boundOf(() => redact(part, { level: "strict" }))).toBeUndefined();
  expect(boundOf(() => redact(new Array<Json>(80).fill(part), { level: "strict" }))).toBe("stepsMax");
});

test("the steps for a value grow with its size, and no further", () => {
  const { stepsMax, stepsPerCharMax } = REDACTION_BOUNDS;
  for (const chars of [0, 1_000, CHARS]) {
    const work = new Work(chars);
    work.spend(Math.max(stepsMax, chars * stepsPerCharMax));
    expect(boundOf(() => work.spend(1))).toBe("stepsMax");
  }
});

test("a single text that is too large to scan is hidden completely", () => {
  const near = "token=x1 ".repeat((8 * 2 ** 20) / 9);
  expect(filterSecrets(`${near}${TOKEN}`).text).toBe("[REDACTED]");
});

const customer = (id: number): Json => ({
  id,
  name: `Jane Doe ${id}`,
  email: `jane.doe${id}@example.com`,
  phone: `+49 30 90${1_000 + (id % 8_999)}`,
  city: "Berlin",
  createdAt: "2026-11-22T01:43:21.123Z",
});

/** Large ordinary values: they are returned whole. */
const ORDINARY: readonly (readonly [title: string, value: Json, found: number])[] = [
  ["20,000 customers", Array.from({ length: 20_000 }, (_, id) => customer(id)), 40_000],
  [
    "an e-mail address on each of 100,000 lines",
    Array.from({ length: 100_000 }, (_, id) => `user${id}@example.com`).join("\n"),
    100_000,
  ],
  ["a token on each line of a log", lines((line) => `${line} ${TOKEN}`), 20_000],
  ["a log of JSON inside JSON", JSON.stringify(lines((line) => JSON.stringify({ line, path: "C:\\temp" }))), 0],
  ["a log", lines((line) => line), 0],
  [
    "keys that are data",
    Object.fromEntries(Array.from({ length: 50_000 }, (_, id) => [`u${id}@example.com`, id])),
    50_000,
  ],
];

function lines(write: (line: string) => string): string {
  return machineText(3, CHARS / 2)
    .split("\n")
    .map(write)
    .join("\n")
    .slice(0, CHARS);
}

test.each(ORDINARY)("%s: hidden, not refused", (_title, value, found) => {
  const { findings } = redact(value, { level: "strict", clean: true });
  expect(findings.length).toBeGreaterThanOrEqual(found);
});
