import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { Contract, type Method } from "../../../../src/targets/grpc/contract/contract.ts";
import { LAB_PROTO_FOLDER } from "../support/lab.ts";

const contract = new Contract("lab", { protoDirs: [LAB_PROTO_FOLDER] });

function method(name: string): Method {
  const found = contract.method({ system: "lab", grpc: { package: "lab.v1", service: "Lab", method: name } });
  if (typeof found === "string") throw new Error(found);
  return found;
}

const echo = method("Echo");

/** Returns the message as the service reads it, or the field that was refused. */
function sent(input: unknown): unknown {
  const encoded = echo.request.encode(input);
  return "reason" in encoded ? { refused: encoded.field } : encoded.message;
}

/** All fields but `flag`, and those of which null is a value. */
const NULLS = {
  ...Object.fromEntries([...echo.requestShape.fields.keys()].map((name) => [name, null])),
  flag: true,
  anyValue: undefined,
};

describe("messages that arrive unchanged", () => {
  test.each([
    ["nothing", {}],
    [
      "proto defaults, said aloud",
      { text: "", flag: false, small: 0, twofold: 0, color: "COLOR_UNSPECIFIED", big: "0" },
    ],
    ["text beyond ASCII", { text: "Zoë 王小明 👩‍👩‍👧 \u0000 \ufeff" }],
    ["bytes", { raw: "aGk=" }],
    ["numbers at their bounds", { small: -2147483648, smallUnsigned: 4294967295, big: "-9223372036854775808" }],
    ["unsigned numbers at their bounds", { bigUnsigned: "18446744073709551615", bigFixed: "18446744073709551615" }],
    [
      "nested messages",
      { node: { label: "a", children: [{ label: "b", kind: "LEAF" }] }, nodes: [{}, { label: "c" }] },
    ],
    ["lists", { texts: ["", "b"], colors: ["RED", "NEGATIVE"] }],
    ["maps", { labels: { "": "x", "a b": "" }, nodeByName: { n: { label: "l" } }, colorByNumber: { "-3": "RED" } }],
    ["a key that objects treat specially", JSON.parse('{"labels":{"__proto__":"x","constructor":"y"}}')],
    ["an optional that is set to its default", { maybe: "", maybeBig: "0" }],
    ["a time", { at: "2026-11-21T22:00:00Z", times: ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999Z"] }],
    ["a time before 1970", { at: "1815-12-10T00:00:00.500Z" }],
    ["durations", { took: "1.500s", durationByName: { a: "-0.000000001s", b: "0s" } }],
    ["wrapped scalars", { wrappedText: "", wrappedBig: "5", wrappedFlag: false }],
    ["a field mask", { mask: "customer.fullName,email" }],
    ["open structures", { open: { a: null, b: [1, "x", { c: true }], d: {} }, anyValue: [null, -0.5] }],
  ])("%s", (_title, input) => {
    const message = sent(input);
    expect(message).toMatchObject(input as object);
    expect(sent(message)).toEqual(message);
  });

  test.each([
    ["an enum by number", { color: 1, colors: [-2] }, { color: "RED", colors: ["NEGATIVE"] }],
    ["another name of the same enum value", { alias: "ALIAS_UNO" }, expect.anything()],
    ["a safe number for 64 bits", { big: 9007199254740991 }, { big: "9007199254740991" }],
    ["the nearest float", { single: 0.1 }, { single: Math.fround(0.1) }],
    ["empty containers", { texts: [], labels: {} }, {}],
    ["a field that is undefined", { text: undefined, flag: true }, { flag: true }],
    ["null for a field of any kind", NULLS, { flag: true }],
    ["null below a field", { node: { label: null, children: null } }, { node: {} }],
    ["null for a oneof's other member", { phone: "x", person: null }, { phone: "x", contact: "phone" }],
    ["null for any value", { anyValue: null }, { anyValue: null }],
    ["an offset", { at: "2026-11-22T00:00:00.120+02:00" }, { at: "2026-11-21T22:00:00.120Z" }],
    ["the true name of the oneof's member", { phone: "x", contact: "phone" }, { phone: "x", contact: "phone" }],
  ])("%s", (_title, input, want) => expect(sent(input)).toEqual(want));
});

describe("messages that would be lost or changed are refused", () => {
  test.each([
    ["an unknown key", { texxt: "a" }, "texxt"],
    ["the proto spelling of a key", { small_unsigned: 5 }, "small_unsigned"],
    ["an unknown nested key", { node: { children: [{}, { lable: "x" }] } }, "node.children[1].lable"],
    ["an unknown key in a map's value", { nodeByName: { secret: { lable: "x" } } }, "nodeByName.{entry}.lable"],
    ["an inherited name", { toString: "x" }, "toString"],
    ["a number for a string", { text: 42 }, "text"],
    ["a lone surrogate", { text: "a\ud800" }, "text"],
    ["a string for a number", { small: "5" }, "small"],
    ["a fraction for an integer", { small: 1.5 }, "small"],
    ["a number over 32 bits", { small: 2147483648 }, "small"],
    ["a negative unsigned number", { smallUnsigned: -1 }, "smallUnsigned"],
    ["a number over 64 bits", { big: "9223372036854775808" }, "big"],
    ["a negative unsigned 64-bit number", { bigUnsigned: "-1" }, "bigUnsigned"],
    ["an unsafe number for 64 bits", { big: 2 ** 53 }, "big"],
    ["a padded 64-bit string", { big: "007" }, "big"],
    ["words for a 64-bit number", { big: "many" }, "big"],
    ["hexadecimal for a 64-bit number", { big: "0x10" }, "big"],
    ["not a number", { twofold: Number.NaN }, "twofold"],
    ["infinity", { twofold: Number.POSITIVE_INFINITY }, "twofold"],
    ["the word infinity", { twofold: "Infinity" }, "twofold"],
    ["a float out of range", { single: 1e39 }, "single"],
    ["a string for a boolean", { flag: "false" }, "flag"],
    ["a number for a boolean", { flag: 1 }, "flag"],
    ["an unknown enum name", { color: "PINK" }, "color"],
    ["an unknown enum number", { color: 7 }, "color"],
    ["the enum's number as a string", { color: "1" }, "color"],
    ["an unknown enum name in a list", { colors: ["RED", "PINK"] }, "colors[1]"],
    ["bytes without padding", { raw: "aGk" }, "raw"],
    ["bytes that are not base64", { raw: "!!" }, "raw"],
    ["bytes as numbers", { raw: [1, 2] }, "raw"],
    ["null for a field that the message does not have", { texxt: null }, "texxt"],
    ["null for a oneof's name", { contact: null }, "contact"],
    ["null as a map's value", { labels: { a: null } }, "labels.{entry}"],
    ["null in a list", { nodes: [null] }, "nodes"],
    ["a list for a message", { node: [] }, "node"],
    ["a string for a message", { node: "x" }, "node"],
    ["a string for a list", { texts: "x" }, "texts"],
    ["an object for a list", { texts: { 0: "x" } }, "texts"],
    ["a list for a map", { labels: ["x"] }, "labels"],
    ["a number in a map of strings", { labels: { a: 1 } }, "labels.{entry}"],
    ["a word as a number's key", { colorByNumber: { red: "RED" } }, "colorByNumber.{entry}"],
    ["two spellings of one key", { colorByNumber: { 1: "RED", "01": "RED" } }, "colorByNumber"],
    ["two members of one oneof", { phone: "x", person: {} }, "phone"],
    ["a false name of the oneof's member", { phone: "x", contact: "person" }, "contact"],
    ["a made-up oneof", { maybe: "x", _maybe: "maybeBig" }, "_maybe"],
    ["a time that does not exist", { at: "2026-02-30T00:00:00Z" }, "at"],
    ["an hour that does not exist", { at: "2026-02-03T24:00:00Z" }, "at"],
    ["a time without a zone", { times: ["2026-02-03T00:00:00"] }, "times[0]"],
    ["a time as separate fields", { at: { seconds: 5 } }, "at"],
    ["a date object", { at: new Date(0) }, "at"],
    ["a duration in words", { took: "1 second" }, "took"],
    ["a wrapped scalar in its wrapper", { wrappedText: { value: "x" } }, "wrappedText.value"],
    ["a wrapped scalar of the wrong type", { wrappedBig: true }, "wrappedBig"],
    ["a field mask in proto spelling", { mask: "full_name" }, "mask"],
    ["a structure with a function", { open: { f: () => 1 } }, "open"],
    ["a list for the whole message", [], ""],
    ["a string for the whole message", "x", ""],
    ["null for the whole message", null, ""],
  ])("%s", (_title, input, field) =>
    expect(sent(input)).toEqual({ refused: expect.stringMatching(startingWith(field)) }),
  );

  test.each([
    ["a string for a list", { node: { children: "x" } }, "node.children", "must be a list"],
    ["a string for a message in a list", { nodes: [{}, "x"] }, "nodes[1]", "must be an object"],
    ["a string for a map", { labels: "x" }, "labels", "must be an object"],
    ["a word as a number's key", { colorByNumber: { red: "RED" } }, "colorByNumber.{entry}", "loses a key"],
    ["two members of one oneof", { person: {}, phone: "x" }, "phone", "is not the only field set of contact"],
    ["bytes that are not base64", { raw: "!!" }, "raw", "must be standard base64 with padding"],
    ["a wrapped scalar of the wrong type", { wrappedFlag: 1 }, "wrappedFlag.value", "must be true or false"],
    ["a structure that is a list", { open: [] }, "open", "is not an object"],
  ])("%s: the reason and the exact path", (_title, input, field, reason) =>
    expect(echo.request.encode(input)).toEqual({ field, reason }),
  );

  test("an unknown key names its message, and comes before other errors", () => {
    expect(echo.request.encode({ text: 5, node: { lable: "x", kind: "NOPE" } })).toEqual({
      field: "text",
      reason: "must be a string of well-formed Unicode",
    });
    expect(echo.request.encode({ node: { kind: "NOPE", lable: "x" } })).toEqual({
      field: "node.lable",
      reason: "is not a field of its message",
      message: "lab.v1.Node",
    });
  });

  test("messages inside messages are refused where readers would refuse them", () => {
    const nested = (depth: number): object => (depth === 0 ? {} : { children: [nested(depth - 1)] });
    const encoded = echo.request.encode({ node: nested(99) });
    if ("reason" in encoded) throw new Error(encoded.reason);
    expect(() => echo.response.decode(encoded.bytes)).not.toThrow();
    expect(sent({ node: nested(100) })).toEqual({ refused: "node" });
  });

  test("a cycle", () => {
    const node: { children: unknown[] } = { children: [] };
    node.children.push(node);
    expect(sent({ node })).toEqual({ refused: "node" });
  });

  test("no refusal repeats a value or a map's key", () => {
    const secret = "QQ000001C";
    for (const input of [
      { big: secret },
      { color: secret },
      { labels: { [secret]: 5 } },
      { at: secret },
      { raw: `${secret}!` },
    ]) {
      expect(JSON.stringify(echo.request.encode(input))).not.toContain(secret);
    }
  });
});

function startingWith(field: string): RegExp {
  return new RegExp(`^${field.replace(/[.[\]{}]/g, "\\$&")}`);
}

const scalar = fc.oneof(
  fc.string({ unit: "binary" }),
  fc.integer(),
  fc.double(),
  fc.boolean(),
  fc.constantFrom(
    "RED",
    "PINK",
    "2026-11-21T22:00:00Z",
    "1.500s",
    "aGk=",
    "5",
    "-1",
    "18446744073709551616",
    null,
    undefined,
  ),
);
const names = [
  ...echo.requestShape.fields.keys(),
  "texxt",
  "small_unsigned",
  "contact",
  "__proto__",
  "label",
  "children",
];
const anyInput = fc.letrec((tie) => ({
  value: fc.oneof({ depthSize: "small" }, scalar, fc.array(tie("value"), { maxLength: 3 }), tie("message")),
  message: fc.dictionary(fc.constantFrom(...names), tie("value"), { maxKeys: 5 }),
})).message;

test("any sent message decodes to its meaning, and encodes again to itself", () => {
  fc.assert(
    fc.property(anyInput, (input) => {
      const encoded = echo.request.encode(input);
      if ("reason" in encoded) return;
      const again = echo.request.encode(encoded.message);
      expect(again).toEqual(encoded);
      expect(echo.request.bytes(encoded.message)).toEqual(encoded.bytes);
      expect(meaningOf(encoded.message)).toEqual(meaningOf(input));
    }),
    { numRuns: 1_000 },
  );
});

/** Returns values in one spelling: the codec may change the spelling of 64-bit numbers, enums and fractions of floats, and may omit values. */
function meaningOf(value: unknown, key = ""): unknown {
  if (Array.isArray(value)) return value.map((item) => meaningOf(item, key));
  if (typeof value === "object" && value !== null) {
    const inner = Object.entries(value)
      .filter(
        ([name, item]) =>
          name !== "contact" && item !== undefined && (item !== null || name === "anyValue" || key === "open"),
      )
      .map(([name, item]): [string, unknown] => [name, meaningOf(item, name)]);
    return Object.fromEntries(inner.filter(([, item]) => !isEmpty(item)));
  }
  if (key === "single" && typeof value === "number") return Math.fround(value) + 0;
  const special = /^(big|maybeBig|wrappedBig|color|alias|kind)/.test(key);
  if (special)
    return (
      {
        RED: "1",
        NEGATIVE: "-2",
        ALIAS_UNSPECIFIED: "0",
        ALIAS_ONE: "1",
        ALIAS_UNO: "1",
        COLOR_UNSPECIFIED: "0",
        KIND_UNSPECIFIED: "0",
        LEAF: "1",
      }[String(value)] ?? String(value)
    );
  return value === 0 ? 0 : value;
}

function isEmpty(value: unknown): boolean {
  return typeof value === "object" && value !== null && Object.keys(value).length === 0;
}

describe("answers", () => {
  test("unset fields have their defaults, without marks of protobuf's own", () => {
    const answer = echo.response.decode(Buffer.alloc(0)) as Record<string, unknown>;
    expect(answer).toMatchObject({
      text: "",
      big: "0",
      raw: "",
      color: "COLOR_UNSPECIFIED",
      texts: [],
      labels: {},
      at: null,
    });
    expect(Object.keys(answer)).not.toContain("maybe");
    expect(echo.response.decode(echo.request.bytes({ maybe: "x" }))).not.toHaveProperty("_maybe");
  });

  test("unknown fields are ignored", () => {
    const unknownField = Buffer.from([0xfa, 0x7f, 0x02, 0x68, 0x69]);
    expect(echo.response.decode(Buffer.concat([echo.request.bytes({ text: "a" }), unknownField]))).toMatchObject({
      text: "a",
    });
  });

  test("values that are not JSON become a text", () => {
    const nan = Buffer.from([0x59, 0, 0, 0, 0, 0, 0, 0xf8, 0x7f]);
    expect(echo.response.decode(nan)).toMatchObject({ twofold: "NaN" });
  });

  test.each([
    ["an unknown wire type", Buffer.from([0x0f])],
    [
      "a time out of range",
      Buffer.from([0xca, 0x01, 0x0a, 0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0, 0]),
    ],
    ["endless nesting", nested(20_000)],
  ])("%s: throws", (_title, bytes) => expect(() => echo.response.decode(bytes)).toThrow());

  test("hostile bytes give JSON or an error", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 }), (bytes) => {
        try {
          JSON.stringify(echo.response.decode(Buffer.from(bytes)));
        } catch (error) {
          expect(error).toBeInstanceOf(Error);
        }
      }),
    );
  });
});

function nested(depth: number): Buffer {
  let bytes = Buffer.alloc(0);
  for (let level = 0; level < depth; level += 1) {
    const length: number[] = [];
    for (let left = bytes.length; ; left = Math.floor(left / 128)) {
      if (left < 128) {
        length.push(left);
        break;
      }
      length.push((left % 128) | 0x80);
    }
    bytes = Buffer.concat([Buffer.from([0x12, ...length]), bytes]);
    if (bytes.length > 60_000) break;
  }
  return Buffer.concat([Buffer.from([0x72]), varint(bytes.length), bytes]);
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  let left = value;
  while (left > 127) {
    bytes.push((left % 128) | 0x80);
    left = Math.floor(left / 128);
  }
  return Buffer.from([...bytes, left]);
}
