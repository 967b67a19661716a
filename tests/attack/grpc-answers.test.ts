import { afterAll, beforeAll, describe, expect, spyOn, test } from "bun:test";
import type { ServerHttp2Stream } from "node:http2";
import { deflateSync, gzipSync } from "node:zlib";
import { z } from "zod";
import type { RefusalCode } from "../../src/core/refusals.ts";
import type { ToolClassification } from "../../src/core/types.ts";
import { type GrpcHandler, grpcHandler } from "../../src/targets/grpc/handler.ts";
import {
  type AnsweringServer,
  answered,
  framed,
  GRPC_HEADERS,
  startAnswering,
} from "../targets/grpc/support/answering.ts";
import { call, refusal } from "../targets/grpc/support/calls.ts";
import { labSystem } from "../targets/grpc/support/lab.ts";
import { labTool, runContext } from "../targets/grpc/support/tool.ts";

const SECRET = "hunter2-of-the-service";
const EMPTY = Buffer.alloc(0);

let server: AnsweringServer;
let handler: GrpcHandler;

beforeAll(async () => {
  server = await startAnswering();
  const resilience = { retriesMax: 0, circuitFailuresMax: 1_000 };
  handler = grpcHandler({ systems: new Map([["lab", labSystem(server.port, { resilience })]]) });
});

afterAll(async () => {
  await handler.close();
  server.close();
});

/** Far less than the tool's time: nothing here may be waited for until the end. */
const HANG_MS = 5_000;

function run(classification: ToolClassification): Promise<unknown> {
  const context = runContext({ signal: AbortSignal.timeout(HANG_MS) });
  return call(handler.bind(labTool({ method: "Inspect", classification })), {}, context);
}

const compressed = (encoding: string, body: Uint8Array) =>
  answered({ headers: { "grpc-encoding": encoding }, body: framed(body, { flag: 1 }) });

const unfinished = (headers: Record<string, string | number>, end: (stream: ServerHttp2Stream) => void) => {
  return (stream: ServerHttp2Stream): void => {
    stream.respond(headers);
    end(stream);
  };
};

const BOMB = Buffer.alloc(20_000_000);

describe("an invalid answer says nothing about what the service has done", () => {
  test.each([
    ["two messages", answered({ body: Buffer.concat([framed(EMPTY), framed(EMPTY)]) }), "TARGET_FAILED"],
    [
      "a message that is shorter than it is",
      answered({ body: framed(Buffer.alloc(10), { length: 3 }) }),
      "TARGET_FAILED",
    ],
    ["a message that ends too early", answered({ body: framed(EMPTY, { length: 100 }) }), "TARGET_FAILED"],
    ["no message", answered({ body: EMPTY }), "TARGET_FAILED"],
    [
      "nothing but an OK",
      (stream) => stream.respond({ ...GRPC_HEADERS, "grpc-status": "0" }, { endStream: true }),
      "TARGET_FAILED",
    ],
    ["no status", (stream) => stream.respond(GRPC_HEADERS, { endStream: true }), "TARGET_UNAVAILABLE"],
    ["trailers without a status", answered({ trailers: { "x-other": "1" } }), "TARGET_UNAVAILABLE"],
    ["a status that is no number", answered({ trailers: { "grpc-status": "OK" } }), "TARGET_FAILED"],
    ["a message without trailers", unfinished(GRPC_HEADERS, (to) => to.end(framed(EMPTY))), "TARGET_UNAVAILABLE"],
    [
      "an error page",
      unfinished({ ":status": 500, "content-type": "text/html" }, (to) => to.end("<html>")),
      "TARGET_UNAVAILABLE",
    ],
    [
      "a page that is there",
      unfinished({ ":status": 200, "content-type": "text/html" }, (to) => to.end("<html>")),
      "TARGET_UNAVAILABLE",
    ],
    [
      "a page that is not there",
      (stream) => stream.respond({ ":status": 404, "content-type": "text/html" }, { endStream: true }),
      "TARGET_UNAVAILABLE",
    ],
    ["a reset for want of security", unfinished(GRPC_HEADERS, (to) => to.close(12)), "TARGET_UNAVAILABLE"],
    ["what inflates beyond all bounds", compressed("deflate", deflateSync(BOMB)), "OUTPUT_TOO_LARGE"],
    ["the same in gzip", compressed("gzip", gzipSync(BOMB)), "OUTPUT_TOO_LARGE"],
    ["gzip that is cut", compressed("gzip", gzipSync(Buffer.alloc(1_000)).subarray(0, 15)), "TARGET_FAILED"],
    ["gzip that is not said to be", compressed("identity", gzipSync(EMPTY)), "TARGET_FAILED"],
    ["an encoding that nobody knows", compressed("snappy", Buffer.from("x")), "TARGET_FAILED"],
    ["a length of four gigabytes", answered({ body: framed(EMPTY, { length: 0xffffffff }) }), "OUTPUT_TOO_LARGE"],
  ] as readonly (readonly [string, (stream: ServerHttp2Stream) => void, RefusalCode])[])(
    "%s",
    async (_title, how, read) => {
      server.answer(how);
      expect((await refusal(run("read"))).code).toBe(read);
      expect((await refusal(run("write"))).code).toBe("OUTCOME_UNKNOWN");
    },
  );
});

