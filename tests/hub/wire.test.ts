import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { decodeWire, encodeWire, WireError } from "../../src/hub/wire.ts";

const sent = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 5 },
    fc.constant(null),
    fc.boolean(),
    fc.string({ unit: "binary" }),
    fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => (Object.is(value, -0) ? 0 : value)),
    fc.uint8Array({ maxLength: 40 }),
    fc.array(tie("value"), { maxLength: 4 }),
    fc.dictionary(
      fc.oneof(
        fc.constantFrom("$bytes", "$$bytes", "$$$bytes", "constructor", "toString", "prototype"),
        fc.string().filter((key) => key !== "__proto__"),
      ),
      tie("value"),
      { maxKeys: 4, noNullPrototype: true },
    ),
  ),
}));

const deep = (levels: number): unknown => {
  let value: unknown = [];
  for (let level = 1; level < levels; level += 1) value = [value];
  return value;
};

describe("what a member and its hub send", () => {
  test("plain data and bytes arrive as they were sent", () => {
    fc.assert(
      fc.property(sent.value, (value) => {
        const text = encodeWire(value);
        expect(decodeWire(text)).toEqual(value);
        expect(decodeWire(new TextEncoder().encode(text))).toEqual(value);
      }),
    );
  });

  test("any text is either read or refused with a WireError, and no prototype changes", () => {
    const texts = fc.oneof(
      fc.uint8Array({ maxLength: 200 }),
      fc.string({ maxLength: 200 }),
      fc.json(),
      sent.value.map((value) => encodeWire(value).replaceAll("toString", "__proto__")),
    );
    fc.assert(
      fc.property(texts, (text) => {
        try {
          const value = decodeWire(text);
          expect(encodeWire(value)).toBeString();
          if (typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array)) {
            expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
          }
        } catch (error) {
          expect(error).toBeInstanceOf(WireError);
        }
      }),
    );
    expect(Object.keys(Object.prototype)).toEqual([]);
  });

  test("a member that is undefined is left out; in a list, it is null", () => {
    expect(encodeWire({ a: undefined, b: [undefined] })).toBe('{"b":[null]}');
  });

  test.each([
    ["a Map", new Map()],
    ["a Set within", { a: [new Set()] }],
    ["a date", new Date(0)],
    ["a bigint", 1n],
    ["not a number", Number.NaN],
    ["infinity", [Number.POSITIVE_INFINITY]],
    ["a function", () => 1],
    ["129 levels", deep(129)],
    ["a key __proto__", JSON.parse('{"__proto__":1}')],
  ])("%s is not sent", (_title, value) => {
    expect(() => encodeWire(value)).toThrow(WireError);
  });

  test.each([
    ["__proto__", '{"a":{"__proto__":{"polluted":1}}}', "the key __proto__"],
    ["bytes with other members", '{"$bytes":"AA==","b":1}', "bytes with other members"],
    ["bytes that are not base64", '{"$bytes":"A"}', "bytes that are not base64"],
    ["bytes that are no text", '{"$bytes":{}}', "bytes that are not base64"],
    ["129 levels", "[".repeat(129) + "]".repeat(129), "deeper than 128 levels"],
    ["a text that is not JSON", "{", "not JSON in UTF-8"],
    ["a text over the limit", `"${"x".repeat(100)}"`, "over 100 bytes"],
  ])("%s is refused", (_title, text, message) => {
    expect(() => decodeWire(text, 100 + (text.startsWith("[") ? 200 : 0))).toThrow(message);
  });

  test("a value over the limit is not sent", () => {
    expect(() => encodeWire("ä".repeat(60), 100)).toThrow("over 100 bytes");
    expect(encodeWire(deep(128))).toBeString();
  });
});
