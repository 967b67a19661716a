import { latin1 } from "../../http1/header-names.ts";
import { withoutEndSpace } from "../../http1/headers.ts";
import { Http1Error } from "../../http1/http1-error.ts";
import type { AfterHead, Http1Parser, MessageHandler, MessageHead, ParserFactory } from "../../http1/parser.ts";
import type { RawEnd } from "../connections/raw-answer.ts";
import { FrontRequest, NAMES, type RequestConnection } from "./request.ts";

/** Headers in one request. */
const HEADERS_MAX = 200;
/** A path, or a whole URL, whose host the guard compares with `Host`. */
const TARGET = /^(?:\/|https?:\/\/)/i;
const LF = 0x0a;
const CR = 0x0d;

/** Why a request is not read any further. */
export class UnreadableRequest extends Error {
  override readonly name = "UnreadableRequest";
  readonly end: RawEnd | "tunnel";

  constructor(end: RawEnd | "tunnel", reason: string) {
    super(reason);
    this.end = end;
  }
}

/** Result of `read`. */
interface Reading {
  /** Bytes that were used. The others belong to the next request. */
  readonly used: number;
  /** The request whose head became complete. */
  readonly begun: FrontRequest | undefined;
  /** A part of the body of the current request. */
  readonly body: Buffer | undefined;
  /** True when the current request is complete. */
  readonly isComplete: boolean;
  /** Why the body of the request that has begun cannot be read. */
  readonly failure?: UnreadableRequest;
}

/**
 * Reads the requests of one connection, one at a time. llhttp decides what is HTTP; this class sets the bounds of a head and
 * refuses what llhttp allows but no ordinary client sends.
 */
export class RequestReader implements MessageHandler {
  readonly #parser: Http1Parser;
  readonly #connection: RequestConnection;
  readonly #headBytesMax: number;
  /** The request line as sent, up to its LF. */
  #line = "";
  #isLineComplete = false;
  /** Bytes of reads in which the head did not end. */
  #readBytes = 0;
  #target = "";
  #name = "";
  #value = "";
  #isInValue = false;
  #rawHeaders: string[] = [];
  /** Bytes of the head, as far as it was parsed. */
  #headBytes = 0;
  #isInBody = false;
  /** True after the CR of an empty line before a request. */
  #awaitsLf = false;
  #begun: FrontRequest | undefined;
  readonly #body = new BodyPart();
  #isComplete = false;

  constructor(parsers: ParserFactory, connection: RequestConnection, headBytesMax: number) {
    this.#parser = parsers.requests(this);
    this.#connection = connection;
    this.#headBytesMax = headBytesMax;
  }

  /** True when a part of a request has arrived, but not all of it. */
  get isInRequest(): boolean {
    return this.#line !== "" || this.#isInBody;
  }

