import type { IncomingHttpHeaders } from "node:http";
import { brotliDecompressSync, gunzipSync, inflateSync } from "node:zlib";
import { InterimAnswers, MalformedAnswer } from "./answer-reader.ts";
import { ForbiddenAddress } from "./checked-lookup.ts";
import {
  type EgressAnswer,
  EgressError,
  type EgressFailure,
  type EgressRequest,
  type EgressStream,
} from "./request.ts";
import { requestBytes } from "./request-bytes.ts";

/** Waits or works for an exchange, and stops when the exchange ends early. */
interface ExchangeOwner {
  drop(exchange: EgressExchange): void;
}

/** One request and its answer. Settles once, and ignores later events. */
export abstract class EgressExchange implements EventListenerObject {
  readonly request: EgressRequest;
  /** Head and body of the request. */
  readonly bytes: Buffer;
  owner: ExchangeOwner | undefined;
  /** Continues the answer. Set while the connection waits because the exchange is full. */
  onRead: (() => void) | undefined;
  protected status: number | undefined;
  protected headers: IncomingHttpHeaders = {};
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isSent = false;
  #isOver = false;

  /** @throws {TypeError} when the request has a character that a head must not have */
  constructor(request: EgressRequest, keepsConnection: boolean) {
    this.request = request;
    this.bytes = requestBytes(request, keepsConnection);
  }

