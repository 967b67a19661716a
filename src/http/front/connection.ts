import type { ClientCertificate } from "../../pipeline/identity/binding.ts";
import type { CountedSocket } from "../connections/connections.ts";
import { NO_TUNNEL, type RawEnd, rawAnswer, rawAnswerTo } from "../connections/raw-answer.ts";
import { FrontAnswer } from "./answer.ts";
import type { Front } from "./front.ts";
import type { FrontRequest } from "./request.ts";
import { RequestReader, UnreadableRequest } from "./request-reader.ts";
import type { Wire, WireEvents } from "./wire.ts";

/** Bytes of later requests that are kept while a request is answered; beyond this, nothing more is read. */
const UNREAD_BYTES_MAX = 65_536;
/** Time that a client has to close its side after the last answer, before the connection is closed on both. */
const LINGER_MS = 2_000;
const CONTINUE = "HTTP/1.1 100 Continue\r\n\r\n";

/** A request that is being answered. */
interface Current {
  readonly request: FrontRequest;
  readonly answer: FrontAnswer;
}

/**
 * One connection: reads a request, answers it, and only then reads the next one. Bytes that follow a request are kept, so that
 * answers come in the order of the requests and a client that reads nothing gets nothing more to read.
 */
export class FrontConnection implements CountedSocket, WireEvents {
  destroyed = false;
  readonly remoteAddress: string | undefined;
  readonly encrypted: boolean;
  readonly certificate: ClientCertificate | undefined;
  readonly #wire: Wire;
  readonly #front: Front;
  readonly #reader: RequestReader;
  readonly #onClose: (() => void)[] = [];
  #current: Current | undefined;
  /** Bytes that were received and are not read yet. */
  #unread: Buffer | undefined;
  #isReading = false;
  #isPaused = false;
  #hasSentRequest = false;
  #isRetired = false;
  #isLast = false;
  /** True when nothing of what the client sends is read any more. */
  #ignoresRest = false;
  #isEnding = false;
  #hasClientEnded = false;
  /** The sweep at which the client must have sent, or closed, what the connection waits for; no deadline while it is answered. */
  #deadline: number;

  constructor(wire: Wire, front: Front) {
    this.#wire = wire;
    this.#front = front;
    this.remoteAddress = wire.remoteAddress;
    this.encrypted = wire.encrypted;
    this.certificate = wire.certificate;
    this.#reader = new RequestReader(front.parsers, this, front.headerBytesMax);
    this.#deadline = front.sweepAfter(front.headersTimeoutMs);
  }

  /** Whether the connection ends after its next answer. */
  get isRetired(): boolean {
    return this.#isRetired || this.#front.isClosing;
  }

  get date(): string {
    return this.#front.date;
  }

  get isFlushed(): boolean {
    return this.#wire.isFlushed;
  }

  received(bytes: Buffer): void {
    if (this.#ignoresRest) return;
    this.#unread = this.#unread === undefined ? bytes : Buffer.concat([this.#unread, bytes]);
    this.#read();
  }

  /** Reads what was received, up to the end of the request that is to be answered first. */
  #read(): void {
    if (this.#isReading) return;
    this.#isReading = true;
    try {
      while (this.#unread !== undefined && !this.#ignoresRest && this.#current?.request.complete !== true) {
        this.#readPart(this.#unread);
      }
    } catch (error) {
      if (!(error instanceof UnreadableRequest)) throw error;
      this.#refuse(error.end);
    } finally {
      this.#isReading = false;
    }
    this.#dropLater();
    this.#setPaused((this.#unread?.length ?? 0) > UNREAD_BYTES_MAX || this.#current?.request.isFull === true);
  }

  #readPart(bytes: Buffer): void {
    if (this.#current === undefined && !this.#reader.isInRequest) this.#await(this.#front.headersTimeoutMs);
    const { used, begun, pieces, isComplete } = this.#reader.read(bytes);
    this.#unread = used === bytes.length ? undefined : bytes.subarray(used);
    const request = begun ?? this.#current?.request;
    if (request === undefined) return;
    for (const piece of pieces) request.add(piece);
    if (isComplete) request.end();
    if (begun !== undefined) this.#begin(begun);
    else if (isComplete) this.#settle();
  }

  #begin(request: FrontRequest): void {
    if (!this.#hasSentRequest) {
      this.#hasSentRequest = true;
      // Answers and ends a connection that is one too many.
      if (!this.#front.admits(this)) return;
    }
    const answer = new FrontAnswer(request, this);
    this.#current = { request, answer };
    if (request.complete) this.#deadline = NEVER;
    else this.#await(this.#front.requestTimeoutMs);
    if (!request.complete && request.expectsContinue) this.#wire.write(CONTINUE);
    this.#front.serve(request, answer);
  }

  write(data: string | Buffer): void {
    this.#wire.write(data);
  }

  /** The answer was written, if not yet passed to the system. */
  answered(answer: FrontAnswer): void {
    if (answer === this.#current?.answer && this.#wire.isFlushed) this.#finish(this.#current);
  }

  flushed(): void {
    const current = this.#current;
    if (current?.answer.writableEnded === true) this.#finish(current);
    else current?.answer.drained();
  }

  #finish({ request, answer }: Current): void {
    if (answer.writableFinished) return;
    answer.finished();
    if (answer.closesConnection) this.#endAfterLast();
    else if (!request.complete) request.resume();
    else this.#settle();
  }

  /** Goes on to the next request when the current one is complete and answered. */
  #settle(): void {
    const current = this.#current;
    if (current === undefined) return;
    if (!current.answer.writableFinished) {
      this.#deadline = NEVER;
      return;
    }
    this.#current = undefined;
    if (this.#isRetired || this.#hasClientEnded) {
      this.#endAfterLast();
      return;
    }
    this.#await(this.#front.keepAliveMs);
    this.#read();
  }

