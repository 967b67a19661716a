import {
  type Agent,
  type ClientRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
  request as requestHttp,
} from "node:http";
import { request as requestHttps } from "node:https";
import type { Socket } from "node:net";
import { brotliDecompressSync, gunzipSync, inflateSync } from "node:zlib";
import { errorName } from "../core/error-text.ts";
import { ForbiddenAddress, type Host } from "./checked-lookup.ts";

export interface EgressRequest {
  readonly method: string;
  readonly url: URL;
  /** Lower-case names. `host`, `content-length` and `connection` are set by the client. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly body?: string | Uint8Array | undefined;
  /** Ends the whole exchange. */
  readonly signal?: AbortSignal | undefined;
  /** Time limit for the whole exchange: lookup, connection, answer and body. */
  readonly timeoutMs?: number | undefined;
  /** Maximum size of the answer's body, as received and decompressed. */
  readonly bodyBytesMax: number;
  /** Called before the request is written to its connection. When it throws, nothing is sent. */
  readonly onSend?: (() => void) | undefined;
  /**
   * True when it is harmless if the server never sees the request because it is just closing the connection. Other requests
   * use a new connection, or one that was in use within the last second.
   */
  readonly isRepeatable: boolean;
  /** Accepts a body whose end is the end of the connection. A truncated body then looks like a whole one. */
  readonly acceptsUnboundedBody?: boolean | undefined;
}

export interface EgressAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** The whole body, decompressed. */
  readonly body: Buffer;
}

export interface EgressStream extends Omit<EgressAnswer, "body"> {
  /** The body while it arrives, not decompressed. Throws `EgressError`. Leaving a loop over it closes the connection. */
  readonly body: AsyncIterable<Buffer>;
  /** Reads the body instead: takes a third of the time. Rejects with `EgressError`. */
  whole(bytesMax: number): Promise<Buffer>;
  /** Closes the connection. Needed unless the body is read. */
  close(): void;
}

/**
 * A reason for a missing answer. `address`: refused address; `unreachable`: no connection, or no trust in its certificate;
 * `lost`: the connection ended; `malformed`: not HTTP, or head too large; `interim`: too many interim answers; `upgrade`: another
 * protocol; `too-large`, `encoding`, `unbounded`: the body; `aborted`: by signal or time limit, the reason is the `cause`.
 */
export type EgressFailure =
  | "address"
  | "unreachable"
  | "lost"
  | "malformed"
  | "interim"
  | "upgrade"
  | "too-large"
  | "encoding"
  | "unbounded"
  | "aborted";

/** The message contains neither the URL, which may be a secret, nor text of the server. */
export class EgressError extends Error {
  override readonly name = "EgressError";
  readonly failure: EgressFailure;
  /** Whether the server may have received the request. */
  readonly sent: boolean;
  /** Status of an answer whose head has arrived. */
  readonly status: number | undefined;

  constructor(
    failure: EgressFailure,
    message: string,
    facts: { readonly sent: boolean; readonly status?: number | undefined; readonly cause?: unknown },
  ) {
    super(message, "cause" in facts ? { cause: facts.cause } : undefined);
    this.failure = failure;
    this.sent = facts.sent;
    this.status = facts.status;
  }
}

/** Returns the reason of a failed request, without a text that may hold a URL: the name and code of its cause. */
export function egressReason(error: unknown): string {
  if (!(error instanceof EgressError)) return errorName(error);
  return error.cause === undefined ? error.failure : errorName(error.cause);
}

const HEAD_BYTES_MAX = 32_768;
const USER_AGENT = "safe-tool-call";

/** One request and its answer. Settles once, and ignores later events. */
export class SentRequest {
  readonly #request: EgressRequest;
  #sent: ClientRequest | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isSent = false;
  #isOver = false;
  #status: number | undefined;
  #onHead: (response: IncomingMessage) => void = () => {};
  /** Receives a failure after the head of a stream was handed out. */
  #onFailure: (error: EgressError) => void;

  constructor(request: EgressRequest, reject: (error: EgressError) => void) {
    this.#request = request;
    this.#onFailure = reject;
  }

