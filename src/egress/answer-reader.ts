import type { IncomingHttpHeaders } from "node:http";
import { HeaderNames, latin1 } from "../http1/header-names.ts";
import { addHeaders, withoutEndSpace } from "../http1/headers.ts";
import { Http1Error } from "../http1/http1-error.ts";
import type { AfterHead, Http1Parser, MessageHandler, MessageHead, ParserFactory } from "../http1/parser.ts";

/** Receives the parts of an answer. */
interface AnswerReceiver {
  readonly request: { readonly method: string };
  answered(status: number, headers: IncomingHttpHeaders): void;
  switchedProtocol(): void;
  received(chunk: Buffer): void;
}

/** A head from here on is refused: bytes of names and values, and number of headers. */
const HEAD_BYTES_MAX = 32_768;
const HEADERS_MAX = 1_000;
/** Maximum bytes that are neither a header nor content: a number, and more for each byte of content, which may come in chunks. */
const OTHER_BYTES_MAX = 16_384;
const OTHER_BYTES_PER_BYTE = 8;
/** Maximum interim answers (1xx) for each request: they take processor time, and the parser does not limit them. */
export const INTERIM_ANSWERS_MAX = 16;
const SWITCHING_PROTOCOLS = 101;
const HINTED_TIMEOUT = /^timeout=(\d{1,6})/;
/** The server may have counted from an earlier moment. */
const HINT_MARGIN_MS = 1_000;

/** Names of headers that servers have sent. */
const NAMES = new HeaderNames();

export class InterimAnswers extends Error {
  override readonly name = "InterimAnswers";

  constructor() {
    super("too many interim answers");
  }
}

/** Bytes that are not a valid answer. The code is the parser's name for the error. */
export class MalformedAnswer extends Error {
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/** Reads the answers of one connection, one after the other. */
export class EgressAnswerReader implements MessageHandler {
  readonly #parser: Http1Parser;
  #receiver: AnswerReceiver | undefined;
  /** Names and values in turn. */
  #fields: string[] = [];
  #headBytes = 0;
  #interimAnswers = 0;
  #isHeadComplete = false;
  #isComplete = false;
  /** True when something follows the answer. */
  #isFollowed = false;
  #keptMs = 0;
  #isReading = false;
  #isClosed = false;
  /** Bytes since the request was sent, without those that are being read; and how many of them are headers or content. */
  #bytes = 0;
  #headerBytes = 0;
  #contentBytes = 0;

  constructor(parsers: ParserFactory) {
    this.#parser = parsers.responses(this);
  }

  /** Prepares for the answer to a request. */
  begin(receiver: AnswerReceiver): void {
    this.#receiver = receiver;
    this.#interimAnswers = 0;
    this.#isHeadComplete = false;
    this.#isComplete = false;
    this.#bytes = 0;
    this.#headerBytes = 0;
    this.#contentBytes = 0;
  }

  /** True after the last byte of an answer. */
  get isComplete(): boolean {
    return this.#isComplete;
  }

  /** Time for which the server keeps the connection after the complete answer: 0 when it must not be used again. */
  get keptMs(): number {
    return this.#isFollowed ? 0 : this.#keptMs;
  }

  /** @throws {MalformedAnswer | InterimAnswers} */
  read(bytes: Buffer): void {
    this.#isReading = true;
    try {
      this.#parser.execute(bytes);
      this.#boundOthers(bytes.length);
    } catch (error) {
      throw error instanceof Http1Error ? new MalformedAnswer(error.code, error.message) : error;
    } finally {
      this.#isReading = false;
      if (this.#isClosed) this.#parser.close();
    }
    this.#bytes += bytes.length;
  }

  /** Returns whether the end of the connection completes the answer. */
  endsWithConnection(): boolean {
    if (!this.#isHeadComplete || this.#isComplete) return false;
    try {
      this.#parser.finish();
    } catch {
      return false;
    }
    return this.#isComplete;
  }

  /** Ends the reading. May be called by the receiver. */
  close(): void {
    this.#receiver = undefined;
    this.#isClosed = true;
    if (!this.#isReading) this.#parser.close();
  }

  onMessageBegin(): void {
    if (this.#isComplete) this.#isFollowed = true;
    this.#fields = [];
    this.#headBytes = 0;
  }

  onHeaderName(bytes: Buffer, start: number, end: number): void {
    this.#boundOthers(start);
    this.#countHeader(end - start);
    const fields = this.#fields;
    if (fields.length % 2 === 0) fields.push(NAMES.read(bytes, start, end));
    else fields[fields.length - 1] += latin1(bytes, start, end);
  }

  onHeaderValue(bytes: Buffer, start: number, end: number): void {
    this.#countHeader(end - start);
    const part = latin1(bytes, start, end);
    const fields = this.#fields;
    if (fields.length % 2 === 1) fields.push(part);
    else fields[fields.length - 1] += part;
    if (fields.length > 2 * HEADERS_MAX) throw overflow("HPE_HEADER_OVERFLOW");
  }

  onHead({ statusCode, isUpgrade, keepsAlive }: MessageHead): AfterHead {
    const receiver = this.#receiver;
    if (this.#isFollowed || receiver === undefined) return "body";
    if (isUpgrade || statusCode === SWITCHING_PROTOCOLS) {
      this.#receiver = undefined;
      receiver.switchedProtocol();
      return "no body";
    }
    if (statusCode >= 100 && statusCode < 200) {
      this.#interimAnswers += 1;
      if (this.#interimAnswers === INTERIM_ANSWERS_MAX) throw new InterimAnswers();
      return "no body";
    }
    this.#isHeadComplete = true;
    const headers = addHeaders(this.#fields.map(withoutEndSpace), {}, NAMES.lowerCaseOf);
    this.#keptMs = keepsAlive ? keptMs(String(headers["keep-alive"] ?? "")) : 0;
    receiver.answered(statusCode, headers);
    return receiver.request.method === "HEAD" ? "no body" : "body";
  }

  onBody(bytes: Buffer, start: number, end: number): void {
    this.#boundOthers(start);
    this.#contentBytes += end - start;
    if (!this.#isFollowed) this.#receiver?.received(bytes.subarray(start, end));
  }

  onMessageComplete(): "continue" {
    if (this.#isHeadComplete) this.#isComplete = true;
    return "continue";
  }

  #countHeader(bytes: number): void {
    this.#headerBytes += bytes;
    this.#headBytes += bytes;
    if (this.#headBytes >= HEAD_BYTES_MAX) throw overflow("HPE_HEADER_OVERFLOW");
  }

  /** Bounds the bytes before a position that are neither headers nor content: reason, sizes and extensions of chunks, trailers. */
  #boundOthers(position: number): void {
    const others = this.#bytes + position - this.#headerBytes - this.#contentBytes;
    if (others > OTHER_BYTES_MAX + OTHER_BYTES_PER_BYTE * this.#contentBytes) {
      throw overflow("HPE_CHUNK_EXTENSIONS_OVERFLOW");
    }
  }
}

function overflow(code: string): MalformedAnswer {
  return new MalformedAnswer(code, "the answer is too large beside its content");
}

/** Returns the time for which a server says that it keeps the connection. */
function keptMs(hint: string): number {
  const [, seconds] = HINTED_TIMEOUT.exec(hint) ?? [];
  return seconds === undefined ? Number.POSITIVE_INFINITY : Math.max(0, Number(seconds) * 1_000 - HINT_MARGIN_MS);
}
