import { afterAll, describe, expect, test } from "bun:test";
import { generateKeyPairSync } from "node:crypto";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { parse, stringify } from "yaml";
import { CUSTOMER_MASTER_PROTO_FOLDER } from "../../../src/cli/development/customer-master.ts";
import { manifestOf, namedMethods } from "../../../src/cli/import/grpc.ts";
import { createDefineTool } from "../../../src/core/define-tool.ts";
import type { Tool } from "../../../src/core/types.ts";
import { MODULES } from "../../../src/modules.ts";
import { readDataOnly } from "../../../src/runtime/manifests/data-only.ts";
import type { ProtoSource } from "../../../src/targets/grpc/contract/contract.ts";
import { draftsOf } from "../../../src/targets/grpc/drafts.ts";
import { type GrpcSystem, grpcHandler } from "../../../src/targets/grpc/handler.ts";
import type { Loose } from "../../support/asking-service.ts";
import { runStc } from "../../support/stc.ts";
import { descriptorSet, filesOf, oneMethodFile, texts } from "../../targets/grpc/support/descriptors.ts";
import { KINDS_PROTO, KINDS_SET } from "../../targets/grpc/support/kinds.ts";
import { LAB_PROTO_FOLDER } from "../../targets/grpc/support/lab.ts";
import { knowing, startReflecting } from "../../targets/grpc/support/reflecting.ts";

const folder = mkdtempSync(join(tmpdir(), "stc import "));
afterAll(() => rmSync(folder, { recursive: true }));

/** Writes a configuration with these systems and returns the words that name it. */
function configured(name: string, systems: object): readonly string[] {
  const own = join(folder, name);
  mkdirSync(join(own, "tools"), { recursive: true });
  const issuer = { issuer: "https://issuer.test", audience: "stc", publicKeyFile: "key.pem", algorithms: ["EdDSA"] };
  const config = { tools: ["tools"], audit: { dir: "audit" }, jwt: { issuers: [issuer] }, systems };
  writeFileSync(join(own, "stc.yaml"), stringify(config));
  const { publicKey } = generateKeyPairSync("ed25519");
  writeFileSync(join(own, "key.pem"), publicKey.export({ type: "spki", format: "pem" }));
  return ["--config", join(own, "stc.yaml")];
}

const ADDRESS = { endpoint: "127.0.0.1:1", plaintext: true } as const;
const WORDS = configured("one", {
  customers: { ...ADDRESS, proto: CUSTOMER_MASTER_PROTO_FOLDER },
  lab: { ...ADDRESS, proto: join(LAB_PROTO_FOLDER, "lab.proto") },
  away: { ...ADDRESS, reflection: true },
});
const OUT = join(folder, "one", "tools");

const ANSWERS = "answers with a stream: write its manifest by hand, with the limits target.grpc.stream";
const STREAMING = { List: ANSWERS, Upload: "takes a stream of requests, which no tool can send", Watch: ANSWERS };

