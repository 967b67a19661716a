import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { z } from "zod";
import { linearTest } from "../../../src/core/pattern/match.ts";

const LONG = 20_000;
/** Not a literal, which the compiler would read as a back reference. */
const OCTAL = "\\103|\\9";
/** Much more than linear time on a busy machine, and much less than quadratic time. */
const SLOW_MS = 15_000;

function elapsedMs(work: () => void): number {
  const begun = performance.now();
  work();
  return performance.now() - begun;
}

/** Returns the result; undefined for a RangeError, with which the value is refused. */
function answer(matches: (text: string) => boolean, text: string): boolean | undefined {
  try {
    return matches(text);
  } catch (error) {
    expect(error).toBeInstanceOf(RangeError);
    return undefined;
  }
}

/** Returns undefined for a pattern that is an error, such as a reference to a missing group with the flag u. */
function valid(source: string, flags: string): RegExp | undefined {
  try {
    return new RegExp(source, flags);
  } catch {
    return undefined;
  }
}

describe("the time grows no faster than the text", () => {
  const as = "a".repeat(LONG);
  const spaces = " ".repeat(LONG);
  test.each([
    [/^(a+)+$/, `${as}!`],
    [/^(a|a)*$/, `${as}!`],
    [/^(a|aa)+$/, `${as}!`],
    [/^(a*)*b$/, as],
    [/^(\w+\s?)*$/, `${as}!`],
    [/^\s+|\s+$/, `x${spaces}x`],
    [/(.*)*x/s, as],
    [/a.*b.*c.*d$/, as],
    [/^(?=(a+)+$)/, `${as}!`],
    [/(?<!(a+)+b)c/, as],
    [/^(?!(.*a){20}).*b/, as],
    [
      /^([a-zA-Z0-9])(([-.]|[_]+)?([a-zA-Z0-9]+))*(@){1}[a-z0-9]+[.]{1}(([a-z]{2,3})|([a-z]{2,3}[.]{1}[a-z]{2,3}))$/,
      as,
    ],
    [/^(?:a?){200}a{200}$/, "a".repeat(300)],
    [/^(?:\p{Extended_Pictographic}|\p{Emoji_Component})+$/u, `${"\u{1f9b0}".repeat(LONG)}x`],
    [/^(a+)+\1$/, `${"a".repeat(4_000)}!`],
    [/(a|b)*a(a|b){12}$/, `${"ab".repeat(LONG / 2)}c`],
    [/(.+)b?\1\1x/iu, "ſs".repeat(2_000)],
    [/(?:){4000000000}a*a*b/, "x"],
  ])("%p", (pattern, text) => {
    const matches = linearTest(pattern);
    expect(elapsedMs(() => answer(matches, text))).toBeLessThan(SLOW_MS);
  });

  test("a text that needs more steps than a pattern's budget has no result", () => {
    const matches = linearTest(/(?:a|b)*a(?:a|b){400}c$/);
    let seed = 1;
    const text = Array.from({ length: 200_000 }, () => {
      seed = (seed * 48_271) % 2_147_483_647;
      return seed % 2 === 0 ? "a" : "b";
    }).join("");
    expect(() => matches(text)).toThrow("too many steps");
  });
});

