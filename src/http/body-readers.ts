import { Refusal } from "../core/errors.ts";
import { CountByKey, sourceOf } from "./connections/sources.ts";
import type { EndpointServices, Exchange } from "./endpoint.ts";
import type { ReceivedRequest } from "./messages.ts";
import { type BodyLimits, tooLarge } from "./request-guard.ts";

/** One address, or one IPv6 /64, may use this share of the concurrent requests for incomplete bodies. */
const SHARE_PER_SOURCE = 1 / 8;
const PER_SOURCE_MIN = 16;

/** The part of an exchange from which its body is read. */
type SendingClient = Pick<Exchange, "raw" | "listen">;

export class BodyReaders {
  readonly #concurrentRequestsMax: () => number;
  readonly #reading = new CountByKey();
  /** Refuse the requests whose bodies are incomplete. */
  readonly #incomplete = new Set<() => void>();
  #isClosing = false;

  constructor(concurrentRequestsMax: () => number) {
    this.#concurrentRequestsMax = concurrentRequestsMax;
  }

  /**
   * Reads the whole body within its size and time limits. Returns the body, or throws, at once when it has arrived together with
   * its headers: it is accepted regardless of the source's other incomplete bodies, so that a slow neighbor does not lock out a
   * fast client.
   *
   * @throws {Refusal} RATE_LIMITED, PAYLOAD_TOO_LARGE, REQUEST_TIMEOUT, CANCELLED, SHUTTING_DOWN
   */
  read(exchange: SendingClient, limits: BodyLimits): Uint8Array | Promise<Uint8Array> {
    const body = exchange.raw.takeBody?.();
    if (body === undefined) return this.#readPieces(exchange, limits);
    if (body.length > limits.bodyBytesMax) throw tooLarge(limits.bodyBytesMax);
    return body;
  }

  /** Refuses requests whose bodies are incomplete, from now on: no call is admitted any more. */
  close(): void {
    this.#isClosing = true;
    for (const refuse of [...this.#incomplete]) refuse();
  }

  #readPieces(exchange: SendingClient, { bodyBytesMax, requestTimeoutMs }: BodyLimits): Promise<Uint8Array> {
    const { raw } = exchange;
    const source = sourceOf(raw.socket);
    const reading = this.#reading.of(source);
    const perSourceMax = Math.max(PER_SOURCE_MIN, Math.floor(this.#concurrentRequestsMax() * SHARE_PER_SOURCE));
    this.#reading.enter(source);
    return new Promise((resolve, reject) => {
      const body = new GrowingBytes();
      let isFinished = false;
      const finish = (refusal?: () => Refusal): void => {
        if (isFinished) return;
        isFinished = true;
        clearTimeout(timer);
        unlisten();
        this.#incomplete.delete(close);
        this.#reading.leave(source);
        if (refusal === undefined) {
          resolve(body.bytes);
          return;
        }
        // The request object lives until the rest of the body was read and discarded; the bytes received so far need not.
        body.drop();
        reject(refusal());
      };
      const close = (): void => finish(shuttingDown);
      let timer: ReturnType<typeof setTimeout> | undefined;
      const unlisten = exchange.listen(() => finish(disconnected));
      raw.on("data", (chunk: Buffer) => {
        if (isFinished) return;
        if (body.size + chunk.length <= bodyBytesMax) body.add(chunk);
        else finish(() => tooLarge(bodyBytesMax));
      });
      raw.on("end", () => finish());
      // A whole body is passed on at once, if the server has it already.
      if (!isFinished) {
        timer = setTimeout(() => finish(tooSlow), requestTimeoutMs);
        this.#incomplete.add(close);
      }
      if (this.#isClosing) close();
      if (reading >= perSourceMax) setImmediate(() => finish(tooMany));
    });
  }
}

/** Returns the readers of a listener, which end when it begins to close. */
export function bodyReaders({ concurrentRequestsMax, onClosing }: EndpointServices): BodyReaders {
  const readers = new BodyReaders(concurrentRequestsMax);
  onClosing(() => readers.close());
  return readers;
}

const GROWN_BYTES_MIN = 4_096;
const EMPTY = Buffer.alloc(0);

/** Collects chunks in one buffer: kept separately, chunks of one byte would take a hundred times as much memory. */
class GrowingBytes {
  #buffer: Buffer = EMPTY;
  size = 0;

  /** Returns the bytes; a body that arrived in one chunk is not copied. */
  get bytes(): Buffer {
    return this.size === this.#buffer.length ? this.#buffer : this.#buffer.subarray(0, this.size);
  }

  add(piece: Buffer): void {
    const size = this.size + piece.length;
    if (this.size === 0) this.#buffer = piece;
    else if (size > this.#buffer.length) this.#grow(size);
    if (this.size > 0) piece.copy(this.#buffer, this.size);
    this.size = size;
  }

  drop(): void {
    this.#buffer = EMPTY;
    this.size = 0;
  }

  #grow(size: number): void {
    const grown = Buffer.allocUnsafe(Math.max(size, 2 * this.#buffer.length, GROWN_BYTES_MIN));
    this.#buffer.copy(grown, 0, 0, this.size);
    this.#buffer = grown;
  }
}

const disconnected = (): Refusal =>
  new Refusal("CANCELLED", "The client disconnected before its request was complete.");
const tooSlow = (): Refusal => new Refusal("REQUEST_TIMEOUT", "The request was not complete in time.");
const shuttingDown = (): Refusal =>
  new Refusal("SHUTTING_DOWN", "The service is shutting down.", { retryAfterMs: 1_000 });
const tooMany = (): Refusal =>
  new Refusal("RATE_LIMITED", "Too many of your requests are incomplete at once.", {
    details: { limit: "incompleteRequests" },
    retryAfterMs: 1_000,
  });

/** Largest refused body that is discarded so that its connection can stay open. */
export const DISCARDED_BYTES_MAX = 65_536;
/** Maximum size of a discarded body; beyond this, the connection is cut. */
const BYTES_MAX = 268_435_456;
/** Maximum time from the answer to the end of the body. */
const TOTAL_MS = 10_000;
/** Maximum time between two chunks of the body: a client that waits for its answer sends none. */
const SILENCE_MS = 2_000;

/**
 * Calls back when the rest of a request's body was read and discarded, or when it is too large or too slow. A request that is
 * answered while its body is arriving gets its answer at once, and the answer, and thereby the connection, ends then: many
 * clients read nothing until they have sent everything, and closing a connection with unread bytes resets it, so they would
 * lose the answer.
 */
export function onceBodyEnds(request: ReceivedRequest, then: () => void): void {
  let bytes = 0;
  let hasEnded = false;
  const end = (): void => {
    if (hasEnded) return;
    hasEnded = true;
    clearTimeout(total);
    clearTimeout(silence);
    request.off("data", onData);
    then();
  };
  const onData = (piece: Buffer): void => {
    bytes += piece.length;
    if (bytes > BYTES_MAX) end();
    else silence.refresh();
  };
  const total = setTimeout(end, TOTAL_MS);
  const silence = setTimeout(end, SILENCE_MS);
  request.on("data", onData);
  request.on("end", end);
  request.on("close", end);
  request.on("error", end);
  request.resume();
}
