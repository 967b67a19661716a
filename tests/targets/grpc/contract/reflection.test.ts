import { afterEach, describe, expect, test } from "bun:test";
import { Metadata } from "@grpc/grpc-js";
import { makeCertificates } from "../../../../src/cli/development/certificates.ts";
import type { Tool } from "../../../../src/core/types.ts";
import { resolveEndpoints } from "../../../../src/egress/grpc/endpoints.ts";
import { Contract, type ProtoSource } from "../../../../src/targets/grpc/contract/contract.ts";
import { reflectedFiles, withReflection } from "../../../../src/targets/grpc/contract/reflection.ts";
import { fileDescriptor, filesOf, oneMethodFile } from "../support/descriptors.ts";
import { KINDS_PROTO, KINDS_SET, kindsTarget } from "../support/kinds.ts";
import { labTls } from "../support/lab.ts";
import {
  knowing,
  notFound,
  type ReflectionAnswer,
  type ReflectionRequest,
  startLossy,
  startReflecting,
} from "../support/reflecting.ts";

const KINDS = filesOf((KINDS_SET.descriptorSet as { readonly bytes: Uint8Array }).bytes);
const faithful = knowing(KINDS, ["kinds.v1.Kinds"], "kinds.proto");
const ofKinds: Pick<Tool, "target"> = { target: kindsTarget("Echo") };
const ofOne: Pick<Tool, "target"> = {
  target: { system: "kinds", grpc: { package: "one", service: "S", method: "Do" } },
};

const VALID = { notBefore: new Date("2000-01-01"), notAfter: new Date("2100-01-01") };

const running: { close(): void }[] = [];
afterEach(() => {
  for (const server of running.splice(0)) server.close();
});

async function serving(answer: (request: ReflectionRequest) => ReflectionAnswer, version: "v1" | "v1alpha" = "v1") {
  const server = await startReflecting({ answer, version });
  running.push(server);
  return server;
}

interface Found {
  readonly problems: readonly string[];
  readonly system: ProtoSource | undefined;
}

async function ask(
  port: number,
  tools: readonly Pick<Tool, "target">[] = [ofKinds],
  more: object = {},
): Promise<Found> {
  const problems: string[] = [];
  const system = {
    endpoint: `127.0.0.1:${port}`,
    plaintext: true,
    reflection: true,
    maxMessageBytes: 1_000_000,
    ...more,
  };
  const systems = await withReflection(new Map([["kinds", system]]), tools, problems);
  return { problems, system: systems?.get("kinds") };
}

function shaOf(source: ProtoSource, ...methods: readonly string[]): string {
  const contract = new Contract("kinds", source);
  for (const method of methods) expect(contract.method(kindsTarget(method))).toHaveProperty("path");
  return contract.sha256();
}

describe("a contract by reflection", () => {
  test.each(["v1", "v1alpha"] as const)(
    "equals that of the proto files, from a complete server that speaks %s",
    async (version) => {
      const { port } = await serving(faithful, version);
      const { problems, system } = await ask(port);
      expect(problems).toEqual([]);
      expect(shaOf(system ?? {}, "Echo", "Legacy", "Modern")).toBe(shaOf(KINDS_PROTO, "Echo", "Legacy", "Modern"));
    },
  );

  test("requests each file once, and only those that tools name", async () => {
    const { port, requests } = await serving(faithful);
    await ask(port, [
      ofKinds,
      ofKinds,
      { target: { system: "other", grpc: { package: "a", service: "B", method: "C" } } },
    ]);
    const files = requests.flatMap(({ fileByFilename }) => fileByFilename ?? []);
    expect(files.toSorted()).toEqual(
      KINDS.map(({ name }) => name)
        .filter((name) => name !== "kinds.proto")
        .toSorted(),
    );
    expect(requests.filter(({ fileContainingSymbol }) => fileContainingSymbol)).toHaveLength(1);
  });

  test("by @grpc/reflection, which renames files and fields, works as far as that allows", async () => {
    const server = await startLossy();
    running.push(server);
    const { problems, system } = await ask(server.port);
    expect(problems).toEqual([]);
    const contract = new Contract("kinds", { ...system, anyTypes: ["kinds.v1.Detail"] });
    const method = contract.method(kindsTarget("Echo"));
    if (typeof method === "string") throw new Error(method);
    const input = {
      byWide: { "-5": "x" },
      innerByName: { n: { a: "b", flags: { "1": true } } },
      level: "LEVEL_HIGH",
      maybeFlag: false,
      someNumber: "7",
      at: "2026-11-22T00:00:00Z",
      detail: { "@type": "type.googleapis.com/kinds.v1.Detail", note: "x" },
    };
    expect(method.request.encode(input)).toMatchObject({ message: input });
  });

  test("lacks what its server lacks, and reports it where a tool needs it", async () => {
    const some = KINDS.filter(({ name }) => name !== "google/protobuf/timestamp.proto");
    const { port } = await serving(knowing(some, ["kinds.v1.Kinds"], "kinds.proto"));
    const { problems, system } = await ask(port);
    expect(problems).toEqual([]);
    const contract = new Contract("kinds", system ?? {});
    expect(contract.method(kindsTarget("Echo"))).toBe(
      "kinds.v1.All.at has the unknown type .google.protobuf.Timestamp",
    );
    expect(contract.method(kindsTarget("Modern"))).toHaveProperty("path");
  });

  test("is not requested where no tool needs it", async () => {
    const { port, requests } = await serving(faithful);
    expect(await ask(port, [])).toMatchObject({ problems: [], system: { reflected: [] } });
    expect(requests).toEqual([]);
  });

  test("uses mutual TLS, under the name of the certificate", async () => {
    const certificates = await makeCertificates(VALID);
    const server = await startReflecting({ answer: faithful, certificates });
    running.push(server);
    const tls = labTls(certificates);
    expect(await ask(server.port, [ofKinds], { plaintext: false, tls })).toMatchObject({ problems: [] });
    const otherAuthority = await makeCertificates(VALID);
    const { problems } = await ask(server.port, [ofKinds], {
      plaintext: false,
      tls: { ...tls, rootCert: Buffer.from(otherAuthority.rootCert) },
    });
    expect(problems).toEqual([expect.stringContaining("does not trust the other's certificate")]);
  });

  test("is requested from the next endpoint where one cannot be reached", async () => {
    const { port } = await serving(faithful);
    const endpoints = { endpoint: undefined, endpoints: ["127.0.0.1:1", `127.0.0.1:${port}`] };
    expect(await ask(port, [ofKinds], endpoints)).toMatchObject({ problems: [] });
  });
});

