import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { StartupError } from "../../../src/core/errors.ts";
import { Contract } from "../../../src/targets/grpc/contract/contract.ts";
import { KINDS_SET, kindsMethod } from "./support/kinds.ts";

/** Cases in the manner of protobuf's JSON conformance tests: title, input and result. */
const anyTypes = ["kinds.v1.Detail", "kinds.v1.All.Inner", "google.protobuf.Duration", "google.protobuf.Struct"];
const echo = kindsMethod("Echo", { ...KINDS_SET, anyTypes });
const plain = kindsMethod("Echo");
const typed = (name: string, fields: object) => ({ "@type": `type.googleapis.com/${name}`, ...fields });

function sent(input: unknown, method = echo): unknown {
  const encoded = method.request.encode(input);
  return "reason" in encoded ? { refused: encoded.field } : encoded.message;
}

/** Returns the answer for these bytes, without the fields that are zero. */
function answered(hex: string, method = echo): unknown {
  const answer = method.response.decode(Buffer.from(hex, "hex")) as Record<string, unknown>;
  const zero = method.response.decode(Buffer.alloc(0)) as Record<string, unknown>;
  return Object.fromEntries(Object.entries(answer).filter(([key, value]) => !Bun.deepEquals(value, zero[key])));
}

describe("both directions", () => {
  test.each([
    ["int64 at its lowest", { big: "-9223372036854775808" }],
    ["int64 beyond what a number holds", { big: "9007199254740993" }],
    ["uint64 at its highest", { bigUnsigned: "18446744073709551615" }],
    ["64-bit keys", { byWide: { "-9223372036854775808": "a", "0": "b", "9007199254740993": "c" } }],
    ["unsigned 64-bit keys", { byUnsigned: { "18446744073709551615": "a" } }],
    [
      "64-bit keys of messages, and maps below them",
      { innerByWide: { "-1": { a: "x", flags: { "12345678": true } } } },
    ],
    ["true and false as keys", { byFlag: { true: "t", false: "f" } }],
    ["only false as a key", { byFlag: { false: "f" } }],
    ["messages in a map", { innerByName: { "": { a: "" }, __proto: { a: "z" } } }],
    ["bytes", { raw: "AAH+/w==" }],
    ["enum", { level: "LEVEL_HIGH", levels: ["LEVEL_UNSPECIFIED", "LEVEL_LOW"] }],
    ["an empty string of a oneof", { someText: "", choice: "someText" }],
    ["a oneof's number", { someNumber: "0", choice: "someNumber" }],
    ["a oneof's message", { someInner: {}, choice: "someInner" }],
    ["optional, set to its zero", { maybeFlag: false }],
    ["an optional message that is empty", { inner: {} }],
    ["a wrapper of an empty string", { maybeText: "" }],
    ["a wrapper of 64 bits", { maybeBig: "-9223372036854775808" }],
    ["time, nanoseconds", { at: "2026-11-22T01:02:03.000000001Z" }],
    ["time, microseconds", { at: "2026-11-22T01:02:03.000001Z" }],
    ["the earliest time", { at: "0001-01-01T00:00:00Z" }],
    ["the last", { at: "9999-12-31T23:59:59.999999999Z" }],
    ["duration, negative below a second", { took: "-0.500s" }],
    ["the longest duration", { took: "315576000000s" }],
    ["an empty mask", { mask: "" }],
    ["a mask", { mask: "fooBar.bazQux,x" }],
    ["a structure of all types", { open: { a: null, b: [1.5, "x", true, { c: [] }], "": {} } }],
    ["any value: string", { anything: "x" }],
    ["any value: list", { anything: [[], {}, null] }],
    ["a list", { list: [1, null, "x"] }],
    ["any message", { detail: typed("kinds.v1.Detail", { note: "x" }) }],
    ["any message with maps below it", { detail: typed("kinds.v1.All.Inner", { a: "x", flags: { "7": false } }) }],
    [
      "any of a message with a JSON form of its own",
      { detail: typed("google.protobuf.Duration", { value: "1.500s" }) },
    ],
    ["any of a structure", { detail: typed("google.protobuf.Struct", { value: { a: [1] } }) }],
    [
      "any in any, in a list",
      { details: [typed("kinds.v1.Detail", { inner: typed("kinds.v1.Detail", { note: "deep" }) })] },
    ],
  ])("%s", (_title, input) => {
    const message = sent(input);
    expect(message).toMatchObject(input);
    expect(sent(message)).toEqual(message);
    expect(echo.response.decode(echo.request.bytes(message))).toMatchObject(input);
  });

  test.each([
    ["the first of an enum's names is the one in the answer", { level: "LEVEL_SMALL" }, { level: "LEVEL_LOW" }],
    ["null is a wrapper that is not set", { maybeText: null, maybeBig: null }, {}],
    ["null in any value is a value", { anything: null }, { anything: null }],
    [
      "a short fraction is padded",
      { at: "2026-11-22T01:02:03.1Z", took: "1.5s" },
      { at: "2026-11-22T01:02:03.100Z", took: "1.500s" },
    ],
  ])("%s", (_title, input, want) => expect(sent(input)).toEqual(want));
});

