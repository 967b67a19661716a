import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { ManifestError, StartupError } from "../../../../src/core/errors.ts";
import { Contract } from "../../../../src/targets/grpc/contract/contract.ts";
import { grpcHandler } from "../../../../src/targets/grpc/handler.ts";
import { LAB_PROTO_FOLDER, labSystem } from "../support/lab.ts";
import { labTool, type ToolOptions } from "../support/tool.ts";

let folder = "";
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "stc-proto-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function place(name: string, files: Readonly<Record<string, string>>): string {
  const root = join(folder, name);
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(join(root, path, ".."), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  return root;
}

function problemsOf(act: () => unknown): readonly string[] {
  try {
    act();
  } catch (error) {
    if (error instanceof StartupError) return error.problems;
    if (error instanceof ManifestError) return error.faults.map((fault) => `${fault.field}: ${fault.message}`);
    throw error;
  }
  return [];
}

describe("loading", () => {
  test.each([
    ["a missing folder", "missing", {}, /systems\.lab\.proto .*missing.*ENOENT/],
    ["an empty folder", "empty", { "readme.txt": "x" }, /no \.proto file there/],
    ["a syntax error", "broken", { "a.proto": 'syntax = "proto3"; message {' }, /a\.proto.*illegal|illegal.*a\.proto/],
    [
      "a missing semicolon in one of several files",
      "semicolon",
      { "a.proto": 'syntax = "proto3";\n', "b.proto": 'syntax = "proto3";\nmessage X { string a = 1 }\n' },
      /b\.proto: illegal token .*line 2/,
    ],
    [
      "a type that is not there, beside a sound file",
      "type",
      { "a.proto": 'syntax = "proto3"; package p; message X { Nowhere a = 1; }' },
      /proto \(.*\): no such (?:type|Type)[^/]*Nowhere/,
    ],
    [
      "a construct that the parser does not know",
      "extended",
      {
        "a.proto":
          'syntax = "proto2"; message A { extensions 100; } extend A { optional group G = 100 { optional int32 x = 1; } }',
      },
      /a\.proto: .*; if protoc accepts the file, make a descriptorSet/,
    ],
    ["an import that is nowhere", "orphan", { "a.proto": 'syntax = "proto3"; import "b.proto";' }, /b\.proto/],
    [
      "an import upwards, out of the contract's folder",
      "upwards/inner",
      { "../other.proto": 'syntax = "proto3";', "a.proto": 'syntax = "proto3"; import "../other.proto";' },
      /\.\.\/other\.proto leaves the contract's folder; .*a\.proto imports it/,
    ],
    [
      "an import of an absolute path",
      "absolute",
      { "a.proto": 'syntax = "proto3"; import "/etc/passwd";' },
      /\/etc\/passwd leaves the contract's folder; .*a\.proto imports it/,
    ],
    ["an unknown type", "untyped", { "a.proto": 'syntax = "proto3"; message A { Nope n = 1; }' }, /Nope/],
  ])("%s is an error that names system and path", (_title, name, files, text) => {
    const root = Object.keys(files).length === 0 ? join(folder, name) : place(name, files);
    expect(problemsOf(() => new Contract("lab", { protoDirs: [root] }))).toEqual([expect.stringMatching(text)]);
  });

  test("imports across folders, and the copies that a mounted ConfigMap keeps", () => {
    const types = 'syntax = "proto3"; package t; message Q { string a = 1; }';
    const service =
      'syntax = "proto3"; package s; import "t/types.proto"; message Q { int32 b = 1; } service S { rpc Do(t.Q) returns (Q); }';
    const root = place("mounted", { "..data/s.proto": service, "..data/t/types.proto": types });
    symlinkSync("..data/s.proto", join(root, "s.proto"));
    symlinkSync("..data/t", join(root, "t"));
    const contract = new Contract("lab", { protoDirs: [root] });
    const method = contract.method({ system: "lab", grpc: { package: "s", service: "S", method: "Do" } });
    // Two messages have one name: the request is the imported one.
    expect(method).toMatchObject({ path: "/s.S/Do", requestShape: { fullName: "t.Q" } });
  });

  test("files named one by one, relative to a folder", () => {
    const contract = new Contract("lab", { protoDirs: [LAB_PROTO_FOLDER], protoFiles: ["lab.proto"] });
    const method = contract.method({ system: "lab", grpc: { package: "lab.v1", service: "Lab", method: "Echo" } });
    expect(method).toHaveProperty("path", "/lab.v1.Lab/Echo");
  });

  test("a file of an edition whose messages are all delimited: its maps are not", () => {
    const root = place("delimited", {
      "a.proto": `edition = "2023"; package p; option features.message_encoding = DELIMITED;
        message Inner { string a = 1; }
        message A { map<string, Inner> inner_of = 1; map<string, string> text_of = 2; string text = 3; repeated int32 n = 4; }
        message B { Inner inner = 1; }
        service S { rpc Map(A) returns (A); rpc Group(B) returns (B); }`,
    });
    const contract = new Contract("lab", { protoDirs: [root] });
    const target = (method: string) => ({ system: "lab", grpc: { package: "p", service: "S", method } }) as const;
    const bytes = Buffer.from("0a080a016b12030a0161" + "12060a016b120176", "hex");
    const method = contract.method(target("Map"));
    const answer = { innerOf: { k: { a: "a" } }, textOf: { k: "v" }, n: [] };
    expect(typeof method === "string" ? method : method.response.decode(bytes)).toEqual(answer);
    expect(contract.method(target("Group"))).toBe("p.B.inner is a group, which this version does not support");
  });

  test("a file without a package", () => {
    const text = 'syntax = "proto3"; message Q {} service S { rpc Do(Q) returns (Q); }';
    const contract = new Contract("lab", { protoDirs: [place("bare", { "a.proto": text })] });
    const method = contract.method({ system: "lab", grpc: { package: "", service: "S", method: "Do" } });
    expect(method).toHaveProperty("path", "/S/Do");
  });
});

