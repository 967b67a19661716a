import { afterAll, beforeAll, expect, test } from "bun:test";
import { createGzip } from "node:zlib";
import { post } from "../../src/audit/export/sender.ts";
import { keysAt } from "../support/jwks-server.ts";
import { FarSide } from "./outward-far-side.ts";

const PIECE = Buffer.alloc(1_048_576);
const PIECES = 1_024;
/** What inflates takes at least twice that on this runtime. */
const GROWTH_BYTES_MAX = 96 * 1_048_576;

let far: FarSide;
beforeAll(async () => {
  far = await FarSide.start();
  const packed = await gibibyteOfNothing();
  const head = "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n";
  const chunk = [`${packed.length.toString(16)}\r\n`, packed, "\r\n0\r\n\r\n"] as const;
  far.behaviour = (socket) => {
    socket.write(head);
    for (const part of chunk) socket.write(part);
  };
});
afterAll(() => far.close());

/** About a mebibyte. */
async function gibibyteOfNothing(): Promise<Buffer> {
  const gzip = createGzip({ level: 9 });
  const packed: Buffer[] = [];
  gzip.on("data", (bytes: Buffer) => packed.push(bytes));
  for (let count = 0; count < PIECES; count += 1) {
    await new Promise<void>((resolve) => gzip.write(PIECE, () => resolve()));
  }
  await new Promise<void>((resolve) => gzip.end(resolve));
  return Buffer.concat(packed);
}

/** Whoever inflates may be stopped early once. */
const TIMES = 8;

/** How much larger the process became meanwhile, at most. */
async function growth(work: () => Promise<unknown>): Promise<number> {
  Bun.gc(true);
  const before = process.memoryUsage.rss();
  let peak = before;
  const looks = setInterval(() => {
    peak = Math.max(peak, process.memoryUsage.rss());
  }, 5);
  for (let times = 0; times < TIMES; times += 1) {
    await work();
    await Bun.sleep(200);
  }
  clearInterval(looks);
  return peak - before;
}

test("an exporter's answer is not decompressed", async () => {
  const signal = new AbortController().signal;
  const options = { url: far.url, headers: {}, timeoutMs: 5_000, readsAnswer: true, signal };
  expect(await growth(() => post("{}", options))).toBeLessThan(GROWTH_BYTES_MAX);
});

test("an issuer's keys are not decompressed beyond their limit", async () => {
  const ask = () =>
    keysAt(far.url, 5_000)
      .candidates({ alg: "ES256", kid: "k" })
      .catch((error: unknown) => error);
  expect(await growth(ask)).toBeLessThan(GROWTH_BYTES_MAX);
  expect(await ask()).toMatchObject({ code: "AUTH_UNAVAILABLE" });
});
