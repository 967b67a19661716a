import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { AmbiguousValue } from "../../src/core/ambiguous-value.ts";
import {
  parseAnswerJson,
  parseStrictJson,
  StrictJsonError,
  type StrictJsonLimits,
} from "../../src/core/strict-json.ts";

/** Whether a value that JSON.parse gave belongs to a refused class (duplicate keys cannot be seen in the value). */
function isRefusedValue(value: unknown): boolean {
  if (typeof value === "string") return !value.isWellFormed();
  if (typeof value === "number")
    return !Number.isFinite(value) || (Number.isInteger(value) && !Number.isSafeInteger(value));
  if (typeof value !== "object" || value === null) return false;
  if (Array.isArray(value)) return value.some(isRefusedValue);
  return Object.entries(value).some(
    ([key, member]) =>
      key === "__proto__" ||
      !key.isWellFormed() ||
      isRefusedValue(member) ||
      (key === "constructor" && isPrototypeHolder(member)),
  );
}

function isPrototypeHolder(value: unknown): boolean {
  return typeof value === "object" && value !== null && !Array.isArray(value) && Object.hasOwn(value, "prototype");
}

const HUGE: StrictJsonLimits = { depthMax: 512, keysMax: 1_000_000, elementsMax: 1_000_000 };
const read = (text: string) => parseStrictJson(new TextEncoder().encode(text), HUGE);

/** The value that was read, or why not. */
function outcomeOf(parse: () => unknown): { readonly value: unknown } | { readonly refused: string } {
  try {
    return { value: parse() };
  } catch (error) {
    if (error instanceof StrictJsonError) return { refused: error.reason };
    if (error instanceof SyntaxError) return { refused: "not JSON" };
    throw error;
  }
}

/** Reasons that say "this is no JSON", as opposed to "this is JSON of a refused class". */
const NOT_JSON = /^(unexpected|a raw control|a wrong escape|it begins)/;

describe("against JSON.parse", () => {
  const key = fc.oneof(
    fc.string({ unit: "binary" }),
    fc.constantFrom("__proto__", "constructor", "prototype", "toString", "0", "a"),
  );
  const value = fc.letrec((tie) => ({
    value: fc.oneof(
      { depthSize: "small" },
      fc.constantFrom(null, true, false, 0, -0, 2 ** 53, 2 ** 53 - 1, 1e21, 1e300, 5e-324),
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      fc.integer(),
      fc.string({ unit: "binary" }),
      fc.array(tie("value"), { maxLength: 5 }),
      fc.array(fc.tuple(key, tie("value")), { maxLength: 5 }).map((entries) => Object.fromEntries(entries)),
    ),
  })).value;

  test("well-formed text: accepted unless of a refused class, and equal", () => {
    fc.assert(
      fc.property(value, fc.constantFrom(0, 1, "\t"), (given, space) => {
        const text = JSON.stringify(given, null, space);
        const expected: unknown = JSON.parse(text);
        const got = outcomeOf(() => read(text));
        if (isRefusedValue(expected)) expect(got).not.toHaveProperty("value");
        else expect(got).toStrictEqual({ value: expected });
      }),
      { numRuns: 500 },
    );
  });

  const fragment = fc.constantFrom(
    ...'{}[],:"\\ \n\t01.e+-/ab',
    "true",
    "null",
    '"a"',
    '"\\u0061"',
    "\\ud800",
    "\\udc00",
    "\ufeff",
    "1e5",
    "-0",
    "\u00a0",
  );
  const soup = fc.array(fragment, { maxLength: 14 }).map((parts) => parts.join(""));
  const mutated = fc.tuple(value, fc.nat(), fragment).map(([given, at, insert]) => {
    const text = JSON.stringify(given);
    const cut = at % (text.length + 1);
    return (text.slice(0, cut) + insert + text.slice(cut + (at % 2))).toWellFormed();
  });

  test("any text: what JSON.parse refuses is refused; what is accepted is equal", () => {
    fc.assert(
      fc.property(fc.oneof(soup, mutated, fc.string({ unit: "grapheme" })), (text) => {
        const expected = outcomeOf(() => JSON.parse(text));
        const got = outcomeOf(() => read(text));
        if ("value" in got) expect(got).toStrictEqual(expected as { value: unknown });
        else if ("value" in expected) expect(got.refused).not.toMatch(NOT_JSON);
      }),
      { numRuns: 2000 },
    );
  });

  test("any two keys: refused exactly when they are the same", () => {
    const text = fc.string({ unit: "binary" });
    const escaped = (plain: string) =>
      `"${Array.from({ length: plain.length }, (_, i) => `\\u${plain.charCodeAt(i).toString(16).padStart(4, "0")}`).join("")}"`;
    fc.assert(
      fc.property(text, text, fc.boolean(), (one, two, same) => {
        const other = same ? one : two;
        if (one === "__proto__" || other === "__proto__") return;
        const got = outcomeOf(() => read(`{${JSON.stringify(one)}:1,${escaped(other)}:2}`));
        expect("refused" in got).toBe(one === other);
      }),
      { numRuns: 500 },
    );
  });

  /** What JSON.parse makes of the value. */
  const readingOf = (read: unknown): unknown => {
    if (AmbiguousValue.is(read)) return readingOf(AmbiguousValue.factsOf(read).reading);
    if (Array.isArray(read)) return read.map(readingOf);
    if (typeof read !== "object" || read === null) return read;
    return Object.fromEntries(Object.entries(read).map(([key, inner]) => [key, readingOf(inner)]));
  };
  const isUnambiguous = (read: unknown): boolean =>
    !AmbiguousValue.is(read) && (typeof read !== "object" || read === null || Object.values(read).every(isUnambiguous));

  test("an answer is read when JSON.parse reads it, and is ambiguous exactly where the strict reader refuses it", () => {
    const text = fc.oneof(
      soup,
      mutated,
      fc.tuple(value, fc.constantFrom(0, 1)).map(([given, space]) => JSON.stringify(given, null, space)),
      fc.tuple(key, value, key, value).map(([one, first, other, second]) => {
        return `{${JSON.stringify(one)}:${JSON.stringify(first)},${JSON.stringify(other)}:${JSON.stringify(second)}}`;
      }),
    );
    fc.assert(
      fc.property(text, (written) => {
        const got = outcomeOf(() => parseAnswerJson(written, HUGE));
        const expected = outcomeOf(() => JSON.parse(written));
        if (!("value" in got) || !("value" in expected)) {
          // A byte order mark is removed before, or refused.
          expect(["value" in got, "value" in expected]).toEqual([false, false]);
          return;
        }
        expect(readingOf(got.value)).toEqual(expected.value);
        const strict = outcomeOf(() => read(written));
        if (isUnambiguous(got.value) && "refused" in strict)
          expect(strict.refused).toMatch(/__proto__|a lone surrogate/);
        if (!isUnambiguous(got.value)) expect(strict).toHaveProperty("refused");
      }),
      { numRuns: 2000 },
    );
  });

  test("any bytes: a value or a StrictJsonError, never another error", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 40 }), (bytes) => void outcomeOf(() => parseStrictJson(bytes, HUGE))),
    );
  });
});
