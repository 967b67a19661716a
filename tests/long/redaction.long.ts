import { expect, test } from "bun:test";
import { findSensitive, hideFindings } from "../../src/redaction/sensitive.ts";
import { cleanText } from "../../src/redaction/views/clean-text.ts";
import { evasionScores, falseAlarms, scores, survivors } from "../eval/measure.ts";
import { machineText } from "../eval/negatives.ts";
import { filler } from "../redaction/secret-examples.ts";

const CHARS_MAX = 4 * 2 ** 20;
const SMALL = CHARS_MAX / 8;

/** Generous for a shared machine. What it tells apart is linear from not: that would take minutes. */
const ADVERSARIAL_MS_MAX = 5_000;

function hide(text: string): string {
  return cleanText(hideFindings(text, findSensitive(text, "balanced")));
}

function timed(text: string): number {
  const from = Bun.nanoseconds();
  hide(text);
  return (Bun.nanoseconds() - from) / 1e6;
}

const base64 = (text: string) => Buffer.from(text).toString("base64");

/** Near-anchors, long runs, nested encodings: each is repeated until the text is full. */
const UNITS: readonly string[] = [
  ...[
    "a",
    "A",
    "1",
    "-",
    " ",
    "\n",
    "/",
    "=",
    ":",
    "::",
    "1::",
    "@",
    "a@",
    "a@a.",
    "a@b.co ",
    "1 ",
    "1-",
    "1.",
    "12 34 ",
  ],
  ...[
    "eyJ",
    "eyJ.",
    "ghp_",
    "ghp_aaaa\n",
    "sk-",
    "sk-ant-",
    "glpat-",
    "EAAA",
    "SG.",
    "AKIA",
    "pat",
    "-us",
    ":AA",
    "sig=",
  ],
  ...[
    "password",
    "password=",
    "password: ",
    "token:",
    "token=a ",
    'key="',
    "password='x",
    "key ",
    "--token ",
    "<password>",
  ],
  ...["://", "a://b:c", "a://b:c@", "-----BEGIN PRIVATE KEY-----", `-----BEGIN PRIVATE KEY-----${filler(24)} `],
  ...["basic AAAAAA ", "bearer ", "curl -u ", "curl -u a:b ", "cookie: a", "authorization: a", "_auth="],
  ...[
    "4111 1111 1111 1111 ",
    "4111111111111111 ",
    "4111",
    "DE89",
    "DE89 3704 ",
    "+1",
    "+14155552671 ",
    "(415) 555-2671 ",
  ],
  ...[
    "tel ",
    "tel 0",
    "tel 0301234567 ",
    "dob ",
    "dob 1",
    "ssn ",
    "ssn 1",
    "123-45-6789 ",
    "cpf 1",
    "passport a",
    "x [at] b.c ",
  ],
  ...[
    "%",
    "%4",
    "%40",
    "%2540",
    "&#64;",
    "&a",
    "\\u0040",
    "\\",
    "\\n",
    "\u200b",
    "４",
    "é",
    "👩‍👩",
    "\u0660",
    "\u001b[0m",
  ],
  ...[
    "QUJDREVGR0hJ",
    "QUJDREVGR0hJ/////",
    "QUJDREVGR0hJ-----",
    "aaaaaaaaaaaa-",
    "616161616161616161616161-",
    "A-",
    "ab/",
  ],
];

test.each(UNITS.map((unit) => [unit] as const))("%j, over and over, takes linear time", (unit) => {
  const fill = (chars: number) => unit.repeat(Math.ceil(chars / unit.length)).slice(0, chars);
  timed(fill(SMALL));
  expect(timed(fill(CHARS_MAX))).toBeLessThan(ADVERSARIAL_MS_MAX);
});

test("base64 of base64 of base64 takes linear time", () => {
  let text = "john@example.com ".repeat(100_000);
  for (let depth = 0; depth < 3; depth += 1) text = base64(text);
  expect(timed(text.slice(0, CHARS_MAX))).toBeLessThan(ADVERSARIAL_MS_MAX);
});

test("all near-anchors together take linear time, and hide no secret behind them", () => {
  const secret = `ghp_${filler(36)}`;
  const text = `${UNITS.map((unit) => unit.repeat(500)).join(" ")}\n\n${secret}\n\nx@example.com`;
  expect(hide(text)).not.toContain(secret);
  expect(hide(text)).not.toContain("x@example.com");
});

test("clean text of machines is read at a speed that nobody waits for", () => {
  const text = machineText(3, CHARS_MAX);
  const best = Math.min(...Array.from({ length: 5 }, () => timed(text)));
  expect(text.length / best / 1_000).toBeGreaterThan(10);
});

test("the corpora in full", () => {
  expect(scores(5_000).filter(({ precision, recall }) => Math.min(precision, recall) < 0.99)).toEqual([]);
  expect(evasionScores(300).filter(({ isExpected, recall }) => isExpected && recall < 0.99)).toEqual([]);
  expect(survivors(10_000)).toEqual([]);
  const { megabytes, found } = falseAlarms(16 * 2 ** 20);
  expect(found.slice(Math.floor(megabytes))).toEqual([]);
});
