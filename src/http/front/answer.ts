import { STATUS_CODES } from "node:http";
import { headerLine } from "../../http1/headers.ts";
import type { AnswerHeaders, ServerAnswer } from "../messages.ts";
import { KEEP_ALIVE_MS } from "../server-options.ts";
import type { FrontRequest } from "./request.ts";

const ABOVE_ASCII = /[\x80-\xff]/;

/** Answers of this size are written with their head in one piece. */
const JOINED_BYTES_MAX = 65_536;

/** The connection of an answer, as far as answers need it. */
interface AnswerConnection {
  /** The value of the header Date. */
  readonly date: string;
  readonly isFlushed: boolean;
  /** Returns whether it is this answer's turn to be written. */
  isNext(answer: FrontAnswer): boolean;
  /** Returns whether the answer is still to be sent. */
  isOpen(answer: FrontAnswer): boolean;
  /** Whether the connection ends after this request, unless others follow. */
  endsAfter(request: FrontRequest): boolean;
  write(data: string | Buffer): void;
  /** Called when an answer is whole, whether or not it was that answer's turn. */
  answered(): void;
  destroy(): void;
}

/** The answer to one request of a connection. */
export class FrontAnswer implements ServerAnswer {
  statusCode = 200;
  /** True when the client has disconnected. */
  destroyed = false;
  writableEnded = false;
  writableFinished = false;
  /** True when nothing follows this answer on the connection. */
  closesConnection: boolean;
  readonly #request: FrontRequest;
  readonly #connection: AnswerConnection;
  /** The head, until it is written with the first part of the body. */
  #head: string | undefined;
  #hasHead = false;
  #isChunked = false;
  /** Data that was written before it was this answer's turn. */
  readonly #held: (string | Buffer)[] = [];
  #sent: (() => void) | undefined;
  readonly #onClose: (() => void)[] = [];
  readonly #onDrain: (() => void)[] = [];

  constructor(request: FrontRequest, connection: AnswerConnection) {
    this.#request = request;
    this.#connection = connection;
    this.closesConnection = !request.keepsAlive;
  }

  /** True when a part of the answer was written. */
  get hasBegun(): boolean {
    return this.#hasHead && this.#head === undefined;
  }

  /** Whether the server itself ends the connection after this answer: only `connection` is ever asked for. */
  hasHeader(_name: "connection"): boolean {
    return this.closesConnection || this.#connection.endsAfter(this.#request);
  }

  /** @throws {TypeError} for a header that cannot be sent */
  writeHead(status: number, headers: AnswerHeaders): void {
    if (this.#hasHead) throw new Error("the answer has begun");
    let head = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? "Unknown"}\r\n`;
    let hasLength = false;
    for (const name in headers) {
      const value = headers[name];
      if (value === undefined) continue;
      if (name === "content-length") hasLength = true;
      if (name === "connection") this.closesConnection = true;
      if (typeof value === "object") for (const each of value) head += lineOf(name, each);
      else head += lineOf(name, value);
    }
    if (this.hasHeader("connection") && headers["connection"] === undefined) {
      this.closesConnection = true;
      head += "connection: close\r\n";
    }
    const hasBody = status !== 204 && status !== 304 && this.#request.method !== "HEAD";
    // HTTP/1.0 knows no chunks: its body ends with the connection.
    this.#isChunked = hasBody && !hasLength && this.#request.httpVersion === "1.1";
    if (this.#isChunked) head += "transfer-encoding: chunked\r\n";
    head += `Date: ${this.#connection.date}\r\n`;
    if (!this.closesConnection) head += KEPT_ALIVE;
    this.statusCode = status;
    this.#head = `${head}\r\n`;
    this.#hasHead = true;
  }

  write(part: string | Uint8Array): boolean {
    this.#write(part);
    return this.#connection.isNext(this) && this.#connection.isFlushed;
  }

  end(part?: string | Uint8Array | (() => void), sent?: () => void): void {
    if (this.writableEnded) return;
    this.writableEnded = true;
    this.#sent = typeof part === "function" ? part : sent;
    const last = typeof part === "function" ? undefined : part;
    this.#write(last ?? "", { isLast: true });
    this.#connection.answered();
  }

  #write(part: string | Uint8Array, { isLast = false } = {}): void {
    const head = this.#head ?? "";
    this.#head = undefined;
    const hasBody = this.#request.method !== "HEAD" && part.length > 0;
    if (!hasBody) {
      this.#writeText(head + (isLast && this.#isChunked ? LAST_CHUNK : ""), "");
      return;
    }
    if (this.#isChunked) {
      const size = typeof part === "string" ? Buffer.byteLength(part) : part.length;
      const end = isLast ? `\r\n${LAST_CHUNK}` : "\r\n";
      const start = `${head}${size.toString(16)}\r\n`;
      if (typeof part === "string") this.#writeText(start, part + end);
      else this.#writeBytes(start, Buffer.concat([part, Buffer.from(end)]));
    } else if (typeof part === "string") {
      this.#writeText(head, part);
    } else {
      this.#writeBytes(head, part);
    }
  }

