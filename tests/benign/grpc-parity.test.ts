import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { Client, credentials } from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import fc from "fast-check";
import { z } from "zod";
import { type GrpcHandler, grpcHandler } from "../../src/targets/grpc/handler.ts";
import { type AnsweringServer, framed, GRPC_HEADERS, startAnswering } from "../targets/grpc/support/answering.ts";
import { call, refusal } from "../targets/grpc/support/calls.ts";
import { LAB_PROTO_FOLDER, type Lab, labSystem, startLab } from "../targets/grpc/support/lab.ts";
import { labTool } from "../targets/grpc/support/tool.ts";

type Fields = Record<string, unknown>;

const MESSAGE_BYTES_MAX = 100_000;

let lab: Lab;
let server: AnsweringServer;
let handler: GrpcHandler;
let client: Client;

beforeAll(async () => {
  [lab, server] = await Promise.all([startLab(), startAnswering()]);
  handler = grpcHandler({
    systems: new Map([
      ["lab", labSystem(lab.port)],
      ["raw", labSystem(server.port, { maxMessageBytes: MESSAGE_BYTES_MAX })],
    ]),
  });
  client = new Client(`127.0.0.1:${lab.port}`, credentials.createInsecure());
});

afterAll(async () => {
  await handler.close();
  client.close();
  lab.close();
  server.close();
});

const OPTIONS = { longs: String, enums: String, bytes: String, defaults: true, oneofs: true, json: true } as const;
const definition = loadSync("lab.proto", { includeDirs: [LAB_PROTO_FOLDER], ...OPTIONS });
const echo = (definition["lab.v1.Lab"] as unknown as Record<string, EchoMethod>)["Echo"] as EchoMethod;

interface EchoMethod {
  readonly path: string;
  readonly requestSerialize: (message: object) => Buffer;
  readonly responseDeserialize: (bytes: Buffer) => object;
}

/** What a program reads that calls the service itself, without the marks of its library. */
function plainly(message: object): Promise<Fields> {
  const { path, requestSerialize, responseDeserialize } = echo;
  return new Promise((resolve, reject) => {
    client.makeUnaryRequest(path, requestSerialize, responseDeserialize, message, (error, answer) => {
      if (error) reject(error);
      else resolve(Object.fromEntries(Object.entries(answer ?? {}).filter(([key]) => !key.startsWith("_"))));
    });
  });
}

const text = fc.oneof(fc.string({ unit: "grapheme" }), fc.constantFrom("", "null", "\u0000", "\u2028", "constructor"));
const node = fc.letrec((tie) => ({
  node: fc.record(
    {
      label: text,
      kind: fc.constantFrom("LEAF", "KIND_UNSPECIFIED"),
      children: fc.array(tie("node"), { maxLength: 2 }),
    },
    { requiredKeys: [] },
  ),
})).node;
const finite = { noNaN: true, noDefaultInfinity: true } as const;
const signed = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).map(String);
const unsigned = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }).map(String);
const color = fc.constantFrom("RED", "NEGATIVE", "COLOR_UNSPECIFIED");
const message = fc.record(
  {
    text,
    flag: fc.boolean(),
    raw: fc.uint8Array({ maxLength: 20 }).map((bytes) => Buffer.from(bytes).toString("base64")),
    small: fc.integer(),
    smallUnsigned: fc.nat({ max: 4_294_967_295 }),
    big: signed,
    bigUnsigned: unsigned,
    bigSigned: signed,
    bigFixed: unsigned,
    single: fc.float(finite).map((value) => value || 0),
    twofold: fc.double(finite).map((value) => value || 0),
    color,
    node,
    texts: fc.array(text, { maxLength: 3 }),
    colors: fc.array(color, { maxLength: 3 }),
    nodes: fc.array(node, { maxLength: 3 }),
    labels: fc.dictionary(text, text, { maxKeys: 3 }),
    nodeByName: fc.dictionary(text, node, { maxKeys: 3 }),
    colorByNumber: fc.dictionary(fc.integer().map(String), color, { maxKeys: 3 }),
    maybe: text,
    maybeBig: signed,
    phone: text,
  },
  { requiredKeys: [] },
);

test("an answer equals what a plain client of the service reads for the requested fields", async () => {
  const binding = handler.bind(labTool({ method: "Echo", input: z.looseObject({}) }));
  await fc.assert(
    fc.asyncProperty(message, async (sent) => {
      expect((await call(binding, sent)) as Fields).toEqual(await plainly(sent));
    }),
    { numRuns: 150 },
  );
});

describe("in any encoding on the wire", () => {
  const inspect = () => handler.bind(labTool({ method: "Blob", input: z.object({}), system: "raw" }));
  /** An answer whose message has so many bytes. */
  const blob = (bytes: number): Buffer => {
    const length = bytes - 4;
    const head = [0x0a, (length & 0x7f) | 0x80, ((length >> 7) & 0x7f) | 0x80, length >> 14];
    return framed(Buffer.concat([Buffer.from(head), Buffer.alloc(length, "a")]));
  };

  test.each([
    ["in one piece", 50_000, 50_005],
    ["in pieces of a few bytes", 20_000, 7],
    ["byte by byte", 17_000, 1],
    ["cut after its prefix", 20_000, 5],
    ["as large as it may be", MESSAGE_BYTES_MAX, 16_384],
  ])("%s", async (_title, bytes, piece) => {
    server.answer(async (stream) => {
      stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
      stream.respond(GRPC_HEADERS, { waitForTrailers: true });
      const body = blob(bytes);
      for (let at = 0; at < body.length; at += piece) stream.write(body.subarray(at, at + piece));
      stream.end();
    });
    expect(await call(inspect(), {})).toEqual({ payload: "a".repeat(bytes - 4), receivedBytes: 0 });
  });

  test("one byte more is too large", async () => {
    server.answer((stream) => {
      stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
      stream.respond(GRPC_HEADERS, { waitForTrailers: true });
      stream.end(blob(MESSAGE_BYTES_MAX + 1));
    });
    expect((await refusal(call(inspect(), {}))).code).toBe("OUTPUT_TOO_LARGE");
  });
});