describe("a pattern means the same as in the runtime", () => {
  const FORMATS = Object.values(z.regexes).flatMap((known) => (known instanceof RegExp ? [known] : []));
  const texts = [
    ...["", " x ", "x\n", "the The end"],
    ..."a A-1 ada@example.org ada.b+c@mail.example.co @x a@b 2026-11-22 2024-02-30 2026/11/22 1.2.3.4 ::1 fe80::1".split(
      " ",
    ),
    ..."3f0c9a52-6b1e-4c77-9d3a-000000000001 example.org -x.org a..b aGk= P1DT2H 😀 +4912345678 12:30:00 aaa 'a'".split(
      " ",
    ),
    ..."2026-11-22T01:02:03.5Z 10.0.0.0/8 0123456789abcdef DE89370400440532013000 ſ \u212a 3x3y".split(" "),
  ];
  const ORDINARY = [
    ...[
      /^[a-z][a-z0-9-]*$/,
      /^\d{4}-\d{2}-\d{2}$/,
      /^(?=.*[a-z])(?=.*[A-Z])(?=.*\d)[^\s]{8,}$/,
      /^v?\d+\.\d+\.\d+(?:-[\w.]+)?(?:\+[\w.]+)?$/,
    ],
    ...[
      /^$/,
      /a|b/,
      /^(?:)$/,
      /^.{0,65535}$/,
      /\bfoo\b/i,
      /^\S+@\S+\.\S+$/,
      /^[\p{L}\p{M}'’ -]+$/u,
      /^[\p{L}--[a-z]]$/v,
      /^\w$/iu,
      /^[\w-]$/i,
    ],
    ...[
      /^(\d{4})([-/.])\d\d\2\d\d$/,
      /^(?!.*(.)\1{2}).*$/,
      /^(["']?)\w*\1$/,
      /\b(?<word>\w+) \k<word>\b/i,
      /(?<=\1x(\d))y/,
    ],
    ...[
      /(?<=@)[\w.]+$/,
      /(?<!\d)\d{2}(?!\d)/,
      /^x*?$/m,
      /^(?i:a)b$/,
      /\x41|\u0042|\cJ|\0/,
      new RegExp(OCTAL),
      /^\u{1f600}$/u,
      /^[😀]$/u,
      /^{}]$/,
      /a{,2}/,
    ],
  ];

  test.each([...FORMATS, ...ORDINARY].map((pattern) => [pattern] as const))("%p", (pattern) => {
    const matches = linearTest(pattern);
    for (const text of texts) expect([text, matches(text)]).toEqual([text, new RegExp(pattern).test(text)]);
  });

  const leaf = fc.constantFrom(
    ..."a b A . ^ $ \\b \\B \\d \\w \\s \\W [ab] [^a] [a-c\\d] [] [^] \\n \\u0061 \\u2028 é 😀 ſ k \\/ - (?:) \\1 \\2".split(
      " ",
    ),
  );
  const sources = fc.letrec<{ node: string }>((tie) => ({
    node: fc.oneof(
      { maxDepth: 4, withCrossShrink: true },
      { weight: 4, arbitrary: leaf },
      { weight: 3, arbitrary: fc.tuple(tie("node"), tie("node")).map(([a, b]) => a + b) },
      { weight: 2, arbitrary: fc.tuple(tie("node"), tie("node")).map(([a, b]) => `(${a}|${b})`) },
      {
        weight: 3,
        arbitrary: fc
          .tuple(tie("node"), fc.constantFrom("*", "+", "?", "*?", "{2}", "{0,2}", "{1,}", "{0}"))
          .map(([a, sign]) => `(?:${a})${sign}`),
      },
      {
        weight: 1,
        arbitrary: fc
          .tuple(tie("node"), fc.constantFrom("?=", "?!", "?<=", "?<!", "?i:", "?-i:", "?s:", "?m-i:"))
          .map(([a, sign]) => `(${sign}${a})`),
      },
    ),
  })).node;

  test("random patterns and texts", () => {
    const characters = fc.constantFrom(...[..."abAc1 \n\u2028é😀ſk\u212a-"], "\ud83d");
    const text = fc.array(characters, { maxLength: 6 }).map((parts) => parts.join(""));
    fc.assert(
      fc.property(
        sources,
        fc.constantFrom("", "i", "m", "s", "u", "iu", "v", "imsu", "y", "g"),
        fc.array(text, { minLength: 1, maxLength: 4 }),
        (source, flags, values) => {
          const pattern = valid(source, flags);
          fc.pre(pattern !== undefined);
          const matches = linearTest(pattern);
          for (const value of values) {
            pattern.lastIndex = 0;
            expect([value, matches(value)]).toEqual([value, pattern.test(value)]);
          }
        },
      ),
      { seed: 15, numRuns: 800 },
    );
  });
});