  /**
   * Reads up to the end of a request. Nothing more can be read after a failure.
   *
   * @throws {UnreadableRequest}
   */
  read(bytes: Buffer): Reading {
    if (!this.#isLineComplete) this.#readLine(bytes);
    this.#begun = undefined;
    this.#isComplete = false;
    try {
      const used = this.#parser.execute(bytes);
      if (this.#isLineComplete || this.#line !== "") this.#countUnparsed(bytes.length);
      return { used, begun: this.#begun, body: this.#body.take(bytes), isComplete: this.#isComplete };
    } catch (error) {
      this.#body.take(bytes);
      const failure = error instanceof Http1Error ? new UnreadableRequest("malformed", error.message) : error;
      // A request with a valid head is attributed to its caller, whatever its body is.
      if (this.#begun === undefined || !(failure instanceof UnreadableRequest)) throw failure;
      return { used: bytes.length, begun: this.#begun, body: undefined, isComplete: false, failure };
    }
  }

  close(): void {
    this.#parser.close();
  }

  /** Keeps the request line, from which white space that llhttp skips can be told. */
  #readLine(bytes: Buffer): void {
    const start = this.#line === "" ? this.#skipEmptyLines(bytes) : 0;
    const end = bytes.indexOf(LF, start);
    this.#isLineComplete = end !== -1;
    this.#line += latin1(bytes, start, end === -1 ? bytes.length : end + 1);
  }

  /** Skips empty lines before a request (RFC 9112, 2.2). llhttp would skip CR and LF in any order. */
  #skipEmptyLines(bytes: Buffer): number {
    for (let at = 0; at < bytes.length; at += 1) {
      const byte = bytes[at];
      if (byte === (this.#awaitsLf ? LF : CR)) this.#awaitsLf = !this.#awaitsLf;
      else if (this.#awaitsLf || byte === LF) throw new UnreadableRequest("malformed", "an empty line ends with CRLF");
      else return at;
    }
    return bytes.length;
  }

  /** Counts the bytes of a head that is not complete, however llhttp reads them. */
  #countUnparsed(bytes: number): void {
    if (this.#isInBody || this.#begun !== undefined) return;
    this.#readBytes += bytes;
    if (this.#readBytes > this.#headBytesMax) throw tooLarge();
  }

  #count(bytes: number): void {
    this.#headBytes += bytes;
    if (this.#headBytes > this.#headBytesMax) throw tooLarge();
  }

  onTarget(bytes: Buffer, start: number, end: number): void {
    this.#count(end - start);
    this.#target += latin1(bytes, start, end);
  }

  onHeaderName(bytes: Buffer, start: number, end: number): void {
    if (this.#isInValue) this.#addHeader();
    this.#count(end - start);
    this.#name = this.#name === "" ? NAMES.read(bytes, start, end) : this.#name + latin1(bytes, start, end);
  }

  onHeaderValue(bytes: Buffer, start: number, end: number): void {
    this.#isInValue = true;
    this.#count(end - start);
    this.#value += latin1(bytes, start, end);
  }

  #addHeader(): void {
    this.#count(HEADER_LINE_BYTES);
    if (this.#rawHeaders.length >= 2 * HEADERS_MAX) throw tooLarge();
    this.#rawHeaders.push(this.#name, withoutEndSpace(this.#value));
    this.#name = "";
    this.#value = "";
    this.#isInValue = false;
  }

  onHead(head: MessageHead): AfterHead {
    if (this.#isInValue) this.#addHeader();
    const { method, httpMinor, isChunked } = head;
    if (this.#line !== `${method} ${this.#target} HTTP/1.${httpMinor}\r\n` || head.httpMajor !== 1 || httpMinor > 1) {
      throw new UnreadableRequest("malformed", "the request line is not `method target HTTP/1.1`");
    }
    this.#count(this.#line.length - this.#target.length);
    if (!TARGET.test(this.#target) && method !== "CONNECT") {
      throw new UnreadableRequest("malformed", "the target is neither a path nor a URL");
    }
    if (method === "CONNECT") throw new UnreadableRequest("tunnel", "CONNECT asks for a tunnel");
    if (isChunked && httpMinor === 0) throw new UnreadableRequest("malformed", "HTTP/1.0 has no Transfer-Encoding");
    this.#begun = new FrontRequest(
      {
        method,
        target: this.#target,
        httpVersion: httpMinor === 0 ? "1.0" : "1.1",
        rawHeaders: this.#rawHeaders,
        // Others may find the end of a body with several codings elsewhere: no request after such a body is read.
        keepsAlive: head.keepsAlive && httpMinor === 1 && !(isChunked && hasOtherCoding(this.#rawHeaders)),
      },
      this.#connection,
    );
    this.#isInBody = true;
    return "body";
  }

  onBody(bytes: Buffer, start: number, end: number): void {
    this.#body.add(bytes, start, end);
  }

  onChunkExtension(): void {
    throw new UnreadableRequest("malformed", "a chunk has an extension");
  }

  onTrailer(): void {
    throw new UnreadableRequest("malformed", "the body has trailers");
  }

  /** The answer to a request comes before the next request is read. */
  onMessageComplete(): "pause" {
    this.#isComplete = true;
    this.#isInBody = false;
    this.#isLineComplete = false;
    this.#line = "";
    this.#target = "";
    this.#rawHeaders = [];
    this.#headBytes = 0;
    this.#readBytes = 0;
    return "pause";
  }
}

/** The content of a body within the bytes of one read. */
class BodyPart {
  #start = 0;
  #end = 0;
  /** Holds the content when it is not in one piece: an object per chunk would take a hundred times the memory of small chunks. */
  #joined: Buffer | undefined;
  #joinedBytes = 0;

  add(bytes: Buffer, start: number, end: number): void {
    if (this.#joined === undefined) {
      if (this.#end === 0) this.#start = start;
      if (this.#end === 0 || this.#end === start) {
        this.#end = end;
        return;
      }
      this.#joined = Buffer.allocUnsafe(bytes.length - this.#start);
      this.#joinedBytes = bytes.copy(this.#joined, 0, this.#start, this.#end);
    }
    this.#joinedBytes += bytes.copy(this.#joined, this.#joinedBytes, start, end);
  }

  /** Returns the content that was added since the last call. */
  take(bytes: Buffer): Buffer | undefined {
    const joined = this.#joined;
    if (joined === undefined && this.#end === 0) return undefined;
    const part = joined?.subarray(0, this.#joinedBytes) ?? bytes.subarray(this.#start, this.#end);
    this.#end = 0;
    this.#joined = undefined;
    return part;
  }
}

/** Returns whether `Transfer-Encoding` says more than `chunked`. */
function hasOtherCoding(rawHeaders: readonly string[]): boolean {
  const values = rawHeaders.filter((_, at) => at % 2 === 1 && isTransferEncoding(rawHeaders[at - 1]));
  return values.join().toLowerCase() !== "chunked";
}

function isTransferEncoding(name = ""): boolean {
  return name.toLowerCase() === "transfer-encoding";
}

/** Bytes of a header line that are neither name nor value: `: ` and the end of the line. */
const HEADER_LINE_BYTES = 4;

function tooLarge(): UnreadableRequest {
  return new UnreadableRequest("headers_too_large", "the head is too large");
}
