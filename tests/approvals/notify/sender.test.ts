import { afterAll, beforeAll, expect, test } from "bun:test";
import { send } from "../../../src/approvals/notify/sender.ts";
import { makeCertificates } from "../../../src/cli/development/certificates.ts";
import { Receiver } from "./receiver.ts";

let receiver: Receiver;
beforeAll(() => {
  receiver = new Receiver();
});
afterAll(() => receiver.close());

const headers = { "webhook-id": "msg_1", "webhook-timestamp": "1", "webhook-signature": "v1,x" };

function sendTo(url: string, more: { readonly timeoutMs?: number; readonly signal?: AbortSignal } = {}) {
  const { timeoutMs = 2_000, signal = new AbortController().signal } = more;
  return send('{"type":"x"}', { url, headers, nowMs: 0, timeoutMs, signal });
}

test.each([
  [200, { kind: "accepted" }],
  [204, { kind: "accepted" }],
  [410, { kind: "gone" }],
  [301, { kind: "later", reason: "status 301", retryAfterMs: undefined }],
  [400, { kind: "later", reason: "status 400", retryAfterMs: undefined }],
  [429, { kind: "later", reason: "status 429", retryAfterMs: 3_000 }],
  [500, { kind: "later", reason: "status 500", retryAfterMs: undefined }],
  [503, { kind: "later", reason: "status 503", retryAfterMs: 3_000 }],
] as const)("an answer with status %d", async (status, want) => {
  const before = receiver.arrived.length;
  receiver.answer = () => new Response(null, { status, headers: { "retry-after": "3", location: receiver.url } });
  expect(await sendTo(receiver.url)).toEqual(want);
  expect(receiver.arrived).toHaveLength(before + 1);
});

test("an unusable receiver, and a name that resolves to the cloud's metadata addresses", async () => {
  const nobody = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
  const { port } = nobody;
  nobody.stop(true);
  expect(await sendTo(`http://127.0.0.1:${port}/`)).toMatchObject({
    kind: "later",
    reason: expect.stringContaining("ECONNREFUSED"),
  });
  expect(await sendTo("http://169.254.169.254/latest/")).toEqual({
    ...{ kind: "later", reason: "ForbiddenAddress", retryAfterMs: undefined },
  });
  // A secret address stands in no reason.
  expect(JSON.stringify(await sendTo(`http://127.0.0.1:${port}/secret`))).not.toContain("secret");
});

test("a receiver with an unknown certificate", async () => {
  const from = Date.parse("2020-01-01T00:00:00Z");
  const validity = { notBefore: new Date(from), notAfter: new Date("2099-01-01T00:00:00Z") };
  const { key, cert } = (await makeCertificates(validity)).server;
  const server = Bun.serve({ port: 0, hostname: "127.0.0.1", tls: { key, cert }, fetch: () => new Response() });
  expect(await sendTo(`https://127.0.0.1:${server.port}/`)).toMatchObject({ kind: "later" });
  expect(await sendTo(`https://localhost:${server.port}/`)).toMatchObject({ kind: "later" });
  await server.stop(true);
});

test("a receiver that is too slow, and a request that we abort", async () => {
  const silent = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
  const url = `http://127.0.0.1:${silent.port}/`;
  expect(await sendTo(url, { timeoutMs: 50 })).toMatchObject({ kind: "later", reason: "TimeoutError" });
  expect(await sendTo(url, { signal: AbortSignal.abort() })).toMatchObject({ kind: "later", reason: "AbortError" });
  silent.stop(true);
});
