import { afterAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import protobuf from "protobufjs";
import { canonical } from "../../../../src/core/digest.ts";
import { Contract, type Method } from "../../../../src/targets/grpc/contract/contract.ts";

const INTEGERS = {
  int32: [-(2n ** 31n), 2n ** 31n - 1n],
  sint32: [-(2n ** 31n), 2n ** 31n - 1n],
  sfixed32: [-(2n ** 31n), 2n ** 31n - 1n],
  uint32: [0n, 2n ** 32n - 1n],
  fixed32: [0n, 2n ** 32n - 1n],
  int64: [-(2n ** 63n), 2n ** 63n - 1n],
  sint64: [-(2n ** 63n), 2n ** 63n - 1n],
  sfixed64: [-(2n ** 63n), 2n ** 63n - 1n],
  uint64: [0n, 2n ** 64n - 1n],
  fixed64: [0n, 2n ** 64n - 1n],
} as const;

type Kind = keyof typeof INTEGERS | "string" | "bool" | "bytes" | "float" | "double" | "Level";
const INTEGER_KINDS = Object.keys(INTEGERS) as (keyof typeof INTEGERS)[];
const KINDS: readonly Kind[] = [...INTEGER_KINDS, "string", "bool", "bytes", "float", "double", "Level"];
const KEYS = [...INTEGER_KINDS, "string", "bool"] as const;
const LEVELS = ["NONE", "LOW", "HIGH"];

const name = (start: string, kind: string): string => start + kind[0]?.toUpperCase() + kind.slice(1);

function wideFields(): string {
  return Array.from({ length: 500 }, (_, at) => `bool w${at} = ${at + 10};`).join(" ");
}

/** Every kind of field, each of every type, and messages in all of them. */
function protoText(): string {
  let number = 0;
  const next = (): number => {
    number += number === 15 ? 100 : 1;
    return number;
  };
  const inner = ["Inner"];
  const lines = [
    ...[...KINDS, ...inner].map((kind) => `${kind} ${name("one", kind)} = ${next()};`),
    ...KINDS.map((kind) => `optional ${kind} ${name("maybe", kind)} = ${next()};`),
    ...[...KINDS, ...inner].map((kind) => `repeated ${kind} ${name("many", kind)} = ${next()};`),
    ...INTEGER_KINDS.map((kind) => `repeated ${kind} ${name("loose", kind)} = ${next()} [packed = false];`),
    ...KEYS.map((kind) => `map<${kind}, string> ${name("by", kind)} = ${next()};`),
    ...[...KINDS, ...inner].map((kind) => `map<string, ${kind}> ${name("of", kind)} = ${next()};`),
    `oneof choice { ${[...KINDS, ...inner].map((kind) => `${kind} ${name("choose", kind)} = ${next()};`).join(" ")} }`,
  ];
  return `syntax = "proto3"; package every.v1; import "google/protobuf/any.proto"; enum Level { ${LEVELS.map((level, at) => `${level} = ${at};`).join(" ")} }
    message Inner { string a = 1; Inner below = 2; repeated int32 numbers = 3; }
    message Flat { string b = 1; repeated Leaf leaves = 2; double ratio = 3; Level level = 4; }
    message Leaf { string z = 1; int64 a = 2; bytes m = 3; }
    message Wide { repeated Wide below = 1; repeated google.protobuf.Any any = 2; oneof one { ${wideFields()} } }
    message Every { ${lines.join("\n")} }
    service S { rpc Echo(Every) returns (Every); rpc Flatly(Flat) returns (Flat); rpc Widely(Wide) returns (Wide); }`;
}

const folder = mkdtempSync(join(tmpdir(), "answer-reader-"));
afterAll(() => rmSync(folder, { recursive: true }));
writeFileSync(join(folder, "every.proto"), protoText());

function methodOf(method: string): Method {
  const contract = new Contract("every", { protoDirs: [folder], anyTypes: ["every.v1.Wide"] });
  const found = contract.method({ system: "every", grpc: { package: "every.v1", service: "S", method } });
  if (typeof found === "string") throw new Error(found);
  return found;
}

const echo = methodOf("Echo");
const flatly = methodOf("Flatly");
const widely = methodOf("Widely");
const { root } = protobuf.parse(protoText());
const theirs = root.lookupType("every.v1.Every");

type Fields = Record<string, unknown>;
const zero = echo.response.decode(Buffer.alloc(0)) as Fields;

const text = fc.string({ unit: "grapheme", maxLength: 6 });

function scalar(kind: Kind): fc.Arbitrary<unknown> {
  if (kind === "string") return text;
  if (kind === "bool") return fc.boolean();
  if (kind === "bytes") return fc.uint8Array({ maxLength: 5 }).map((bytes) => Buffer.from(bytes).toString("base64"));
  if (kind === "Level") return fc.constantFrom(...LEVELS);
  if (kind === "float") return fc.float({ noNaN: true, noDefaultInfinity: true }).map((number) => number || 0);
  if (kind === "double") return fc.double({ noNaN: true, noDefaultInfinity: true }).map((number) => number || 0);
  const [min, max] = INTEGERS[kind];
  return fc.bigInt({ min, max }).map((number) => (kind.endsWith("64") ? String(number) : Number(number)));
}

const { inner } = fc.letrec<{ inner: unknown }>((tie) => ({
  inner: fc.record({
    a: text,
    below: fc.option(tie("inner"), { depthSize: "small" }),
    numbers: fc.array(scalar("int32"), { maxLength: 2 }),
  }),
}));

const value = (kind: string): fc.Arbitrary<unknown> => (kind === "Inner" ? inner : scalar(kind as Kind));
const table = (key: fc.Arbitrary<unknown>, of: fc.Arbitrary<unknown>) =>
  fc.uniqueArray(fc.tuple(key.map(String), of), { maxLength: 3, selector: ([one]) => one }).map(Object.fromEntries);

const choices = [...KINDS, "Inner"].map((kind) =>
  value(kind).map((chosen): Fields => ({ [name("choose", kind)]: chosen, choice: name("choose", kind) })),
);

const every: fc.Arbitrary<Fields> = fc
  .tuple(
    fc.record(
      Object.fromEntries<fc.Arbitrary<unknown>>([
        ...[...KINDS, "Inner"].map((kind) => [name("one", kind), value(kind)] as const),
        ...KINDS.map((kind) => [name("maybe", kind), value(kind)] as const),
        ...[...KINDS, "Inner"].map((kind) => [name("many", kind), fc.array(value(kind), { maxLength: 3 })] as const),
        ...INTEGER_KINDS.map((kind) => [name("loose", kind), fc.array(value(kind), { maxLength: 3 })] as const),
        ...KEYS.map((kind) => [name("by", kind), table(scalar(kind), text)] as const),
        ...[...KINDS, "Inner"].map((kind) => [name("of", kind), table(text, value(kind))] as const),
      ]),
      { requiredKeys: [] },
    ),
    fc.oneof(fc.constant<Fields>({}), ...choices),
  )
  .map(([fields, choice]) => ({ ...fields, ...choice }));

/** The library's encoder reads every key except the empty one as true. */
function forTheirs({ choice: _choice, byBool, ...fields }: Fields): Fields {
  const keys = Object.entries((byBool ?? {}) as Fields).map(([key, item]) => [key === "false" ? "" : key, item]);
  return { ...fields, byBool: Object.fromEntries(keys) };
}

test("reads messages of another encoder, with every kind of field", () => {
  fc.assert(
    fc.property(every, (message) => {
      const bytes = Buffer.from(theirs.encode(theirs.fromObject(forTheirs(message))).finish());
      expect(echo.response.decode(bytes)).toEqual({ ...zero, ...message } as never);
    }),
    { numRuns: 400 },
  );
});

/** Removes unset fields, which a request omits. */
function withoutNulls(message: Fields): unknown {
  return JSON.parse(JSON.stringify(message, (_key, item: unknown) => (item === null ? undefined : item)));
}

test("another decoder reads messages of our encoder, and so do we", () => {
  const wideKeys = KEYS.filter((kind) => kind.endsWith("64")).map((kind) => name("by", kind));
  fc.assert(
    fc.property(every, (message) => {
      const encoded = echo.request.encode(withoutNulls(message));
      if ("reason" in encoded) throw new Error(`${encoded.field} ${encoded.reason}`);
      expect(echo.response.decode(encoded.bytes)).toEqual({ ...zero, ...message } as never);
      const options = { longs: String, enums: String, bytes: String, oneofs: true, defaults: true } as const;
      const read: Fields = theirs.toObject(theirs.decode(encoded.bytes), options);
      // The library returns such keys as eight characters.
      const keys = Object.keys(message).filter((key) => !wideKeys.includes(key));
      for (const key of keys) expect(read[key]).toEqual(message[key]);
    }),
    { numRuns: 300 },
  );
});

const hex = (bytes: string): Fields => echo.response.decode(Buffer.from(bytes, "hex")) as Fields;
const tag = (field: string, wireType: number): string => {
  const bytes = protobuf.Writer.create()
    .uint32(((theirs.fields[field]?.id ?? 0) << 3) | wireType)
    .finish();
  return Buffer.from(bytes).toString("hex");
};

describe("encodings that a sender may write", () => {
  test.each<readonly [string, string, Fields]>([
    [
      "numbers one by one where they are declared packed",
      `${tag("manyInt32", 0)}01${tag("manyInt32", 0)}02`,
      { manyInt32: [1, 2] },
    ],
    ["numbers packed where they are declared one by one", `${tag("looseInt32", 2)}020102`, { looseInt32: [1, 2] }],
    ["both at once", `${tag("manyInt32", 0)}01${tag("manyInt32", 2)}0102`, { manyInt32: [1, 2] }],
    ["a field twice: the last", `${tag("oneInt32", 0)}01${tag("oneInt32", 0)}02`, { oneInt32: 2 }],
    [
      "two members of a oneof: the last on the wire",
      `${tag("chooseBytes", 2)}00${tag("chooseInt32", 0)}05`,
      { chooseInt32: 5, choice: "chooseInt32" },
    ],
    [
      "an entry without its value",
      `${tag("ofInner", 2)}030a0161`,
      { ofInner: { a: { a: "", below: null, numbers: [] } } },
    ],
    [
      "a message in two parts: both",
      `${tag("oneInner", 2)}060a01611a0101${tag("oneInner", 2)}061a01021a0103`,
      { oneInner: { a: "a", below: null, numbers: [1, 2, 3] } },
    ],
    [
      "a message within a message in two parts",
      `${tag("oneInner", 2)}0512030a0161${tag("oneInner", 2)}0512031a0101`,
      { oneInner: { a: "", below: { a: "a", below: null, numbers: [1] }, numbers: [] } },
    ],
    [
      "a member of a oneof in two parts",
      `${tag("chooseInner", 2)}030a0161${tag("chooseInner", 2)}031a0101`,
      { chooseInner: { a: "a", below: null, numbers: [1] }, choice: "chooseInner" },
    ],
    [
      "a member of a oneof with another between its parts: the last part",
      `${tag("chooseInner", 2)}030a0161${tag("chooseInt32", 0)}05${tag("chooseInner", 2)}031a0101`,
      { chooseInner: { a: "", below: null, numbers: [1] }, choice: "chooseInner" },
    ],
    [
      "a value of a map in two parts",
      `${tag("ofInner", 2)}0d0a016112030a016212031a0101`,
      { ofInner: { a: { a: "b", below: null, numbers: [1] } } },
    ],
    [
      "an entry twice: the last",
      `${tag("ofInner", 2)}080a016112030a0162${tag("ofInner", 2)}080a016112031a0101`,
      { ofInner: { a: { a: "", below: null, numbers: [1] } } },
    ],
    ["an entry without its key", `${tag("byInt64", 2)}03120161`, { byInt64: { "0": "a" } }],
    ["an entry whose value comes first", `${tag("byBool", 2)}051201610801`, { byBool: { true: "a" } }],
    ["a number that an enum does not have", `${tag("oneLevel", 0)}09`, { oneLevel: 9 }],
    ["a negative number of an enum", `${tag("oneLevel", 0)}ffffffffffffffffff01`, { oneLevel: -1 }],
    ["64 bits where 32 are declared: the lower ones", `${tag("oneInt32", 0)}8180808010`, { oneInt32: 1 }],
    ["a boolean in the upper bits", `${tag("oneBool", 0)}8080808010`, { oneBool: true }],
    ["minus zero, which JSON does not have", `${tag("oneDouble", 1)}0000000000000080`, { oneDouble: 0 }],
    ["a value of another type is ignored", `${tag("oneString", 0)}05${tag("oneInt32", 2)}0161`, {}],
    ["an undeclared group", "fb7f0801fc7f", {}],
    ["text that is not well-formed", `${tag("oneString", 2)}02ff61`, { oneString: "\ufffda" }],
  ])("%s", (_title, bytes, want) => expect(hex(bytes)).toStrictEqual({ ...zero, ...want }));

  test.each([
    ["an endless varint", `${tag("oneInt64", 0)}ffffffffffffffffffff01`],
    ["a varint that is cut", `${tag("oneInt64", 0)}ff`],
    ["a fixed number that is cut", `${tag("oneDouble", 1)}00000000`],
    ["a string longer than its message", `${tag("oneInner", 2)}030a0261${"62"}`],
    ["packed numbers that end within one", `${tag("manyFixed32", 2)}0300000000`],
    ["a group that does not end", "fb7f0801"],
    ["the end of a group that did not start", "fc7f"],
    ["the end of another group", "fb7f0801f47f"],
    ["the end of another group in a group", "fb7ff37ffc7ff47f"],
    ["a field with the number 0", "0001"],
    ["a field with the number 0 in a message", `${tag("oneInner", 2)}020001`],
    ["a field with the number 0 in a map", `${tag("byInt64", 2)}020001`],
    ["a field with the number 0 in a group", "fb7f0001fc7f"],
    ["a tag of more than 32 bits", "888080808001" + "01"],
    ["a length of more than 32 bits", `${tag("oneString", 2)}818080801061`],
    ["an unknown wire type", `${tag("oneInt32", 6)}01`],
  ])("%s: throws", (_title, bytes) => expect(() => hex(bytes)).toThrow(RangeError));
});

test("a message is the same in one part and in several", () => {
  const type = root.lookupType("every.v1.Inner");
  const key = ((theirs.fields["oneInner"]?.id ?? 0) << 3) | 2;
  const written = (content: Uint8Array) => protobuf.Writer.create().uint32(key).bytes(content).finish();
  fc.assert(
    fc.property(fc.array(inner, { minLength: 1, maxLength: 3 }), (messages) => {
      const parts = messages.map((message) => type.encode(type.fromObject(message as Fields)).finish());
      const together = echo.response.decode(Buffer.from(written(Buffer.concat(parts))));
      expect(echo.response.decode(Buffer.concat(parts.map(written)))).toEqual(together);
    }),
    { numRuns: 100, seed: 15 },
  );
});

test("a flat answer that is not copied equals its copy", () => {
  const limits = { depthMax: 64, nodesMax: 500_000, bytesMax: 1_000_000 };
  const flat = fc.record({
    b: text,
    leaves: fc.array(fc.record({ z: text, a: scalar("int64"), m: scalar("bytes") }), { maxLength: 3 }),
    ratio: scalar("double"),
    level: scalar("Level"),
  });
  fc.assert(
    fc.property(flat, (message) => {
      const answer = flatly.response.decode(flatly.request.bytes(message));
      const copied = canonical(structuredClone(answer), limits);
      const spared = canonical(answer, limits);
      expect(spared.value).toBe(answer);
      expect(spared.text).toBe(copied.text);
      expect(canonical(answer, limits).value).not.toBe(answer);
    }),
    { numRuns: 200 },
  );
});

test("an answer with the service's own keys is copied", () => {
  const answer = echo.response.decode(Buffer.alloc(0));
  expect(canonical(answer, { depthMax: 64, nodesMax: 500_000, bytesMax: 1_000_000 }).value).not.toBe(answer);
});

describe("two bytes on the wire can be a message of many fields", () => {
  const field = (number: number, content: Buffer): Buffer => {
    const writer = protobuf.Writer.create().uint32((number << 3) | 2);
    return Buffer.from(writer.bytes(content).finish());
  };
  const messages = (count: number): Buffer => Buffer.alloc(2 * count, Buffer.from([0x0a, 0x00]));
  const anyOf = (content: Buffer): Buffer =>
    field(2, Buffer.concat([field(1, Buffer.from("type.googleapis.com/every.v1.Wide")), field(2, content)]));

  test("all are counted, however short the answer is", () => {
    expect(() => widely.response.decode(messages(3_000))).not.toThrow();
    expect(() => widely.response.decode(messages(6_000))).toThrow("fields");
  });

  test("including those in an Any", () => {
    expect(() => widely.response.decode(anyOf(messages(3_000)))).not.toThrow();
    expect(() => widely.response.decode(Buffer.concat([anyOf(messages(3_000)), anyOf(messages(3_000))]))).toThrow(
      "fields",
    );
  });

  test("and those of a stream's other messages", () => {
    expect(widely.response.decodeAll([messages(1), messages(2)])).toHaveLength(2);
    expect(() => widely.response.decodeAll([messages(3_000), messages(3_000)])).toThrow("fields");
    expect(() => widely.response.decode(messages(3_000))).not.toThrow();
  });
});

test("only the last field of a oneof on the wire is returned, however often another was set before", () => {
  const turns = Buffer.from("50015801500158006001", "hex");
  expect(widely.response.decode(turns)).toEqual({ any: [], below: [], one: "w2", w2: true });
});
