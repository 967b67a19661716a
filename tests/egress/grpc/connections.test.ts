import { afterAll, beforeAll, expect, test } from "bun:test";
import { Server, ServerCredentials, type ServerUnaryCall, type sendUnaryData } from "@grpc/grpc-js";
import { AttemptFailed } from "../../../src/egress/grpc/attempt.ts";
import { SystemConnections } from "../../../src/egress/grpc/connections.ts";
import { resolveEndpoints, type SystemEndpointsOptions } from "../../../src/egress/grpc/endpoints.ts";
import { KEEPALIVE_DEFAULTS } from "../../../src/egress/grpc/settings.ts";

/** Connections that serve no tool: whatever asks another system over gRPC needs a field for its errors, and bytes. */

const FIELD = "decisionPoints[0].policies";
const PATH = "/policies.v1.Policies/Decide";
const bytes = (value: Buffer): Buffer => value;
const server = new Server();
let port = 0;

type Answer = sendUnaryData<Buffer>;

beforeAll(async () => {
  const service = {
    decide: {
      ...{ path: PATH, requestStream: false, responseStream: false },
      ...{ requestSerialize: bytes, requestDeserialize: bytes, responseSerialize: bytes, responseDeserialize: bytes },
    },
  };
  server.addService(service, {
    decide: ({ request }: ServerUnaryCall<Buffer, Buffer>, answer: Answer) => {
      // The signal of the test ends a request that nobody answers.
      if (request.length > 0) answer(null, Buffer.from([...request].reverse()));
    },
  });
  port = await new Promise<number>((resolve, reject) => {
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) =>
      error === null ? resolve(bound) : reject(error),
    );
  });
});
afterAll(() => server.forceShutdown());

function connectionsTo(options: SystemEndpointsOptions): SystemConnections {
  const endpoints = resolveEndpoints(FIELD, options);
  return new SystemConnections({ endpoints, maxMessageBytes: 1_000, keepalive: KEEPALIVE_DEFAULTS });
}

test("a request is answered in bytes, ends with its signal, and none is sent after closing", async () => {
  const connections = connectionsTo({ endpoint: `127.0.0.1:${port}`, plaintext: true });
  const stop = new AbortController();
  const asked = (request: Buffer) =>
    connections
      .unary({ path: PATH, bytes: request, deadline: Number.POSITIVE_INFINITY, signal: stop.signal })
      .catch((failed: AttemptFailed) => [failed instanceof AttemptFailed, failed.origin, failed.status]);
  try {
    expect(await connections.connect(stop.signal)).toBe(true);
    expect(await asked(Buffer.from([1, 2, 3]))).toEqual(Buffer.from([3, 2, 1]));
    const unanswered = asked(Buffer.alloc(0));
    stop.abort();
    expect(await unanswered).toEqual([true, "local", "CANCELLED"]);
  } finally {
    connections.close();
  }
  expect([connections.state(), await connections.connect(new AbortController().signal)]).toEqual(["SHUTDOWN", false]);
});

test.each<[string, SystemEndpointsOptions]>([
  ["endpoint must be host:port", { endpoint: "policies", plaintext: true }],
  ["tls is missing", { endpoint: "policies:443" }],
])("settings that cannot work name their field: %s", (message, options) => {
  expect(() => connectionsTo(options)).toThrow(`${FIELD}: ${message}`);
});