const big = fileDescriptor(oneMethodFile({}, { options: { javaPackage: "x".repeat(15_000_000) } }));
const endless = (request: ReflectionRequest): ReflectionAnswer => {
  const name = request.fileByFilename || "0";
  const file = { ...oneMethodFile({}), name, messageType: [], service: [], dependency: [`${Number(name) + 1}`] };
  return { fileDescriptorResponse: { fileDescriptorProto: [fileDescriptor(file)] } };
};

const file = (bytes: Uint8Array) => ({ fileDescriptorResponse: { fileDescriptorProto: [bytes] } });
/** Empty parts, so many that decoding them would take gigabytes. */
const nothings = (tag: number) => Buffer.alloc(4_000_000, Buffer.from([tag, 0]));
const oneFile = fileDescriptor(oneMethodFile({}));
const manyFields = Buffer.from([...[0x22, 0x83, 0x92, 0xf4, 0x01], ...[0x0a, 0x01, 0x4d]]);

const PARTS = /describes more than 2000000 parts of files/;

describe("servers without usable reflection", () => {
  test.each([
    ["no such service", knowing([], ["kinds.v2.Kinds", "a.B"], ""), /has no service one\.S; it has .*kinds\.v2\.Kinds/],
    ["nothing but refusals", () => notFound, /has no service one\.S; it has none/],
    ["the end of the stream", () => "end" as const, /ended without an answer|ended with/],
    ["bytes that are no message", () => Buffer.from([0x07]), /gave an invalid reflection answer/],
    [
      "files that are none",
      () => ({ fileDescriptorResponse: { fileDescriptorProto: [Buffer.from([0x0a, 0x7f])] } }),
      /invalid reflection answer|Q/,
    ],
    ["files without end", endless, /describes more than 2000 files/],
    [
      "a file that is too big",
      () => ({ fileDescriptorResponse: { fileDescriptorProto: [big, big] } }),
      /of more than 16777216 bytes/,
    ],
    [
      "more bytes than there may be",
      (request: ReflectionRequest) =>
        request.fileByFilename
          ? { fileDescriptorResponse: { fileDescriptorProto: [big] } }
          : {
              fileDescriptorResponse: {
                fileDescriptorProto: [fileDescriptor(oneMethodFile({}, { dependency: ["a", "b", "c"] }))],
              },
            },
      /more than 33554432 bytes/,
    ],
    ["a message of fields without end", () => file(Buffer.concat([oneFile, manyFields, nothings(0x12)])), PARTS],
    ["messages without end", () => file(Buffer.concat([oneFile, nothings(0x22)])), PARTS],
    [
      "as many files of nothing",
      () => Buffer.concat([Buffer.from([0x22, 0x80, 0x92, 0xf4, 0x01]), nothings(0x0a)]),
      PARTS,
    ],
    ["no reflection service", () => "unimplemented" as const, /no reflection service, neither v1 nor v1alpha/],
  ] as const)("%s", async (_title, answer, text) => {
    const { port } = await serving(answer);
    const { problems, system } = await ask(port, [ofOne]);
    expect(problems).toEqual([expect.stringMatching(text)]);
    expect(problems[0]).toStartWith("systems.kinds.reflection: the service ");
    expect(problems[0]).toContain("descriptorSet");
    expect(problems[0]).not.toContain("\u001b");
    expect(system).toBeUndefined();
  });

  test("silence", async () => {
    const { port } = await serving(() => "silence");
    const endpoints = resolveEndpoints("systems.kinds", { endpoint: `127.0.0.1:${port}`, plaintext: true });
    const asking = reflectedFiles({ endpoints, metadata: new Metadata(), services: ["one.S"], timeoutMs: 50 });
    await expect(asking).rejects.toThrow("did not answer within 50 ms");
  });

  test("no server", async () => {
    const { problems } = await ask(1);
    expect(problems).toEqual([expect.stringContaining("cannot be reached")]);
  });

  test("files that contradict each other", async () => {
    const twice = [oneMethodFile({}), oneMethodFile({}, { name: "two.proto" })].map(fileDescriptor);
    const { port } = await serving(() => ({ fileDescriptorResponse: { fileDescriptorProto: twice } }));
    const { system } = await ask(port, [ofOne]);
    expect(() => new Contract("kinds", system ?? {})).toThrow("systems.kinds.reflection: one.Q is declared twice");
  });
});