describe("stc import grpc", () => {
  test("lists the methods, with the reason for each that cannot be imported", async () => {
    const { code, out } = await runStc(["import", "grpc", "lab", "--list", ...WORDS]);
    expect(code).toBe(0);
    expect(out.split("\n").map((line) => line.split(/ {2,}/))).toEqual([
      ["METHOD", "SERVICE", "CLASSIFICATION", "NOTE"],
      ...["Blob", "Echo", "Fail", "Hang", "Inspect", "Keys"].map((method) => [method, "lab.v1.Lab", "write"]),
      ...Object.entries(STREAMING).map(([method, reason]) => [
        ...[method, "lab.v1.Lab", "-"],
        `cannot be imported: ${reason}`,
      ]),
      [""],
    ]);
  });

  test("writes a manifest for each method that is named, which releases nothing, and never over another file", async () => {
    const first = await runStc(["import", "grpc", "customers", "GetCustomer", "--out", OUT, ...WORDS]);
    expect(first).toMatchObject({ code: 0, err: "" });
    const path = join(OUT, "get_customer.tool.yaml");
    const text = readFileSync(path, "utf8");
    expect(text.slice(0, text.indexOf("output:"))).toMatchInlineSnapshot(`
      "# yaml-language-server: $schema=tool.schema.json
      # Written by stc import grpc. Judge the classification and the permission, then write the output policy.
      # Proposed by the method's name: classification read.
      # The contract does not say which arguments a call needs: list them in input under required.

      name: get_customer
      description: Returns one customer. NOT_FOUND when there is none.
      classification: read
      permissions: { required: ["customers:read"] }

      target:
        system: customers
        grpc:
          package: org.finca.threesixone.customerdata.customermasterservice.proto.v1
          service: CustomerMasterService
          method: GetCustomer

      input:
        type: object
        properties: { customerId: { type: string } }

      "
    `);
    expect(parse(text).outputPolicy).toBeNull();
    expect(text).toContain("  # customer.email: mask # personal data, by its name\n");
    expect(text).toContain("  # customer.status: allow\n");
    const checked = await runStc(["check", ...WORDS]);
    expect(checked).toMatchObject({ code: 0, err: "" });
    expect(checked.out).toContain("ok: 1 tools\n");
    const again = await runStc(["import", "grpc", "customers", "GetCustomer", "--out", OUT, "--json", ...WORDS]);
    expect(again.code).toBe(1);
    expect(JSON.parse(again.out).results[0].problem).toBe(
      "the tool get_customer of the configuration calls it already",
    );
    const elsewhere = join(folder, "elsewhere");
    mkdirSync(elsewhere);
    writeFileSync(join(elsewhere, "list_customers.tool.yaml"), "mine");
    const kept = await runStc(["import", "grpc", "customers", "list_customers", "--out", elsewhere, ...WORDS]);
    expect(kept.code).toBe(1);
    expect(kept.err).toContain("list_customers.tool.yaml exists and is left as it is");
    expect(readFileSync(join(elsewhere, "list_customers.tool.yaml"), "utf8")).toBe("mine");
  });

  test("accepts the suggested policies when its author says so, and takes the author's word for what reads", async () => {
    const out = join(folder, "accepted");
    const words = ["--service", "Lab", "--read", "Echo", "--accept", "--out", out, ...WORDS];
    const { code, err } = await runStc(["import", "grpc", "lab", "Echo", "Fail", ...words]);
    expect({ code, err }).toEqual({ code: 0, err: "" });
    const echo = parse(readFileSync(join(out, "echo.tool.yaml"), "utf8"));
    expect(echo).toMatchObject({ classification: "read", permissions: { required: ["lab:read"] } });
    expect(echo.outputPolicy).toMatchObject({ text: "allow", phone: "mask" });
    expect(readdirSync(out).sort()).toEqual(["echo.tool.yaml", "fail.tool.yaml"]);
  });

  test.each([
    [["nowhere", "--list"], 64, "systems has no gRPC system nowhere"],
    [["lab"], 64, "name methods, or give --service or --all; --list lists them"],
    [["lab", "--all"], 64, "--out is missing"],
    [["lab", "Ecko", "--out", "x"], 64, "the contract has no method Ecko; did you mean Echo?"],
    [["lab", "Echo", "--read", "Nothing", "--out", "x"], 64, "the contract has no method Nothing, given with --read"],
    [["away", "--list"], 2, "systems.away: the service cannot be reached"],
  ])("%j ends with %d", async (words, code, says) => {
    const ended = await runStc(["import", "grpc", ...words, ...WORDS]);
    expect(ended.err).toContain(says);
    expect(ended.code).toBe(code);
  });
});

async function manifestsOf(source: ProtoSource, more: object = {}): Promise<ReadonlyMap<string, string>> {
  const drafts = await draftsOf("kinds", { ...source, endpoint: "127.0.0.1:1", plaintext: true, ...more });
  if (typeof drafts === "string") throw new Error(drafts);
  const made = namedMethods(drafts).map(({ draft, tool }) => [tool, manifestOf(tool, "kinds", draft)] as const);
  return new Map(made.map(([tool, one]) => [tool, "text" in one ? one.text : `problem: ${one.problem}`]));
}

function toolOf(text: string): Tool {
  const kinds = MODULES.targetKinds;
  const read = readDataOnly(text, { define: createDefineTool(kinds), kinds });
  if ("problems" in read) throw new Error(read.problems.join("; "));
  return read.tool;
}