test.each([
  ["a field with the number 0", "0001"],
  ["a group that ends as another", "a306ac06"],
  ["a tag of more than 32 bits", "8a8080808001" + "00"],
])("an answer with %s does not match the contract", async (_title, hex) => {
  server.answer(answered({ body: framed(Buffer.from(hex, "hex")) }));
  for (const classification of ["read", "write"] as const) {
    const got = await refusal(run(classification));
    expect(got.code).toBe("INVALID_OUTPUT");
    expect(got.message).toBe("The service's answer does not match its contract.");
  }
});

test("bytes that do not match the contract: the operator learns why, without the bytes", async () => {
  const planted = "hunter2-planted";
  server.answer(answered({ body: framed(Buffer.concat([Buffer.from([0x0f]), Buffer.from(planted)])) }));
  const got = await refusal(run("read"));
  expect([got.code, got.message]).toEqual(["INVALID_OUTPUT", "The service's answer does not match its contract."]);
  expect(got.cause).toMatchObject({ answerBytes: planted.length + 1, because: expect.stringMatching(/wire type/) });
  expect(JSON.stringify(got.cause)).not.toContain(planted);
});

describe("a valid status of the service is believed, for a change too", () => {
  test.each<[string, string, RefusalCode]>([
    ["a no", "5", "TARGET_REFUSED"],
    ["a failure", "13", "TARGET_FAILED"],
    ["a number that is no status", "99", "TARGET_FAILED"],
  ])("%s", async (_title, status, code) => {
    server.answer(answered({ body: EMPTY, trailers: { "grpc-status": status } }));
    expect((await refusal(run("write"))).code).toBe(code);
  });

  test.each([
    ["compressed as it says", compressed("gzip", gzipSync(EMPTY))],
    ["compressed with what few use", compressed("deflate", deflateSync(EMPTY))],
    ["not compressed, though it could be", answered({ headers: { "grpc-encoding": "gzip" } })],
    [
      "with much beside it",
      answered({ headers: { "x-much": "y".repeat(8_000) }, trailers: { "grpc-status": "0", a: "b" } }),
    ],
  ])("an answer %s", async (_title, how) => {
    server.answer(how);
    expect(await run("write")).toEqual({ headers: {} });
  });
});

test("a request that is too large for the service did not run", async () => {
  const status = { "grpc-status": "8", "grpc-message": "Received message larger than max (5005 vs 1000)" };
  server.answer((stream) => stream.respond({ ...GRPC_HEADERS, ...status }, { endStream: true }));
  for (const classification of ["read", "write"] as const) {
    const got = await refusal(run(classification));
    expect(got).toMatchObject({ code: "TARGET_FAILED", details: { status: "RESOURCE_EXHAUSTED" } });
  }
});

test("a stream whose messages inflate beyond all limits", async () => {
  server.answer(compressed("deflate", deflateSync(BOMB)));
  const stream = { itemsMax: 5, bytesMax: 1_000 };
  const binding = handler.bind(labTool({ method: "List", input: z.object({}), stream }));
  expect((await refusal(call(binding, {}))).code).toBe("OUTPUT_TOO_LARGE");
});

test("nothing that a service says is printed", async () => {
  const printed = spyOn(console, "error");
  server.answer(
    answered({ headers: { "x-odd": `\u00e9${SECRET}` }, trailers: { "grpc-status": "0", "x-bin": SECRET } }),
  );
  await run("read").catch(() => undefined);
  server.answer(answered({ trailers: { "grpc-status": "5", "grpc-message": `%E0%A4%A ${SECRET}` } }));
  const said = await refusal(run("read"));
  expect(Bun.inspect(said) + JSON.stringify(said)).not.toContain(SECRET);
  expect(printed).not.toHaveBeenCalled();
  printed.mockRestore();
});