  /** Reads the whole body. */
  whole(resolve: (answer: EgressAnswer) => void): this {
    this.#onHead = (response) => {
      const { statusCode: status = 0, headers } = response;
      this.#collect(response, this.#request.bodyBytesMax, (bytes) => {
        const body = this.#decompressed(bytes, headers["content-encoding"]);
        if (body === undefined || this.#isOver) return;
        this.#end();
        resolve({ status, headers, body });
      });
    };
    return this;
  }

  #collect(response: IncomingMessage, bytesMax: number, done: (bytes: Buffer) => void): void {
    const chunks: Buffer[] = [];
    let length = 0;
    response.on("data", (chunk: Buffer) => {
      length += chunk.length;
      if (length > bytesMax) this.#fail("too-large", "the body is too large");
      else chunks.push(chunk);
    });
    response.on("end", () => {
      if (!response.complete) return this.#fail("lost", "the body is incomplete");
      const [first = Buffer.alloc(0)] = chunks;
      done(chunks.length > 1 ? Buffer.concat(chunks) : first);
    });
  }

  /** Hands out the body while it arrives. */
  streamed(resolve: (answer: EgressStream) => void): this {
    this.#onHead = (response) => {
      const { statusCode: status = 0, headers } = response;
      let failure: EgressError | undefined;
      this.#onFailure = (error) => {
        failure = error;
        response.destroy(error);
      };
      const close = (): void => {
        this.#end();
        this.#sent?.destroy();
      };
      const whole = (bytesMax: number): Promise<Buffer> =>
        new Promise((read, reject) => {
          if (failure !== undefined) return reject(failure);
          this.#onFailure = reject;
          this.#collect(response, bytesMax, (bytes) => {
            this.#end();
            read(bytes);
          });
        });
      resolve({ status, headers, body: this.#chunks(response, () => failure), whole, close });
    };
    return this;
  }

  async *#chunks(response: IncomingMessage, failure: () => EgressError | undefined): AsyncGenerator<Buffer> {
    let length = 0;
    try {
      for await (const chunk of response as AsyncIterable<Buffer>) {
        length += chunk.length;
        if (length > this.#request.bodyBytesMax) this.#fail("too-large", "the body is too large");
        const failed = failure();
        if (failed !== undefined) throw failed;
        yield chunk;
      }
      if (!response.complete) this.#fail("lost", "the body is incomplete");
    } catch (error) {
      if (!(error instanceof EgressError)) this.#fail("lost", "the connection ended within the body", error);
    } finally {
      const isWhole = response.complete;
      this.#end();
      if (!isWhole) this.#sent?.destroy();
    }
    const failed = failure();
    if (failed !== undefined) throw failed;
  }

  /** Sends the request. What becomes of the answer is set before. */
  send(agent: Agent, { name, problem }: Host): void {
    const { url, method, headers, body, signal, timeoutMs } = this.#request;
    if (problem !== undefined) {
      this.#connectionFailed(new ForbiddenAddress(problem));
      return;
    }
    if (signal?.aborted) {
      this.#onSignal();
      return;
    }
    const isTls = url.protocol === "https:";
    const sent = (isTls ? requestHttps : requestHttp)({
      agent,
      method,
      maxHeaderSize: HEAD_BYTES_MAX,
      insecureHTTPParser: false,
      host: name,
      port: url.port || (isTls ? 443 : 80),
      path: `${url.pathname}${url.search}`,
      headers: {
        host: url.host,
        "user-agent": USER_AGENT,
        "accept-encoding": "identity",
        ...headers,
        ...((body !== undefined || !BODILESS.has(method)) && {
          "content-length": `${body === undefined ? 0 : Buffer.byteLength(body)}`,
        }),
      },
    });
    this.#sent = sent;
    boundInterimAnswers(sent);
    sent.on("socket", (socket) => this.#follow(sent, socket, isTls));
    sent.on("upgrade", (_response, socket) => {
      socket.destroy();
      this.#fail("upgrade", "the server switched to another protocol");
    });
    sent.on("error", (error) => this.#connectionFailed(error));
    sent.on("response", (response) => this.#answered(response));
    signal?.addEventListener("abort", this.#onSignal, { once: true });
    // The lookup has started: the signal may have fired meanwhile.
    if (signal?.aborted) this.#onSignal();
    if (timeoutMs !== undefined && !this.#isOver) {
      const timeout = (): void => this.#abort(new DOMException("The operation timed out.", "TimeoutError"));
      this.#timer = setTimeout(timeout, timeoutMs);
    }
    if (!this.#isOver) sent.end(body);
  }

  /** The request is written once the connection is there. */
  #follow(sent: ClientRequest, socket: Socket, isTls: boolean): void {
    if (sent.reusedSocket) this.#connected();
    else socket.once(isTls ? "secureConnect" : "connect", () => this.#connected());
  }

  #connected(): void {
    if (this.#isOver) return;
    try {
      this.#request.onSend?.();
      this.#isSent = true;
    } catch (error) {
      this.#abort(error);
    }
  }

  #answered(response: IncomingMessage): void {
    const { statusCode: status = 0, headers } = response;
    this.#status = status;
    this.#isSent = true;
    response.on("error", (error) => this.#fail("lost", "the connection ended within the body", error));
    response.on("close", () => {
      if (!response.complete) this.#fail("lost", "the connection ended within the body");
    });
    const coding = headers["transfer-encoding"]?.toLowerCase();
    const isBounded = coding !== undefined || headers["content-length"] !== undefined;
    const hasNoBody = this.#request.method === "HEAD" || status === 204 || status === 304;
    if (coding !== undefined && coding !== "chunked") {
      this.#fail("encoding", "the transfer encoding is unknown");
    } else if (!isBounded && !hasNoBody && this.#request.acceptsUnboundedBody !== true) {
      this.#fail("unbounded", "only the end of the connection bounds the body");
    } else {
      this.#onHead(response);
    }
  }

  #decompressed(bytes: Buffer, encoding: string | undefined): Buffer | undefined {
    const name = encoding?.trim().toLowerCase() ?? "identity";
    if (name === "identity" || name === "" || bytes.length === 0) return bytes;
    const decompress = DECOMPRESSORS.get(name);
    if (decompress === undefined) {
      this.#fail("encoding", "the content encoding is unknown");
      return undefined;
    }
    try {
      return decompress(bytes, { maxOutputLength: this.#request.bodyBytesMax });
    } catch (error) {
      const isTooLarge = error instanceof Error && "code" in error && error.code === "ERR_BUFFER_TOO_LARGE";
      if (isTooLarge) this.#fail("too-large", "the decompressed body is too large");
      else this.#fail("encoding", "the compressed body is malformed", error);
      return undefined;
    }
  }

  readonly #onSignal = (): void => this.#abort(this.#request.signal?.reason);

  #abort(reason: unknown): void {
    this.#fail("aborted", "the request was aborted", reason);
  }

  /** Handles an error of the connection. */
  #connectionFailed(error: unknown): void {
    const code = error instanceof Error && "code" in error ? String(error.code) : "";
    if (error instanceof ForbiddenAddress) this.#fail("address", error.message, error);
    else if (error instanceof InterimAnswers) this.#fail("interim", error.message, error);
    else if (code.startsWith("HPE_")) this.#fail("malformed", `not a valid answer (${code})`, error);
    else if (this.#isSent) this.#fail("lost", `the connection ended (${code})`, error);
    else this.#fail("unreachable", `no connection (${code})`, error);
  }

  #fail(failure: EgressFailure, message: string, cause?: unknown): void {
    if (this.#isOver) return;
    this.#end();
    this.#onFailure(new EgressError(failure, message, { sent: this.#isSent, status: this.#status, cause }));
    this.#sent?.destroy();
  }

  #end(): void {
    this.#isOver = true;
    clearTimeout(this.#timer);
    this.#request.signal?.removeEventListener("abort", this.#onSignal);
  }
}

/** Methods whose requests have no body unless one is given. */
const BODILESS = new Set(["GET", "HEAD", "DELETE", "OPTIONS"]);

const DECOMPRESSORS: ReadonlyMap<string, (bytes: Buffer, bounds: { readonly maxOutputLength: number }) => Buffer> =
  new Map([
    ["gzip", gunzipSync],
    ["x-gzip", gunzipSync],
    ["deflate", inflateSync],
    ["br", brotliDecompressSync],
  ]);

/** Maximum interim responses (1xx) per request: each takes processor time, and the runtime does not limit them. */
const INTERIM_ANSWERS_MAX = 16;

class InterimAnswers extends Error {
  override readonly name = "InterimAnswers";

  constructor() {
    super("too many interim answers");
  }
}

/** Aborts a request whose server keeps sending interim responses and never the final one. */
export function boundInterimAnswers(request: ClientRequest): void {
  let count = 0;
  request.on("information", () => {
    count += 1;
    if (count === INTERIM_ANSWERS_MAX) request.destroy(new InterimAnswers());
  });
}