  #writeText(head: string, text: string): void {
    if (head === "" && text === "") return;
    // The head is Latin-1, the body UTF-8: they are the same only for ASCII.
    if (ABOVE_ASCII.test(head)) this.#send(Buffer.concat([Buffer.from(head, "latin1"), Buffer.from(text)]));
    else this.#send(head + text);
  }

  #writeBytes(head: string, bytes: Uint8Array): void {
    const start = Buffer.from(head, "latin1");
    if (bytes.length <= JOINED_BYTES_MAX) {
      this.#send(Buffer.concat([start, bytes]));
      return;
    }
    this.#send(start);
    this.#send(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength));
  }

  #send(data: string | Buffer): void {
    if (this.#connection.isNext(this)) this.#connection.write(data);
    else if (this.#connection.isOpen(this)) this.#held.push(data);
  }

  /** Writes the data that was held back before it was this answer's turn. */
  writeHeld(): void {
    for (const data of this.#held.splice(0)) this.#connection.write(data);
    if (this.#connection.isFlushed) this.drained();
  }

  /** Ends the connection, in the middle of the answer or without one. */
  destroy(): void {
    this.#connection.destroy();
  }

  on(event: "close" | "error", listener: () => void): void {
    if (event === "close") this.#onClose.push(listener);
  }

  once(event: "close" | "drain", listener: () => void): void {
    (event === "close" ? this.#onClose : this.#onDrain).push(listener);
  }

  removeListener(_event: "drain", listener: () => void): void {
    const at = this.#onDrain.indexOf(listener);
    if (at !== -1) this.#onDrain.splice(at, 1);
  }

  drained(): void {
    if (this.#onDrain.length > 0) for (const listener of this.#onDrain.splice(0)) listener();
  }

  /** The whole answer was passed to the system. */
  finished(): void {
    this.writableFinished = true;
    this.#sent?.();
    this.#notifyClosed();
  }

  /** Called when the client has disconnected before the whole answer was sent. */
  disconnected(): void {
    if (this.destroyed || this.writableFinished) return;
    this.destroyed = true;
    this.#notifyClosed();
  }

  #notifyClosed(): void {
    if (this.#onClose.length > 0) for (const listener of this.#onClose.splice(0)) listener();
  }
}

const LAST_CHUNK = "0\r\n\r\n";
const KEPT_ALIVE = `Connection: keep-alive\r\nKeep-Alive: timeout=${KEEP_ALIVE_MS / 1000}\r\n`;

/** @throws {TypeError} */
function lineOf(name: string, value: string | number): string {
  const line = typeof value === "number" ? `${name}: ${value}\r\n` : headerLine(name, value);
  if (line === undefined) throw new TypeError(`the header ${name} cannot be sent`);
  return line;
}
