import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { Readable } from "node:stream";
import type { FastifyRequest } from "fastify";
import { networkOf } from "../audit/unauthenticated.ts";
import { Refusal } from "../core/errors.ts";
import { type BodyLimits, tooLarge } from "./request-guard.ts";

/** One address, or one /64 of IPv6, may hold this part of the door with bodies that do not come to an end. */
const SHARE_PER_SOURCE = 1 / 8;
const PER_SOURCE_MIN = 16;

/** Reads bodies, and sees to it that no single peer fills the door with slow ones. */
export class BodyReaders {
  readonly #concurrentRequestsMax: () => number;
  readonly #reading = new Map<string, number>();
  /** Asking a socket for its peer is dear; connections are kept alive. */
  readonly #sources = new WeakMap<Socket, string>();

  constructor(concurrentRequestsMax: () => number) {
    this.#concurrentRequestsMax = concurrentRequestsMax;
  }

  /**
   * The body whole, within its size and its time. Rejects with a `Refusal`: RATE_LIMITED, PAYLOAD_TOO_LARGE, REQUEST_TIMEOUT,
   * CANCELLED. A body that came whole with its head is taken however many others of its source are not: who sends at once is
   * not kept out by a neighbour who does not.
   */
  read({ raw }: FastifyRequest, { bodyBytesMax, requestTimeoutMs }: BodyLimits): Promise<Uint8Array> {
    const source = this.#sourceOf(raw.socket);
    const reading = this.#reading.get(source) ?? 0;
    const perSourceMax = Math.max(PER_SOURCE_MIN, Math.floor(this.#concurrentRequestsMax() * SHARE_PER_SOURCE));
    this.#reading.set(source, reading + 1);
    return new Promise((resolve, reject) => {
      const body = new GrowingBytes();
      let isSettled = false;
      const settle = (refusal?: () => Refusal): void => {
        if (isSettled) return;
        isSettled = true;
        clearTimeout(timer);
        this.#leave(source);
        if (refusal === undefined) {
          resolve(body.bytes);
          return;
        }
        // The request lives on until its rest was read and thrown away; what came of it need not.
        body.drop();
        reject(refusal());
      };
      const onGone = (): void => settle(gone);
      const timer = setTimeout(() => settle(tooSlow), requestTimeoutMs);
      raw.on("data", (chunk: Buffer) => {
        if (isSettled) return;
        if (body.size + chunk.length <= bodyBytesMax) body.add(chunk);
        else settle(() => tooLarge(bodyBytesMax));
      });
      raw.on("end", () => settle());
      raw.on("error", onGone).on("close", onGone);
      if (reading >= perSourceMax) setImmediate(() => settle(tooMany));
    });
  }

  #leave(source: string): void {
    const left = (this.#reading.get(source) ?? 1) - 1;
    if (left === 0) this.#reading.delete(source);
    else this.#reading.set(source, left);
  }

  #sourceOf(socket: Socket): string {
    const known = this.#sources.get(socket);
    if (known !== undefined) return known;
    const source = networkOf(socket.remoteAddress ?? "");
    this.#sources.set(socket, source);
    return source;
  }
}

const GROWN_BYTES_MIN = 4_096;
const NOTHING = Buffer.alloc(0);

/** Pieces in a row, in the memory of their bytes: kept each for itself, pieces of one byte would take a hundred times as much. */
class GrowingBytes {
  #room: Buffer = NOTHING;
  size = 0;

  /** What came in one piece is that piece. */
  get bytes(): Buffer {
    return this.size === this.#room.length ? this.#room : this.#room.subarray(0, this.size);
  }

  add(piece: Buffer): void {
    const size = this.size + piece.length;
    if (this.size === 0) this.#room = piece;
    else if (size > this.#room.length) this.#grow(size);
    if (this.size > 0) piece.copy(this.#room, this.size);
    this.size = size;
  }

  drop(): void {
    this.#room = NOTHING;
    this.size = 0;
  }

  #grow(size: number): void {
    const grown = Buffer.allocUnsafe(Math.max(size, 2 * this.#room.length, GROWN_BYTES_MIN));
    this.#room.copy(grown, 0, 0, this.size);
    this.#room = grown;
  }
}

const gone = (): Refusal => new Refusal("CANCELLED", "The client went away before its request was complete.");
const tooSlow = (): Refusal => new Refusal("REQUEST_TIMEOUT", "The request was not complete in time.");
const tooMany = (): Refusal =>
  new Refusal("RATE_LIMITED", "Too many of your requests are incomplete at once.", {
    details: { limit: "incompleteRequests" },
    retryAfterMs: 1_000,
  });

/** Of a body that nobody wants; more is cut off. */
const BYTES_MAX = 268_435_456;
/** From the answer to the end of the body. */
const TOTAL_MS = 10_000;
/** Between two pieces of the body: a client that waits for its answer sends none. */
const SILENCE_MS = 2_000;

/**
 * An answer to a request whose body is still on its way: it is sent at once, and ends, and with it the connection, when the rest
 * of the body was read and thrown away. Many clients read nothing before they have sent everything, and closing a connection
 * with unread bytes resets it: they would lose the answer. The rest is bounded in bytes and time.
 */
export function answeredWhileSending(request: IncomingMessage, answer: string): Readable {
  const answering = new Readable({ read() {} });
  answering.push(answer);
  let bytes = 0;
  const end = (): void => {
    clearTimeout(total);
    clearTimeout(silence);
    request.off("data", onData);
    if (!answering.readableEnded) answering.push(null);
  };
  const onData = (piece: Buffer): void => {
    bytes += piece.length;
    if (bytes > BYTES_MAX) end();
    else silence.refresh();
  };
  const total = setTimeout(end, TOTAL_MS);
  const silence = setTimeout(end, SILENCE_MS);
  request.on("data", onData);
  request.once("end", end).once("close", end).once("error", end);
  request.resume();
  return answering;
}
