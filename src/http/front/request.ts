import type { IncomingHttpHeaders } from "node:http";
import { HeaderNames } from "../../http1/header-names.ts";
import { addHeaders } from "../../http1/headers.ts";
import type { PeerConnection, ReceivedRequest } from "../messages.ts";

/** Names of headers that clients have sent. */
export const NAMES = new HeaderNames();

/** Bytes of a body that wait for a reader; beyond this, nothing more is read from the connection. */
const WAITING_BYTES_MAX = 65_536;

/** The connection of a request, as far as requests need it. */
export interface RequestConnection extends PeerConnection {
  readonly encrypted: boolean;
  /** Continues to read a body whose reader takes more. */
  readOn(): void;
  /** Returns whether no request follows this one, as far as the client has sent any. */
  isLatest(request: FrontRequest): boolean;
  /** Ignores later requests. */
  ignoreLater(): void;
}

const NO_BYTES = Buffer.alloc(0);

interface RequestHead {
  readonly method: string;
  readonly target: string;
  readonly httpVersion: "1.0" | "1.1";
  /** Names and values in turn. */
  readonly rawHeaders: readonly string[];
  readonly keepsAlive: boolean;
}

/** One request of a connection, and its body as it arrives. */
export class FrontRequest implements ReceivedRequest {
  readonly method: string;
  readonly url: string;
  readonly httpVersion: "1.0" | "1.1";
  readonly rawHeaders: readonly string[];
  readonly socket: RequestConnection;
  readonly keepsAlive: boolean;
  complete = false;
  #headers: IncomingHttpHeaders | undefined;
  #waiting: Buffer[] = [];
  #waitingBytes = 0;
  /** Functions that receive the body. */
  readonly #readers = new Set<(piece: Buffer) => void>();
  #discards = false;
  readonly #onEnd: (() => void)[] = [];
  readonly #onClose: (() => void)[] = [];

  constructor({ method, target, httpVersion, rawHeaders, keepsAlive }: RequestHead, connection: RequestConnection) {
    this.method = method;
    this.url = target;
    this.httpVersion = httpVersion;
    this.rawHeaders = rawHeaders;
    this.keepsAlive = keepsAlive;
    this.socket = connection;
  }

  /** True when the client waits for `100 Continue` before it sends the body. */
  get expectsContinue(): boolean {
    return this.httpVersion === "1.1" && this.headers.expect?.toLowerCase() === "100-continue";
  }

  get headers(): IncomingHttpHeaders {
    this.#headers ??= addHeaders(this.rawHeaders, Object.create(null), NAMES.lowerCaseOf);
    return this.#headers;
  }

  /** True while the body waits for a reader that takes more of it. */
  get isFull(): boolean {
    return this.#waitingBytes > WAITING_BYTES_MAX;
  }

  takeBody(): Buffer | undefined {
    const hasReader = this.#discards || this.#readers.size > 0;
    if (!this.complete || hasReader || this.#waiting.length > 1) return undefined;
    return this.#empty()[0] ?? NO_BYTES;
  }

  /** Bytes that have arrived but have no reader yet are passed on before this returns; so is the end. */
  on(event: "data", listener: (piece: Buffer) => void): this;
  on(event: "end" | "close" | "error", listener: () => void): this;
  on(event: "data" | "end" | "close" | "error", listener: (piece: Buffer) => void): this {
    if (event === "data") this.#read(listener);
    else if (event === "end") this.#whenEnded(listener as () => void);
    else if (event === "close") this.#onClose.push(listener as () => void);
    return this;
  }

  off(_event: "data", listener: (piece: Buffer) => void): this {
    this.#readers.delete(listener);
    // A reader that has left must not hold up the connection.
    if (this.#readers.size === 0) this.#discards = true;
    return this;
  }

  resume(): this {
    this.#discards = true;
    this.#empty();
    return this;
  }

  #read(reader: (piece: Buffer) => void): void {
    const waiting = this.#empty();
    this.#readers.add(reader);
    for (const piece of waiting) reader(piece);
  }

  #whenEnded(listener: () => void): void {
    if (this.complete) listener();
    else this.#onEnd.push(listener);
  }

  #empty(): readonly Buffer[] {
    const waiting = this.#waiting;
    const wasFull = this.isFull;
    this.#waiting = [];
    this.#waitingBytes = 0;
    if (wasFull) this.socket.readOn();
    return waiting;
  }

  /** Adds a piece of the body, which is not used by others afterwards. */
  add(piece: Buffer): void {
    if (this.#readers.size > 0) {
      for (const reader of this.#readers) reader(piece);
      return;
    }
    if (this.#discards) return;
    this.#waiting.push(piece);
    this.#waitingBytes += piece.length;
  }

  end(): void {
    this.complete = true;
    if (this.#onEnd.length > 0) for (const listener of this.#onEnd.splice(0)) listener();
  }

  /** The connection has ended: the rest of the body does not arrive. */
  close(): void {
    for (const listener of this.#onClose.splice(0)) listener();
  }
}