  /** Watches the signal and the time. Returns false when the exchange is over. */
  begin(): boolean {
    const { signal, timeoutMs } = this.request;
    if (signal?.aborted) this.handleEvent();
    if (this.#isOver) return false;
    // The exchange itself is the listener: a function for each request takes time and memory.
    signal?.addEventListener("abort", this, { once: true });
    if (timeoutMs !== undefined) this.#timer = setTimeout(() => this.#abort(timedOut()), timeoutMs);
    return true;
  }

  /** Called by the signal. */
  handleEvent(): void {
    this.#abort(this.request.signal?.reason);
  }

  /** Called before the request is written to its connection. Returns false when it must not be written. */
  beginSending(): boolean {
    if (this.#isOver) return false;
    try {
      this.request.onSend?.();
      this.#isSent = true;
    } catch (error) {
      this.#abort(error);
    }
    return this.#isSent;
  }

  /** Receives the head of the final answer. */
  answered(status: number, headers: IncomingHttpHeaders): void {
    this.status = status;
    this.headers = headers;
    const coding = headers["transfer-encoding"]?.toLowerCase();
    const isBounded = coding !== undefined || headers["content-length"] !== undefined;
    const hasNoBody = this.request.method === "HEAD" || status === 204 || status === 304;
    if (coding !== undefined && coding !== "chunked") {
      this.fail("encoding", "the transfer encoding is unknown");
    } else if (!isBounded && !hasNoBody && this.request.acceptsUnboundedBody !== true) {
      this.fail("unbounded", "only the end of the connection bounds the body");
    } else {
      this.onHead(status, headers);
    }
  }

  switchedProtocol(): void {
    this.fail("upgrade", "the server switched to another protocol");
  }

  /** Receives a part of the body. */
  abstract received(chunk: Buffer): void;

  /** Receives the end of the answer, after which the exchange has no connection. */
  abstract ended(): void;

  /** True when the rest of the answer should wait until more of it is read. */
  get isFull(): boolean {
    return false;
  }

  /** Handles an error of the connection, or its end without one. */
  failed(error: unknown): void {
    const code = error instanceof Error && "code" in error ? String(error.code) : "";
    if (error instanceof ForbiddenAddress) this.fail("address", error.message, error);
    else if (error instanceof InterimAnswers) this.fail("interim", error.message, error);
    else if (error instanceof MalformedAnswer) this.fail("malformed", `not a valid answer (${code})`, error);
    else if (this.status !== undefined) this.fail("lost", "the connection ended within the body", error);
    else if (this.#isSent) this.fail("lost", `the connection ended (${code})`, error);
    else this.fail("unreachable", `no connection (${code})`, error);
  }

  fail(failure: EgressFailure, message: string, cause?: unknown): void {
    if (this.#isOver) return;
    const { owner } = this;
    this.end();
    owner?.drop(this);
    this.onFailure(this.errorOf(failure, message, cause));
  }

  protected errorOf(failure: EgressFailure, message: string, cause?: unknown): EgressError {
    return new EgressError(failure, message, { sent: this.#isSent, status: this.status, cause });
  }

  /** Ends the exchange without a failure. */
  protected end(): void {
    this.#isOver = true;
    this.owner = undefined;
    clearTimeout(this.#timer);
    this.request.signal?.removeEventListener("abort", this);
  }

  protected abstract onHead(status: number, headers: IncomingHttpHeaders): void;

  protected abstract onFailure(error: EgressError): void;

  #abort(reason: unknown): void {
    this.fail("aborted", "the request was aborted", reason);
  }
}

function timedOut(): DOMException {
  return new DOMException("The operation timed out.", "TimeoutError");
}

type Reject = (error: EgressError) => void;

/** Reads the whole body and decompresses it. */
export class WholeExchange extends EgressExchange {
  readonly #resolve: (answer: EgressAnswer) => void;
  readonly #chunks: Buffer[] = [];
  #length = 0;
  protected readonly onFailure: Reject;

  constructor(
    request: EgressRequest,
    keepsConnection: boolean,
    { resolve, reject }: { readonly resolve: (answer: EgressAnswer) => void; readonly reject: Reject },
  ) {
    super(request, keepsConnection);
    this.#resolve = resolve;
    this.onFailure = reject;
  }

  protected onHead(): void {}

  received(chunk: Buffer): void {
    this.#length += chunk.length;
    if (this.#length > this.request.bodyBytesMax) this.fail("too-large", "the body is too large");
    else this.#chunks.push(chunk);
  }

  ended(): void {
    const { status = 0, headers } = this;
    const body = this.#decompressed(joined(this.#chunks), headers["content-encoding"]);
    if (body === undefined) return;
    this.end();
    this.#resolve({ status, headers, body });
  }

  #decompressed(bytes: Buffer, encoding: string | undefined): Buffer | undefined {
    const name = encoding?.trim().toLowerCase() ?? "identity";
    if (name === "identity" || name === "" || bytes.length === 0) return bytes;
    const decompress = DECOMPRESSORS.get(name);
    if (decompress === undefined) {
      this.fail("encoding", "the content encoding is unknown");
      return undefined;
    }
    try {
      return decompress(bytes, { maxOutputLength: this.request.bodyBytesMax });
    } catch (error) {
      const isTooLarge = error instanceof Error && "code" in error && error.code === "ERR_BUFFER_TOO_LARGE";
      if (isTooLarge) this.fail("too-large", "the decompressed body is too large");
      else this.fail("encoding", "the compressed body is malformed", error);
      return undefined;
    }
  }
}

function joined(chunks: readonly Buffer[]): Buffer {
  const [first = Buffer.alloc(0)] = chunks;
  return chunks.length > 1 ? Buffer.concat(chunks) : first;
}

const DECOMPRESSORS: ReadonlyMap<string, (bytes: Buffer, bounds: { readonly maxOutputLength: number }) => Buffer> =
  new Map([
    ["gzip", gunzipSync],
    ["x-gzip", gunzipSync],
    ["deflate", inflateSync],
    ["br", brotliDecompressSync],
  ]);

/** Bytes of a streamed body that may wait to be read. From here on, the connection waits too. */
const UNREAD_BYTES_MAX = 65_536;

/** Hands out the body while it arrives. */
export class StreamedExchange extends EgressExchange implements AsyncIterable<Buffer> {
  readonly #resolve: (answer: EgressStream) => void;
  readonly #reject: Reject;
  readonly #chunks: Buffer[] = [];
  #unread = 0;
  #isWhole = false;
  #isClosed = false;
  #failure: EgressError | undefined;
  /** Continues the reader of the body. */
  #wake = (): void => {};

  constructor(
    request: EgressRequest,
    keepsConnection: boolean,
    { resolve, reject }: { readonly resolve: (answer: EgressStream) => void; readonly reject: Reject },
  ) {
    super(request, keepsConnection);
    this.#resolve = resolve;
    this.#reject = reject;
  }

  protected onHead(status: number, headers: IncomingHttpHeaders): void {
    const close = (): void => this.#close();
    const whole = (bytesMax: number): Promise<Buffer> => this.#whole(bytesMax);
    this.#resolve({ status, headers, body: this, whole, close });
  }

  /** Returns the parts of the body. */
  [Symbol.asyncIterator](): AsyncGenerator<Buffer> {
    return this.#parts(this.request.bodyBytesMax);
  }

  override get isFull(): boolean {
    return this.#unread >= UNREAD_BYTES_MAX;
  }

  received(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#unread += chunk.length;
    this.#wake();
  }

  ended(): void {
    this.#isWhole = true;
    this.end();
    this.#wake();
  }

  /** Parts of the body that arrived before the failure are handed out first, unless the exchange was aborted. */
  protected onFailure(error: EgressError): void {
    if (this.status === undefined) this.#reject(error);
    if (error.failure === "aborted") this.#chunks.length = 0;
    this.#failure = error;
    this.#wake();
  }

  #whole(bytesMax: number): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      const chunks: Buffer[] = [];
      let left = bytesMax;
      this.#wake = () => {
        for (let chunk = this.#next(left); chunk !== undefined; chunk = this.#next(left)) {
          left -= chunk.length;
          chunks.push(chunk);
        }
        if (this.#failure !== undefined) reject(this.#failure);
        else if (this.#isWhole) resolve(joined(chunks));
        else if (this.#isClosed) reject(this.errorOf("aborted", "the request was aborted"));
      };
      this.#wake();
    });
  }

  async *#parts(bytesMax: number): AsyncGenerator<Buffer> {
    let left = bytesMax;
    try {
      for (;;) {
        const chunk = this.#next(left);
        if (chunk !== undefined) {
          left -= chunk.length;
          yield chunk;
        } else if (this.#failure !== undefined) {
          throw this.#failure;
        } else if (this.#isWhole || this.#isClosed) {
          return;
        } else {
          await new Promise<void>((resolve) => {
            this.#wake = resolve;
          });
        }
      }
    } finally {
      this.#close();
    }
  }

  /** Returns the next part that has arrived. */
  #next(bytesMax: number): Buffer | undefined {
    const chunk = this.#chunks.shift();
    if (chunk === undefined) return undefined;
    this.#unread -= chunk.length;
    if (chunk.length > bytesMax) {
      this.#chunks.length = 0;
      this.fail("too-large", "the body is too large");
      // The whole body has arrived before it was read.
      this.#failure ??= this.errorOf("too-large", "the body is too large");
      return undefined;
    }
    if (!this.isFull) this.onRead?.();
    return chunk;
  }

  #close(): void {
    const { owner } = this;
    this.#isClosed = true;
    this.end();
    owner?.drop(this);
    this.#wake();
  }
}
