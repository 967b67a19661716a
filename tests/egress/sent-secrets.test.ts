import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { AmbiguousValue } from "../../src/core/ambiguous-value.ts";
import { BOUNDED_TEXT_LIMITS, parseAnswerJson } from "../../src/core/strict-json.ts";
import {
  bytesWithout,
  jsonWithout,
  secretsAmong,
  secretsInHeaders,
  textWithout,
} from "../../src/egress/sent-secrets.ts";

const basic = (pair: string): string => Buffer.from(pair).toString("base64");

describe("the secrets of a header", () => {
  test.each<[string, readonly string[]]>([
    ["Bearer orchid-lamp-river", ["orchid-lamp-river"]],
    ["an-api-key", ["an-api-key"]],
    ["Bearer b3JjaGlkLWxhbXA=", ["b3JjaGlkLWxhbXA"]],
    [
      `Basic ${basic("ann:orchid-lamp")}`,
      [basic("ann:orchid-lamp").replace(/=+$/, ""), "ann:orchid-lamp", "orchid-lamp"],
    ],
    [`Basic ${basic("ann:short")}`, [basic("ann:short").replace(/=+$/, ""), "ann:short"]],
    [`Basic ${basic("ann:with:colons")}`, [basic("ann:with:colons"), "ann:with:colons", "with:colons"]],
    ["Bearer short", []],
  ])("%s", (header, secrets) => {
    expect(secretsInHeaders([header])).toEqual([...secrets]);
  });

  test("the longest of several secrets is searched for first, and short ones are not searched for", () => {
    expect(secretsAmong(["river-lamp", "orchid-river-lamp", "lamp", "river-lamp"])).toEqual([
      "orchid-river-lamp",
      "river-lamp",
    ]);
  });
});

describe("a text that shows a secret", () => {
  const secret = 'ab/c+d"e\\f&g';
  const code = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
  test.each<[string, string]>([
    ["as it is", secret],
    ["as JSON", JSON.stringify(secret).slice(1, -1)],
    ["as JSON in JSON", JSON.stringify(JSON.stringify(secret).slice(1, -1)).slice(1, -1)],
    ["with an escaped slash", JSON.stringify(secret).slice(1, -1).replace("/", "\\/")],
    ["with a code for each character", [...secret].map(code).join("")],
    [
      "with codes in capital letters",
      [...secret].map((each) => code(each).toUpperCase().replace("\\U", "\\u")).join(""),
    ],
    ["with codes in JSON in JSON", JSON.stringify([...secret].map(code).join("")).slice(1, -1)],
    ["with a code for one character", JSON.stringify(secret).slice(1, -1).replace("+", "\\u002B")],
  ])("%s", (_how, spelled) => {
    expect(textWithout(`before ${spelled} after ${spelled}`, [secret])).toBe("before [REDACTED] after [REDACTED]");
    const json = `{"a":"${spelled}","b":"\\n"}`;
    expect(bytesWithout(Buffer.from(json), [secret]).toString()).toBe('{"a":"[REDACTED]","b":"\\n"}');
  });

  test("another text stays as it is, with its escapes", () => {
    for (const text of ["", "ab/c+d", 'a\\nb \\u00e4 \\u0041 \\"', "\\\\\\", 'ab/c+d\\"e\\\\f']) {
      expect(textWithout(text, [secret])).toBe(text);
      const bytes = Buffer.from(text);
      expect(bytesWithout(bytes, [secret])).toBe(bytes);
    }
  });

  test("bytes that are not UTF-8 stay as they are", () => {
    const shown = Buffer.concat([Buffer.from([0xff]), Buffer.from("pässwort-7 ü"), Buffer.from([0xfe])]);
    expect(bytesWithout(shown, ["pässwort-7"])).toEqual(
      Buffer.concat([Buffer.from([0xff]), Buffer.from("[REDACTED] ü"), Buffer.from([0xfe])]),
    );
  });

  test("no spelling of a secret in JSON is left, and the rest of the JSON stays", () => {
    const character = fc.constantFrom(..."abcXYZ019-._~+/=\"\\&<'é€ ".split(""));
    const spelling = fc.constantFrom("plain", "code", "CODE", "escape");
    const texts = fc.array(fc.tuple(character, spelling), { minLength: 8, maxLength: 40 });
    fc.assert(
      fc.property(texts, fc.string(), fc.string(), fc.nat(2), (spelled, before, after, levels) => {
        const value = spelled.map(([each]) => each).join("");
        const [searched] = secretsAmong([value]);
        fc.pre(searched !== undefined && !JSON.stringify([before, after]).includes("\\\\"));
        let text = spelled
          .map(([each, how]) => {
            if (how === "code") return code(each);
            if (how === "CODE") return code(each).toUpperCase().replace("\\U", "\\u");
            return how === "escape" && each === "/" ? "\\/" : JSON.stringify(each).slice(1, -1);
          })
          .join("");
        for (let level = 0; level < levels; level += 1) text = JSON.stringify(text).slice(1, -1);
        const json = `[${JSON.stringify(before)},"${text}",${JSON.stringify(after)}]`;
        const shown = jsonWithout(JSON.parse(json), json, [searched ?? ""]) as readonly string[];
        // Padding, and backslashes at both ends, may be left.
        expect(shown[1]?.replace(/^\\+|(?:=|\\|u003d|u005c)*$/gi, "")).toBe("[REDACTED]");
        expect([shown[0], shown[2]]).toEqual([before, after]);
      }),
      { seed: 20_261_123, numRuns: 300 },
    );
  });
});

describe("a value of JSON that shows a secret", () => {
  const without = (value: unknown): unknown => jsonWithout(value, JSON.stringify(value), ["orchid-lamp", "12345678"]);

  test("texts, keys, lists and numbers", () => {
    const shown = { "x-orchid-lamp": ["orchid-lamp", 12_345_678, 12_345_679, true, null, { a: "an orchid-lamp." }] };
    const expected = { "x-[REDACTED]": ["[REDACTED]", "[REDACTED]", 12_345_679, true, null, { a: "an [REDACTED]." }] };
    expect(without(shown)).toEqual(expected);
  });

  test("a value without a secret is the same object", () => {
    const value = { a: ["orchid", "lamp"] };
    expect(without(value)).toBe(value);
  });

  test("a member named __proto__ stays a member", () => {
    const text = '{"__proto__":{"a":"orchid-lamp"}}';
    expect(JSON.stringify(jsonWithout(JSON.parse(text), text, ["orchid-lamp"]))).toBe(
      '{"__proto__":{"a":"[REDACTED]"}}',
    );
  });

  test("very deep values are redacted whole", () => {
    let value: unknown = "orchid-lamp";
    for (let depth = 0; depth < 1_000; depth += 1) value = [value];
    expect(JSON.stringify(without(value))).toMatch(/^\[{64,65}"\[REDACTED\]"\]+$/);
  });
});

test("values that readers of JSON read differently: the digits of a number, and what is inside", () => {
  const text = '{"pin":12345678901234567,"a":0,"a":{"k":"x-secret-0123"},"n":98765432109876543}';
  const value = parseAnswerJson(text, BOUNDED_TEXT_LIMITS);
  const shown = jsonWithout(value, text, ["12345678901234567", "secret-0123"]) as Record<string, unknown>;
  expect([shown["pin"], String(shown["n"])]).toEqual(["[REDACTED]", "98765432109876543"]);
  expect(AmbiguousValue.factsOf(shown["a"] as AmbiguousValue).reading).toEqual({ k: "x-[REDACTED]" });
});
