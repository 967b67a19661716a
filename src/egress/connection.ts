import { parserFactory } from "../http1/parser.ts";
import { EgressAnswerReader } from "./answer-reader.ts";
import { dial, disconnect } from "./dial.ts";
import type { EgressExchange } from "./exchange.ts";

/** What a connection needs of the pool that it belongs to. */
interface ConnectionOwner {
  readonly port: number;
  readonly tls: Bun.TLSOptions | undefined;
  /** Time that an unused connection stays open. */
  readonly idleMs: number;
  /** Returns exactly the addresses that a new connection may use. Rejects when one of them is forbidden. */
  addresses(): Promise<readonly string[]>;
  /** Takes back a connection that can be used again. */
  returned(connection: EgressConnection): void;
  /** Takes back a connection that is still being made, after its exchange has ended early. */
  released(connection: EgressConnection): void;
  closed(connection: EgressConnection): void;
  /** Takes back an exchange whose request was not sent. */
  take(exchange: EgressExchange): void;
  /** Is called when an attempt to connect has ended whose connection was closed before. */
  attemptEnded(): void;
}

/** Maximum age of a connection: later ones go to the addresses that the name has then. */
const AGE_MAX_MS = 300_000;
/** A connection that is being made for longer is closed when its exchange ends early. */
const MAKING_MS_MAX = 4_000;
/** After this time without a byte, the system asks whether the server is still there. */
const PROBE_AFTER_MS = 60_000;

/** A connection to a server, for one request at a time. */
export class EgressConnection {
  readonly #owner: ConnectionOwner;
  #socket: Bun.Socket<EgressConnection> | undefined;
  #reader: EgressAnswerReader | undefined;
  #exchange: EgressExchange | undefined;
  /** The part of the request that is not written yet. */
  #unsent: Buffer | undefined;
  #isConnecting = false;
  #isClosed = false;
  /** Whether a request can be sent: with TLS, after the handshake. */
  #isReady = false;
  #isOld = false;
  /** True from an answer until everything is handled that was received with it. Nothing is sent meanwhile. */
  #isSettling = false;
  #aging: ReturnType<typeof setTimeout> | undefined;
  #idling: ReturnType<typeof setTimeout> | undefined;
  #idleMs = 0;

  constructor(owner: ConnectionOwner) {
    this.#owner = owner;
  }

  get isConnecting(): boolean {
    return this.#isConnecting;
  }

