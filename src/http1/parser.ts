import { ChunkFraming } from "./chunk-framing.ts";
import { Http1Error } from "./http1-error.ts";
import {
  type Callbacks,
  INPUT_BYTES,
  type Llhttp,
  loadLlhttp,
  OK,
  PAUSED,
  PAUSED_UPGRADE,
  REQUEST,
  RESPONSE,
  SKIP_BODY,
  STOPPED,
} from "./llhttp.ts";

/** The head of a message, without its headers. */
export interface MessageHead {
  /** Method of a request; "" of a response. */
  readonly method: string;
  /** Status code of a response; 0 of a request. */
  readonly statusCode: number;
  readonly httpMajor: number;
  readonly httpMinor: number;
  /** True when the message offers another protocol, or is a CONNECT request. */
  readonly isUpgrade: boolean;
  /** True when version and `Connection` let another message follow on the connection. */
  readonly keepsAlive: boolean;
  /** True when `Transfer-Encoding` ends with `chunked`. Other codings may come before it. */
  readonly isChunked: boolean;
}

/** `no body`: none follows, whatever the head declares (an answer to HEAD). `pause` ends `execute` before the body. */
export type AfterHead = "body" | "no body" | "pause";

/**
 * Receives a message in pieces. Every piece is the part of the bytes given to `execute` from `start` up to `end`: it is valid
 * as long as they are. Targets, names and values may arrive in several pieces. `execute` throws what a method throws.
 */
export interface MessageHandler {
  onMessageBegin?(): void;
  onTarget?(bytes: Buffer, start: number, end: number): void;
  onHeaderName(bytes: Buffer, start: number, end: number): void;
  /** Called at least once for each header, also when its value is empty. White space after the value is part of it. */
  onHeaderValue(bytes: Buffer, start: number, end: number): void;
  onHead(head: MessageHead): AfterHead;
  onBody(bytes: Buffer, start: number, end: number): void;
  /** Called at the first chunk extension of a message. Without it, they are ignored. */
  onChunkExtension?(): void;
  /** Called at the first trailer of a message. Without it, they are ignored; they are never passed to `onHeaderName`. */
  onTrailer?(): void;
  /** Returns whether to pause before the next message, which ends `execute`. */
  onMessageComplete(): "continue" | "pause";
}

/**
 * Parses the bytes of one direction of one connection. Strict: llhttp's leniency flags stay off. Counts no headers and no
 * bytes: the handler does, and throws when there are too many.
 */
export interface Http1Parser {
  /** True when `execute` was ended by a pause. */
  readonly isPaused: boolean;
  /**
   * Parses the bytes and returns how many it used: fewer than given when the handler paused. The next call ends the pause and
   * starts with the first unused byte. After an error, only `close` may be called.
   *
   * @throws {Http1Error}
   */
  execute(bytes: Buffer): number;
  /**
   * Ends the input: a response without a length is complete then. Not to be called during a pause.
   *
   * @throws {Http1Error} when a message is incomplete
   */
  finish(): void;
  /** Gives the parser's memory back. Only `close` may be called afterwards. */
  close(): void;
}

/** Creates parsers. */
export interface ParserFactory {
  requests(handler: MessageHandler): Http1Parser;
  responses(handler: MessageHandler): Http1Parser;
}

/** Loads the parser, once per process. */
export async function parserFactory(): Promise<ParserFactory> {
  const llhttp = await loadLlhttp();
  return {
    requests: (handler) => new LlhttpParser(llhttp, REQUEST, handler),
    responses: (handler) => new LlhttpParser(llhttp, RESPONSE, handler),
  };
}

const POOLED_MAX = 256;
/** Addresses of parsers to be used again, by type. */
const pools: Readonly<Record<number, number[]>> = { [REQUEST]: [], [RESPONSE]: [] };

const NO_BYTES = Buffer.alloc(0);

/** Why a callback paused llhttp: the position of a pause tells where chunks begin and where their last one ends. */
type Pause = "head of chunks" | "end of chunks" | "handler";