  /** Continues to read a body whose reader takes more. */
  readOn(): void {
    this.#read();
  }

  /** Returns whether the client has sent nothing after the request that is being answered. */
  get isLatest(): boolean {
    return this.#unread === undefined;
  }

  /** Ignores the requests that follow the current one: its answer is the last one. */
  ignoreLater(): void {
    this.#isLast = true;
    this.#dropLater();
  }

  /** Drops later requests, which would not be answered: a pause would also hide that the client disconnects. */
  #dropLater(): void {
    if (!this.#isLast || this.#current?.request.complete !== true) return;
    this.#unread = undefined;
    this.#setPaused(false);
  }

  #refuse(end: RawEnd | "tunnel"): void {
    if (end !== "tunnel") this.#front.ended(end);
    const current = this.#current;
    // A second answer would be taken for that of another request.
    if (current?.answer.hasBegun !== true) this.#wire.write(end === "tunnel" ? rawAnswer(NO_TUNNEL) : rawAnswerTo(end));
    this.#endAfterLast();
    this.#leave();
  }

  /** Tells those who answer and read the current request that its client is not there any more. */
  #leave(): void {
    const current = this.#current;
    this.#current = undefined;
    current?.answer.disconnected();
    if (current?.request.complete === false) current.request.close();
  }

  /** Writes a last text and ends the connection. */
  end(text: string): void {
    this.#wire.write(text);
    this.#endAfterLast();
  }

  /** Ends the connection once everything is written. What the client still sends is read and dropped, so that no reset overtakes the answer. */
  #endAfterLast(): void {
    if (this.#isEnding) return;
    this.#isEnding = true;
    this.#ignoresRest = true;
    this.#unread = undefined;
    this.#setPaused(false);
    this.#wire.end();
    if (this.#hasClientEnded) this.#wire.close();
    this.#await(LINGER_MS);
  }

  ended(): void {
    this.#hasClientEnded = true;
    if (this.#isEnding) this.#wire.close();
    else if (this.#reader.isInRequest) this.#refuse("malformed");
    else if (this.#current === undefined) this.#endAfterLast();
    // Most clients that end are gone; those that only sent their last request still get its answer.
    else this.#current.answer.disconnected();
  }

  closed(): void {
    if (this.destroyed) return;
    this.destroyed = true;
    this.#ignoresRest = true;
    this.#isEnding = true;
    this.#unread = undefined;
    this.#leave();
    this.#reader.close();
    for (const listener of this.#onClose.splice(0)) listener();
  }

  destroy(): void {
    this.#wire.destroy();
  }

  once(_event: "close", listener: () => void): void {
    this.#onClose.push(listener);
  }

  /** Ends the connection if no request is open on it: called while the listener closes. */
  endIfIdle(): void {
    if (this.#isEnding) this.#wire.close();
    else if (this.#current === undefined) this.#endAfterLast();
  }

  /** Ends the connection after its answer, or at once when there is none to wait for. */
  retire(): void {
    this.#isRetired = true;
    if (this.#current === undefined) this.#endAfterLast();
  }

  /** Ends what has waited too long. */
  sweep(now: number): void {
    if (now < this.#deadline) return;
    // What the system has taken is still sent.
    if (this.#isEnding) this.#wire.close();
    else if (this.#reader.isInRequest || !this.#hasSentRequest) this.#refuse("timeout");
    else this.#endAfterLast();
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
