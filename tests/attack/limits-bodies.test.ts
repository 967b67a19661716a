import { expect, test } from "bun:test";
import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import { BodyReaders } from "../../src/http/body-readers.ts";

const LIMITS = { bodyBytesMax: 1_024, bodyDepthMax: 8, bodyKeysMax: 8, requestTimeoutMs: 60_000 };
/** Of one source: the least that there is. */
const PER_SOURCE = 16;

interface Sent {
  readonly exchange: Parameters<BodyReaders["read"]>[0];
  end(): void;
}

/** A request from the address whose body does not come to an end by itself. */
function from(remoteAddress: string): Sent {
  const raw = Object.assign(new Readable({ read() {} }), { socket: { remoteAddress } });
  const exchange = { raw: raw as unknown as IncomingMessage, listen: () => () => {} };
  return { exchange, end: () => void raw.push(null) };
}

function codeOf(reading: unknown): Promise<unknown> {
  return Promise.resolve(reading).then(
    () => "read",
    (error: unknown) => (error as { code?: unknown }).code,
  );
}

test.each([
  ["one address", () => "192.0.2.1", "192.0.2.1", "192.0.2.2"],
  ["one network of IPv6", (index: number) => `2001:db8::${index + 1}`, "2001:db8::ffff:1", "2001:db8:0:1::1"],
] as const)("endless bodies: %s has its share, other clients have theirs", async (_title, addressOf, same, other) => {
  const readers = new BodyReaders(() => 64);
  const slow = Array.from({ length: PER_SOURCE }, (_, index) => from(addressOf(index)));
  const reading = slow.map(({ exchange }) => codeOf(readers.read(exchange, LIMITS)));
  expect(await codeOf(readers.read(from(same).exchange, LIMITS))).toBe("RATE_LIMITED");
  const elsewhere = from(other);
  const read = codeOf(readers.read(elsewhere.exchange, LIMITS));
  elsewhere.end();
  expect(await read).toBe("read");
  for (const { end } of slow) end();
  expect(new Set(await Promise.all(reading))).toEqual(new Set(["read"]));
  const again = from(same);
  const last = codeOf(readers.read(again.exchange, LIMITS));
  again.end();
  expect(await last).toBe("read");
});