describe("binding", () => {
  const handler = grpcHandler({ systems: new Map([["lab", labSystem(1)]]) });
  const bind = (options: ToolOptions): readonly string[] => problemsOf(() => handler.bind(labTool(options)));

  test.each([
    [
      "an unknown system",
      { method: "Echo", system: "laab" },
      ["target.system: no gRPC system laab is configured; configured: lab"],
    ],
    ["an unknown package", { method: "Echo", package: "lab.v2" }, [/no service lab\.v2\.Lab; they have lab\.v1\.Lab$/]],
    ["a misspelt method", { method: "Ecco" }, [/no method Ecco; it has Echo, /]],
    ["a method that objects have", { method: "toString" }, [/no method toString/]],
    ["a stream of answers", { method: "Watch" }, [/streaming method/]],
    ["a stream of requests", { method: "Upload" }, [/takes a stream of requests, which this version does not support/]],
    [
      "a field the request does not have",
      { method: "Fail", input: z.object({ code: z.int(), txt: z.string().optional() }) },
      ["input.txt: lab.v1.FailRequest has no such field; it has code, text; did you mean text?"],
    ],
    [
      "an example whose nested field is misspelt",
      {
        method: "Echo",
        input: z.object({ node: z.looseObject({}) }),
        accepts: [{ node: {} }, { node: { lable: "x" } }],
      },
      ["examples.accepts[1].node.lable: is not a field of lab.v1.Node"],
    ],
    [
      "an example of the wrong type",
      { method: "Fail", input: z.object({ code: z.string() }), accepts: [{ code: "5" }] },
      [/^input\.code: is string here, and number in the proto/, /^examples\.accepts\[0\]\.code: must be an integer/],
    ],
    [
      "an example that a transformation ruins",
      { method: "Fail", input: z.object({ text: z.string().transform((text) => [text]) }), accepts: [{ text: "x" }] },
      [/^examples\.accepts\[0\]\.text: must be a string/],
    ],
    [
      "an example the schema refuses",
      { method: "Echo", accepts: ["x"] },
      ["examples.accepts[0]: the input schema refuses it"],
    ],
  ] as const)("%s does not load", (_title, options, want) => {
    const wanted = want.map((text) => (typeof text === "string" ? text : expect.stringMatching(text)));
    expect(bind(options)).toEqual(wanted);
  });

  test.each([
    ["no input", { method: "Hang" }],
    [
      "an input in the message's own names",
      { method: "Fail", input: z.object({ code: z.int() }), accepts: [{ code: 5 }] },
    ],
  ])("%s loads", (_title, options) => expect(bind(options)).toEqual([]));

  test("a target of another kind does not load", () => {
    const tool = { ...labTool({ method: "Echo" }), target: { system: "lab", handler: () => 1 } };
    expect(problemsOf(() => handler.bind(tool))).toEqual(["target: is not a gRPC target"]);
  });
});

describe("systems", () => {
  test.each([
    ["plain text by omission", { plaintext: false }, /tls is missing; .*plaintext: true/],
    ["no port", { endpoint: "localhost" }, /must be host:port/],
    ["a port out of range", { endpoint: "localhost:65536" }, /must be host:port/],
    ["a resolver we do not know", { endpoint: "xds:///lab:1" }, /must be host:port/],
    ["a URL", { endpoint: "https://lab:443" }, /must be host:port/],
    ["no message bound", { maxMessageBytes: 0 }, /messageBytesMax: must be a positive integer/],
    ["a reserved key", { metadata: { "grpc-timeout": "1S" } }, /metadata\.grpc-timeout: is not a usable key/],
    ["a key of the proxy's own", { metadata: { "X-Caller-Sub": "root" } }, /set by the proxy itself/],
    ["a binary key", { metadata: { "k-bin": "x" } }, /is not a usable key/],
    ["a value that breaks a header", { metadata: { region: "a\r\nb" } }, /must be printable ASCII/],
    [
      "roots that are no certificate",
      { tls: { rootCert: Buffer.from("x") }, endpoint: "lab:1" },
      /holds no PEM certificate/,
    ],
    ["an address without a name", { tls: { rootCert: Buffer.from("x") } }, /is an IP address; .*tls\.serverName/],
    ["an address in brackets", { tls: { rootCert: Buffer.from("x") }, endpoint: "[::1]:1" }, /is an IP address/],
    ["both", { tls: { rootCert: Buffer.from("x") }, plaintext: true, endpoint: "lab:1" }, /exclude each other/],
  ])("%s does not start", (_title, changes, text) => {
    const problems = problemsOf(() => grpcHandler({ systems: new Map([["lab", labSystem(1, changes)]]) }));
    expect(problems).toEqual([expect.stringMatching(text)]);
    expect(problems[0]).toStartWith("systems.lab");
  });

  test("all invalid systems are reported at once", () => {
    const systems = new Map([
      ["a", labSystem(1, { plaintext: false })],
      ["b", labSystem(1)],
      ["c", labSystem(1, { protoDirs: [join(folder, "nowhere")] })],
    ]);
    expect(problemsOf(() => grpcHandler({ systems }))).toHaveLength(2);
  });
});