describe("refused", () => {
  test.each([
    ["a 64-bit key out of range", { byWide: { "9223372036854775808": "x" } }, "byWide"],
    ["a 64-bit key with a zero before it", { byWide: { "07": "x" } }, "byWide"],
    ["a word as a 64-bit key", { byWide: { seven: "x" } }, "byWide"],
    ["a negative unsigned key", { byUnsigned: { "-1": "x" } }, "byUnsigned"],
    ["a key that is neither true nor false", { byFlag: { yes: "x" } }, "byFlag"],
    ["an empty key for false", { byFlag: { "": "x" } }, "byFlag"],
    ["both spellings of false", { byFlag: { "": "x", false: "y" } }, "byFlag"],
    ["the proto's own name of a renamed field", { renamed: "x" }, "renamed"],
    ["two members of a oneof", { someText: "x", someNumber: "1" }, "some"],
    ["a second 60", { at: "2016-12-31T23:59:60Z" }, "at"],
    ["year 0", { at: "0000-01-01T00:00:00Z" }, "at"],
    ["a time before the first, by its offset", { at: "0001-01-01T00:00:00+01:00" }, "at"],
    ["a time in lower case", { at: "2026-11-22t01:02:03z" }, "at"],
    ["ten digits of a second", { at: "2026-11-22T01:02:03.0123456789Z" }, "at"],
    ["a duration that is too long", { took: "315576000001s" }, "took"],
    ["a duration without the suffix s", { took: "1.5" }, "took"],
    ["null in a list of wrappers", { levels: [null] }, "levels[0]"],
    ["a number that JSON lacks in a structure", { open: { a: Number.NaN } }, "open"],
    ["any of a type that is not declared", { detail: typed("google.protobuf.Timestamp", { value: "x" }) }, "detail"],
    ["any of a type that the contract lacks", { detail: typed("kinds.v1.Nope", {}) }, "detail"],
    ["any under another prefix", { detail: { "@type": "evil.example/kinds.v1.Detail" } }, "detail"],
    ["any without a type", { detail: { note: "x" } }, "detail"],
    ["any as its fields", { detail: { typeUrl: "type.googleapis.com/kinds.v1.Detail", value: "" } }, "detail"],
    ["any with a field its message lacks", { detail: typed("kinds.v1.Detail", { nope: 1 }) }, "detail"],
    [
      "any of its own form with more than its value",
      { detail: typed("google.protobuf.Duration", { value: "1s", note: "x" }) },
      "detail",
    ],
    ["any that is a string", { detail: "type.googleapis.com/kinds.v1.Detail" }, "detail"],
  ] as const)("%s", (_title, input, field) => {
    expect(sent(input)).toEqual({ refused: expect.stringContaining(field) });
  });

  test("any at all, where the configuration names no types", () => {
    expect(sent({ detail: typed("kinds.v1.Detail", { note: "x" }) }, plain)).toEqual({ refused: "detail" });
  });

  test("any inside any, endlessly", () => {
    let detail: object = typed("kinds.v1.Detail", {});
    for (let depth = 0; depth < 10; depth += 1) detail = typed("kinds.v1.Detail", { inner: detail });
    expect(sent({ detail })).toEqual({ refused: "detail" });
  });

  test("types that an Any may hold and the contract lacks", () => {
    const make = () => new Contract("kinds", { ...KINDS_SET, anyTypes: ["kinds.v1.Nope"] });
    expect(make).toThrow(StartupError);
    expect(make).toThrow("systems.kinds.anyTypes: the contract has no message kinds.v1.Nope");
  });
});

