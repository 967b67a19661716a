import type { ParserFactory } from "../../http1/parser.ts";
import type { ClientCertificate } from "../../pipeline/identity/binding.ts";
import type { CountedSocket } from "../connections/connections.ts";
import { NO_TUNNEL, type RawEnd, rawAnswer, rawAnswerTo } from "../connections/raw-answer.ts";
import { FrontAnswer } from "./answer.ts";
import type { FrontRequest, RequestConnection } from "./request.ts";
import { RequestReader, UnreadableRequest } from "./request-reader.ts";
import type { Wire, WireEvents } from "./wire.ts";

/** Bytes that are kept until they may be read; beyond this, nothing more is received. */
const UNREAD_BYTES_MAX = 65_536;
/** Time between the ends of both sides of a connection: for a client to read its last answer, and to answer a client that has ended. */
const LINGER_MS = 2_000;
const CONTINUE = "HTTP/1.1 100 Continue\r\n\r\n";

/** Requests of one connection that are answered at the same time; beyond this, the next one waits. */
const OPEN_REQUESTS_MAX = 64;

/** State and functions that the connections of one listener share. */
export interface FrontParts {
  readonly parsers: ParserFactory;
  readonly headerBytesMax: number;
  readonly headersTimeoutMs: number;
  /** From the end of the head. */
  readonly requestTimeoutMs: number;
  readonly keepAliveMs: number;
  /** The value of the header Date. */
  readonly date: string;
  readonly isClosing: boolean;
  /** Returns the sweep at which a time limit that begins now has passed. */
  sweepAfter(ms: number): number;
  /** Counts a connection that has sent its first request. Refuses it and returns false when there are too many. */
  admits(connection: FrontConnection): boolean;
  /** Counts a connection that is ended for this reason. */
  ended(end: RawEnd): void;
  serve(request: FrontRequest, answer: FrontAnswer): void;
  logError(error: unknown): void;
}

/** A request and its answer. */
interface OpenRequest {
  readonly request: FrontRequest;
  readonly answer: FrontAnswer;
}

/**
 * One connection: reads requests and sends their answers in the same order. Requests that a client sends without waiting are
 * answered at the same time; an answer that is not the next one waits.
 */
export class FrontConnection implements CountedSocket, RequestConnection, WireEvents {
  destroyed = false;
  readonly remoteAddress: string | undefined;
  readonly encrypted: boolean;
  readonly certificate: ClientCertificate | undefined;
  readonly #wire: Wire;
  readonly #front: FrontParts;
  readonly #reader: RequestReader;
  readonly #onClose: (() => void)[] = [];
  /** The requests whose answers are not sent yet, in order. Only the last one may be incomplete. */
  readonly #open: OpenRequest[] = [];
  /** Bytes that were received and are not read yet. */
  #unread: Buffer | undefined;
  #isReading = false;
  /** True from the end of a request that others follow until the next turn. */
  #isSettling = false;
  #isPaused = false;
  #hasSentRequest = false;
  #isRetired = false;
  /** True when later requests are ignored. */
  #isLast = false;
  /** Why the connection ends after the open answers. */
  #refusal: RawEnd | "tunnel" | undefined;
  #isEnding = false;
  #hasClientEnded = false;
  /** The sweep at which the connection stops waiting for the client to send more, or to close. */
  #deadline: number;

  constructor(wire: Wire, front: FrontParts) {
    this.#wire = wire;
    this.#front = front;
    this.remoteAddress = wire.remoteAddress;
    this.encrypted = wire.encrypted;
    this.certificate = wire.certificate;
    this.#reader = new RequestReader(front.parsers, this, front.headerBytesMax);
    this.#deadline = front.sweepAfter(front.headersTimeoutMs);
  }

  get date(): string {
    return this.#front.date;
  }

  get isFlushed(): boolean {
    return this.#wire.isFlushed;
  }

