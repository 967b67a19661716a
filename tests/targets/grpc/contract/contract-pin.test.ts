import { describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { Contract, contractReport } from "../../../../src/targets/grpc/contract/contract.ts";
import { KINDS_PROTO, KINDS_SET, kindsTarget } from "../support/kinds.ts";
import { LAB_PROTO_FOLDER } from "../support/lab.ts";
import { labTool } from "../support/tool.ts";

const BEFORE = `syntax = "proto3";
package p;
import "google/protobuf/any.proto";
service S {
  rpc Get(Q) returns (A);
  rpc Other(Unused) returns (Unused);
}
message Q {
  string id = 1;
  optional int32 page = 2;
  oneof by { string name = 3; int64 number = 4; }
}
message A { repeated Part parts = 1; Kind kind = 2; map<string, Part> by_name = 3; google.protobuf.Any detail = 4; }
message Part { sint32 weight = 1; }
message Unused { string x = 1; }
message Held { string y = 1; } enum Kind { KIND_UNSPECIFIED = 0; KIND_A = 1; }
`;

function shaOf(text: string, methods: readonly string[] = ["Get"], anyTypes: readonly string[] = []): string {
  const folder = mkdtempSync(join(tmpdir(), "stc-pin-"));
  try {
    writeFileSync(join(folder, "p.proto"), text);
    const contract = new Contract("p", { protoDirs: [folder], anyTypes });
    for (const method of methods) {
      expect(contract.method({ system: "p", grpc: { package: "p", service: "S", method } })).toHaveProperty("path");
    }
    return contract.sha256();
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const edited = (from: string, to: string): string => {
  expect(BEFORE).toContain(from);
  return BEFORE.replace(from, to);
};

test("the hash is hexadecimal and always the same", () => {
  expect(shaOf(BEFORE)).toBe("c7794dc6cb98b83690a36387ad17a1107dba69886744c22edf1cbc53fd53644b");
});

test("the hashes that configurations pin stay, for proto files and descriptor sets", () => {
  const kinds = ["Echo", "Legacy", "Modern"].map((method) => kindsTarget(method));
  const lab = ["Echo", "Keys", "List"].map((method) => ({
    system: "lab",
    grpc: { package: "lab.v1", service: "Lab", method },
  }));
  const anyTypes = ["kinds.v1.Detail"];
  const rows = [
    [{ ...KINDS_SET, anyTypes }, kinds, "86b32968f87f537cc99880fcc313e285ad962ddf2027ef8331ceef30f23c4290"],
    [{ ...KINDS_PROTO, anyTypes }, kinds, "86b32968f87f537cc99880fcc313e285ad962ddf2027ef8331ceef30f23c4290"],
    [{ protoDirs: [LAB_PROTO_FOLDER] }, lab, "6f3071f40ebcb971b70173c21efed086f0d81d821d1728f844ddabbf3c797b8e"],
  ] as const;
  for (const [source, targets, sha256] of rows) {
    const contract = new Contract("pinned", source);
    for (const target of targets) expect(contract.method(target)).toHaveProperty("path");
    expect(contract.sha256()).toBe(sha256);
  }
});

describe("the same contract", () => {
  test.each([
    ["with comments and another layout", edited("string id = 1;", "/* the key */ string\nid=1; // note")],
    [
      "in another order",
      edited(
        "message Unused { string x = 1; }\nmessage Held { string y = 1; }",
        "message Held { string y = 1; }\nmessage Unused { string x = 1; }",
      ),
    ],
    [
      "with its fields in another order",
      edited("string id = 1;\n  optional int32 page = 2;", "optional int32 page = 2;\n  string id = 1;"),
    ],
    [
      "with another method, and other messages for it",
      edited("rpc Other(Unused)", "rpc Third(Held) returns (Held);\n rpc Other(Unused)"),
    ],
    ["with a field of an unused message", edited("string x = 1;", "string x = 1; string z = 2;")],
    ["with options", edited("string id = 1;", "string id = 1 [deprecated = true];")],
  ])("%s", (_title, text) => expect(shaOf(text)).toBe(shaOf(BEFORE)));

  test("whichever method was requested first", () => {
    expect(shaOf(BEFORE, ["Other", "Get"])).toBe(shaOf(BEFORE, ["Get", "Other"]));
  });
});

describe("another contract", () => {
  test.each([
    ["a number", edited("string id = 1;", "string id = 9;")],
    ["a name", edited("string id = 1;", "string key = 1;")],
    ["a type of the same JSON", edited("sint32 weight = 1;", "int32 weight = 1;")],
    ["one for many", edited("repeated Part parts", "Part parts")],
    ["whether it knows that it is set", edited("optional int32 page", "int32 page")],
    ["a oneof", edited("oneof by { string name = 3; int64 number = 4; }", "string name = 3; int64 number = 4;")],
    ["a oneof's name", edited("oneof by", "oneof through")],
    ["a map's key", edited("map<string, Part>", "map<int32, Part>")],
    ["a new field", edited("string id = 1;", "string id = 1; string more = 5;")],
    ["a value of an enum", edited("KIND_A = 1;", "KIND_A = 1; KIND_B = 2;")],
    ["a field of a message inside", edited("sint32 weight = 1;", "sint32 weight = 1; string note = 2;")],
    ["a stream", edited("returns (A);", "returns (stream A);")],
    ["another message of the same fields", edited("rpc Get(Q)", "rpc Get(Held)")],
  ])("%s", (_title, text) => expect(shaOf(text)).not.toBe(shaOf(BEFORE)));

  test("its used part, and the types that an Any may hold", () => {
    const all = [shaOf(BEFORE), shaOf(BEFORE, ["Get", "Other"]), shaOf(BEFORE, ["Get"], ["p.Held"]), shaOf(BEFORE, [])];
    expect(new Set(all).size).toBe(4);
  });
});

describe("the report", () => {
  const tool = {
    ...labTool({ method: "Legacy", output: z.object({ id: z.string() }) }),
    target: kindsTarget("Legacy"),
  };
  const bound = (source: object): Contract => {
    const contract = new Contract("kinds", { ...KINDS_SET, ...source });
    contract.method(kindsTarget("Legacy"));
    return contract;
  };
  const sha256 = bound({}).sha256();

  test("lists each contract and the fields that tools leave out", () => {
    expect(contractReport([bound({}), new Contract("other", KINDS_PROTO)], [tool])).toEqual({
      contracts: [
        { system: "kinds", origin: "descriptor set", sha256, isPinned: false },
        { system: "other", origin: "proto files", sha256: expect.stringMatching(/^[0-9a-f]{64}$/), isPinned: false },
      ],
      toolNotes: ["count", "state", "loose", "packed"].map((name) => ({
        tool: "lab_tool",
        field: `output.${name}`,
        message: "the answer has it, and the output schema leaves it out",
      })),
      problems: [],
    });
  });

  test("accepts the pinned contract, and refuses another with both hashes", () => {
    expect(contractReport([bound({ contractSha256: sha256 })], [])).toMatchObject({
      contracts: [{ isPinned: true }],
      problems: [],
    });
    const pinned = "0".repeat(64);
    const { problems } = contractReport([bound({ contractSha256: pinned })], []);
    expect(problems).toEqual([
      expect.stringContaining(`pinned sha256:${pinned}, the descriptor set now gives sha256:${sha256}`),
    ]);
    expect(problems[0]).toStartWith("systems.kinds.contractSha256: ");
    expect(problems[0]).toEndWith("pin the new hash");
  });
});