describe("answers", () => {
  test.each([
    ["an any of a type that is not declared: only its name", "2a070a05782f592e5a", { detail: { "@type": "x/Y.Z" } }],
    ["an any that is empty", "2a00", { detail: {} }],
    ["an enum number without a name", "880163", { level: 99 }],
    ["a packed list of what the contract has loose", "52020102", { loose: [1, 2] }],
    ["a loose list of what the contract has packed", "48014802", { packed: [1, 2] }],
    ["the last of a oneof's members", "62017868056a", "throws"],
    ["an infinity", "d901000000000000f07f", { ratio: "Infinity" }],
    ["a structure with NaN", "ba01100a0e0a016112091100000000000000f87f", "throws"],
    ["a mask that JSON cannot tell", "b201050a03466f6f", "throws"],
    ["a time out of range", "92010b088080808080808080801010", "throws"],
    ["a nanosecond out of range", "92010610ffffffff07", "throws"],
    ["a map key that is left out", "0a03120178", { byWide: { "0": "x" } }],
    ["a truth as a map key that is left out", "1a03120178", { byFlag: { false: "x" } }],
  ])("%s", (_title, hex, want) => {
    if (want === "throws") expect(() => answered(hex)).toThrow();
    else expect(answered(hex)).toEqual(want as object);
  });

  test("a small answer that becomes a large one with its default values", () => {
    // `details`, each an empty Any: two bytes make a message.
    const empty = Buffer.from("3200".repeat(1_100_000), "hex");
    expect(() => echo.response.decode(empty)).toThrow("more than 2000000 fields");
    const many = Buffer.from("3200".repeat(50_000), "hex");
    expect(echo.response.decode(many)).toMatchObject({ details: expect.objectContaining({ length: 50_000 }) });
  });

  test("a string that ends too late", () => {
    expect(() => echo.response.decode(Buffer.from("3a7f78", "hex"))).toThrow();
  });

  test("an Any of a declared type with bytes of another", () => {
    const url = Buffer.from("type.googleapis.com/kinds.v1.Detail");
    const any = Buffer.concat([Buffer.from([0x0a, url.length]), url, Buffer.from([0x12, 0x02, 0x0a, 0x7f])]);
    expect(() => echo.response.decode(Buffer.concat([Buffer.from([0x2a, any.length]), any]))).toThrow();
  });
});

const wide = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).map(String);
test("64-bit keys and values are exact to the digit", () => {
  fc.assert(
    fc.property(fc.dictionary(wide, fc.string({ unit: "binary" }), { minKeys: 1 }), wide, (byWide, big) => {
      expect(sent({ byWide, big })).toMatchObject({ byWide, big });
    }),
  );
});

test("any JSON is unchanged by a Struct", () => {
  const json = fc.dictionary(fc.string(), fc.jsonValue({ noUnicodeString: false, maxDepth: 4 }));
  fc.assert(
    fc.property(json, (open) => {
      const normal = JSON.parse(JSON.stringify(open).replaceAll("-0", "0"));
      expect(sent({ open: normal })).toEqual({ open: normal });
    }),
  );
});

test("times are exact to the nanosecond, in UTC", () => {
  const seconds = fc.integer({ min: -62_135_596_800, max: 253_402_300_799 });
  fc.assert(
    fc.property(seconds, fc.nat(999_999_999), (second, nanos) => {
      const digits = String(nanos).padStart(9, "0");
      const at = `${new Date(second * 1_000).toISOString().slice(0, 19)}.${digits}Z`;
      const time = (sent({ at }) as { readonly at: string }).at;
      expect(time.replace("Z", "").split(".")[0]).toBe(at.slice(0, 19));
      expect((time.split(".")[1] ?? "Z").replace("Z", "").padEnd(9, "0")).toBe(digits);
    }),
  );
});