class LlhttpParser implements Http1Parser, Callbacks {
  isPaused = false;
  readonly #llhttp: Llhttp;
  readonly #type: number;
  readonly #handler: MessageHandler;
  /** Address of the parser's memory; 0 when it is closed. */
  #address: number;
  #hasFailed = false;
  /** What a callback threw: an exception must not pass through llhttp. */
  #thrown: { readonly error: unknown } | undefined;
  #pause: Pause | undefined;
  #pausesAfterHead = false;
  /** The bytes that are parsed now, and the address that their first one would have if they were all in the input area. */
  #bytes: Buffer = NO_BYTES;
  #origin = 0;
  /** The framing of a chunked body, from its first byte to its trailers, and where the part begins that was not checked yet. */
  #framing: ChunkFraming | undefined;
  #framingFrom = 0;
  #hasExtension = false;
  #isAfterHead = false;
  #hasTrailer = false;

  constructor(llhttp: Llhttp, type: number, handler: MessageHandler) {
    this.#llhttp = llhttp;
    this.#type = type;
    this.#handler = handler;
    this.#address = pools[type]?.pop() ?? llhttp.exports.llhttp_alloc(type);
  }

  execute(bytes: Buffer): number {
    this.#assertUsable();
    if (this.isPaused) {
      this.isPaused = false;
      this.#llhttp.exports.llhttp_resume(this.#address);
    }
    this.#bytes = bytes;
    try {
      let at = 0;
      while (at < bytes.length && !this.isPaused) at = this.#parsePiece(at);
      return at;
    } catch (error) {
      this.#hasFailed = true;
      throw error;
    } finally {
      this.#bytes = NO_BYTES;
    }
  }

  finish(): void {
    this.#assertUsable();
    const code = this.#llhttp.finish(this, this.#address);
    if (code === OK || code === PAUSED) return;
    this.#hasFailed = true;
    throw this.#errorOf(code);
  }