  /** Connects, and sends a request. */
  async open(exchange: EgressExchange): Promise<void> {
    const { port, tls } = this.#owner;
    this.#exchange = exchange;
    exchange.owner = this;
    this.#isConnecting = true;
    this.#age(MAKING_MS_MAX);
    try {
      const [addresses, parsers] = await Promise.all([this.#owner.addresses(), parserFactory()]);
      if (this.#isClosed) return;
      this.#reader = new EgressAnswerReader(parsers);
      const isWanted = (): boolean => !this.#isClosed;
      const socket = await dial({ addresses, port, tls, data: this, handler: EgressConnection.#HANDLER, isWanted });
      if (this.#isClosed) disconnect(socket);
      else this.#connected(socket);
    } catch (error) {
      this.#lost(error);
    } finally {
      this.#isConnecting = false;
      if (this.#isClosed) this.#owner.attemptEnded();
    }
  }

  /** Sends a request, when the connection is ready. The connection must be unused. */
  use(exchange: EgressExchange): void {
    this.#exchange = exchange;
    exchange.owner = this;
    this.#socket?.ref();
    if (this.#isReady && !this.#isSettling) this.#send(exchange);
  }

  /** Ends the work for an exchange that has ended early. A connection that is still being made has sent nothing: it returns to the pool. */
  drop(exchange: EgressExchange): void {
    if (this.#exchange !== exchange) return;
    if (this.#isReady || this.#isOld) {
      this.close();
    } else {
      this.#exchange = undefined;
      this.#socket?.unref();
      this.#owner.released(this);
    }
  }

  /** Closes the connection. Its exchange must have ended. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#exchange = undefined;
    clearTimeout(this.#aging);
    clearTimeout(this.#idling);
    this.#reader?.close();
    if (this.#socket !== undefined) disconnect(this.#socket);
    this.#owner.closed(this);
  }

  /** Closes the connection, and fails its exchange. */
  destroy(): void {
    this.#lost(hungUp());
  }

  #connected(socket: Bun.Socket<EgressConnection>): void {
    this.#socket = socket;
    if (this.#exchange === undefined) socket.unref();
    socket.setNoDelay(true);
    socket.setKeepAlive(true, PROBE_AFTER_MS);
    if (this.#owner.tls === undefined) this.#ready();
  }

  #secured(isTrusted: boolean, error: Error | null): void {
    if (isTrusted && error === null) this.#ready();
    else this.#lost(error ?? hungUp());
  }

  #ready(): void {
    this.#isReady = true;
    this.#age(AGE_MAX_MS);
    if (this.#exchange === undefined) this.#idle(this.#owner.idleMs);
    else this.#send(this.#exchange);
  }

  #age(maxMs: number): void {
    this.#isOld = false;
    clearTimeout(this.#aging);
    this.#aging = setTimeout(() => this.#aged(), maxMs);
    this.#aging.unref();
  }

  #aged(): void {
    this.#isOld = true;
    if (this.#exchange === undefined) this.close();
  }

  #send(exchange: EgressExchange): void {
    if (!exchange.beginSending()) return;
    this.#reader?.begin(exchange);
    this.#write(exchange.bytes);
  }

  #write(bytes: Buffer): void {
    const written = Math.max(this.#socket?.write(bytes) ?? 0, 0);
    this.#unsent = written < bytes.length ? bytes.subarray(written) : undefined;
  }

  #drained(): void {
    if (this.#unsent !== undefined) this.#write(this.#unsent);
  }

  #received(bytes: Buffer): void {
    const exchange = this.#exchange;
    const reader = this.#reader;
    if (exchange === undefined || reader === undefined || this.#isSettling) {
      // Nothing was asked: the bytes must not become the answer to the next request.
      this.#lost(hungUp());
      return;
    }
    try {
      reader.read(bytes);
    } catch (error) {
      exchange.failed(error);
    }
    // An exchange that has failed has closed the connection.
    if (this.#isClosed) return;
    if (reader.isComplete) this.#answered(exchange, reader.keptMs);
    else if (exchange.isFull) this.#pauseFor(exchange);
  }

  #answered(exchange: EgressExchange, keptMs: number): void {
    const idleMs = Math.min(this.#owner.idleMs, keptMs);
    this.#exchange = undefined;
    exchange.owner = undefined;
    // A server that answers early may never read the rest of the request.
    if (idleMs > 0 && this.#unsent === undefined && !this.#isOld) {
      this.#isSettling = true;
      // The first turn only ends the current one: what has arrived by now is received before the second.
      setImmediate(setImmediate, this.#settle);
      this.#idle(idleMs);
      this.#owner.returned(this);
    } else {
      this.close();
    }
    exchange.ended();
  }

  readonly #settle = (): void => {
    this.#isSettling = false;
    if (this.#exchange !== undefined) this.#send(this.#exchange);
  };

  #idle(idleMs: number): void {
    if (this.#idling !== undefined && idleMs === this.#idleMs) {
      this.#idling.refresh();
    } else {
      clearTimeout(this.#idling);
      this.#idleMs = idleMs;
      this.#idling = setTimeout(() => this.#idled(), idleMs);
      this.#idling.unref();
    }
    this.#socket?.unref();
  }

  #idled(): void {
    if (this.#exchange === undefined) this.close();
  }

  #pauseFor(exchange: EgressExchange): void {
    this.#socket?.pause();
    exchange.onRead = () => {
      exchange.onRead = undefined;
      this.#socket?.resume();
    };
  }

  /** Handles the end of the connection. */
  #lost(error: unknown): void {
    const exchange = this.#exchange;
    const isWhole = error === undefined && exchange !== undefined && this.#reader?.endsWithConnection() === true;
    this.close();
    if (exchange === undefined) return;
    exchange.owner = undefined;
    if (this.#isSettling) this.#owner.take(exchange);
    else if (isWhole) exchange.ended();
    else exchange.failed(error === undefined ? hungUp() : named(error));
  }

  /** Sockets of attempts that were given up are ignored: their connection has another one. */
  static readonly #HANDLER: Bun.SocketHandler<EgressConnection> = {
    data: ({ data }, bytes) => data.#received(bytes),
    drain: ({ data }) => data.#drained(),
    handshake(socket, isTrusted, error) {
      if (socket.data.#socket === socket) socket.data.#secured(isTrusted, error);
    },
    error(socket, error) {
      if (socket.data.#socket === socket) socket.data.#lost(error);
    },
    close(socket, error) {
      if (socket.data.#socket === socket) socket.data.#lost(error ?? undefined);
    },
    // The promise rejects, too.
    connectError() {},
  };
}

function hungUp(): Error {
  return Object.assign(new Error("socket hang up"), { code: "ECONNRESET" });
}

/** Returns the error of TLS with the name of its reason as the code, such as `ERR_SSL_WRONG_VERSION_NUMBER`. */
function named(error: unknown): unknown {
  if (!(error instanceof Error && "code" in error && error.code === "EPROTO")) return error;
  const [, reason] = /:([A-Z0-9_]+)$/.exec(error.message) ?? [];
  return reason === undefined ? error : Object.assign(new Error(error.message), { code: `ERR_SSL_${reason}` });
}