describe("a manifest of a method", () => {
  test("is the same from proto files, a descriptor set and reflection", async () => {
    const ofProto = await manifestsOf(KINDS_PROTO);
    expect([...ofProto.keys()]).toEqual(["echo", "legacy", "modern"]);
    expect(await manifestsOf(KINDS_SET)).toEqual(ofProto);
    const files = filesOf((KINDS_SET.descriptorSet as { readonly bytes: Uint8Array }).bytes);
    const server = await startReflecting({
      answer: knowing(files, ["kinds.v1.Kinds", "grpc.health.v1.Health"], "kinds.proto"),
    });
    try {
      const reflected = await manifestsOf({ reflection: true }, { endpoint: `127.0.0.1:${server.port}` });
      expect(reflected).toEqual(ofProto);
    } finally {
      server.close();
    }
  });

  test("takes what the contract can send, of every type, and sends it unchanged", async () => {
    const system: GrpcSystem = { ...KINDS_PROTO, endpoint: "127.0.0.1:1", plaintext: true, maxMessageBytes: 1_000_000 };
    const handler = grpcHandler({ systems: new Map([["kinds", system]]) });
    const tool = toolOf((await manifestsOf(KINDS_PROTO)).get("echo") ?? "");
    const binding = handler.bind(tool);
    const accepted = {
      byWide: { "-9223372036854775808": "a" },
      byUnsigned: { "18446744073709551615": "b" },
      byFlag: { true: "c" },
      innerByName: { "any name": { a: "d", flags: { 7: true } } },
      otherName: "e",
      packed: [1, -2_147_483_648],
      someNumber: "9223372036854775807",
      raw: "AQID",
      level: "LEVEL_HIGH",
      at: "2026-02-16T12:30:00Z",
      took: "-1.5s",
      maybeText: "f",
      maybeBig: "1",
      mask: "a,fooBar",
      open: { anything: [1, null, { a: true }] },
      anything: ["x"],
      list: [1, "two"],
      maybeFlag: false,
      ratio: 0.5,
      big: 5,
      levels: ["LEVEL_LOW"],
    };
    const plan = await binding.plan(tool.input.parse(accepted), {} as never);
    expect(plan["message"]).toEqual({ ...accepted, big: "5", choice: "someNumber", took: "-1.500s" });
    for (const refused of [
      { byWide: { one: "a" } },
      { byUnsigned: { "-1": "b" } },
      { packed: [2 ** 31] },
      { big: "1e3" },
      { big: 2 ** 60 },
      { bigUnsigned: -1 },
      { level: "LEVEL_UNSPECIFIED" },
      { at: "yesterday" },
      { took: "5" },
      { detail: {} },
      { choice: "someText" },
      { unknown: 1 },
    ]) {
      expect({ refused, ...tool.input.safeParse(refused) }).toMatchObject({ refused, success: false });
    }
    await handler.close();
  });

  test("says in comments what the schema leaves to the contract", async () => {
    const [, ...lines] = ((await manifestsOf(KINDS_PROTO)).get("echo") ?? "").split("\n");
    const comments = lines.slice(0, lines.indexOf(""));
    expect(comments).toContain(
      "# Arguments: someText, someNumber, someInner exclude each other: the contract refuses two of them",
    );
    expect(comments).toContain(
      "# Arguments: detail is left out: it is a google.protobuf.Any, and the system's anyTypes names no message for it",
    );
    const packed = (await manifestsOf({ ...KINDS_PROTO, anyTypes: ["kinds.v1.Detail"] })).get("echo") ?? "";
    expect(parse(packed).input.properties.detail).toEqual({
      type: "object",
      properties: { "@type": { enum: ["type.googleapis.com/kinds.v1.Detail"] } },
      required: ["@type"],
      additionalProperties: true,
    });
    expect(parse(packed).input.properties.anything).toEqual({});
  });

  test("has the comments of the contract as descriptions, from proto files and from a set with source", async () => {
    const location = [
      { path: [6, 0, 2, 0], leadingComments: " Does it.\n Twice. " },
      { path: [4, 0, 2, 0], trailingComments: " The first. " },
    ];
    const file = oneMethodFile({ field: texts("a_b") }, { sourceCodeInfo: { location } });
    const source = { descriptorSet: { bytes: descriptorSet([file]), path: "one.binpb" } };
    const expected = { description: "Does it. Twice.", input: { properties: { aB: { description: "The first." } } } };
    expect(parse((await manifestsOf(source)).get("do") ?? "")).toMatchObject(expected);
    const proto = `syntax = "proto3"; package one;
      service S {
        // Does it.
        // Twice.
        rpc Do(Q) returns (Q);
      }
      message Q {
        // The first.
        string a_b = 1;
      }`;
    const commented = join(folder, "commented");
    mkdirSync(commented);
    writeFileSync(join(commented, "one.proto"), proto);
    expect(parse((await manifestsOf({ protoDirs: [commented] })).get("do") ?? "")).toMatchObject(expected);
  });

  test.each([
    ["GetThing", "read"],
    ["ListThings", "read"],
    ["SearchAll", "read"],
    ["BatchGetThings", "read"],
    ["GetAndDeleteThing", "destructive"],
    ["DeleteThing", "destructive"],
    ["BatchDeleteThings", "destructive"],
    ["PurgeCache", "destructive"],
    ["CreateThing", "write"],
    ["GetOrCreateThing", "write"],
    ["CheckAndReset", "write"],
    ["Things", "write"],
  ])("proposes for %s the classification %s", async (name, classification) => {
    const service = [{ name: "S", method: [{ name, inputType: ".one.Q", outputType: ".one.Q" }] }];
    const file = oneMethodFile({ field: texts("a") }, { service });
    const [text = ""] = (await manifestsOf({ descriptorSet: { bytes: descriptorSet([file]), path: "x" } })).values();
    expect(parse(text).classification).toBe(classification);
    expect(text).toContain(`# Proposed by the method's name: classification ${classification}.\n`);
  });

  test("has the service in its name where two services have the method, and the system where a tool has the name", async () => {
    const method = [{ name: "Get", inputType: ".one.Q", outputType: ".one.Q" }];
    const service = ["Orders", "Users"].map((name) => ({ name, method }));
    const bytes = descriptorSet([oneMethodFile({ field: texts("a") }, { service })]);
    expect([...(await manifestsOf({ descriptorSet: { bytes, path: "x" } })).keys()]).toEqual([
      "orders_get",
      "users_get",
    ]);
    const set = join(folder, "clash.binpb");
    writeFileSync(set, bytes);
    const words = configured("clash", {
      shop: { ...ADDRESS, descriptorSet: set },
      desk: { ...ADDRESS, descriptorSet: set },
    });
    const out = join(folder, "clash", "tools");
    expect(await runStc(["import", "grpc", "shop", "Orders.Get", "--out", out, ...words])).toMatchObject({ code: 0 });
    expect(await runStc(["import", "grpc", "desk", "Orders.Get", "--out", out, ...words])).toMatchObject({ code: 0 });
    expect(readdirSync(out).sort()).toEqual(["desk_orders_get.tool.yaml", "orders_get.tool.yaml"]);
    const several = await runStc(["import", "grpc", "shop", "Get", "--out", out, ...words]);
    expect(several).toMatchObject({ code: 64 });
    expect(several.err).toContain("several methods are called Get: write its full name, package.Service.Method");
  });

  test("of a message that contains itself leaves its inside to the contract", async () => {
    const inner = { name: "again", number: 1, type: "TYPE_MESSAGE", typeName: ".one.Q", label: "LABEL_REPEATED" };
    const bytes = descriptorSet([oneMethodFile({ field: [inner] })]);
    const text = (await manifestsOf({ descriptorSet: { bytes, path: "x" } })).get("do") ?? "";
    expect(parse(text).input).toEqual({
      type: "object",
      properties: { again: { type: "array", items: { type: "object", additionalProperties: true } } },
    });
    expect(text).toContain("# Arguments: again may hold one.Q again, at any depth: the contract checks it\n");
  });
});