  close(): void {
    if (this.#address === 0) return;
    const { exports } = this.#llhttp;
    const pool = pools[this.#type] ?? [];
    if (pool.length < POOLED_MAX) {
      exports.llhttp_reset(this.#address);
      pool.push(this.#address);
    } else {
      exports.llhttp_free(this.#address);
    }
    this.#address = 0;
  }

  #assertUsable(): void {
    if (this.#address === 0 || this.#hasFailed) throw new Error("the parser is closed or has failed");
  }

  /** Parses from a position, up to the size of the input area, and returns the position of the first unused byte. */
  #parsePiece(from: number): number {
    const llhttp = this.#llhttp;
    const length = Math.min(this.#bytes.length - from, INPUT_BYTES);
    llhttp.load(length === this.#bytes.length ? this.#bytes : this.#bytes.subarray(from, from + length));
    this.#origin = llhttp.input - from;
    this.#framingFrom = from;
    const end = from + length;
    let at = from;
    // Continues after a pause even when no bytes are left: only then is the message before it finished inside llhttp.
    while (!this.isPaused) {
      const code = llhttp.execute(this, this.#address, this.#origin + at, end - at);
      if (code === PAUSED || code === PAUSED_UPGRADE) {
        at = this.#pausedBy(code);
      } else if (code === OK) {
        this.#checkFraming(end);
        return end;
      } else {
        throw this.#errorOf(code);
      }
    }
    return at;
  }

  /** Handles a pause and ends it, unless it is the handler's. Returns its position. */
  #pausedBy(code: number): number {
    const { exports } = this.#llhttp;
    const at = exports.llhttp_get_error_pos(this.#address) - this.#origin;
    if (code === PAUSED_UPGRADE) {
      // The handler accepted the message: its offer of another protocol is ignored.
      exports.llhttp_resume_after_upgrade(this.#address);
      return at;
    }
    if (this.#pause === "head of chunks") {
      this.#framing = new ChunkFraming();
      this.#framingFrom = at;
      this.isPaused = this.#pausesAfterHead;
    } else if (this.#pause === "end of chunks") {
      this.#checkFraming(at);
      this.#framing = undefined;
      this.isPaused = this.#handler.onMessageComplete() === "pause";
    } else {
      this.isPaused = true;
    }
    this.#pause = undefined;
    if (!this.isPaused) exports.llhttp_resume(this.#address);
    return at;
  }

  #errorOf(code: number): unknown {
    if (this.#thrown !== undefined) return this.#thrown.error;
    const { exports } = this.#llhttp;
    const reason = this.#llhttp.text(exports.llhttp_get_error_reason(this.#address));
    return new Http1Error(this.#llhttp.text(exports.llhttp_errno_name(code)), reason);
  }

  /** Checks the framing of chunks up to a position. */
  #checkFraming(end: number): void {
    if (this.#framing === undefined) return;
    const hasExtension = this.#framing.hasExtension(this.#bytes, this.#framingFrom, end);
    this.#framingFrom = end;
    if (!hasExtension || this.#hasExtension) return;
    this.#hasExtension = true;
    this.#handler.onChunkExtension?.();
  }

  /** Keeps what was thrown for `execute` and tells llhttp to stop. */
  #stop(error: unknown): number {
    this.#thrown = { error };
    return STOPPED;
  }

  onMessageBegin(): number {
    this.#isAfterHead = false;
    this.#hasExtension = false;
    this.#hasTrailer = false;
    try {
      this.#handler.onMessageBegin?.();
      return OK;
    } catch (error) {
      return this.#stop(error);
    }
  }

  onTarget(address: number, length: number): number {
    const start = address - this.#origin;
    try {
      this.#handler.onTarget?.(this.#bytes, start, start + length);
      return OK;
    } catch (error) {
      return this.#stop(error);
    }
  }

  onHeaderName(address: number, length: number): number {
    const start = address - this.#origin;
    try {
      if (this.#isAfterHead) this.#onTrailer(start);
      else this.#handler.onHeaderName(this.#bytes, start, start + length);
      return OK;
    } catch (error) {
      return this.#stop(error);
    }
  }

  #onTrailer(start: number): void {
    if (this.#hasTrailer) return;
    this.#hasTrailer = true;
    this.#checkFraming(start);
    this.#framing = undefined;
    this.#handler.onTrailer?.();
  }

  onHeaderValue(address: number, length: number): number {
    if (this.#isAfterHead) return OK;
    const start = address - this.#origin;
    try {
      this.#handler.onHeaderValue(this.#bytes, start, start + length);
      return OK;
    } catch (error) {
      return this.#stop(error);
    }
  }

  onHead(statusCode: number, isUpgrade: boolean, keepsAlive: boolean): number {
    this.#isAfterHead = true;
    try {
      const { exports } = this.#llhttp;
      const isRequest = this.#type === REQUEST;
      const isChunked = this.#llhttp.isChunked(this.#address);
      const next = this.#handler.onHead({
        method: isRequest ? this.#llhttp.methodOf(this.#address) : "",
        statusCode,
        httpMajor: exports.llhttp_get_http_major(this.#address),
        httpMinor: exports.llhttp_get_http_minor(this.#address),
        isUpgrade,
        keepsAlive,
        isChunked,
      });
      if (next === "no body") return SKIP_BODY;
      this.#pausesAfterHead = next === "pause";
      if (isChunked) this.#pause = "head of chunks";
      else if (this.#pausesAfterHead) this.#pause = "handler";
      else return OK;
      return PAUSED;
    } catch (error) {
      return this.#stop(error);
    }
  }

  onBody(address: number, length: number): number {
    const start = address - this.#origin;
    try {
      this.#checkFraming(start);
      this.#framingFrom = start + length;
      this.#handler.onBody(this.#bytes, start, start + length);
      return OK;
    } catch (error) {
      return this.#stop(error);
    }
  }

  onMessageComplete(): number {
    if (this.#framing !== undefined) {
      this.#pause = "end of chunks";
      return PAUSED;
    }
    try {
      if (this.#handler.onMessageComplete() === "continue") return OK;
      this.#pause = "handler";
      return PAUSED;
    } catch (error) {
      return this.#stop(error);
    }
  }
}
