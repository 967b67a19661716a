import type { Server } from "node:http";
import type { PeerConnection } from "../messages.ts";
import { type RawEnd, rawAnswer } from "./raw-answer.ts";
import { CountByKey, sourceOf } from "./sources.ts";

export interface ConnectionLimits {
  /** Connections that have sent a request; the runtime does not report others. */
  readonly connectionsMax: number;
  readonly connectionsPerSourceMax: number;
  readonly answerTimeoutMs: number;
}

export type ConnectionEnd = "total" | "source" | "slow_reader" | RawEnd;

const SWEEP_EVERY_MS = 1_000;
const RETRY_AFTER_SECONDS = 1;
/**
 * Unread answer bytes per connection with more than one unread answer: a client can send requests before it reads the
 * answers.
 */
const PENDING_BYTES_PER_CONNECTION_MAX = 32 * 1_048_576;
/**
 * Unread answer bytes of all connections together; beyond this, stalled connections are ended, those with the most bytes
 * first.
 */
const PENDING_BYTES_MAX = 256 * 1_048_576;

/** A connection that is counted. Both servers have such connections; node's own class of sockets is one. */
export interface CountedSocket extends PeerConnection {
  readonly destroyed: boolean;
  destroy(): unknown;
  end(text: string): unknown;
  once(event: "close", listener: () => void): unknown;
}

/** A response, as far as it tells whether its client reads it. */
export interface CountedResponse {
  readonly writableEnded: boolean;
  readonly writableFinished: boolean;
}

interface Connection {
  readonly socket: CountedSocket;
  readonly source: string;
  /** The latest response; a connection's responses are sent one after the other. */
  response: CountedResponse | undefined;
  /** Consecutive sweeps that found the response written but not fully read by the client. */
  stalledSweeps: number;
  pendingAnswers: number;
  pendingBytes: number;
}

/**
 * Limits how many clients are connected and how slowly one may read. The runtime ends requests that arrive too slowly
 * (`headersTimeout`, `requestTimeout`); `BodyReaders` ends slow bodies.
 */
export class Connections {
  readonly #limits: ConnectionLimits;
  readonly #ended: (end: ConnectionEnd) => void;
  readonly #open = new Map<PeerConnection, Connection>();
  readonly #bySource = new CountByKey();
  #pendingBytes = 0;

  constructor(limits: ConnectionLimits, ended: (end: ConnectionEnd) => void) {
    this.#limits = limits;
    this.#ended = ended;
  }

  get size(): number {
    return this.#open.size;
  }

  guard(server: Server): void {
    server.on("connection", (socket: CountedSocket) => this.take(socket));
    server.once("close", this.watch());
  }

  /** Sweeps regularly, until the returned function is called. */
  watch(): () => void {
    const sweep = setInterval(() => this.sweep(), SWEEP_EVERY_MS);
    sweep.unref();
    return () => clearInterval(sweep);
  }

  /** Counts an answer as unread until the returned function is called, or the connection is closed. */
  answering(socket: PeerConnection, response: CountedResponse, bytes: number): (() => void) | undefined {
    const connection = this.#open.get(socket);
    if (connection === undefined) return undefined;
    connection.response = response;
    connection.pendingAnswers += 1;
    connection.pendingBytes += bytes;
    this.#pendingBytes += bytes;
    if (connection.pendingAnswers > 1 && connection.pendingBytes > PENDING_BYTES_PER_CONNECTION_MAX)
      this.#end(connection);
    return () => this.#answered(connection, bytes);
  }

  /**
   * Ends connections whose clients have not read their answer in time, and stalled ones when too many answer bytes are
   * unread.
   */
  sweep(): void {
    for (const connection of this.#open.values()) {
      const { response } = connection;
      const isStalled = response?.writableEnded === true && !response.writableFinished;
      connection.stalledSweeps = isStalled ? connection.stalledSweeps + 1 : 0;
      if (connection.stalledSweeps * SWEEP_EVERY_MS > this.#limits.answerTimeoutMs) this.#end(connection);
    }
    if (this.#pendingBytes > PENDING_BYTES_MAX) this.#endStalled();
  }

  #endStalled(): void {
    const stalled = [...this.#open.values()].filter(({ stalledSweeps }) => stalledSweeps > 0);
    stalled.sort((one, other) => other.pendingBytes - one.pendingBytes);
    for (const connection of stalled) {
      if (this.#pendingBytes <= PENDING_BYTES_MAX) return;
      this.#end(connection);
    }
  }

  #end(connection: Connection): void {
    const { socket } = connection;
    if (socket.destroyed) return;
    this.#ended("slow_reader");
    // At once, because the socket may close later than the next sweep, which would then end others for the same bytes.
    this.#forgetBytes(connection);
    socket.destroy();
  }

  #forgetBytes(connection: Connection): void {
    this.#pendingBytes -= connection.pendingBytes;
    connection.pendingBytes = 0;
  }

  #answered(connection: Connection, bytes: number): void {
    // The bytes of a destroyed connection are forgotten together, when it is ended or closed.
    if (connection.socket.destroyed) return;
    connection.pendingAnswers -= 1;
    connection.pendingBytes -= bytes;
    this.#pendingBytes -= bytes;
  }

  /** Counts a connection; beyond the limits, refuses and ends it and returns false. */
  take(socket: CountedSocket): boolean {
    const source = sourceOf(socket);
    const isFull = this.#open.size >= this.#limits.connectionsMax;
    if (isFull || this.#bySource.of(source) >= this.#limits.connectionsPerSourceMax) {
      this.#refuse(socket, isFull ? "total" : "source");
      return false;
    }
    const connection = { socket, source, response: undefined, stalledSweeps: 0, pendingAnswers: 0, pendingBytes: 0 };
    this.#open.set(socket, connection);
    this.#bySource.enter(source);
    socket.once("close", () => {
      if (!this.#open.delete(socket)) return;
      this.#bySource.leave(source);
      this.#forgetBytes(connection);
    });
    return true;
  }

  #refuse(socket: CountedSocket, end: ConnectionEnd): void {
    this.#ended(end);
    const message = end === "total" ? "Too many connections." : "Too many connections from your address.";
    socket.end(rawAnswer({ status: 503, code: "OVERLOADED", message, retryAfterSeconds: RETRY_AFTER_SECONDS }));
  }
}