describe("a hostile contract", () => {
  test.each([
    ["a field __proto__", { field: texts("__proto__", "a") }, /has the name __proto__|every JavaScript object/],
    ["thousands of fields", { field: texts(...Array.from({ length: 3_000 }, (_, at) => `f${at}`)) }, /more than 600/],
  ])("with %s gives a reason instead of a manifest", async (_, message, reason) => {
    const named = { ...message, field: message.field.map((field) => ({ jsonName: field.name, ...field })) };
    const bytes = descriptorSet([oneMethodFile(named)]);
    const [text = ""] = (await manifestsOf({ descriptorSet: { bytes, path: "x" } })).values();
    expect(text).toMatch(/^problem: /);
    expect(text).toMatch(reason);
  });

  test("whose messages nest and multiply gives a manifest of bounded size", async () => {
    const width = 12;
    const messages = Array.from({ length: 12 }, (_, level) => ({
      name: level === 0 ? "Q" : `L${level}`,
      field: Array.from({ length: width }, (_unused, at) =>
        level === 11
          ? { name: `t${at}`, number: at + 1, type: "TYPE_STRING", label: "LABEL_OPTIONAL" }
          : {
              name: `m${at}`,
              number: at + 1,
              type: "TYPE_MESSAGE",
              typeName: `.one.L${level + 1}`,
              label: "LABEL_OPTIONAL",
            },
      ),
    }));
    const bytes = descriptorSet([oneMethodFile({}, { messageType: messages })]);
    const text = (await manifestsOf({ descriptorSet: { bytes, path: "x" } })).get("do") ?? "";
    expect(toolOf(text).name).toBe("do");
    expect(text.length).toBeLessThan(100_000);
  });

  const name = fc.oneof(
    fc.constantFrom("constructor", "toString", "__proto__", "null", "yes", "a_b", "A", "email"),
    fc.stringMatching(/^[A-Za-z_][A-Za-z0-9_]{0,12}$/),
  );
  const text = fc.oneof(
    fc.string({ unit: "binary", maxLength: 400 }),
    fc.constantFrom(
      "a\n# b: c\nname: other",
      "'\"{[&*!|>%@`",
      "\u202e\u0000\u001b[31m",
      "- x: !!js/function",
      "…\ud800",
    ),
  );
  const field = fc.record({
    name,
    jsonName: fc.oneof(name, fc.string({ maxLength: 10 })),
    number: fc.integer({ min: 1, max: 20 }),
    label: fc.constantFrom("LABEL_OPTIONAL", "LABEL_REPEATED"),
    type: fc.constantFrom("TYPE_STRING", "TYPE_INT64", "TYPE_BYTES", "TYPE_BOOL", "TYPE_MESSAGE", "TYPE_ENUM"),
  });
  const contract = fc.record({
    messages: fc.array(fc.array(field, { maxLength: 6 }), { minLength: 1, maxLength: 3 }),
    method: fc.oneof(name, fc.string({ maxLength: 12 })),
    comments: fc.tuple(text, text),
    values: fc.uniqueArray(name, { minLength: 1, maxLength: 4 }),
  });

  test("gives a manifest that loads, or a reason, and its texts stay values", async () => {
    await fc.assert(
      fc.asyncProperty(contract, async ({ messages, method, comments, values }) => {
        const messageType = messages.map((fields, at) => ({
          name: at === 0 ? "Q" : `M${at}`,
          field: fields.map((each, index) => ({
            ...each,
            ...(each.type === "TYPE_MESSAGE" && {
              typeName: index % 2 === 0 ? ".one.Q" : `.one.M${messages.length - 1}`,
            }),
            ...(each.type === "TYPE_ENUM" && { typeName: ".one.E" }),
          })),
        }));
        const bytes = descriptorSet([
          oneMethodFile(
            {},
            {
              messageType,
              enumType: [{ name: "E", value: values.map((one, number) => ({ name: one, number })) }],
              service: [{ name: "S", method: [{ name: method, inputType: ".one.Q", outputType: ".one.Q" }] }],
              sourceCodeInfo: {
                location: [
                  { path: [6, 0, 2, 0], leadingComments: comments[0] },
                  { path: [4, 0, 2, 0], leadingComments: comments[1] },
                ],
              },
            },
          ),
        ]);
        const [made = ""] = (await manifestsOf({ descriptorSet: { bytes, path: "x" } })).values();
        if (made.startsWith("problem: ")) {
          expect(made).not.toContain("no manifest can say this");
          return;
        }
        const manifest: Loose = parse(made);
        expect(manifest.target).toEqual({ system: "kinds", grpc: { package: "one", service: "S", method } });
        expect(manifest.outputPolicy ?? {}).toEqual({});
        expect(toolOf(made).name).toMatch(/^[a-z][a-z0-9_]*$/);
        for (const line of made.split("\n")) expect(line).toMatch(/^[\x20-\x7e\p{L}\p{M}\p{N}\p{P}\p{S}]*$/u);
      }),
      { numRuns: 150 },
    );
  });
});
