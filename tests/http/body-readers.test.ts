import { heapStats } from "bun:jsc";
import { expect, test } from "bun:test";
import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import fc from "fast-check";
import { BodyReaders } from "../../src/http/body-readers.ts";
import { FrontRequest } from "../../src/http/front/request.ts";

const BODY_BYTES_MAX = 200_000;
const LIMITS = { bodyBytesMax: BODY_BYTES_MAX, bodyDepthMax: 8, bodyKeysMax: 8, requestTimeoutMs: 60_000 };

interface Sending {
  readonly raw: Readable;
  readonly body: Promise<Uint8Array>;
}

function open(): Sending {
  const raw = Object.assign(new Readable({ read() {} }), { socket: { remoteAddress: "192.0.2.1" } });
  const exchange = { raw: raw as unknown as IncomingMessage, listen: () => () => {} };
  return { raw, body: Promise.resolve(new BodyReaders(() => 64).read(exchange, LIMITS)) };
}

const outcome = (body: Promise<Uint8Array>): Promise<unknown> =>
  body.then(
    (bytes) => Buffer.from(bytes).toString("hex"),
    (error: { readonly code?: unknown }) => error.code,
  );

test("a body is its pieces in order, however split, up to its maximum", async () => {
  const piece = fc.oneof(fc.uint8Array({ maxLength: 3 }), fc.uint8Array({ minLength: 4_000, maxLength: 60_000 }));
  await fc.assert(
    fc.asyncProperty(fc.array(piece, { maxLength: 12 }), async (pieces) => {
      const { raw, body } = open();
      for (const one of pieces) raw.push(one);
      raw.push(null);
      const whole = Buffer.concat(pieces);
      expect(await outcome(body)).toBe(whole.length > BODY_BYTES_MAX ? "PAYLOAD_TOO_LARGE" : whole.toString("hex"));
    }),
    { numRuns: 60 },
  );
});

test.each([
  [BODY_BYTES_MAX, "61".repeat(BODY_BYTES_MAX)],
  [BODY_BYTES_MAX + 1, "PAYLOAD_TOO_LARGE"],
])("%d pieces of a byte each", async (count, want) => {
  const { raw, body } = open();
  const read = outcome(body);
  for (let sent = 0; sent < count; sent += 1) raw.push(Buffer.from("a"));
  raw.push(null);
  expect((await read) === want).toBe(true);
});

test("an incomplete body holds its bytes, not its pieces", async () => {
  const { raw, body } = open();
  const read = outcome(body);
  for (let sent = 0; sent < BODY_BYTES_MAX; sent += 1) raw.push(Buffer.from("a"));
  while (raw.readableLength > 0) await new Promise((resolve) => setImmediate(resolve));
  Bun.gc(true);
  expect(heapStats().objectTypeCounts["Uint8Array"] ?? 0).toBeLessThan(BODY_BYTES_MAX / 10);
  raw.push(null);
  await read;
});

/** A request of the built-in server whose body has arrived in these pieces. */
function arrived(sizes: readonly number[]) {
  const head = { method: "POST", target: "/", httpVersion: "1.1", rawHeaders: [], keepsAlive: true } as const;
  const connection = { encrypted: false, readOn() {}, isLatest: () => true, ignoreLater() {} };
  const raw = new FrontRequest(head, connection);
  for (const size of sizes) raw.add(Buffer.alloc(size, "a"));
  raw.end();
  return { raw, listen: () => () => {} };
}

test.each([
  ["no body", [], 0],
  ["one piece", [BODY_BYTES_MAX], BODY_BYTES_MAX],
  ["two pieces", [1, BODY_BYTES_MAX - 1], BODY_BYTES_MAX],
  ["one piece that is too large", [BODY_BYTES_MAX + 1], "PAYLOAD_TOO_LARGE"],
  ["two pieces that are too large", [1, BODY_BYTES_MAX], "PAYLOAD_TOO_LARGE"],
] as const)("a body that is there before it is read: %s", async (_title, sizes, want) => {
  const readers = new BodyReaders(() => 64);
  const read = Promise.try(() => readers.read(arrived(sizes), LIMITS));
  const length = await read.then(
    (body) => body.length,
    (error: { readonly code?: unknown }) => error.code,
  );
  expect(length).toBe(want);
});

test("when the listener closes, only bodies that are incomplete are refused", async () => {
  const readers = new BodyReaders(() => 64);
  const incomplete = (): unknown => {
    const raw = Object.assign(new Readable({ read() {} }), { socket: { remoteAddress: "192.0.2.1" } });
    return readers.read({ raw: raw as unknown as IncomingMessage, listen: () => () => {} }, LIMITS);
  };
  const before = incomplete();
  readers.close();
  for (const reading of [before, incomplete()]) await expect(reading).rejects.toMatchObject({ code: "SHUTTING_DOWN" });
  expect((await readers.read(arrived([3]), LIMITS)).length).toBe(3);
});
