import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { StartupError } from "../../../src/core/errors.ts";
import { Contract, type Method, type ProtoSource } from "../../../src/targets/grpc/contract/contract.ts";
import { declarationsOf, readDescriptorSet } from "../../../src/targets/grpc/contract/file-descriptors.ts";
import { descriptorSet, oneMethodFile, texts } from "./support/descriptors.ts";
import { KINDS_PROTO, KINDS_SET, kindsMethod, kindsTarget } from "./support/kinds.ts";

const setOf = (...files: readonly object[]): ProtoSource => ({
  descriptorSet: { bytes: descriptorSet(files), path: "one.binpb" },
});
const DO = { system: "lab", grpc: { package: "one", service: "S", method: "Do" } } as const;

/** Returns the method, or the reason why there is none. */
function made(source: ProtoSource): Method | string {
  try {
    return new Contract("lab", source).method(DO);
  } catch (error) {
    if (error instanceof StartupError) return error.problems.join("\n");
    throw error;
  }
}

describe("a descriptor set made by buf", () => {
  test.each(["Echo", "Legacy", "Modern"])("declares for %s the same as its proto files", (name) => {
    const [ofSet, ofFiles] = [new Contract("kinds", KINDS_SET), new Contract("kinds", KINDS_PROTO)];
    expect(ofSet.method(kindsTarget(name))).toHaveProperty("path", `/kinds.v1.Kinds/${name}`);
    ofFiles.method(kindsTarget(name));
    expect(ofSet.sha256()).toBe(ofFiles.sha256());
  });

  test.each([
    [
      "maps are objects, names are camelCase",
      "Echo",
      { byWide: { "5": "x" }, innerByName: { n: { a: "b" } }, foo1bar: "" },
    ],
    ["json_name is the name", "Echo", { otherName: "x" }],
    ["a proto3 optional knows that it is set", "Echo", { maybeFlag: false }],
    [
      "proto2: required, optional and packed",
      "Legacy",
      { id: "", count: 0, state: "STATE_OFF", packed: [1], loose: [2] },
    ],
    [
      "edition 2023: presence by feature",
      "Modern",
      { name: "", count: 0, packed: [1], loose: [2], plain: { label: "" } },
    ],
  ])("%s", (_title, name, input) => {
    for (const source of [KINDS_SET, KINDS_PROTO]) {
      const encoded = kindsMethod(name, source).request.encode(input);
      expect(encoded).toMatchObject({ message: input });
      if ("bytes" in encoded) expect(kindsMethod(name, source).response.decode(encoded.bytes)).toMatchObject(input);
    }
  });

  test("writes the same bytes as its proto files: packed and not, by edition and by option", () => {
    const rows = [
      ["Echo", { packed: [1, 300], loose: [1, 300], byFlag: { true: "t", false: "f" } }],
      ["Legacy", { id: "x", packed: [1, 300], loose: [1, 300] }],
      ["Modern", { packed: [1, 300], loose: [1, 300], plain: { label: "x" } }],
    ] as const;
    for (const [name, input] of rows) {
      const ofSet = kindsMethod(name, KINDS_SET).request.bytes(input);
      expect(ofSet.toString("hex")).toBe(kindsMethod(name, KINDS_PROTO).request.bytes(input).toString("hex"));
    }
    expect(
      kindsMethod("Echo")
        .request.bytes({ packed: [1, 2], loose: [1, 2] })
        .toString("hex"),
    ).toBe("4a02010250015002");
    expect(
      kindsMethod("Modern")
        .request.bytes({ packed: [1, 2], loose: [1, 2] })
        .toString("hex"),
    ).toBe("1a02010220012002");
  });

  test("an unset field with presence is left out of an answer; one without has its zero value", () => {
    expect(kindsMethod("Modern").response.decode(Buffer.alloc(0))).toEqual({
      count: 0,
      packed: [],
      loose: [],
      plain: null,
    });
    const id = Buffer.from([0x0a, 0x01, 0x78]);
    expect(kindsMethod("Legacy").response.decode(id)).toEqual({ id: "x", packed: [], loose: [] });
  });
});

test("a number that a closed enum lacks counts as unset, one that an open enum lacks is reported", () => {
  // `state` 9, then `loose` 5.
  const legacy = Buffer.from("0a017818092005", "hex");
  const state = Buffer.from("0a01781802", "hex");
  for (const source of [KINDS_SET, KINDS_PROTO]) {
    const { response } = kindsMethod("Legacy", source);
    expect(response.decode(legacy)).toEqual({ id: "x", packed: [], loose: [5] });
    expect(response.decode(state)).toEqual({ id: "x", packed: [], loose: [], state: "STATE_OFF" });
    expect(kindsMethod("Echo", source).response.decode(Buffer.from("880109", "hex"))).toMatchObject({ level: 9 });
  }
});

