import type { Socket as NodeSocket } from "node:net";
import type { ClientCertificate } from "../../pipeline/identity/binding.ts";

/** One connection to a client, as the front uses it: plain TCP, TLS, or a Unix socket. */
export interface Wire {
  /** Undefined on the Unix socket. */
  readonly remoteAddress: string | undefined;
  readonly encrypted: boolean;
  readonly certificate: ClientCertificate | undefined;
  /** True for a connection that another server accepted: TLS, or the Unix socket. A client that is too slow gets no answer there. */
  readonly isForwarded: boolean;
  /** True when everything that was written was passed to the system. */
  readonly isFlushed: boolean;
  /** Writes. Data that the system does not take is kept and written later. */
  write(data: string | Buffer): void;
  /** Ends the sending side when everything was written. The client can still send. */
  end(): void;
  /** Closes both sides at once. What was passed to the system is still sent. */
  close(): void;
  /** Closes the connection at once and drops unwritten data. `closed` follows. */
  destroy(): void;
  pause(): void;
  resume(): void;
  /** Passes events on to the connection. */
  connect(events: WireEvents): void;
}

/** Events of a connection. */
export interface WireEvents {
  received(bytes: Buffer): void;
  /** Everything that was written was passed to the system. */
  flushed(): void;
  /** The client sends no more; it may still read. */
  ended(): void;
  /** The connection is closed. Called once; nothing follows. */
  closed(): void;
}

/** A connection that `Bun.listen` accepted. */
export class BunWire implements Wire {
  readonly remoteAddress: string | undefined;
  readonly encrypted = false;
  readonly certificate = undefined;
  readonly isForwarded = false;
  #events: WireEvents | undefined;
  readonly #socket: Bun.Socket<BunWire>;
  /** Data that the system has not taken yet. */
  #backlog: Buffer[] = [];
  #isEnding = false;
  #isClosed = false;

  constructor(socket: Bun.Socket<BunWire>) {
    this.#socket = socket;
    this.remoteAddress = socket.remoteAddress;
  }

  get isFlushed(): boolean {
    return this.#backlog.length === 0;
  }

  write(data: string | Buffer): void {
    if (this.#isClosed || this.#isEnding) return;
    if (this.#backlog.length > 0) {
      this.#backlog.push(typeof data === "string" ? Buffer.from(data) : data);
      return;
    }
    const taken = this.#socket.write(data);
    const size = typeof data === "string" ? Buffer.byteLength(data) : data.length;
    if (taken >= size) return;
    const bytes = typeof data === "string" ? Buffer.from(data) : data;
    this.#backlog.push(bytes.subarray(Math.max(0, taken)));
  }

  end(): void {
    if (this.#isEnding) return;
    this.#isEnding = true;
    if (this.isFlushed && !this.#isClosed) this.#socket.shutdown();
  }

  close(): void {
    this.#backlog = [];
    if (!this.#isClosed) this.#socket.end();
  }

  destroy(): void {
    this.#backlog = [];
    if (!this.#isClosed) this.#socket.terminate();
  }

  pause(): void {
    if (!this.#isClosed) this.#socket.pause();
  }

  resume(): void {
    if (!this.#isClosed) this.#socket.resume();
  }

  connect(events: WireEvents): void {
    this.#events = events;
  }

  received(bytes: Buffer): void {
    this.#events?.received(bytes);
  }

  ended(): void {
    this.#events?.ended();
  }

  /** Writes the backlog: the system takes bytes again. */
  drained(): void {
    if (this.isFlushed) return;
    while (this.#backlog.length > 0) {
      const [bytes] = this.#backlog;
      if (bytes === undefined) break;
      const taken = this.#socket.write(bytes);
      if (taken < bytes.length) {
        this.#backlog[0] = bytes.subarray(Math.max(0, taken));
        return;
      }
      this.#backlog.shift();
    }
    if (this.#isEnding) this.#socket.shutdown();
    this.#events?.flushed();
  }

  closed(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#backlog = [];
    this.#events?.closed();
  }
}

/** A connection of `node:net` or `node:tls`: only there does this runtime show clients' certificates. */
export class NodeWire implements Wire {
  readonly remoteAddress: string | undefined;
  readonly encrypted: boolean;
  readonly certificate: ClientCertificate | undefined;
  readonly isForwarded = true;
  readonly #socket: NodeSocket;
  #isFlushed = true;

  constructor(socket: NodeSocket, certificate: ClientCertificate | undefined) {
    this.#socket = socket;
    this.remoteAddress = socket.remoteAddress;
    this.encrypted = "encrypted" in socket && socket.encrypted === true;
    this.certificate = certificate;
  }

  get isFlushed(): boolean {
    return this.#isFlushed;
  }

  connect(events: WireEvents): void {
    const socket = this.#socket;
    socket.on("data", (bytes: Buffer) => events.received(bytes));
    socket.on("drain", () => {
      this.#isFlushed = true;
      events.flushed();
    });
    socket.on("end", () => events.ended());
    socket.on("error", () => socket.destroy());
    socket.once("close", () => events.closed());
  }

  write(data: string | Buffer): void {
    if (this.#socket.writableEnded || this.#socket.destroyed) return;
    this.#isFlushed = this.#socket.write(data);
  }

  end(): void {
    this.#socket.end();
  }

  close(): void {
    this.#socket.destroySoon();
  }

  destroy(): void {
    this.#socket.destroy();
  }

  pause(): void {
    this.#socket.pause();
  }

  resume(): void {
    this.#socket.resume();
  }
}