  /** The request whose body is being read. */
  get #incomplete(): OpenRequest | undefined {
    const last = this.#open.at(-1);
    return last?.request.complete === false ? last : undefined;
  }

  received(bytes: Buffer): void {
    if (this.#isEnding || this.#refusal !== undefined) return;
    this.#unread = this.#unread === undefined ? bytes : Buffer.concat([this.#unread, bytes]);
    this.#read();
  }

  /** Reads the received bytes, as far as requests may be open at the same time. */
  #read(): void {
    if (this.#isReading) return;
    this.#isReading = true;
    try {
      while (this.#unread !== undefined && this.#mayRead) {
        const isComplete = this.#readPart(this.#unread);
        if (isComplete && this.#unread !== undefined) this.#settle();
      }
    } catch (error) {
      if (error instanceof UnreadableRequest) this.#refuse(error.end);
      else this.#fail(error);
    } finally {
      this.#isReading = false;
    }
    // A pause would also hide that the client disconnects: nothing waits behind the last request.
    if (this.#isLast && this.#incomplete === undefined) this.#unread = undefined;
    const waiting = this.#unread?.length ?? 0;
    this.#setPaused(waiting > UNREAD_BYTES_MAX || this.#incomplete?.request.isFull === true);
  }

  /** Reads on in the next turn: a refusal of this request may end the connection, and no later request must have begun by then. */
  #settle(): void {
    this.#isSettling = true;
    setImmediate(() => {
      this.#isSettling = false;
      this.#read();
      if (this.#hasClientEnded) this.ended();
      else if (this.#isRetired) this.retire();
    });
  }

  /** Closes the connection after an error of this server: nothing that follows on the connection could be trusted. */
  #fail(error: unknown): void {
    this.#front.logError(error);
    this.#wire.destroy();
  }

  get #mayRead(): boolean {
    if (this.#isEnding || this.#isSettling || this.#refusal !== undefined) return false;
    return this.#incomplete !== undefined || (!this.#isLast && this.#open.length < OPEN_REQUESTS_MAX);
  }

  /** Returns true when a request became complete. */
  #readPart(bytes: Buffer): boolean {
    const before = this.#incomplete;
    const wasInRequest = this.#reader.isInRequest;
    const { used, begun, body, isComplete, failure } = this.#reader.read(bytes);
    // Not for empty lines, with which a client could stay for ever.
    if (!wasInRequest && this.#reader.isInRequest) this.#await(this.#front.headersTimeoutMs);
    this.#unread = used === bytes.length ? undefined : bytes.subarray(used);
    const request = begun ?? before?.request;
    if (request === undefined) return false;
    if (body !== undefined) request.add(body);
    if (isComplete) this.#deadline = NEVER;
    if (isComplete) request.end();
    if (begun !== undefined) this.#begin(begun);
    else if (isComplete) this.#sendFinished();
    if (failure !== undefined) throw failure;
    return isComplete;
  }

  #begin(request: FrontRequest): void {
    if (!this.#hasSentRequest) {
      this.#hasSentRequest = true;
      // A connection beyond the limit is answered and ended.
      if (!this.#front.admits(this)) return;
    }
    const answer = new FrontAnswer(request, this);
    this.#open.push({ request, answer });
    if (!request.keepsAlive) this.#isLast = true;
    if (!request.complete) this.#await(this.#front.requestTimeoutMs);
    if (this.isNext(answer)) this.#continue(request);
    this.#front.serve(request, answer);
  }

  /** Also when the body is there already: some clients wait for this answer before they read the final one. */
  #continue(request: FrontRequest): void {
    if (request.expectsContinue) this.#wire.write(CONTINUE);
  }

  isOpen(answer: FrontAnswer): boolean {
    return this.#open.some((each) => each.answer === answer);
  }

  isNext(answer: FrontAnswer): boolean {
    return this.#open[0]?.answer === answer;
  }

  write(data: string | Buffer): void {
    this.#wire.write(data);
  }

  answered(): void {
    this.#sendFinished();
  }

  flushed(): void {
    this.#open[0]?.answer.drained();
    this.#sendFinished();
  }

  /** Finishes the next answers, as long as they are whole and the system has taken them. */
  #sendFinished(): void {
    for (;;) {
      const [next] = this.#open;
      if (next === undefined || !next.answer.writableEnded || !this.#wire.isFlushed) return;
      if (!next.answer.writableFinished) next.answer.finished();
      if (next.answer.closesConnection) {
        this.#endAfterLast();
        return;
      }
      if (!next.request.complete) {
        next.request.resume();
        return;
      }
      this.#open.shift();
      this.#afterAnswer();
    }
  }

  #afterAnswer(): void {
    const [next] = this.#open;
    if (next !== undefined) {
      this.#continue(next.request);
      next.answer.writeHeld();
    } else if (this.#refusal !== undefined) {
      this.#end(this.#refusal);
    } else if (this.#isSettling) {
      // The next request is there already.
    } else if (this.#isRetired || this.#hasClientEnded) {
      this.#endAfterLast();
    } else if (!this.#reader.isInRequest) {
      this.#await(this.#front.keepAliveMs);
    }
    this.#read();
  }

  readOn(): void {
    this.#read();
  }

  isLatest(request: FrontRequest): boolean {
    return this.#unread === undefined && this.#open.at(-1)?.request === request;
  }

  endsAfter(request: FrontRequest): boolean {
    return (this.#isRetired || this.#front.isClosing) && this.isLatest(request);
  }

  ignoreLater(): void {
    this.#isLast = true;
    this.#read();
  }

  /** Answers bytes that are not a request after the open requests, and ends the connection. */
  #refuse(end: RawEnd | "tunnel"): void {
    if (end !== "tunnel") this.#front.ended(end);
    const broken = this.#incomplete;
    this.#refusal = end;
    this.#unread = undefined;
    this.#deadline = NEVER;
    if (broken === undefined) {
      if (this.#open.length === 0) this.#end(end);
      return;
    }
    if (this.isNext(broken.answer)) {
      // A second answer would be taken for that of another request.
      if (broken.answer.hasBegun) this.#endAfterLast();
      else this.#end(end);
      return;
    }
    this.#open.pop();
    leave(broken);
  }

  #end(end: RawEnd | "tunnel"): void {
    this.end(end === "tunnel" ? rawAnswer(NO_TUNNEL) : rawAnswerTo(end));
  }

  /** Writes a last text and ends the connection. */
  end(text: string): void {
    if (this.#isEnding) return;
    this.#wire.write(text);
    this.#endAfterLast();
  }

  /**
   * Ends the connection once everything is written. What the client still sends is read and dropped: closing a connection with
   * unread bytes resets it, and the client could lose the answer.
   */
  #endAfterLast(): void {
    if (this.#isEnding) return;
    this.#isEnding = true;
    this.#unread = undefined;
    this.#setPaused(false);
    this.#wire.end();
    for (const open of this.#open.splice(0)) leave(open);
    if (this.#hasClientEnded) this.#wire.close();
    this.#await(LINGER_MS);
  }

  ended(): void {
    this.#hasClientEnded = true;
    // Bytes that were received before come first.
    if (this.#isSettling) return;
    if (this.#isEnding) {
      this.#wire.close();
      return;
    }
    if (this.#reader.isInRequest && this.#refusal === undefined) this.#refuse("malformed");
    else if (this.#open.length === 0) this.#endAfterLast();
    // Most clients that end are gone. Those that have only sent their last request still get an answer that comes soon.
    for (const { answer } of this.#open) answer.disconnected();
    this.#await(LINGER_MS);
  }

  closed(): void {
    if (this.destroyed) return;
    this.destroyed = true;
    this.#isEnding = true;
    this.#unread = undefined;
    for (const open of this.#open.splice(0)) leave(open);
    this.#reader.close();
    for (const listener of this.#onClose.splice(0)) listener();
  }

  destroy(): void {
    this.#wire.destroy();
  }

  once(_event: "close", listener: () => void): void {
    this.#onClose.push(listener);
  }

  /** Ends the connection if no request waits for its answer: called while the listener closes. */
  endIfIdle(): void {
    if (this.#isEnding) this.#wire.close();
    else if (this.#open.every(({ answer }) => answer.writableFinished) && !this.#isSettling) this.#endAfterLast();
  }

  /** Ends the connection after its answers, or at once when no request is open. */
  retire(): void {
    this.#isRetired = true;
    if (this.#open.length === 0 && !this.#isSettling) this.#endAfterLast();
  }

  /** Ends the connection, or its request, when the deadline has passed. */
  sweep(now: number): void {
    if (now < this.#deadline) return;
    // What the system has taken is still sent.
    if (this.#isEnding) this.#wire.close();
    else if (this.#hasClientEnded) this.#sweepHalfClosed();
    else if (!this.#reader.isInRequest && this.#hasSentRequest) this.#endAfterLast();
    else if (this.#wire.isForwarded && this.#open.every(({ request }) => !request.complete)) this.#cutOff();
    else this.#refuse("timeout");
  }

  /** Closes the connection of a client that has ended, unless the client is reading its answer. */
  #sweepHalfClosed(): void {
    if (this.#open[0]?.answer.writableEnded === true) this.#await(LINGER_MS);
    else this.#wire.close();
  }

  #cutOff(): void {
    this.#front.ended("timeout");
    this.#wire.destroy();
  }

  #await(ms: number): void {
    this.#deadline = this.#front.sweepAfter(ms);
  }

  #setPaused(isPaused: boolean): void {
    if (isPaused === this.#isPaused) return;
    this.#isPaused = isPaused;
    if (isPaused) this.#wire.pause();
    else this.#wire.resume();
  }
}

const NEVER = Number.POSITIVE_INFINITY;

/** Notifies the endpoint and the reader of the body that the client has disconnected. */
function leave({ request, answer }: OpenRequest): void {
  answer.disconnected();
  if (!request.complete) request.close();
}