test("a closed enum in a list, a map and a oneof: unknown values are absent", () => {
  const closed = { name: "E", value: [{ name: "ZERO", number: 0 }], options: { features: { enumType: "CLOSED" } } };
  const field = { type: "TYPE_ENUM", typeName: ".one.E", label: "LABEL_OPTIONAL" };
  const entry = {
    name: "EntryEntry",
    options: { mapEntry: true },
    field: [
      { ...texts("key")[0], number: 1 },
      { ...field, name: "value", number: 2 },
    ],
  };
  const message = {
    oneofDecl: [{ name: "choice" }],
    nestedType: [entry],
    field: [
      { ...field, name: "many", number: 1, label: "LABEL_REPEATED" },
      { name: "entry", number: 2, type: "TYPE_MESSAGE", typeName: ".one.Q.EntryEntry", label: "LABEL_REPEATED" },
      { ...field, name: "one", number: 3, oneofIndex: 0 },
      { ...texts("other")[0], number: 4, oneofIndex: 0 },
    ],
  };
  const file = oneMethodFile(message, { syntax: "editions", edition: "EDITION_2023", enumType: [closed] });
  const method = new Contract("one", setOf(file)).method({
    system: "one",
    grpc: { package: "one", service: "S", method: "Do" },
  });
  if (typeof method === "string") throw new Error(method);
  const bytes = Buffer.from("0a03000900" + "12050a01611009" + "12050a01621000" + "220178" + "1809", "hex");
  const answer = { many: ["ZERO", "ZERO"], entry: { b: "ZERO" }, choice: "other", other: "x" };
  expect(method.response.decode(bytes)).toEqual(answer);
});

test("a required field that is missing is refused, and a misspelt one by its misspelling", () => {
  const { request } = kindsMethod("Legacy");
  expect(request.encode({ count: 1 })).toEqual({ field: "id", reason: "is required by the contract" });
  expect(request.encode({ idd: "x" })).toMatchObject({ field: "idd", reason: "is not a field of its message" });
});

test("a map entry that is used as a message is malformed", () => {
  const entry = { name: "E", options: { mapEntry: true }, field: texts("key", "value") };
  const field = { name: "e", number: 1, type: "TYPE_MESSAGE", typeName: ".one.Q.E", label: "LABEL_OPTIONAL" };
  expect(made(setOf(oneMethodFile({ nestedType: [entry], field: [field] })))).toBe("one.Q.e is a malformed map");
});

describe("unusable descriptor sets", () => {
  const long = { type: "TYPE_MESSAGE", label: "LABEL_REPEATED", number: 1 };
  test.each([
    ["no bytes", { descriptorSet: { bytes: new Uint8Array(), path: "x" } }, /is not a descriptor set/],
    [
      "a text",
      { descriptorSet: { bytes: Buffer.from("syntax = 3;"), path: "x" } },
      /systems\.lab\.descriptorSet \(x\): /,
    ],
    [
      "half of one",
      { descriptorSet: { bytes: descriptorSet([oneMethodFile({})]).slice(0, 30), path: "x" } },
      /descriptorSet/,
    ],
    [
      "one without its imports",
      setOf(oneMethodFile({ field: [{ name: "a", number: 1, type: "TYPE_MESSAGE", typeName: ".two.T" }] })),
      /one\.Q\.a has the unknown type \.two\.T/,
    ],
    ["no such service", setOf({ name: "a.proto" }), /the descriptor set has no service one\.S; it has none/],
    ["a name that is code", setOf(oneMethodFile({ field: texts("a=1;process.exit()//") })), /not a plain identifier/],
    [
      "a message whose name is code",
      setOf(oneMethodFile({ nestedType: [{ name: "X){}//" }] })),
      /a name is not a plain identifier/,
    ],
    [
      "an enum value whose name is code",
      setOf(oneMethodFile({ enumType: [{ name: "E", value: [{ name: "A:x", number: 0 }] }] })),
      /plain identifier/,
    ],
    [
      "a name that objects have",
      setOf(oneMethodFile({ field: texts("constructor") })),
      /every JavaScript object already has/,
    ],
    [
      "__proto__",
      setOf(oneMethodFile({ field: [{ ...texts("p")[0], jsonName: "__proto__" }] })),
      /every JavaScript object/,
    ],
    [
      "two fields of one JSON name",
      setOf(oneMethodFile({ field: texts("a_b", "aB") })),
      /one\.Q\.aB is the JSON name of two fields/,
    ],
    [
      "two fields of one number",
      setOf(oneMethodFile({ field: [...texts("a"), ...texts("b")] })),
      /one\.Q\.b has the number of another/,
    ],
    ["field number 0", setOf(oneMethodFile({ field: [{ ...texts("a")[0], number: 0 }] })), /no field number 0/],
    [
      "a group",
      setOf(
        oneMethodFile(
          { nestedType: [{ name: "G" }], field: [{ name: "g", number: 1, type: "TYPE_GROUP", typeName: ".one.Q.G" }] },
          { syntax: "proto2" },
        ),
      ),
      /one\.Q\.g is a group/,
    ],
    [
      "a malformed map",
      setOf(
        oneMethodFile({
          nestedType: [{ name: "E", options: { mapEntry: true }, field: texts("key") }],
          field: [{ name: "m", typeName: ".one.Q.E", ...long }],
        }),
      ),
      /one\.Q\.m is a malformed map/,
    ],
    [
      "a map by floats",
      setOf(
        oneMethodFile({
          nestedType: [
            {
              name: "E",
              options: { mapEntry: true },
              field: [{ name: "key", number: 1, type: "TYPE_FLOAT" }, { ...texts("a", "value")[1] }],
            },
          ],
          field: [{ name: "m", typeName: ".one.Q.E", ...long }],
        }),
      ),
      /malformed map/,
    ],
    ["an edition of the future", setOf(oneMethodFile({}, { syntax: "editions", edition: 99_997 })), /unknown edition/],
    [
      "a syntax of the future",
      setOf(oneMethodFile({}, { syntax: "proto4" })),
      /one\.proto has the unknown edition proto4/,
    ],
    [
      "a message declared twice",
      setOf(oneMethodFile({}), oneMethodFile({}, { name: "two.proto" })),
      /one\.Q is declared twice/,
    ],
  ] as const)("%s", (_title, source, text) => {
    expect(made(source as ProtoSource)).toMatch(text);
  });

  test("endlessly nested messages", () => {
    const nest = (depth: number): object =>
      depth === 0 ? { name: "M" } : { name: "M", nestedType: [nest(depth - 1)] };
    expect(made(setOf(oneMethodFile({ nestedType: [nest(70)] })))).toMatch(/nest deeper than 64|depth/);
  });

  test("a field with an internal name is not a type", () => {
    const found = made(
      setOf(
        oneMethodFile({ field: [...texts("M0"), { name: "q", number: 2, type: "TYPE_MESSAGE", typeName: ".one.Q" }] }),
      ),
    );
    if (typeof found === "string") throw new Error(found);
    expect(found.request.encode({ M0: "x", q: { M0: "y" } })).toMatchObject({ message: { M0: "x", q: { M0: "y" } } });
  });
});

test("relative type names, as some senders write them, are resolved from the inside out", () => {
  const inner = { name: "T", field: texts("inner") };
  const found = made(
    setOf(
      oneMethodFile(
        { nestedType: [inner], field: [{ name: "t", number: 1, type: "TYPE_MESSAGE", typeName: "T" }] },
        {
          messageType: [
            { name: "Q", nestedType: [inner], field: [{ name: "t", number: 1, type: "TYPE_MESSAGE", typeName: "T" }] },
            { name: "T", field: texts("outer") },
          ],
          service: [{ name: "S", method: [{ name: "Do", inputType: "Q", outputType: "one.Q" }] }],
        },
      ),
    ),
  );
  if (typeof found === "string") throw new Error(found);
  expect(found.request.encode({ t: { inner: "x" } })).toHaveProperty("message");
});

test("hostile bytes are refused with an error", () => {
  const good = (KINDS_SET.descriptorSet as { readonly bytes: Uint8Array }).bytes;
  const mutated = fc
    .array(fc.record({ at: fc.nat(good.length - 1), value: fc.nat(255) }), { minLength: 1, maxLength: 4 })
    .map((changes) => {
      const bytes = Uint8Array.from(good);
      for (const { at, value } of changes) bytes[at] = value;
      return bytes;
    });
  fc.assert(
    fc.property(fc.oneof(mutated, fc.uint8Array({ maxLength: 200 })), (bytes) => {
      try {
        const { messages } = declarationsOf(readDescriptorSet(bytes));
        for (const { fields } of messages.values()) {
          for (const name of fields.keys()) expect(name).toMatch(/^[A-Za-z_][A-Za-z0-9_]*$/);
        }
      } catch (error) {
        expect(error).toBeInstanceOf(Error);
        expect(error).not.toBeInstanceOf(ReferenceError);
        expect(error).not.toBeInstanceOf(SyntaxError);
      }
    }),
    { numRuns: 500 },
  );
});
